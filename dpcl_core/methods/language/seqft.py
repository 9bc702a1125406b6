"""Fine-tuning in sequence: the same adapters on task after task, nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from dpcl_core.events import Progress
from dpcl_core.methods.language.private_trainer import Baseline
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task


class SeqFt(Baseline):
    """The model of one cell. Keeps nothing."""

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainee = self._trainee
        own = trainee.opened(task, ledger)
        slope, descent = trainee.slope(own, trainee.expected_batch, f"task {task.index}"), trainee.descent(task)
        for step, rows in enumerate(trainee.batches(own, task), start=1):
            descent.step(slope(rows))
            yield from trainee.told(step, task)
