"""Sequential fine-tuning: trains the same adapters on one task after another, without any memory."""

from __future__ import annotations

from collections.abc import Iterator

from dpcl_core.events import Progress
from dpcl_core.methods.language.private_trainer import Baseline
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task


class SeqFt(Baseline):
    """One cell's model. Keeps no text."""

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainer = self._trainer
        inputs = trainer.open_task(task, ledger)
        gradient_fn = trainer.gradient_fn(inputs, trainer.expected_batch, f"task {task.index}")
        descent = trainer.descent(task)
        for step, rows in enumerate(trainer.batches(inputs, task), start=1):
            descent.step(gradient_fn(rows))
            yield from trainer.progress(step, task)
