"""Naive baseline (Tobaben et al., Algorithm A2): one model, fine-tuned with DP-SGD on one task after another."""

from collections.abc import Iterator, Mapping

from dpcl_core.events import Progress
from dpcl_core.methods.features import params, trainer
from dpcl_core.methods.features.trainer import ModelOfSeed, Work
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell


class Naive(ModelOfSeed):
    """One model per cell. Restarts the optimiser with every task, which the paper does not state.

    Each task starts from the last one's weights, but parallel composition holds: models before an example's task do not
    depend on it, and models after it are computed from released weights and other people's data.
    """

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        size, before = self._context.task_size, self._models
        works = {s: Work(task.train, task.prior, (task.index,), size, before.get(s)) for s, task in tasks.items()}
        self._models = yield from self._trainer.train(works, ledgers)


make_learner = Naive
CARD = params.trained_card(
    name="naive",
    title="Naive fine-tuning",
    summary="One model, trained by DP-SGD on one task after another. Nothing protects it from forgetting: a lower bound for "
    "the other methods. Where each task has its own list, its single last layer grows by the labels that are new.",
    source="Tobaben et al. 2025, Algorithm A2",
    key_settings=("adapter", "epochs", "clip_norm"), module=__name__, planned="dpcl_core.methods.features.trainer:planned",
    labels=("prior-const", "prior", "data", "dp-learned"), forecast=trainer.forecast,
    printed=params.printed_of_trained(),
    table_names=lambda spec: ("Naive", ""),  # what it trains is not printed
)
