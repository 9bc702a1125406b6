"""Training of the repaired PeCL: DP-SGD on the adapters (central), or training on embeddings noised once (local)."""

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
    gather_batch,
    median_norm,
    replace_text_embeddings,
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

STEPS_PER_PROGRESS = 5


class Repaired:
    """One cell's model, trained as `params.mode` sets. Keeps no text."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext, scorer: Scorer) -> None:
        assert isinstance(spec.params, PeclParams)
        self._spec, self._params, self._cell, self._known, self._scorer = spec, spec.params, cell, known, scorer
        self._adapted = AdaptedModel(spec, cell, known)
        self.net, self.answers = self._adapted.net, self._adapted.answers
        self._memory = Memory(self.net, spec.params.lambda_min, spec.params.lambda_max)
        self._plan = pecl_costs.schedule(spec.params, known.task_size)
        self._noise = pecl_costs.noises(spec.params, spec.privacy, known, cell.epsilon)
        self.copies: Mapping[str, NDArray[np.generic]] = {}

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """Learns the task. All ledger entries precede the first step; the mean score's precedes its noise."""
        if self._adapted.space(task):  # without a public label there is nothing to learn
            yield from self._local(task, ledger) if self._params.is_local else self._central(task, ledger)

    def _central(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        ledger.spend(event(self._plan, self._noise.multiplier), task=task.index, what=self._plan.words)
        examples = self._adapted.training_examples(task)
        inputs = planes(examples)
        texts = self._adapted.prompted(inputs, examples.labels, task.name)
        if self._params.stability:
            self._memory.open(self._mean_score(inputs, task, ledger))
        seeded = self._spec.privacy.noise == "seeded"
        batches = Batches(
            self._plan.sample_rate, self._cell.seed if seeded else None, f"task {task.index} at epsilon {self._cell.epsilon}"
        )
        steps = private_steps(
            self.net,
            texts,
            self._plan,
            self._noise.multiplier,
            batches,
            self._noise_for(f"task {task.index}"),
            self.loss(inputs),
            device=self._known.device,
            penalty=self._memory.penalty if self._params.stability else None,
        )
        yield from self._progress(steps, task, "noisy steps")
        if self._params.stability:
            self._remember()

    def loss(self, inputs: Planes) -> TextLoss:
        """The task's loss with the unlearning term; each text's loss depends on that text and public numbers only."""
        params, adapted, score2 = self._params, self._adapted, self._scorer.score2
        unlearning = unlearning_of(params, "hinge" if params.unlearning == "auto" else params.unlearning)
        if unlearning.form == "none":
            return task_loss(params.loss)
        base = adapted.public_log_probs(inputs)
        reference = adapted.table(base)
        fixed = adapted.table(self._scorer.scores(inputs, base))
        commonness = torch.from_numpy(score2).to(reference)

        def of(log_probs: Tensor, batch: Batch) -> Tensor:
            scores = gather_batch(fixed, batch)
            if params.score_model == "current":
                scores = current_scores(log_probs, batch, commonness, params.alpha)
            return pecl_loss(log_probs, batch, params.loss, unlearning, scores, gather_batch(reference, batch))

        return TextLoss(of)

    def _mean_score(self, inputs: Planes, task: Task, ledger: Ledger) -> float:
        """s-bar of the task: a noisy mean over its texts, whose mean scores lie in [0, 1], or the mean over public texts."""
        if not self._params.releases_mean_score:
            return self._public_mean_score()
        is_base = self._params.score_model == "base"
        log_probs = self._adapted.public_log_probs(inputs) if is_base else self._adapted.current_log_probs(inputs)
        means = scoring.means(self._scorer.scores(inputs, log_probs), inputs)
        std = 0.0 if math.isinf(self._cell.epsilon) else self._params.mean_score_std
        noise = self._noise_for(f"mean score of task {task.index}")
        return noisy_mean(means, self._known.task_size, std, noise, ledger, task=task.index, what="mean score of the texts")

    def _public_mean_score(self) -> float:
        inputs = public_text.encoded(self._spec.data.backbone, self._params.length)
        return float(scoring.means(self._scorer.scores(inputs, self._adapted.public_log_probs(inputs)), inputs).mean())

    def _remember(self) -> None:
        """Updates Omega from released weights and from layer inputs on public texts."""
        inputs = public_text.encoded(self._spec.data.backbone, self._params.length)
        probe = self._adapted.prompted(inputs, np.zeros(len(inputs), np.int64), "public")
        self._memory.remember(input_norms(self.net, probe, self._known.device))

    def _local(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """Noisy embedding of every token, randomised response for every label; no text is read after that."""
        params, space = self._params, self._adapted.space(task)
        self.copies = {}
        examples = task.train if params.label_share > 0 else self._adapted.training_examples(task)
        inputs, labels, table = planes(examples), examples.labels, embedding_table(self.net)
        if params.label_share > 0:
            noise = self._noise_for(f"labels of task {task.index}")
            labels = noisy_labels(labels, space, self._noise.labels, noise, ledger, task=task.index)
        clip = params.embedding_clip or median_norm(table)
        noise = self._noise_for(f"embeddings of task {task.index}")
        released = noisy_embeddings(table, inputs[:, :, TOKEN], self._noise.ratio, clip, noise, ledger, task=task.index)
        self.copies = {"copies": released, "answers": labels}
        stored = self._adapted.table(released)
        texts = without_tokens(self._adapted.prompted(inputs, labels, task.name))
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
            reading=lambda embeddings, batch, epoch: replace_text_embeddings(embeddings, stored, batch),
            penalty=self._memory.penalty if params.stability else None,
        )
        yield from self._progress(steps, task, "steps on the noisy copies")
        if params.stability:
            self._remember()

    def _noise_for(self, purpose: str) -> Noise:
        return noise_of(self._spec.privacy.noise, self._cell, purpose)

    def _progress(self, steps: Iterator[int], task: Task, what: str) -> Iterator[Progress]:
        return progress_of(steps, self._plan.n_steps, task, what)


def progress_of(steps: Iterator[int], total: int, task: Task, what: str) -> Iterator[Progress]:
    """Progress events every `STEPS_PER_PROGRESS` steps and at the last one."""
    for step in steps:
        if step % STEPS_PER_PROGRESS == 0 or step == total:
            yield Progress("training", step, total, task.index, f"{what} on {task.name}")


def unlearning_of(params: PeclParams, form: Form) -> Unlearning:
    """The unlearning term of the settings; a weight of 0 switches it off."""
    return Unlearning(
        "none" if params.lambda_unlearn == 0 else form, params.lambda_unlearn, params.theta, params.margin, params.beta
    )


def current_scores(log_probs: Tensor, batch: Batch, score2: Tensor, alpha: float) -> Tensor:
    """Scores (Eq. 1) of the texts' tokens [b, S] under the current model, in [0, 1]; 0 in stop words. No gradient."""
    exponent = alpha * log_probs.detach() - (1 - alpha) * score2[batch.ids]
    return -torch.expm1(exponent).clamp(max=0) * ((batch.role == TEXT) & ~batch.stop)
