"""Elastic weight consolidation (Kirkpatrick et al. 2017): weights that mattered to earlier tasks are pulled back.

The penalty is (lambda / 2) sum of F_i (theta_i - theta*_i)^2. The one anchor theta* holds the weights after the last task;
the Fisher information F is summed over tasks (online EWC, Schwarz et al. 2018, gamma = 1). The penalty depends on released
numbers only, and is added to a step after its noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd_plan import noise_std
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import fisher
from dpcl_core.methods.language.cards.lm_params import EwcParams
from dpcl_core.methods.language.private_trainer import Baseline
from dpcl_core.methods.language.training_inputs import TrainingInputs
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Consolidation:
    """EWC's anchor and importance for every weight. Reads parameters only."""

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

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, EwcParams)
        self._params, self._known = spec.params, known
        super().__init__(spec, cell, known)
        self._held = Consolidation(list(self.net.trainable().values()), spec.params.strength)

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        trainer, n_steps = self._trainer, self._trainer.n_steps(task)
        inputs = trainer.open_task(task, ledger)
        gradient_fn = trainer.gradient_fn(inputs, trainer.expected_batch, f"task {task.index}")
        descent = trainer.descent(task)
        of_last_pass = n_steps // self._params.epochs
        squares = [torch.zeros_like(part) for part in self._held.importance]
        for step, rows in enumerate(trainer.batches(inputs, task), start=1):
            means = gradient_fn(rows)
            if step > n_steps - of_last_pass:
                squares = [total + mean.square() for total, mean in zip(squares, means, strict=True)]
            descent.step(means, self._held.penalty)
            yield from trainer.progress(step, task)
        if task.index < self._known.n_tasks - 1:
            self._held.remember(self._importance(inputs, task, squares, of_last_pass))

    def _importance(self, inputs: TrainingInputs, task: Task, squares: Sequence[Tensor], n_squares: int) -> list[Tensor]:
        """The task's Fisher information, from the source that `params.fisher` names."""
        trainer, source = self._trainer, self._params.fisher
        if source == "gradients":
            std = noise_std(trainer.noises.steps, self._params.clip_norm, trainer.expected_batch)
            return fisher.of_noisy_gradients(squares, n_squares, trainer.expected_batch, std)
        measured = inputs if source == "released" else trainer.public_texts(task)
        return fisher.released(
            self.net,
            measured,
            trainer.answers_of(task),
            trainer.plan.task_size if source == "released" else len(measured),
            trainer.clip_norm if source == "released" else math.inf,
            self._params.fisher_noise,
            trainer.noise(f"Fisher information of task {task.index}"),
            device=self._known.device,
        )
