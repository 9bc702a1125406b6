"""CSLR with the head on the server: one noisy release per task, and a head trained on the releases.

The head is a function of the releases and of public numbers, so that the releases' epsilon covers it, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Arrays, Rule
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.common.stream_noise import ADDED_PRINTED, PredictionParams, predicts_shrunk
from dpcl_core.methods.federated import client_release
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import Collect, ListsObserved, Question, Replay, SeenLabels, TaskRows
from dpcl_core.methods.federated.client_training import Head, train_copies
from dpcl_core.methods.federated.lists import Ints, Reals
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import Departure
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec


@dataclass(frozen=True, kw_only=True)
class CslrServerHeadParams(PredictionParams, federated.ListParams, federated.ReleaseParams, federated.ServerParams):
    """One release per task, and a head trained on the mixture of all releases."""


CARD = federated.card(
    name="cslr-server-head", title="CSLR, head on the server",
    summary="Every client matches its texts to public groups and sends one clipped vector per task. The sum gets noise once "
    "and becomes a mixture of Gaussians. The server trains the head on texts generated from these mixtures alone, for all "
    "tasks: the head costs nothing beyond the release.",
    source=f"{federated.SOURCE}, repaired: matched on the client, released once a task, head from the release",
    params=CslrServerHeadParams, key_settings=("anchors", "list_size", "matcher"), module=__name__,
    planned="dpcl_core.methods.federated.release_schedule:releases", cells_per_learner="epsilons",
    derived=lambda params, facts: f"{facts.n_tasks} releases in all, of every client each; the head costs nothing more.",
    needs_anchors=True, asks_clients=True,
    printed=federated.printed_settings(
        federated.LISTS, federated.ONCE, federated.INVENTED, federated.HEAD,
        {
            "params.steps": "In the paper clients train the head; the server's steps are ours.",
            "params.prediction": ADDED_PRINTED,
        },
        always=(
            federated.MATCHED_AT_HOME, federated.ONE_VECTOR,
            Departure(
                "", "by clients, in rounds without noise", "the head is trained by the server, on invented embeddings alone",
                "Whatever is made from the release alone costs nothing more."
            ),
        ),
        kind="repair",
    ),
    table_names=lambda spec: ("Repair: CSLR, head on the server", federated.axes(spec)),
    reference="CSLR",
)


class CslrServerHead:
    """Clients match their lists themselves; the server receives one noisy sum of their vectors per task and budget.

    The budgets of one seed share the clients' lists, never the noise. One head per budget, retrained from the same initial
    weights after every task. Where the run predicts from shrunk releases, a second head a budget is trained on these, its
    own. `received`: what the server trains on.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("_seen", "_releases", "_weights")
    received: ClassVar[str] = "releases"

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, collect: Collect | None = None) -> None:
        self._params, self._cells, self._seed = settings_of(spec, federated.ServerParams), tuple(cells), cells[0].seed
        self._seen = SeenLabels(spec, context)
        self._releases = ReleaseSchedule(spec, cells, context, collect=collect)
        self._head = Head(context.n_inputs, context.n_classes, self._params.hidden)
        self._rules = ("argmax", "shrunk") if predicts_shrunk(spec, context.n_tasks) else ("argmax",)
        self._first = np.stack([self._head.initial(generator(self._seed, "head"))] * len(cells) * len(self._rules))
        self._weights = self._first  # [rules * epsilons, P]

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task = tasks[self._seed]
        rows = self._seen.rows(task)
        yield Progress("training", 0, 2, task.index, f"lists of {task.name}")
        observed = self._receive(rows, task.index, ledgers)
        if self._releases.is_simulated:
            yield observed
        yield Progress("training", 1, 2, task.index, f"head from the {self.received} up to {task.name}")
        self._train(observed.parts, task.index)
        yield Progress("training", 2, 2, task.index, f"{task.name} learned")

    def _receive(self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger]) -> ListsObserved:
        """Makes a task's releases for every budget; the ledgers record each before it exists."""
        lists = cache(partial(self._releases.lists, rows, index))
        self._releases.of_task(rows, index, ledgers, lists)
        return self._releases.observed(rows, lists, index, 0)

    def _train(self, parts: Sequence[Sequence[Replay]], index: int) -> None:
        """Trains every budget's head on its mixtures of the tasks so far, all tasks with equal weight."""
        params = self._params
        if "shrunk" in self._rules:
            parts = [*parts, *(self._shrunk(budget) or of_budget for budget, of_budget in enumerate(parts))]
        n_labels = max(1, len({int(target.argmax()) for part in parts[0] for target in part.targets}))
        n, units = params.samples * n_labels, params.unit_length
        samples = [
            client_release.sampled(mixtures, n, self._random("replay", index), unit_length=units) for mixtures in parts
        ]
        z, targets = (np.stack(arrays) for arrays in zip(*samples, strict=True))
        steps, size, rate = params.steps, params.batch_size, params.learning_rate
        self._weights = train_copies(self._head, self._first, z, targets, steps, size, rate, self._random("steps", index))

    def _shrunk(self, budget: int) -> list[Replay]:
        """A budget's mixtures of its shrunk releases, of the tasks that anything is left of."""
        pairs = zip(self._releases.shrunk(budget), self._releases.parts[budget], strict=True)
        return [self._releases.decoded(blocks, part.targets, budget) for blocks, part in pairs if blocks.any()]

    def _random(self, purpose: str, index: int) -> np.random.Generator:
        return generator(self._seed, f"{purpose} after task {index}")

    def answers(self, task: Task, question: Question, clients: Ints) -> Reals:
        """The clients' lists, matched to the question's groups, as vectors of the task's release."""
        return self._releases.answers(self._seen.rows(task), question)[clients]

    def scores(self, seed: int, task: Task) -> Mapping[str, Reals]:
        """The heads' logits [epsilons, n, classes] by what they were trained on, the run's own first."""
        logits = self._head.logits(self._weights, client_release.features(task.test.inputs))
        by_rule = np.split(self._seen.masked(logits, task), len(self._rules))
        return dict(reversed(list(zip(self._rules, by_rule, strict=True))))

    def released(self, cell: Cell) -> Arrays:
        """The last task's noisy sums, and the weights [P] of the cell's `head`, trained on the releases of all tasks."""
        return {**self._releases.released(cell), "head": self._weights[self._cells.index(cell) - len(self._cells)].copy()}

    def rule(self, cell: Cell) -> Rule:
        """The largest logit of the run's own head."""
        return self._seen.rule("federated-head", ("head",), n_hidden=self._params.hidden)


make_learner = CslrServerHead
