"""Multi-task training: collects all tasks and trains one model on them together after the last has arrived."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.language.adapted_model import joined
from dpcl_core.methods.language.baseline import Baseline
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task


class Mtl(Baseline):
    """One cell's model, and the texts of all tasks until it is trained."""

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        inputs = self.open_task(task, ledger)
        self.keep(inputs, np.arange(len(inputs)))
        if task.index < self.context.n_tasks - 1:
            return
        together = joined(self.kept)
        self.kept.clear()
        gradient_fn = self.gradient_fn(together, self.expected_batch, "all tasks")
        yield from self._train(task, gradient_fn, self.batches(together, task))
