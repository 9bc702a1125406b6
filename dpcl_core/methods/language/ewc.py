"""Elastic weight consolidation (Kirkpatrick et al. 2017): weights that mattered to earlier tasks are pulled back.

The penalty is (lambda / 2) sum of F_i (theta_i - theta*_i)^2. The one anchor theta* holds the weights after the last task;
the Fisher information F is summed over tasks (online EWC, Schwarz et al. 2018, gamma = 1). The penalty depends on released
numbers only, and is added to a step after its noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd_plan import noise_std
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import fisher
from dpcl_core.methods.language.baseline import Baseline, Rows
from dpcl_core.methods.language.cards.lm_params import EwcParams
from dpcl_core.methods.language.training_inputs import TrainingInputs
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Consolidation:
    """EWC's anchor and importance for every weight. Reads parameters only."""

    KEPT = ("importance", "_anchor")

    def __init__(self, parameters: Sequence[Tensor], strength: float) -> None:
        self._parameters, self._strength = list(parameters), strength
        self.importance = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._anchor: list[Tensor] = []

    def remember(self, importance: Sequence[Tensor]) -> None:
        """Call after a task: adds its importance and makes the current weights the anchor."""
        self.importance = [old + new for old, new in zip(self.importance, importance, strict=True)]
        self._anchor = [parameter.detach().clone() for parameter in self._parameters]

    def penalty(self) -> Tensor:
        """(lambda / 2) sum of F_i (theta_i - theta*_i)^2; 0 during the first task."""
        if not self._anchor:
            return torch.zeros(())
        anchored = zip(self._parameters, self._anchor, self.importance, strict=True)
        return self._strength / 2 * torch.stack([(f * (now - then).square()).sum() for now, then, f in anchored]).sum()


class Ewc(Baseline):
    """One cell's model and its EWC penalty. Keeps no text."""

    KEPT = (*Baseline.KEPT, "_held")
    params: EwcParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        super().__init__(spec, cell, context)
        self._held = Consolidation(list(self.net.trainable().values()), self.params.strength)

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        n_steps = self.n_steps(task)
        inputs = self.open_task(task, ledger)
        gradient_fn, steps = self.task_gradient_fn(inputs, task), itertools.count(1)
        of_last_pass = n_steps // self.params.epochs
        squares = [torch.zeros_like(part) for part in self._held.importance]

        def watched(rows: Rows) -> list[Tensor]:
            means = gradient_fn(rows)
            if next(steps) > n_steps - of_last_pass:
                squares[:] = [total + mean.square() for total, mean in zip(squares, means, strict=True)]
            return means

        yield from self._train(task, watched, self.batches(inputs, task), self._held.penalty)
        if task.index < self.context.n_tasks - 1:
            self._held.remember(self._importance(inputs, task, squares, of_last_pass))

    def _importance(self, inputs: TrainingInputs, task: Task, squares: Sequence[Tensor], n_squares: int) -> list[Tensor]:
        """The task's Fisher information, from the source that `params.fisher` names."""
        source = self.params.fisher
        if source == "gradients":
            std = noise_std(self.noises.steps, self.params.clip_norm, self.expected_batch)
            return fisher.of_noisy_gradients(squares, n_squares, self.expected_batch, std)
        measured = inputs if source == "released" else self.public_texts(task)
        is_charged = source == "released" and not self.is_local
        return fisher.released(
            self.net,
            measured,
            self.answers_of(task),
            self.plan.task_size if source == "released" else len(measured),
            self.clip_norm if source == "released" else math.inf,
            self.charges[1].steps.noise_multiplier if is_charged else 0.0,
            self.noise(f"Fisher information of task {task.index}"),
            device=self.context.device,
            forks=self.forks,
        )
