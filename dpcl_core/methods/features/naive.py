"""Naive baseline (Tobaben et al., Algorithm A2): one model, fine-tuned with DP-SGD on one task after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.state import Records
from dpcl_core.methods.features.trainer import Model, Trainer, Work
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Naive:
    """One model per cell. Restarts the optimiser with every task, which the paper does not state.

    Each task starts from the last one's weights, but parallel composition holds: models before an example's task do not
    depend on it, and models after it are computed from released weights and other people's data.
    """

    KEPT = ("_models",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._trainer, self._size = Trainer(spec, cells, context), context.task_size
        self._models: dict[int, Model] = {}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        works = {
            seed: Work(task.train, task.prior, (task.index,), self._size, self._models.get(seed))
            for seed, task in tasks.items()
        }
        self._models = yield from self._trainer.train_with_progress(works, ledgers)

    @property
    def kept_records(self) -> Records:
        """The classes of its models."""
        return self._trainer.kept_records

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Lays the networks under the adapters again; it keeps no example."""
        self._models = {seed: self._trainer.completed(model) for seed, model in self._models.items()}

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The model's logits, the method's only rule."""
        return {"argmax": self._models[seed].logits(task.test.inputs)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The model after the last task."""
        return self._trainer.released(self._models[cell.seed], cell)

    def rule(self, cell: Cell) -> Rule:
        """The largest logit."""
        return self._trainer.rule([self._models[cell.seed]], cell)


make_learner = Naive
