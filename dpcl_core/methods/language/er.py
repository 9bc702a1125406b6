"""Experience replay: texts kept of earlier tasks join every batch, under one loss and one noise.

A batch is the task's own texts, each by a coin of chance `sample_rate`, and kept ones, each by a coin of chance
`replay_rate`; gradients of both are clipped one by one and summed, and the sum gets noise once (`costs`, 2). Noisy copies
are replayed without any of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language.cards.lm_params import ErParams
from dpcl_core.methods.language.private_trainer import Baseline, Rows
from dpcl_core.methods.language.training_inputs import TrainingInputs, joined
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Er(Baseline):
    """The model of one cell, and the texts it keeps of every task that has ended."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, ErParams)
        self._params, self._task_size = spec.params, known.task_size
        super().__init__(spec, cell, known)
        self._kept: list[TrainingInputs] = []

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainee = self._trainee
        own = trainee.opened(task, ledger)
        both, replayed = joined([own, *self._kept]), self._replays(task)
        slope, descent = trainee.slope(both, self._expected(), f"task {task.index}"), trainee.descent(task)
        for step, rows in enumerate(trainee.batches(own, task), start=1):
            descent.step(slope(np.concatenate([rows, len(own) + replayed()])))
            yield from trainee.told(step, task)
        self._kept.append(trainee.kept(own, self._params.buffer_share, task))

    def _rate(self) -> float:
        return self._params.replay_rate(len(self._kept), self._task_size) if self._kept else 0.0

    def _expected(self) -> float:
        """Texts in a step on average: a public number, made of nominal sizes."""
        return self._trainee.expected_batch + self._rate() * len(self._kept) * self._params.kept(self._task_size)

    def _replays(self, task: Task) -> Callable[[], Rows]:
        """What gives the places of a step's kept texts."""
        n_kept, size, purpose = sum(map(len, self._kept)), self._params.replay_size, f"replay in task {task.index}"
        if self._trainee.is_local:
            order = self._trainee.order(purpose)
            return lambda: order.choice(n_kept, min(size, n_kept), replace=False)
        coins = self._trainee.coins(self._rate(), purpose)
        return lambda: coins.draw(n_kept)
