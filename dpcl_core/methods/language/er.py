"""Experience replay: texts kept from earlier tasks join every batch, under one loss and one noise.

A batch samples the task's own texts at `sample_rate` and the kept texts at `replay_rate`, each independently. All gradients
are clipped one by one and summed, and the sum gets noise once (`baseline_costs`, 2). Noisy copies are replayed without
clipping or noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.language.adapted_model import joined
from dpcl_core.methods.language.baseline import Baseline, Rows
from dpcl_core.methods.language.cards.lm_params import ErParams
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task


class Er(Baseline):
    """One cell's model and its replay buffer of finished tasks."""

    params: ErParams

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        inputs = self.open_task(task, ledger)
        texts, draw_replayed = joined([inputs, *self.kept]), self._replay_sampler(task)
        gradient_fn = self.gradient_fn(texts, self._expected(), f"task {task.index}")
        own = self.batches(inputs, task)
        yield from self._train(task, gradient_fn, (np.concatenate([rows, len(inputs) + draw_replayed()]) for rows in own))
        self.keep_some(inputs, self.params.buffer_share, task)

    def _expected(self) -> float:
        """Expected number of texts in a step: public, computed from nominal sizes."""
        rate = self.charges[0].steps.rates[0] if self.charges and self.kept else 0.0
        return self.expected_batch + rate * len(self.kept) * self.params.kept(self.context.task_size)

    def _replay_sampler(self, task: Task) -> Callable[[], Rows]:
        """A function that draws the indices of the kept texts for one step."""
        n_kept, size, purpose = sum(map(len, self.kept)), self.params.replay_size, f"replay in task {task.index}"
        if self.is_local:
            order = self.order(purpose)
            return lambda: order.choice(n_kept, min(size, n_kept), replace=False)
        sampler = self.batches_of(self.charges[0].steps, purpose, part=0)
        return lambda: sampler.draw(n_kept)
