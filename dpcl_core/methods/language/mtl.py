"""Multi-task training: collects all tasks and trains one model on them together after the last has arrived."""

from __future__ import annotations

from collections.abc import Iterator

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.private_trainer import Baseline
from dpcl_core.methods.language.training_inputs import TrainingInputs, joined
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Mtl(Baseline):
    """One cell's model, and the texts of all tasks until it is trained."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        super().__init__(spec, cell, known)
        self._n_tasks = known.n_tasks
        self._waiting: list[TrainingInputs] = []

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainer = self._trainer
        self._waiting.append(trainer.open_task(task, ledger))
        if task.index < self._n_tasks - 1:
            return
        together = joined(self._waiting)
        self._waiting.clear()
        gradient_fn = trainer.gradient_fn(together, trainer.expected_batch, "all tasks")
        descent = trainer.descent(task)
        for step, rows in enumerate(trainer.batches(together, task), start=1):
            descent.step(gradient_fn(rows))
            yield from trainer.progress(step, task)
