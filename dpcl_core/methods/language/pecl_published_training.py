"""PeCL as published: embeddings noised by their tokens' scores, the printed loss, a memory made of raw statistics."""

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
from dpcl_core.methods.language.adapted_model import AdaptedModel, embedding_table, median_norm, of_batch, replaced
from dpcl_core.methods.language.cards.pecl_published import PublishedParams
from dpcl_core.methods.language.gradients import Batch, TextLoss, clean
from dpcl_core.methods.language.importance_memory import Memory, input_norms
from dpcl_core.methods.language.losses import Unlearning, pecl_loss, task_loss
from dpcl_core.methods.language.pecl_training import told
from dpcl_core.methods.language.scoring import Planes, Scorer, planes
from dpcl_core.methods.language.training import plain_steps
from dpcl_core.privacy import token_noise
from dpcl_core.privacy.embeddings import published_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec


class Published:
    """The model of one cell. Keeps no text; its adapters are made of raw texts all the same."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext, scorer: Scorer) -> None:
        assert isinstance(spec.params, PublishedParams)
        self._spec, self._params, self._cell, self._known, self._scorer = spec, spec.params, cell, known, scorer
        self._subject = AdaptedModel(spec, cell, known)
        self.net, self.answers = self._subject.net, self._subject.answers
        self._memory = Memory(self.net, spec.params.lambda_min, spec.params.lambda_max)
        self.copies: Mapping[str, NDArray[np.generic]] = {}  # a copy is made anew for every step, and stays inside

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress | Note]:
        """The ledger hears that there is no bound, and what the paper claims instead."""
        if not self._subject.space(task):
            return
        params, upper = self._params, self._cell.epsilon
        ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what="scores, losses and memory that read texts as they are")
        if math.isfinite(upper):
            delta, n_epochs = self._spec.privacy.delta, params.epochs
            ledger.claimed = token_noise.nominal_claim(params.eps_lower, upper, delta, params.length, n_epochs)
        examples = self._subject.learned_from(task)
        inputs = planes(examples)
        texts = self._subject.prompted(inputs, examples.labels, task.name)
        noised = Noised(self._spec, self._cell, self._subject, self._scorer, inputs, task, ledger)
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
        yield from told(steps, n_steps, task, "steps")
        if params.stability:
            self._memory.remember(input_norms(self.net, texts, self._known.device, noised.read_again))

    def _loss(self, noised: Noised) -> TextLoss:
        """Eqs. 12 and 13; a weight of 0 is no term at all."""
        params = self._params
        if params.unlearning == "none" or params.lambda_unlearn == 0:
            return task_loss(params.loss)
        unlearning = Unlearning(params.unlearning, params.lambda_unlearn, params.theta)

        def of(log_probs: Tensor, batch: Batch) -> Tensor:
            return pecl_loss(log_probs, batch, params.loss, unlearning, of_batch(noised.scores, batch))

        return TextLoss(of)


class Noised:
    """A task's texts as the network reads them: embeddings clipped and noised anew in every epoch (Eqs. 4 and 5).

    With score_model = current, scores are computed anew in every epoch too, by the model as it then is. Without a finite
    budget embeddings are read as they are.
    """

    def __init__(
        self, spec: RunSpec, cell: Cell, subject: AdaptedModel, scorer: Scorer, inputs: Planes, task: Task, ledger: Ledger
    ) -> None:
        assert isinstance(spec.params, PublishedParams)
        self._params, self._delta, self._upper = spec.params, spec.privacy.delta, cell.epsilon
        self._subject, self._scorer, self._inputs, self._task, self._ledger = subject, scorer, inputs, task, ledger
        self._noise: Noise = noise_of(spec.privacy.noise, cell, f"embeddings of task {task.index}")
        self._table = embedding_table(subject.net)
        self._epoch: int | None = None
        self._found: NDArray[np.float64] = self._scored()
        self.scores = subject.table(self._found)
        self._stored: Tensor | None = None

    def read(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        """What the network reads in this epoch; prompt and answer get no noise."""
        if epoch != self._epoch:
            self._begin(epoch)
        return clean(embeddings, batch, epoch) if self._stored is None else replaced(embeddings, self._stored, batch)

    def read_again(self, embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
        """The copies that the last pass read, before any those of the first: no noise is drawn for it."""
        return self.read(embeddings, batch, self._epoch or 0)

    def mean_score(self) -> float:
        """s-bar: the mean over all tokens of the task."""
        is_token = self._inputs[:, :, TOKEN] != PADDING
        return float(self._found[is_token].mean()) if is_token.any() else 0.0

    def ratios(self) -> NDArray[np.float64]:
        """sigma / C of every token [n, length]: 0, no noise, where the score is 0, as it is in stop words."""
        params, is_token = self._params, self._inputs[:, :, TOKEN] != PADDING
        found = self._found
        if params.granularity == "sentence":
            found = sensitivity.sentence_scores(found, is_token)
        budgets = sensitivity.nominal_epsilon(found, params.eps_lower, self._upper)
        return np.where(is_token & (found != 0), token_noise.printed_ratios(budgets, self._delta), 0.0)

    def _begin(self, epoch: int) -> None:
        if self._params.score_model == "current" and epoch > 0:
            self._found = self._scored()
            self.scores = self._subject.table(self._found)
        self._epoch = epoch
        if math.isinf(self._upper):
            return
        clip = self._params.embedding_clip or median_norm(self._table)
        made = published_embeddings(
            self._table,
            self._inputs[:, :, TOKEN],
            self.ratios(),
            clip,
            self._noise,
            self._ledger,
            task=self._task.index,
        )
        self._stored = self._subject.table(made)

    def _scored(self) -> NDArray[np.float64]:
        is_base = self._params.score_model == "base"
        found = self._subject.of_public_model(self._inputs) if is_base else self._subject.of_model_now(self._inputs)
        return self._scorer.scores(self._inputs, found)
