"""Training of PeCL as published: noise scaled by token scores, the printed loss, a memory built from raw statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.data.texts import PADDING, TOKEN
from dpcl_core.events import Note, Progress
from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.adapted_model import (
    AdaptedModel,
    embedding_table,
    gather_batch,
    median_norm,
    replace_text_embeddings,
)
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.methods.language.gradients import Batch, TextLoss, clean
from dpcl_core.methods.language.importance_memory import Memory, input_norms
from dpcl_core.methods.language.losses import Unlearning, pecl_loss, task_loss
from dpcl_core.methods.language.pecl_training import progress_of
from dpcl_core.methods.language.scoring import Planes, Scorer, planes
from dpcl_core.methods.language.training import plain_steps
from dpcl_core.privacy import token_noise
from dpcl_core.privacy.embeddings import published_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec


class Published:
    """One cell's model. Keeps no text, but its adapters are trained on raw texts."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext, scorer: Scorer) -> None:
        assert isinstance(spec.params, PublishedParams)
        self._spec, self._params, self._cell, self._known, self._scorer = spec, spec.params, cell, known, scorer
        self._adapted = AdaptedModel(spec, cell, known)
        self.net, self.answers = self._adapted.net, self._adapted.answers
        self._memory = Memory(self.net, spec.params.lambda_min, spec.params.lambda_max)
        self.copies: Mapping[str, NDArray[np.generic]] = {}  # stays empty: each epoch draws new copies, which stay inside

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress | Note]:
        """Learns the task. Records in the ledger that there is no bound, and what the paper claims."""
        if not self._adapted.space(task):
            return
        params, upper = self._params, self._cell.epsilon
        ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what="scores, losses and memory that read texts as they are")
        if math.isfinite(upper):
            delta, n_epochs = self._spec.privacy.delta, params.epochs
            ledger.claimed = token_noise.nominal_claim(params.eps_lower, upper, delta, params.length, n_epochs)
        examples = self._adapted.training_examples(task)
        inputs = planes(examples)
        texts = self._adapted.prompted(inputs, examples.labels, task.name)
        noised = NoisyInputs(self._spec, self._cell, self._adapted, self._scorer, inputs, task, ledger)
        if math.isfinite(upper):
            least = self._scorer.least_score2(self._known.n_tasks)
            if warning := sensitivity.can_fall_below(least, params.alpha, params.eps_lower, upper):
                yield Note("warning", warning)
        if params.stability:
            norms = input_norms(self.net, texts, self._known.device, noised.read_again) if params.omega == "own" else None
            self._memory.open(noised.mean_score(), norms)
        n_texts, size = self._known.size_of(task), params.batch_size
        n_steps = params.n_steps(n_texts)
        steps = plain_steps(
            self.net,
            texts,
            Schedule(params.sample_rate(n_texts), n_steps, math.inf, params.learning_rate, size),
            size,
            generator(self._cell.seed, f"order of task {task.index}"),
            self._loss(noised),
            device=self._known.device,
            reading=noised.read,
            penalty=self._memory.penalty if params.stability else None,
        )
        yield from progress_of(steps, n_steps, task, "steps")
        if params.stability:
            self._memory.remember(input_norms(self.net, texts, self._known.device, noised.read_again))

    def _loss(self, noised: NoisyInputs) -> TextLoss:
        """The loss of Eqs. 12 and 13; a weight of 0 switches the unlearning term off."""
        params = self._params
        if params.unlearning == "none" or params.lambda_unlearn == 0:
            return task_loss(params.loss)
        unlearning = Unlearning(params.unlearning, params.lambda_unlearn, params.theta)

        def of(log_probs: Tensor, batch: Batch) -> Tensor:
            return pecl_loss(log_probs, batch, params.loss, unlearning, gather_batch(noised.scores, batch))

        return TextLoss(of)


class NoisyInputs:
    """A task's texts as the network reads them: embeddings clipped and noised afresh in every epoch (Eqs. 4 and 5).

    With score_model = current, every epoch also recomputes the scores under the current model. Under an infinite budget the
    embeddings have no noise.
    """

    def __init__(
        self, spec: RunSpec, cell: Cell, adapted: AdaptedModel, scorer: Scorer, inputs: Planes, task: Task, ledger: Ledger
    ) -> None:
        assert isinstance(spec.params, PublishedParams)
        self._params, self._delta, self._upper = spec.params, spec.privacy.delta, cell.epsilon
        self._adapted, self._scorer, self._inputs, self._task, self._ledger = adapted, scorer, inputs, task, ledger
        self._noise: Noise = noise_of(spec.privacy.noise, cell, f"embeddings of task {task.index}")
        self._table = embedding_table(adapted.net)
        self._epoch: int | None = None
        self._scores: NDArray[np.float64] = self._scored()
        self.scores = adapted.table(self._scores)
        self._stored: Tensor | None = None

    def read(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        """Embeddings that the network reads in this epoch; prompt and answer have no noise."""
        if epoch != self._epoch:
            self._begin(epoch)
        if self._stored is None:
            return clean(embeddings, batch, epoch)
        return replace_text_embeddings(embeddings, self._stored, batch)

    def read_again(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        """The last epoch's noisy embeddings, without a new draw; before any epoch, those of the first."""
        return self.read(embeddings, batch, self._epoch or 0)

    def mean_score(self) -> float:
        """s-bar: mean score over all tokens of the task."""
        is_token = self._inputs[:, :, TOKEN] != PADDING
        return float(self._scores[is_token].mean()) if is_token.any() else 0.0

    def ratios(self) -> NDArray[np.float64]:
        """sigma / C of every token [n, length]; 0 (no noise) where the score is 0, as in stop words."""
        params, is_token = self._params, self._inputs[:, :, TOKEN] != PADDING
        scores = self._scores
        if params.granularity == "sentence":
            scores = sensitivity.sentence_scores(scores, is_token)
        budgets = sensitivity.nominal_epsilon(scores, params.eps_lower, self._upper)
        return np.where(is_token & (scores != 0), token_noise.printed_ratios(budgets, self._delta), 0.0)

    def _begin(self, epoch: int) -> None:
        if self._params.score_model == "current" and epoch > 0:
            self._scores = self._scored()
            self.scores = self._adapted.table(self._scores)
        self._epoch = epoch
        if math.isinf(self._upper):
            return
        clip = self._params.embedding_clip or median_norm(self._table)
        noisy = published_embeddings(
            self._table, self._inputs[:, :, TOKEN], self.ratios(), clip, self._noise, self._ledger, task=self._task.index
        )
        self._stored = self._adapted.table(noisy)

    def _scored(self) -> NDArray[np.float64]:
        is_base = self._params.score_model == "base"
        log_probs = self._adapted.public_log_probs if is_base else self._adapted.current_log_probs
        return self._scorer.scores(self._inputs, log_probs(self._inputs))
