"""Naive baseline (Tobaben et al., Algorithm A2): one model, fine-tuned with DP-SGD on one task after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpcl_core.events import Progress
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
        works = {
            seed: Work(task.train, task.prior, (task.index,), self._context.task_size, self._models.get(seed))
            for seed, task in tasks.items()
        }
        self._models = yield from self._trainer.train_with_progress(works, ledgers)


make_learner = Naive
