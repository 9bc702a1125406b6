"""Training of the repaired PeCL: DP-SGD on the adapters (central), or training on embeddings noised once (local)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import pecl_costs, public_text
from dpcl_core.methods.language.adapted_model import (
    AdaptedModel,
    Penalty,
    gather_batch,
    plain_steps,
    private_steps,
    progress_of,
)
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.cards.sculpting_params import SculptingParams
from dpcl_core.methods.language.gradients import Batch, Memory, TextLoss, input_norms
from dpcl_core.methods.language.losses import Unlearning, pecl_loss
from dpcl_core.methods.language.public_text import TEXT, Planes, Scorer, planes
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_mean
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class Sculpted(AdaptedModel):
    """One cell's model with PeCL's memory penalty; base of PeCL as published and repaired. Keeps no text."""

    KEPT = (*AdaptedModel.KEPT, "_memory")
    params: SculptingParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext, scorer: Scorer) -> None:
        super().__init__(spec, cell, context)
        self._scorer, self._memory = scorer, Memory(self.net, self.params.lambda_min, self.params.lambda_max)

    @property
    def _penalty(self) -> Penalty | None:
        return self._memory.penalty if self.params.stability else None

    def token_scores(self, inputs: Planes) -> NDArray[np.float64]:
        """Score of every token [n, length], under the model that `params.score_model` names."""
        log_probs = self.public_log_probs if self.params.score_model == "base" else self.current_log_probs
        return self._scorer.scores(inputs, log_probs(inputs))


class Repaired(Sculpted):
    """One cell's model, trained as `params.mode` sets."""

    params: PeclParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext, scorer: Scorer) -> None:
        super().__init__(spec, cell, context, scorer)
        self._plan = pecl_costs.schedule(self.params, context.task_size)
        self._noises = pecl_costs.noises(self.params, spec.privacy, context, cell.epsilon)

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """Learns the task. All ledger entries precede the first step; the mean score's precedes its noise."""
        if not self.space(task):  # without a public label there is nothing to learn
            return
        self.open_forks(task)
        is_local = self.params.is_local
        steps = self._local_steps(task, ledger) if is_local else self._central_steps(task, ledger)
        kind = "steps on the noisy copies" if is_local else "noisy steps"
        yield from progress_of(steps, self._plan.n_steps, task, kind)
        if self.params.stability:  # updates Omega from released weights and from layer inputs on public texts
            inputs = self.public_inputs()
            public = self.prompted(inputs, np.zeros(len(inputs), np.int64), "public")  # a prompt of no task
            self._memory.remember(input_norms(self.net, public, self.context.device))

    def _central_steps(self, task: Task, ledger: Ledger) -> Iterator[int]:
        steps = self._plan.steps(self._noises.multiplier)
        ledger.spend(steps, task=task.index, what=self._plan.words)
        examples = self.training_examples(task)
        inputs = planes(examples)
        texts = self.prompted(inputs, examples.labels, task.name)
        if self.params.stability:
            self._memory.open(self._mean_score(inputs, task, ledger))
        return private_steps(
            self.net,
            texts,
            self._plan,
            steps.noise_multiplier,
            self.batches_of(steps, f"task {task.index}"),
            self.noise(f"task {task.index}"),
            self.loss(inputs),
            device=self.context.device,
            penalty=self._penalty,
        )

    def _local_steps(self, task: Task, ledger: Ledger) -> Iterator[int]:
        params = self.params
        label_epsilon = self._noises.labels if params.label_share > 0 else None
        copies = self.noisy_copies(task, ledger, self._noises.ratio, label_epsilon, params.embedding_clip)
        if params.stability:
            self._memory.open(self._public_mean_score())
        return plain_steps(
            self.net,
            copies.texts,
            self._plan,
            params.batch_size,
            self.order(f"order of task {task.index}"),
            self.task_loss(),
            device=self.context.device,
            reading=copies.reading,
            penalty=self._penalty,
        )

    def loss(self, inputs: Planes) -> TextLoss:
        """The task's loss with the unlearning term; each text's loss depends on that text and public numbers only."""
        params = self.params
        form = "hinge" if params.unlearning == "auto" else params.unlearning
        if form == "none" or params.lambda_unlearn == 0:
            return self.task_loss()
        forks = self.forks if params.loss == "answer" else None
        unlearning = Unlearning(form, params.lambda_unlearn, params.theta, params.margin, params.beta)
        base = self.public_log_probs(inputs)
        reference, fixed = self.table(base), self.table(self._scorer.scores(inputs, base))
        commonness = torch.from_numpy(self._scorer.score2).to(reference)

        def of(log_probs: Tensor, batch: Batch) -> Tensor:
            scores = gather_batch(fixed, batch)
            if params.score_model == "current":
                scores = current_scores(log_probs, batch, commonness, params.alpha)
            return pecl_loss(log_probs, batch, params.loss, unlearning, scores, gather_batch(reference, batch), forks)

        return TextLoss(of, forks=forks)

    def _mean_score(self, inputs: Planes, task: Task, ledger: Ledger) -> float:
        """s-bar of the task: a noisy mean over its texts, whose mean scores lie in [0, 1], or the mean over public texts."""
        if not self.params.releases_mean_score:
            return self._public_mean_score()
        means = public_text.means(self.token_scores(inputs), inputs)
        std = 0.0 if math.isinf(self.cell.epsilon) else self.params.mean_score_std
        noise = self.noise(f"mean score of task {task.index}")
        return noisy_mean(means, self.context.task_size, std, noise, ledger, task=task.index, what="mean score of the texts")

    def _public_mean_score(self) -> float:
        inputs = self.public_inputs()
        return float(public_text.means(self._scorer.scores(inputs, self.public_log_probs(inputs)), inputs).mean())


def current_scores(log_probs: Tensor, batch: Batch, score2: Tensor, alpha: float) -> Tensor:
    """Scores (Eq. 1) of the texts' tokens [b, S] under the current model, in [0, 1]; 0 in stop words. No gradient."""
    exponent = alpha * log_probs.detach() - (1 - alpha) * score2[batch.ids]
    return -torch.expm1(exponent).clamp(max=0) * ((batch.role == TEXT) & ~batch.stop)
