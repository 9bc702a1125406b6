"""PeCL as published (Zhan et al.): noise scaled by token scores, the printed loss, a memory built from raw statistics.

No guarantee holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.texts import PADDING, TOKEN
from dpcl_core.errors import BadInput
from dpcl_core.events import Note, Progress
from dpcl_core.methods.common.dpsgd import Schedule
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.language import params as language
from dpcl_core.methods.language import sculpting, sensitivity
from dpcl_core.methods.language.adapted_model import median_norm, progress_of
from dpcl_core.methods.language.later import per_text, torch, training
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.methods.language.params import LanguageParams, Loss, Positive
from dpcl_core.methods.language.public_text import Planes, planes
from dpcl_core.methods.language.sculpting import Scorer, Sculpted, SculptingParams
from dpcl_core.privacy import text_mechanisms
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.text_mechanisms import published_embeddings
from dpcl_core.published import Printed, Values, setting
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter

NO_GUARANTEE = (
    "published: heuristic noise, nominal budget only. No differential privacy guarantee for tokens, texts or people."
)


@dataclass(frozen=True, kw_only=True)
class PublishedParams(SculptingParams):
    """Settings of PeCL as published; privacy.epsilons is eps_upper, the nominal budget of the least noised token."""

    eps_lower: Positive = parameter(
        1.0, "Smallest nominal ε",
        "Nominal budget of the most noised token (Eq. 4); privacy.epsilons is the least noised one's.", le=1e6)
    granularity: Literal["token", "sentence"] = parameter(
        "token", "Noise drawn for each",
        "token: noise by each token's score, none on stop words. sentence: one noise for a text, by its mean score, stop "
        "words included (the ablation w/o TDP).")
    score2_scope: Literal["all", "seen", "public", "off"] = parameter(
        "seen", "How common a token is, from",
        "The texts that tokens are counted in (Eq. 3). all: those of all tasks, later ones too, as printed; they are then "
        "read before the first task. seen: those of the tasks so far, never below 0. public: public ones. off: none, a "
        "token's score is its surprise.")
    omega: Literal["before", "own"] = parameter(
        "before", "Importance taken from",
        "Which tasks say how important an adapter is (Eqs. 9 and 10). before: those that are over. own: the one being "
        "learned as well, as printed, whose importance grows with what it changes.")
    unlearning: Literal["printed", "flipped", "none"] = parameter(
        "printed", "Unlearning loss",
        "The term for sensitive tokens. printed: Eq. 12 as it stands, which learns them harder. flipped: with the other "
        "sign. none: without (w/o Unlearning).")


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a nominal budget that is not one number, or for settings that contradict each other."""
    params = settings_of(spec, PublishedParams)
    sculpting.check_lambdas(spec)
    if len(spec.privacy.epsilons) != 1:
        epsilons = ", ".join(f"{epsilon:g}" for epsilon in spec.privacy.epsilons)
        allowed = "must be one number, the nominal budget of the least noised token: it is no guarantee to be compared by"
        raise BadInput("privacy.epsilons", epsilons, allowed, {"privacy.epsilons": (spec.privacy.usual_epsilon,)})
    (upper,) = spec.privacy.epsilons
    if math.isfinite(upper) and params.eps_lower > upper:
        allowed = f"must be at most privacy.epsilons = {upper:g}, the nominal budget of the least noised token"
        raise BadInput("params.eps_lower", params.eps_lower, allowed)


def notes(params: PublishedParams) -> tuple[str, ...]:
    """Caveats shown first in the privacy statement."""
    raw = "Losses, scores and the memory read the texts without noise: the model is not made from noisy embeddings alone."
    around = "Tokens of the prompt and of the answer are neither clipped nor noised: the answer's are the label itself."
    harder = "The printed sign makes the model learn sensitive tokens harder, not forget them."
    is_printed = params.unlearning == "printed" and params.lambda_unlearn > 0
    return (NO_GUARANTEE, raw, around, *([harder] if is_printed else []))


def table_names(spec: RunSpec) -> tuple[str, str]:
    """Table names of a run: PeCL, and the parts left out or the settings that differ from table 1."""
    params = settings_of(spec, PublishedParams)
    unlearns = params.unlearning != "none" and params.lambda_unlearn > 0
    parts = ["w/o TDP"] if params.granularity == "sentence" else []
    if not params.stability:
        parts.append("w/o MemReg" if unlearns else "w/o PMS")
    elif not unlearns:
        parts.append("w/o Unlearning")
    swept = (("alpha", params.alpha, 0.5), ("theta", params.theta, 0.6))
    parts += [f"{name} {value:g}" for name, value, usual in swept if value != usual]
    if unlearns and params.lambda_unlearn != 1:
        parts.append(f"lambda {params.lambda_unlearn:g}")
    return "PeCL", ", ".join(parts)


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Choices of ours that the paper leaves open."""
    params = settings_of(spec, PublishedParams)
    scored_by = "public" if params.score_model == "base" else "trained"
    return (
        *language.differences(spec),
        "Not given either: the clipping norm C of embeddings, which model scores a token, whether noise is drawn again. "
        f"Ours: the median embedding's length, the {scored_by} model, and "
        "noise drawn again in every pass; tokens of prompts and answers are neither clipped nor noised.",
    )


def _omega(spec: RunSpec) -> Values | None:
    """ "own"; None without the memory penalty, as in the ablation w/o MemReg: the setting then has no effect."""
    return ("own",) if setting(spec, "params.stability") else None


PRINTED = language.printed(
    sculpting.PRINTED_SCORES,
    {
        "privacy.epsilons": Printed((10.0,), "Another nominal budget of the least noised token."),
        "params.eps_lower": Printed((1.0,), "Another nominal budget of the most noised token."),
        "params.granularity": Printed(("token", "sentence"), "No other noise is printed."),
        "params.score2_scope": Printed(("all",), "A stream does not know its later tasks; those seen are cut off at 0."),
        "params.unlearning": Printed(("printed", "none"), "With the printed sign sensitive tokens are learned harder."),
        "params.omega": Printed(_omega, "How important a task made an adapter is known only when it is over."),
    },
)


CARD = language.card(
    name="pecl-published", title="PeCL as published",
    summary="Trains a language model's adapters on texts with noisy embeddings: the more surprising a token, the more "
    "noise, and none on stop words. It unlearns surprising tokens and stays close to what earlier tasks learned. Its "
    "paper claims a budget for every token. But the noise depends on the text, and the loss reads the text itself, so no "
    "guarantee holds.",
    source="Zhan et al., Forget What's Sensitive, Remember What Matters",
    params=PublishedParams,
    key_settings=("alpha", "theta", "lambda_unlearn"),
    module=__name__, audit="dpcl_core.attacks.token_noise_games", refuses=check, derived=language.derived_by_size,
    guarantee="nominal", notes=notes, printed=PRINTED, table_names=table_names, differences=differences,
    noises_embeddings=lambda params: True,
)


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
        norms = partial(training.input_norms, self.net, texts, self.context.device)
        if params.stability:
            own = norms(noised.last_reading) if params.omega == "own" else None
            self._memory.open(noised.mean_score(), own)
        n_texts, size = self.context.size_of(task), params.batch_size
        n_steps = params.n_steps(n_texts)
        plan = Schedule(params.sample_rate(n_texts), n_steps, math.inf, params.learning_rate, size)
        order, loss = self.order(f"order of task {task.index}"), self._loss(noised)
        steps = training.plain_steps(
            self.net, texts, plan, size, order, loss, device=self.context.device, reading=noised.reading,
            penalty=self._penalty,
        )  # fmt: skip
        yield from progress_of(steps, n_steps, task, "steps")
        if params.stability:
            self._memory.remember(norms(noised.last_reading))

    def _loss(self, noised: NoisyInputs) -> per_text.TextLoss:
        """The loss of Eqs. 12 and 13; a weight of 0 switches the unlearning term off."""
        params = self.params
        if params.unlearning == "none" or params.lambda_unlearn == 0:
            return self.task_loss()
        forks = self.forks if params.loss == "answer" else None
        unlearning = training.Unlearning(params.unlearning, params.lambda_unlearn, params.theta)

        def of(log_probs: torch.Tensor, batch: per_text.Batch) -> torch.Tensor:
            scores = training.gather_batch(noised.scores, batch)
            return training.pecl_loss(log_probs, batch, params.loss, unlearning, scores, forks=forks)

        return per_text.TextLoss(of, forks=forks)


class NoisyInputs:
    """A task's texts as the network reads them: clipped embeddings with new noise in every epoch (Eqs. 4 and 5).

    With score_model = current, every epoch also recomputes the scores under the current model. Under an infinite budget the
    embeddings have no noise.
    """

    def __init__(self, model: Published, inputs: Planes, task: Task, ledger: Ledger) -> None:
        self._model, self._inputs, self._task, self._ledger = model, inputs, task, ledger
        self.params, self._upper = model.params, model.cell.epsilon
        self._is_fixed = math.isinf(self._upper) and self.params.score_model == "base"
        self._noise = model.noise(f"embeddings of task {task.index}")
        self._table = training.embedding_table(model.net)
        self._epoch: int | None = None
        self._scores = model.token_scores(inputs)
        self.scores = model.table(self._scores)
        self._stored: torch.Tensor | None = None

    @property
    def reading(self) -> per_text.Reading:
        """How the network reads a batch: `clean`, whose states are kept, where nothing changes from epoch to epoch."""
        return per_text.clean if self._is_fixed else self._read

    @property
    def last_reading(self) -> per_text.Reading:
        """How it reads with the last epoch's noisy embeddings, without a new draw; before any epoch, with the first's."""
        if self._is_fixed:
            return per_text.clean
        return lambda embeddings, batch, _: self._read(embeddings, batch, self._epoch or 0)

    def _read(self, embeddings: torch.Tensor, batch: per_text.Batch, epoch: int) -> torch.Tensor:
        """Embeddings that the network reads in this epoch; prompt and answer have no noise."""
        if epoch != self._epoch:
            self._begin(epoch)
        return embeddings if self._stored is None else training.replace_text_embeddings(embeddings, self._stored, batch)

    def mean_score(self) -> float:
        """s-bar: mean score over all tokens of the task."""
        is_token = self._inputs[:, :, TOKEN] != PADDING
        return float(self._scores[is_token].mean()) if is_token.any() else 0.0

    def ratios(self) -> NDArray[np.float64]:
        """sigma / C of every token [n, length]; 0 (no noise) where the score is 0, as in stop words."""
        params, is_token, scores = self.params, self._inputs[:, :, TOKEN] != PADDING, self._scores
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


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    params = settings_of(spec, PublishedParams)
    scorer = Scorer(params, params.score2_scope, spec.data.backbone, printed=True)
    return LazyLearner(Published, spec, cells, context, scorer)



# Settings that determine a token's score and noise, of a run or as published; pages let a visitor change them.


@dataclass(frozen=True, slots=True)
class Dials:
    """Settings of the score, of the noise and of the loss; the defaults are the published values.

    `lower`, `upper`: nominal budgets of the most and the least noised token. `strength`: of the unlearning term.
    """

    alpha: float = sensitivity.ALPHA
    threshold: float = sensitivity.THRESHOLD
    lower: float = sensitivity.LOWER
    upper: float = sensitivity.UPPER
    delta: float = 1e-6
    strength: float = 1.0
    loss: Loss = "answer"


def dials_of(spec: RunSpec, epsilon: float | None) -> Dials:
    """The settings of a run that determine scores and noise; the published values for settings that its method lacks.

    `epsilon`: the requested budget, which PeCL as published uses as the nominal budget of the least noised token.
    """
    params, usual = spec.params, Dials()
    dials = replace(usual, delta=spec.privacy.delta)
    if isinstance(params, LanguageParams):
        dials = replace(dials, loss=params.loss)
    if isinstance(params, SculptingParams):
        dials = replace(dials, alpha=params.alpha, threshold=params.theta, strength=params.lambda_unlearn)
    if isinstance(params, PublishedParams):
        upper = epsilon if epsilon is not None and math.isfinite(epsilon) else usual.upper
        dials = replace(dials, lower=params.eps_lower, upper=max(upper, params.eps_lower))
    return dials
