"""All tasks together: texts wait until the last task has come, and train one model once."""

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
    """The one model of a cell, and until there is one everything that it will be trained on."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        super().__init__(spec, cell, known)
        self._n_tasks = known.n_tasks
        self._waiting: list[TrainingInputs] = []

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainee = self._trainee
        self._waiting.append(trainee.opened(task, ledger))
        if task.index < self._n_tasks - 1:
            return
        together = joined(self._waiting)
        self._waiting.clear()
        slope, descent = trainee.slope(together, trainee.expected_batch, "all tasks"), trainee.descent(task)
        for step, rows in enumerate(trainee.batches(together, task), start=1):
            descent.step(slope(rows))
            yield from trainee.told(step, task)
