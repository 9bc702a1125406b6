"""PeCL repaired: DP-SGD on the adapters (central), or training on embeddings noised once (local).

Its costs are public arithmetic, before any text is read.

central. A person contributes one text to one task ("once"), or one text to every task ("every"). Each step is a
Poisson-sampled Gaussian on the sum of clipped gradients. The unlearning term is part of each text's own loss, a function of
that text, of the current weights and of public numbers, so it adds no cost. L_reg depends on weights, Omega on weights and
public texts, and lambda_dyn on the released mean score: one more Gaussian for each task, of sensitivity 1 over the nominal
number of texts.

local. Every token of a text is released as one noisy vector, every label as one randomised response; all computation on them
is post-processing. Scores and Omega come from public texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpcl_core.errors import BadInput
from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd import Schedule, each_task
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.language import params as language
from dpcl_core.methods.language import sculpting
from dpcl_core.methods.language.adapted_model import progress_of
from dpcl_core.methods.language.later import per_text, torch, training
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.methods.language.params import Budget, BudgetPer, CopyNoise, LabelShare, Length, Positive, UnlearningForm
from dpcl_core.methods.language.public_text import TEXT, Planes, planes
from dpcl_core.methods.language.sculpting import Scorer, Sculpted, SculptingParams
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.accounting import LocalDpEvent
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_mean
from dpcl_core.published import Departure, Printed
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, PrivacySpec, RunSpec, parameter

LOCAL = "with params.mode = local"


@dataclass(frozen=True, kw_only=True)
class PeclParams(SculptingParams):
    """Settings of the repaired PeCL: where noise is added, and what the budget covers."""

    mode: Literal["central", "local"] = parameter(
        "central", "Trust",
        "central: every text's gradient is clipped and noise is added to each step (DP-SGD). local: every token's "
        "embedding gets the same noise once, and whatever is made of the noisy copies is free.")
    budget: Budget = parameter(
        "total", "Budget covers",
        "What epsilon is for, where a person can be in every task. total: the whole stream. per-task: the training of one "
        "task; the total is then larger, and is shown.")
    clip_norm: Length = parameter(
        0.5, "Clipping norm C", "Longest gradient that one text contributes, under mode = central.")
    unlearning: Literal["auto", UnlearningForm] = parameter(
        "auto", "Unlearning loss",
        "The term for sensitive tokens (Eq. 12). auto: hinge under mode = central, none under local. hinge: until a token "
        "is less likely than the public model has it. mask: they are left out of the loss. npo, unlikelihood: other "
        "bounded terms. printed, flipped: as published, and with the other sign. none: without.")
    score2_scope: Literal["off", "public"] = parameter(
        "off", "How common a token is, from",
        "The texts that tokens are counted in (Eq. 3), smoothed. off: none, a token's score is its surprise. public: "
        "public ones.")
    mean_score: Literal["auto", "released", "public"] = parameter(
        "auto", "Mean score from",
        "Mean score of a task, which says how strongly it is held (Eq. 11). released: of its texts, with noise. public: "
        "of public texts. auto: released under mode = central, public under local.")
    mean_score_std: Positive = parameter(
        0.1, "Noise of the mean score",
        "Standard deviation of the noise on a released mean score, which lies in [0, 1].", le=10)
    budget_per: BudgetPer = parameter(
        "text", "Unit of protection",
        "Under mode = local, what epsilon is for: a whole text, or one token in one place; the total is then larger, and "
        "is shown.")
    label_share: LabelShare = parameter(
        0.0, "Share of ε for labels",
        "Under mode = local, share of epsilon that hides the label by a random answer; 0: labels are public.")

    @property
    def is_local(self) -> bool:
        return self.mode == "local"

    @property
    def is_total_asked(self) -> bool:
        return self.budget == "total" and (self.budget_per == "text" or not self.is_local)

    @property
    def releases_mean_score(self) -> bool:
        """Whether a task's mean score is a noisy release of its own texts, charged to the budget."""
        return self.stability and (self.mean_score == "released" or (self.mean_score == "auto" and not self.is_local))

    def copy_noise(self, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> CopyNoise:
        noise = noises(self, privacy, facts, epsilon)
        return CopyNoise(noise.ratio, noise.labels)


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds or can be stated, or that have no effect."""
    params = settings_of(spec, PeclParams)
    sculpting.check_lambdas(spec)
    if not params.is_local:
        if params.label_share > 0:
            allowed = "must be 0 with params.mode = central, which hides labels as it hides texts"
            raise BadInput("params.label_share", params.label_share, allowed)
        if params.releases_mean_score:  # over n texts, of std s: one Gaussian of ratio s n, under either adjacency
            n_uses = facts.n_recurring if params.budget == "total" else 1
            ratio = params.mean_score_std * facts.task_size / math.sqrt(n_uses)
            cost, smallest = gaussian.epsilon(ratio, spec.privacy.delta), min(spec.privacy.epsilons)
            if cost >= smallest:  # then no noise on the steps would suffice
                allowed = (
                    f"must be larger for epsilon = {smallest:g}: the released mean scores alone cost {cost:.3g}; "
                    "or take params.mean_score = public"
                )
                raise BadInput("params.mean_score_std", params.mean_score_std, allowed)
        return
    language.check_local(spec, LOCAL)
    no_local: dict[str, tuple[tuple[str, ...], str]] = {
        "unlearning": (("auto", "none"), f"must be none {LOCAL}: to unlearn a token it is read without noise"),
        "mean_score": (("auto", "public"), f"must be public {LOCAL}: scores are computed from texts without noise"),
        "score_model": (("base",), f"must be base {LOCAL}, where no text is scored while it is learned"),
    }
    for name, (possible, allowed) in no_local.items():
        if (value := getattr(params, name)) not in possible:
            raise BadInput(f"params.{name}", value, allowed)


PRINTED = language.printed(
    sculpting.PRINTED_SCORES,
    {
        "params.unlearning": Printed(("printed", "none"), "With the printed sign sensitive tokens are learned harder."),
        "params.score2_scope": Printed(
            (), "Counts of private texts would be a release of their own.", words="the texts of all tasks"
        ),
        "params.mean_score": Printed(
            (), "A mean of private scores is a release of its own.", words="of the task's texts, without noise"
        ),
        "params.label_share": Printed((0.0,), "Labels are read as they are in the paper."),
        "params.mode": "Neither DP-SGD nor one noise for all tokens is PeCL's.",
        "params.budget": "The paper adds up no budget over tasks.",
        "params.clip_norm": "The paper clips no gradient of PeCL.",
        "params.mean_score_std": "The paper adds no noise to a mean score.",
        "params.budget_per": "The paper's budget is of a token; whole texts are its Remark 1.",
    },
    always=(
        Departure(
            "", "noise by each token's score, none on stop words (Eq. 5)", "noise is the same whatever a text says",
            "Noise that depends on a token reveals the token."
        ),
        Departure(
            "", "for half the distance of two clipped embeddings (Eq. 5)",
            "noise is made for all of their distance, or for a clipped gradient",
            "Two vectors of length C lie up to 2C apart."
        ),
    ),
    kind="repair",
)


CARD = language.card(
    name="pecl", title="PeCL, repaired",
    summary="PeCL with a guarantee that holds. central: DP-SGD on a language model's adapters; a bounded hinge against the "
    "public model unlearns tokens, and the memory penalty uses released or public numbers only. local: the same noise on "
    "every token of a text, stop words included, drawn once.",
    source="A repair of Zhan et al., Forget What's Sensitive, Remember What Matters",
    params=PeclParams,
    key_settings=("alpha", "theta", "lambda_unlearn"),
    module=__name__, planned=f"{__name__}:planned", refuses=check, derived=language.derived, notes=language.notes,
    printed=PRINTED,
    table_names=lambda spec: ("Repair: PeCL", settings_of(spec, PeclParams).mode),
    differences=language.differences,
)


@dataclass(frozen=True, slots=True)
class Noises:
    """`multiplier`: of DP-SGD; `ratio`: sigma / C on a token's embedding; 0: none. `labels`: epsilon of one label."""

    multiplier: float = 0.0
    ratio: float = 0.0
    labels: float = math.inf


def schedule(params: PeclParams, task_size: float) -> Schedule:
    """The DP-SGD schedule of a task, from public numbers; the rate is not used under mode = local."""
    rate = params.sample_rate(task_size)
    return Schedule(rate, params.n_steps(task_size), params.clip_norm, params.learning_rate, rate * task_size)


def events(params: PeclParams, privacy: PrivacySpec, task_size: float, multiplier: float) -> Sequence[dp.DpEvent]:
    """Events that a task charges to each of its people under mode = central."""
    steps, ratio = accounting.of_steps(schedule(params, task_size).steps(multiplier)), params.mean_score_std * task_size
    return [steps, *([dp.GaussianDpEvent(ratio * SENSITIVITY[privacy.adjacency])] if params.releases_mean_score else [])]


def noises(params: PeclParams, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> Noises:
    """The noise that keeps everything done to one person within (epsilon, delta); budget = per-task: one task of it.

    Under mode = local with budget_per = token: one token in one position; the whole text then costs more.
    """
    if math.isinf(epsilon):
        return Noises()
    n_uses = facts.n_recurring if params.budget == "total" else 1
    if not params.is_local:

        def of_stream(multiplier: float) -> list[dp.DpEvent]:
            return list(events(params, privacy, facts.task_size, multiplier)) * n_uses

        return Noises(accounting.calibrated(of_stream, epsilon, privacy.delta, privacy.adjacency))
    n_tokens = params.length if params.budget_per == "text" else 1
    copies = CopyNoise.within(epsilon, privacy.delta, params.label_share, n_tokens, n_uses)
    return Noises(ratio=copies.ratio, labels=copies.epsilon_labels)


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): a training a task with its mean score, or noisy copies."""
    params = settings_of(spec, PeclParams)
    noise = noises(params, spec.privacy, facts, epsilon)
    if not params.is_local:
        return each_task(ledger, facts, *events(params, spec.privacy, facts.task_size, noise.multiplier))
    labels = [LocalDpEvent(noise.labels)] if math.isfinite(noise.labels) else []
    return each_task(ledger, facts, dp.GaussianDpEvent(noise.ratio / math.sqrt(params.length)), *labels)


class Repaired(Sculpted):
    """One cell's model, trained as `params.mode` sets."""

    params: PeclParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext, scorer: Scorer) -> None:
        super().__init__(spec, cell, context, scorer)
        self._plan = schedule(self.params, context.task_size)
        self._noises = noises(self.params, spec.privacy, context, cell.epsilon)

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
            self._memory.remember(training.input_norms(self.net, public, self.context.device))

    def _central_steps(self, task: Task, ledger: Ledger) -> Iterator[int]:
        steps = self._plan.steps(self._noises.multiplier)
        ledger.spend(steps, task=task.index, what=self._plan.words)
        examples = self.training_examples(task)
        inputs = planes(examples)
        texts = self.prompted(inputs, examples.labels, task.name)
        if self.params.stability:
            self._memory.open(self._mean_score(inputs, task, ledger))
        purpose = f"task {task.index}"
        batches, noise, loss = self.batches_of(steps, purpose), self.noise(purpose), self.loss(inputs)
        return training.private_steps(
            self.net, texts, self._plan, steps.noise_multiplier, batches, noise, loss, device=self.context.device,
            penalty=self._penalty,
        )  # fmt: skip

    def _local_steps(self, task: Task, ledger: Ledger) -> Iterator[int]:
        params = self.params
        label_epsilon = self._noises.labels if params.label_share > 0 else None
        copies = self.noisy_copies(task, ledger, self._noises.ratio, label_epsilon, params.embedding_clip)
        if params.stability:
            self._memory.open(self._public_mean_score())
        order, size = self.order(f"order of task {task.index}"), params.batch_size
        return training.plain_steps(
            self.net, copies.texts, self._plan, size, order, self.task_loss(), device=self.context.device,
            reading=copies.reading, penalty=self._penalty,
        )  # fmt: skip

    def loss(self, inputs: Planes) -> per_text.TextLoss:
        """The task's loss with the unlearning term; each text's loss depends on that text and public numbers only."""
        params = self.params
        form = "hinge" if params.unlearning == "auto" else params.unlearning
        if form == "none" or params.lambda_unlearn == 0:
            return self.task_loss()
        forks = self.forks if params.loss == "answer" else None
        unlearning = training.Unlearning(form, params.lambda_unlearn, params.theta, params.margin, params.beta)
        base = self.public_log_probs(inputs)
        reference, fixed = self.table(base), self.table(self._scorer.scores(inputs, base))
        commonness = torch.from_numpy(self._scorer.score2).to(reference)

        def of(log_probs: torch.Tensor, batch: per_text.Batch) -> torch.Tensor:
            scores, of_public = (training.gather_batch(values, batch) for values in (fixed, reference))
            if params.score_model == "current":
                scores = current_scores(log_probs, batch, commonness, params.alpha)
            return training.pecl_loss(log_probs, batch, params.loss, unlearning, scores, of_public, forks)

        return per_text.TextLoss(of, forks=forks)

    def _mean_score(self, inputs: Planes, task: Task, ledger: Ledger) -> float:
        """s-bar of the task: a noisy mean over its texts, whose mean scores lie in [0, 1], or the mean over public texts."""
        if not self.params.releases_mean_score:
            return self._public_mean_score()
        means = sculpting.means(self.token_scores(inputs), inputs)
        std = 0.0 if math.isinf(self.cell.epsilon) else self.params.mean_score_std
        noise = self.noise(f"mean score of task {task.index}")
        return noisy_mean(means, self.context.task_size, std, noise, ledger, task=task.index, what="mean score of the texts")

    def _public_mean_score(self) -> float:
        inputs = self.public_inputs()
        return float(sculpting.means(self._scorer.scores(inputs, self.public_log_probs(inputs)), inputs).mean())


def current_scores(log_probs: torch.Tensor, batch: per_text.Batch, score2: torch.Tensor, alpha: float) -> torch.Tensor:
    """Scores (Eq. 1) of the texts' tokens [b, S] under the current model, in [0, 1]; 0 in stop words. No gradient."""
    exponent = alpha * log_probs.detach() - (1 - alpha) * score2[batch.ids]
    return -torch.expm1(exponent).clamp(max=0) * ((batch.role == TEXT) & ~batch.stop)


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> LazyLearner:
    """The learner of one cell."""
    params = settings_of(spec, PeclParams)
    scorer = Scorer(params, params.score2_scope, spec.data.backbone, printed=False)
    return LazyLearner(Repaired, spec, cells, context, scorer)

