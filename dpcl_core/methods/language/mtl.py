"""Multi-task training: collects all tasks and trains one model on them together after the last has arrived."""

from __future__ import annotations

from collections.abc import Iterator

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.baseline import Baseline
from dpcl_core.methods.language.training_inputs import TrainingInputs, joined
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Mtl(Baseline):
    """One cell's model, and the texts of all tasks until it is trained."""

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        super().__init__(spec, cell, context)
        self._waiting: list[TrainingInputs] = []

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        self._waiting.append(self.open_task(task, ledger))
        if task.index < self.context.n_tasks - 1:
            return
        together = joined(self._waiting)
        self._waiting.clear()
        gradient_fn = self.gradient_fn(together, self.expected_batch, "all tasks")
        yield from self._train(task, gradient_fn, self.batches(together, task))
