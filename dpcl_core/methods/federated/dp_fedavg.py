"""DP-FedAvg on the head alone, the baseline of the methods with replay. Keeps only the model."""

from collections.abc import Iterator, Mapping, Sequence

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Arrays
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import Collect, Question, SeenLabels
from dpcl_core.methods.federated.client_training import HeadOfRounds, RoundHead
from dpcl_core.methods.federated.lists import Ints, Reals
from dpcl_core.methods.federated.release_schedule import Horizon
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import Departure
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

CARD = federated.card(
    name="dp-fedavg", title="DP-FedAvg, no replay",
    summary="Clients train the head in rounds, one task after another; each client's update is clipped, and the sum gets "
    "noise. Nothing protects it from forgetting.",
    source="McMahan et al. 2018; DP-SGD (no replay) of Shihab et al. 2026",
    params=federated.ClippedParams, key_settings=("rounds", "participation", "clip_norm"), module=__name__,
    planned="dpcl_core.methods.federated.release_schedule:rounds",
    printed=federated.printed_settings(
        federated.ROUNDS, federated.CLIP_OPEN,
        always=(
            Departure(
                "", "“the optimizer's” ε",
                "noise on the clipped sum of clients' changes, sized for every round that a client may be in",
                "Whose budget the printed one is, and for how many steps, is not said."
            ),
        ),
    ),
    asks_clients=True,
    table_names=lambda spec: ("DP-SGD (no replay)", ""),
    reference="DP-SGD (no replay)",
)


class DpFedAvg(HeadOfRounds):
    """One model, trained on task after task."""

    KEPT = ("_seen", "_head")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, collect: Collect | None = None) -> None:
        (self._cell,), self._params = cells, settings_of(spec, federated.ClippedParams)
        self._seen = SeenLabels(spec, context)
        noise = Horizon.of(spec, context, self._params).one_per_round(self._cell.epsilon)
        self._head = RoundHead(spec, self._cell, context, noise, collect)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task = tasks[self._cell.seed]
        for done in self._head.trained(self._seen.rows(task), task.index, ledgers[self._cell]):
            yield Progress("training", done, self._params.rounds, task.index, f"rounds on {task.name}")

    def answers(self, task: Task, question: Question, clients: Ints) -> Reals:
        """The clients' updates of the question's head."""
        return self._head.answers(self._seen.rows(task), question, clients)

    def released(self, cell: Cell) -> Arrays:
        """The head after the last round."""
        return self._head.released()


make_learner = DpFedAvg
