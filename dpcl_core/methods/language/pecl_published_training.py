"""Training of PeCL as published: noise scaled by token scores, the printed loss, a memory built from raw statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.data.texts import PADDING, TOKEN
from dpcl_core.events import Note, Progress
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.language import sensitivity
from dpcl_core.methods.language.adapted_model import (
    embedding_table,
    gather_batch,
    median_norm,
    plain_steps,
    progress_of,
    replace_text_embeddings,
)
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.methods.language.gradients import Batch, Reading, TextLoss, clean, input_norms
from dpcl_core.methods.language.losses import Unlearning, pecl_loss
from dpcl_core.methods.language.pecl_training import Sculpted
from dpcl_core.methods.language.public_text import Planes, planes
from dpcl_core.privacy import text_mechanisms
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.text_mechanisms import published_embeddings
from dpcl_core.scenarios.stream import Task


class Published(Sculpted):
    """One cell's model. Keeps no text, but its adapters are trained on raw texts.

    `copies` stays empty: each epoch draws new ones, which are not released.
    """

    params: PublishedParams

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress | Note]:
        """Learns the task. Records in the ledger that there is no bound, and what the paper claims."""
        if not self.space(task):
            return
        params, upper = self.params, self.cell.epsilon
        ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what="scores, losses and memory that read texts as they are")
        if math.isfinite(upper):
            delta, n_epochs = self.spec.privacy.delta, params.epochs
            ledger.claimed = text_mechanisms.nominal_claim(params.eps_lower, upper, delta, params.length, n_epochs)
            least = self._scorer.least_score2(self.context.n_tasks)
            if warning := sensitivity.can_fall_below(least, params.alpha, params.eps_lower, upper):
                yield Note("warning", warning)
        self.open_forks(task)
        examples = self.training_examples(task)
        inputs = planes(examples)
        texts = self.prompted(inputs, examples.labels, task.name)
        noised = NoisyInputs(self, inputs, task, ledger)
        if params.stability:
            norms = input_norms(self.net, texts, self.context.device, noised.last_reading) if params.omega == "own" else None
            self._memory.open(noised.mean_score(), norms)
        n_texts, size = self.context.size_of(task), params.batch_size
        n_steps = params.n_steps(n_texts)
        steps = plain_steps(
            self.net,
            texts,
            Schedule(params.sample_rate(n_texts), n_steps, math.inf, params.learning_rate, size),
            size,
            self.order(f"order of task {task.index}"),
            self._loss(noised),
            device=self.context.device,
            reading=noised.reading,
            penalty=self._penalty,
        )
        yield from progress_of(steps, n_steps, task, "steps")
        if params.stability:
            self._memory.remember(input_norms(self.net, texts, self.context.device, noised.last_reading))

    def _loss(self, noised: NoisyInputs) -> TextLoss:
        """The loss of Eqs. 12 and 13; a weight of 0 switches the unlearning term off."""
        params = self.params
        if params.unlearning == "none" or params.lambda_unlearn == 0:
            return self.task_loss()
        forks = self.forks if params.loss == "answer" else None
        unlearning = Unlearning(params.unlearning, params.lambda_unlearn, params.theta)

        def of(log_probs: Tensor, batch: Batch) -> Tensor:
            return pecl_loss(log_probs, batch, params.loss, unlearning, gather_batch(noised.scores, batch), forks=forks)

        return TextLoss(of, forks=forks)


class NoisyInputs:
    """A task's texts as the network reads them: clipped embeddings with new noise in every epoch (Eqs. 4 and 5).

    With score_model = current, every epoch also recomputes the scores under the current model. Under an infinite budget the
    embeddings have no noise.
    """

    def __init__(self, model: Published, inputs: Planes, task: Task, ledger: Ledger) -> None:
        self._model, self._inputs, self._task, self._ledger = model, inputs, task, ledger
        self.params, self._upper = model.params, model.cell.epsilon
        self._noise = model.noise(f"embeddings of task {task.index}")
        self._table = embedding_table(model.net)
        self._epoch: int | None = None
        self._scores = model.token_scores(inputs)
        self.scores = model.table(self._scores)
        self._stored: Tensor | None = None

    @property
    def reading(self) -> Reading:
        """How the network reads a batch: `clean`, whose states are kept, where nothing changes from epoch to epoch."""
        return clean if self._is_fixed else self._read

    @property
    def last_reading(self) -> Reading:
        """The same with the last epoch's noisy embeddings, without a new draw; before any epoch, those of the first."""
        return clean if self._is_fixed else self._read_again

    @property
    def _is_fixed(self) -> bool:
        return math.isinf(self._upper) and self.params.score_model == "base"

    def _read(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        """Embeddings that the network reads in this epoch; prompt and answer have no noise."""
        if epoch != self._epoch:
            self._begin(epoch)
        if self._stored is None:
            return clean(embeddings, batch, epoch)
        return replace_text_embeddings(embeddings, self._stored, batch)

    def _read_again(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        return self._read(embeddings, batch, self._epoch or 0)

    def mean_score(self) -> float:
        """s-bar: mean score over all tokens of the task."""
        is_token = self._inputs[:, :, TOKEN] != PADDING
        return float(self._scores[is_token].mean()) if is_token.any() else 0.0

    def ratios(self) -> NDArray[np.float64]:
        """sigma / C of every token [n, length]; 0 (no noise) where the score is 0, as in stop words."""
        params, is_token = self.params, self._inputs[:, :, TOKEN] != PADDING
        scores = self._scores
        if params.granularity == "sentence":
            scores = sensitivity.sentence_scores(scores, is_token)
        budgets = sensitivity.nominal_epsilon(scores, params.eps_lower, self._upper)
        ratios = text_mechanisms.printed_ratios(budgets, self._model.spec.privacy.delta)
        return np.where(is_token & (scores != 0), ratios, 0.0)

    def _begin(self, epoch: int) -> None:
        if self.params.score_model == "current" and epoch > 0:
            self._scores = self._model.token_scores(self._inputs)
            self.scores = self._model.table(self._scores)
        self._epoch = epoch
        if math.isinf(self._upper):
            return
        clip = self.params.embedding_clip or median_norm(self._table)
        noisy = published_embeddings(
            self._table, self._inputs[:, :, TOKEN], self.ratios(), clip, self._noise, self._ledger, task=self._task.index
        )
        self._stored = self._model.table(noisy)
