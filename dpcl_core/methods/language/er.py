"""Experience replay: texts kept from earlier tasks join every batch, under one loss and one noise.

A batch samples the task's own texts at `sample_rate` and the kept texts at `replay_rate`, each independently. All gradients
are clipped one by one and summed, and the sum gets noise once (`baseline`, 2). Noisy copies are replayed without
clipping or noise.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.language.adapted_model import join_texts
from dpcl_core.methods.language.baseline import Baseline, BaselineParams, Charge, Noises, Plan, Rows, card
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Steps
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import parameter


@dataclass(frozen=True, kw_only=True)
class ErParams(BaselineParams):
    """Settings of ER: the size of the replay buffer, and how many of its texts join a step."""

    buffer_share: float = parameter(
        0.1, "Share of texts replayed", "Share of each task's texts that is kept; each is kept by chance.", gt=0, le=1)
    replay_size: int = parameter(
        32, "Texts replayed in a batch", "Kept texts that join each step of a later task, on average.", ge=1, le=100_000)

    keeps_texts: ClassVar[bool] = True

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return self.buffer_share * task_size

    def replay_rate(self, n_past: int, task_size: float) -> float:
        """Probability that a kept text is in a step's batch after `n_past` tasks."""
        return min(1.0, self.replay_size / (n_past * self.kept(task_size)))

    def charges(self, plan: Plan, noises: Noises, task: int) -> list[Charge]:
        """Batches mix the task's own texts with kept ones, under one noise."""
        if task == 0:
            return super().charges(plan, noises, task)
        rate = self.replay_rate(task, plan.facts.task_size)
        what = (
            f"DP-SGD, {plan.n_steps} steps, sampling rate {plan.sample_rate:g}, of kept texts {rate:g}, clipping norm "
            f"{self.clip_norm:g}"
        )
        steps = Steps(plan.n_steps, (rate,) * task + (plan.sample_rate,), noises.steps)
        return [Charge(steps, what, tuple(range(task + 1)))]


CARD = card(
    "ER",
    {
        "buffer_share": "How much of a task is kept is not given.",
        "replay_size": "How many kept texts join a step is not given.",
    },
    name="lm-er", title="ER: experience replay",
    summary="Fine-tunes a language model from task to task and mixes kept texts of earlier tasks into every batch. Few "
    "texts are kept, so each is read often: under DP-SGD a kept text is charged for every step that may replay it.",
    source="Baseline of PeCL (Zhan et al.); supervised form of CLEAR (Rolnick et al. 2019)",
    params=ErParams, module=__name__, key_settings=("mechanism", "epochs", "buffer_share"),
)


class Er(Baseline):
    """One cell's model and its replay buffer of finished tasks."""

    params: ErParams

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        inputs = self.open_task(task, ledger)
        texts, draw_replayed = join_texts([inputs, *self.kept]), self._replay_sampler(task)
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


make_learner = Er.make_learner
