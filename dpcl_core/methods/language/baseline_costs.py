"""Privacy costs of PeCL's baselines: steps, replay, Fisher information and reference gradients.

All of it is public arithmetic, done before any text is read. A person contributes one text to one task ("once"), or one
text to every task ("every"). Proof of the ledger entries under DP-SGD, where a text is added or removed and C is the
clipping norm:

1. Steps on the task's own texts. Poisson sampling puts each text into the batch independently. One text changes the sum of
   clipped gradients by at most C, and the noise has standard deviation zC: Poisson-sampled Gaussians. Penalties that depend
   on weights alone (EWC, O-LoRA) are added after the noise and read no text. Earlier adapters are outputs of private
   training, so O-LoRA costs no more than this.
2. Replay (ER). One coin decides whether a text is kept when its task is learned. The coin depends neither on the text nor on
   other texts (a reservoir of fixed size would drop another text in exchange: two texts would change). Neighbours share
   that coin. Given it, a kept text joins each later step by a fresh coin of chance `ErParams.replay_rate`. Its gradient is
   in the same sum, under the same noise: a Poisson-sampled Gaussian at the kept texts' rate. Texts that are not kept are
   not read again. A bound that holds for every outcome of the first coin holds for their mixture (hockey-stick divergences
   are jointly convex), so everyone is charged as if kept; the chance of not being kept earns no credit. A person in every
   task has several texts in one such sum, each at its own rate: `SampledGroupDpEvent`.
3. Fisher information (EWC), released once for each task. A text's gradient g is clipped to C; the squares of its entries
   have length (sum of g_i^4)^(1/2) <= max |g_i| ||g|| <= C^2, so one text changes the sum of squares by at most C^2, and
   noise of standard deviation 20 C^2 makes it a Gaussian of multiplier 20, without sampling. Cutting off below zero is
   post-processing. It is a new query on the task's texts; computed from gradients that already have noise it costs nothing.
4. Reference gradients (GEM). Each step releases, for every past task, the sum of clipped gradients of all its kept texts
   with noise of its own: unsampled Gaussians in sequence. The projection works on noisy gradients alone.
5. All tasks together (MTL): one training on everybody's texts.

Under "replace" a coin belongs to a position in the data, and the accountant doubles the sensitivity. Noisy copies (mechanism
= fn) are released once for each text; steps, replay, Fisher information and references computed from them are
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import dp_accounting as dp

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.params import Budget, BudgetPer, CopyNoise, LabelShare, LanguageParams, Length
from dpcl_core.privacy import accounting, text_mechanisms
from dpcl_core.privacy.accounting import LocalDpEvent
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Steps
from dpcl_core.privacy.statement import shown
from dpcl_core.spec import PrivacySpec, Recurrence, parameter


@dataclass(frozen=True, slots=True)
class Plan:
    """Public numbers of a stream and its training: steps in each task, and a text's sampling rate in its own task.

    `trains_once`: one training on all tasks together, after the last has arrived.
    """

    n_tasks: int
    task_size: float
    n_steps: int
    sample_rate: float
    recurrence: Recurrence
    privacy: PrivacySpec
    trains_once: bool = False


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise multipliers of the steps and of GEM's reference gradients; 0: none."""

    steps: float
    references: float = 0.0


@dataclass(frozen=True, slots=True)
class Charge:
    """What is done and charged: steps, from which batches and noise come, purpose, and the tasks whose examples are read."""

    steps: Steps
    what: str
    people_of: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BaselineParams(LanguageParams):
    """Settings of a baseline of PeCL: the language model and one of two private training mechanisms."""

    trains_once: ClassVar[bool] = False  # on all tasks together, after the last has come
    keeps_texts: ClassVar[bool] = False  # for later tasks
    mechanism: Literal["dp-sgd", "fn"] = parameter(
        "dp-sgd", "",
        "dp-sgd: every text's gradient is clipped, noise is added to each step. fn: every token's embedding is clipped "
        "and gets noise once, and whatever is made of the noisy copies is free."
    )
    budget: Budget = parameter(
        "total", "Budget covers",
        "What epsilon is for. total: everything that a person's texts are ever used for. per-task: the training of one "
        "task alone, as published; the total is then larger, and is shown."
    )
    clip_norm: Length = parameter(
        1.0, "Clipping norm C", "Longest gradient that one text contributes; not used under mechanism = fn."
    )
    embedding_clip: Length | None = parameter(
        None, "Embedding norm bound",
        "Longest embedding of a token, under mechanism = fn; empty: the median of the model's table."
    )
    budget_per: BudgetPer = parameter(
        "text", "Unit of protection",
        "Under mechanism = fn, what epsilon is for: a whole text, or one token in one place; the total is then larger, "
        "and is shown."
    )
    label_share: LabelShare = parameter(
        0.0, "Share of ε for labels",
        "Under mechanism = fn, share of epsilon that hides the label by a random answer; 0: labels are public."
    )

    @property
    def is_local(self) -> bool:
        return self.mechanism == "fn"

    @property
    def is_total_asked(self) -> bool:
        return self.budget == "total" and (self.budget_per == "text" or not self.is_local)

    @property
    def share_of_references(self) -> float:
        """The share of epsilon that gradients on kept texts may use up; 0 for a method without them."""
        return 0.0

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return 0.0

    def charges(self, plan: Plan, noises: Noises, task: int) -> list[Charge]:
        """What learning a task under DP-SGD charges, for texts of earlier tasks that it reads again, too."""
        return [of_steps(self, plan, noises, (task,))]

    def copy_noise(self, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> CopyNoise:
        return copy_noise(self, plan(self, privacy, facts), epsilon)


def plan(params: BaselineParams, privacy: PrivacySpec, facts: PublicSizes) -> Plan:
    """The plan that follows from a run's settings."""
    size, trains_once = facts.task_size, params.trains_once
    steps, rate = params.n_steps(size), params.sample_rate(size)
    if trains_once:
        steps, rate = steps * facts.n_tasks, params.sample_rate(size * facts.n_tasks)
    return Plan(facts.n_tasks, size, steps, rate, facts.recurrence, privacy, trains_once)


def noises(params: BaselineParams, plan: Plan, epsilon: float) -> Noises:
    """Noise multipliers of DP-SGD for a budget; 0 for an infinite one.

    "total": the smallest noise that keeps everything done to the worst-off person within (epsilon, delta). GEM's steps get
    the share of epsilon that `reference_share` leaves, its references what is then left of the total. "per-task": as
    published, the noise that one task's own steps need, for references too.
    """
    if math.isinf(epsilon):
        return Noises(0.0)
    delta, adjacency = plan.privacy.delta, plan.privacy.adjacency
    if params.budget == "per-task":
        one_task = accounting.noise_multiplier(epsilon, delta, plan.sample_rate, plan.n_steps, adjacency)
        return Noises(one_task, one_task)
    if params.share_of_references == 0 or plan.n_tasks == 1:
        return Noises(accounting.calibrated(lambda value: _worst_off(params, plan, value), epsilon, delta, adjacency))
    n_trainings = plan.n_tasks if plan.recurrence == "every" else 1

    def step_events(value: float) -> Sequence[dp.DpEvent]:
        return [accounting.subsampled_gaussian(value, plan.sample_rate, plan.n_steps)] * n_trainings

    steps = accounting.calibrated(step_events, (1 - params.share_of_references) * epsilon, delta, adjacency)
    references = accounting.calibrated(lambda value: _worst_off(params, plan, steps, value), epsilon, delta, adjacency)
    return Noises(steps, references)


def of_steps(params: BaselineParams, plan: Plan, noises: Noises, people_of: tuple[int, ...]) -> Charge:
    """The charge of DP-SGD's steps on the texts of these tasks."""
    what = f"DP-SGD, {plan.n_steps} steps, sampling rate {plan.sample_rate:g}, clipping norm {params.clip_norm:g}"
    return Charge(Steps(plan.n_steps, (plan.sample_rate,), noises.steps), what, people_of)


def ledger(params: BaselineParams, plan: Plan, noises: Noises) -> Ledger:
    """A ledger with every charge of DP-SGD over the whole stream."""
    book = Ledger(plan.privacy.delta, plan.privacy.adjacency, plan.recurrence)
    for task in range(plan.n_tasks):
        for charge in params.charges(plan, noises, task):
            book.spend(charge.steps, task=task, what=charge.what, people_of=charge.people_of)
    return book


def copy_noise(params: BaselineParams, plan: Plan, epsilon: float) -> CopyNoise:
    """The noise of a budget for a whole text, or for one token in one position. The label's share is subtracted first.

    Where a person has a text in every task and the budget is the total, it covers the tokens and labels of all of them.
    """
    if math.isinf(epsilon):
        return CopyNoise(0.0, math.inf)
    n_texts = plan.n_tasks if plan.recurrence == "every" and params.budget == "total" else 1
    label = params.label_share * epsilon
    n_tokens = params.length * n_texts if params.budget_per == "text" else 1
    ratio = text_mechanisms.ratio_for(epsilon - label, plan.privacy.delta, n_tokens)
    return CopyNoise(ratio, label / n_texts if label > 0 else math.inf)


def copies_ledger(params: BaselineParams, plan: Plan, noise: CopyNoise) -> Ledger:
    """A ledger with one noisy copy of every text of the stream, entered as the mechanisms enter it."""
    book = Ledger(plan.privacy.delta, plan.privacy.adjacency, plan.recurrence)
    for task in range(plan.n_tasks):
        book.spend(_gaussian(noise.ratio / math.sqrt(params.length)), task=task, what="noisy embeddings")
        if math.isfinite(noise.epsilon_labels):
            book.spend(LocalDpEvent(noise.epsilon_labels), task=task, what="random answers")
    return book


def sentence(params: BaselineParams, plan: Plan, epsilon: float) -> str:
    """One sentence for the form: noise and total epsilon of a finite budget."""
    if params.mechanism == "fn":
        copy = copy_noise(params, plan, epsilon)
        total = copies_ledger(params, plan, copy).epsilon()
        noise_text = f"noise of {shown(copy.ratio)} times the clip on every token"
        return f"At ε = {epsilon:g}: {noise_text}, total ε {shown(total)} for a text of {params.length} tokens."
    calibrated = noises(params, plan, epsilon)
    noise_text = f"noise multiplier {calibrated.steps:g}"
    if params.share_of_references > 0 and plan.n_tasks > 1 and calibrated.references != calibrated.steps:
        noise_text += f", {calibrated.references:g} on references"
    return f"At ε = {epsilon:g}: {noise_text}, total ε {shown(ledger(params, plan, calibrated).epsilon())}."


def _worst_off(params: BaselineParams, plan: Plan, steps: float, references: float = 0.0) -> Sequence[dp.DpEvent]:
    """Events on the first task's people: later tasks charge them for everything that they charge anyone for."""
    return next(iter(ledger(params, plan, Noises(steps, references)).events_by_people().values()))


def _gaussian(noise_multiplier: float) -> dp.DpEvent:
    return dp.GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else dp.NonPrivateDpEvent()
