"""PeCL repaired: DP-SGD on the adapters (central), or training on embeddings that got their noise once (local)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.data.texts import TOKEN
from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd_cost import event
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import pecl_costs, public_text, scoring
from dpcl_core.methods.language.adapted_model import (
    AdaptedModel,
    embedding_table,
    median_norm,
    of_batch,
    replaced,
    without_tokens,
)
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.methods.language.gradients import Batch, TextLoss
from dpcl_core.methods.language.importance_memory import Memory, input_norms
from dpcl_core.methods.language.losses import Form, Unlearning, pecl_loss, task_loss
from dpcl_core.methods.language.prompts import TEXT
from dpcl_core.methods.language.scoring import Planes, Scorer, planes
from dpcl_core.methods.language.training import plain_steps, private_steps
from dpcl_core.privacy.embeddings import noisy_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.local import noisy_labels
from dpcl_core.privacy.mechanisms import noisy_mean
from dpcl_core.privacy.noise import Batches, Noise, noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

EVERY = 5  # steps from one word on progress to the next


class Repaired:
    """The model of one cell, trained as `params.mode` has it. Keeps no text."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext, scorer: Scorer) -> None:
        assert isinstance(spec.params, PeclParams)
        self._spec, self._params, self._cell, self._known, self._scorer = spec, spec.params, cell, known, scorer
        self._subject = AdaptedModel(spec, cell, known)
        self.net, self.answers = self._subject.net, self._subject.answers
        self._memory = Memory(self.net, spec.params.lambda_min, spec.params.lambda_max)
        self._plan = pecl_costs.schedule(spec.params, known.task_size)
        self._noise = pecl_costs.noises(spec.params, spec.privacy, known, cell.epsilon)
        self.copies: Mapping[str, NDArray[np.generic]] = {}

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """Everything is in the ledger before the first step, but for the mean score, which is before it is drawn."""
        if self._subject.space(task):  # none of the task's labels is public: there is nothing to learn
            yield from self._local(task, ledger) if self._params.is_local else self._central(task, ledger)

    def _central(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        ledger.spend(event(self._plan, self._noise.multiplier), task=task.index, what=self._plan.words)
        examples = self._subject.learned_from(task)
        inputs = planes(examples)
        texts = self._subject.prompted(inputs, examples.labels, task.name)
        if self._params.stability:
            self._memory.open(self._mean_score(inputs, task, ledger))
        seeded = self._spec.privacy.noise == "seeded"
        batches = Batches(
            self._plan.sample_rate,
            self._cell.seed if seeded else None,
            f"task {task.index} at epsilon {self._cell.epsilon}",
        )
        steps = private_steps(
            self.net,
            texts,
            self._plan,
            self._noise.multiplier,
            batches,
            self._drawn(f"task {task.index}"),
            self.loss(inputs),
            device=self._known.device,
            penalty=self._memory.penalty if self._params.stability else None,
        )
        yield from self._told(steps, task, "noisy steps")
        if self._params.stability:
            self._remember()

    def loss(self, inputs: Planes) -> TextLoss:
        """The loss of the task, with the term for sensitive tokens: a function of each text and of what is public."""
        params, subject, score2 = self._params, self._subject, self._scorer.score2
        unlearning = unlearning_of(params, "hinge" if params.unlearning == "auto" else params.unlearning)
        if unlearning.form == "none":
            return task_loss(params.loss)
        base = subject.of_public_model(inputs)
        reference = subject.table(base)
        fixed = subject.table(self._scorer.scores(inputs, base))
        commonness = torch.from_numpy(score2).to(reference)

        def of(log_probs: Tensor, batch: Batch) -> Tensor:
            scores = of_batch(fixed, batch)
            if params.score_model == "current":
                scores = current_scores(log_probs, batch, commonness, params.alpha)
            return pecl_loss(log_probs, batch, params.loss, unlearning, scores, of_batch(reference, batch))

        return TextLoss(of)

    def _mean_score(self, inputs: Planes, task: Task, ledger: Ledger) -> float:
        """s-bar of the task: with noise from its texts, whose mean scores lie in [0, 1], or from public texts."""
        if not self._params.releases_mean_score:
            return self._public_mean_score()
        is_base = self._params.score_model == "base"
        found = self._subject.of_public_model(inputs) if is_base else self._subject.of_model_now(inputs)
        own = scoring.means(self._scorer.scores(inputs, found), inputs)
        std = 0.0 if math.isinf(self._cell.epsilon) else self._params.mean_score_std
        noise = self._drawn(f"mean score of task {task.index}")
        return noisy_mean(own, self._known.task_size, std, noise, ledger, task=task.index, what="mean score of the texts")

    def _public_mean_score(self) -> float:
        inputs = public_text.encoded(self._spec.data.backbone, self._params.length)
        return float(scoring.means(self._scorer.scores(inputs, self._subject.of_public_model(inputs)), inputs).mean())

    def _remember(self) -> None:
        """Omega is made of released weights and of what layers read of public texts."""
        inputs = public_text.encoded(self._spec.data.backbone, self._params.length)
        probe = self._subject.prompted(inputs, np.zeros(len(inputs), np.int64), "public")
        self._memory.remember(input_norms(self.net, probe, self._known.device))

    def _local(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """One noisy vector for every token, one answer for every label: from then on no text is read."""
        params, space = self._params, self._subject.space(task)
        self.copies = {}
        examples = task.train if params.label_share > 0 else self._subject.learned_from(task)
        inputs, labels, table = planes(examples), examples.labels, embedding_table(self.net)
        if params.label_share > 0:
            noise = self._drawn(f"labels of task {task.index}")
            labels = noisy_labels(labels, space, self._noise.labels, noise, ledger, task=task.index)
        clip = params.embedding_clip or median_norm(table)
        noise = self._drawn(f"embeddings of task {task.index}")
        released = noisy_embeddings(table, inputs[:, :, TOKEN], self._noise.ratio, clip, noise, ledger, task=task.index)
        self.copies = {"copies": released, "answers": labels}
        stored = self._subject.table(released)
        texts = without_tokens(self._subject.prompted(inputs, labels, task.name))
        if params.stability:
            self._memory.open(self._public_mean_score())
        steps = plain_steps(
            self.net,
            texts,
            self._plan,
            params.batch_size,
            generator(self._cell.seed, f"order of task {task.index}"),
            task_loss("answer"),
            device=self._known.device,
            reading=lambda embeddings, batch, epoch: replaced(embeddings, stored, batch),
            penalty=self._memory.penalty if params.stability else None,
        )
        yield from self._told(steps, task, "steps on the noisy copies")
        if params.stability:
            self._remember()

    def _drawn(self, purpose: str) -> Noise:
        return noise_of(self._spec.privacy.noise, self._cell, purpose)

    def _told(self, steps: Iterator[int], task: Task, what: str) -> Iterator[Progress]:
        return told(steps, self._plan.n_steps, task, what)


def told(steps: Iterator[int], total: int, task: Task, what: str) -> Iterator[Progress]:
    """Steps in the run's words, every few of them and the last."""
    for step in steps:
        if step % EVERY == 0 or step == total:
            yield Progress("training", step, total, task.index, f"{what} on {task.name}")


def unlearning_of(params: PeclParams, form: Form) -> Unlearning:
    """The term as the settings have it; a weight of 0 is none at all."""
    return Unlearning(
        "none" if params.lambda_unlearn == 0 else form, params.lambda_unlearn, params.theta, params.margin, params.beta
    )


def current_scores(log_probs: Tensor, batch: Batch, score2: Tensor, alpha: float) -> Tensor:
    """Scores (Eq. 1) of the texts' tokens [b, S] under the model being trained, in [0, 1]; 0 in stop words. No gradient."""
    exponent = alpha * log_probs.detach() - (1 - alpha) * score2[batch.ids]
    return -torch.expm1(exponent).clamp(max=0) * ((batch.role == TEXT) & ~batch.stop)
