"""What the baselines of PeCL cost whom: their own steps, replays, Fisher information and reference gradients.

Everything here is public arithmetic, known before any text is read. A person is one text of one task ("once"), or has one in
every task ("every"). Why the entries are right under DP-SGD, adding or removing a text, with C the clipping norm:

1. Own steps. Every text is in the batch by a coin of its own; one more changes the sum of clipped gradients by C at most and
   the noise has standard deviation zC: Poisson-sampled Gaussians. Penalties made of weights alone (EWC's, O-LoRA's) join a
   step after its noise and read nothing. Earlier adapters are outputs of private training: O-LoRA costs no more than this.
2. Replay (ER). Whether a text is kept is decided by one coin when its task is learned, never by what it says nor by other
   texts (a reservoir of fixed size would throw another text out for it: two texts would change). Given that coin, which
   neighbours share, a kept text joins each later step by a fresh coin of chance `ErParams.replay_rate`. Its gradient is in
   the same sum, under the same noise: a Poisson-sampled Gaussian at the kept texts' chance. Texts not kept are read no more.
   A bound for every outcome of the first coin is one for their mixture (hockey-stick divergences are jointly convex), so
   that what is charged is what those who are kept pay; the chance of not being kept is not credited. Someone in every task
   has several texts in one such sum, each at a chance of its own: `SampledGroupDpEvent`.
3. Fisher information (EWC), released once for each task. A text's gradient g is clipped to C; the squares of its entries
   have length (sum of g_i^4)^(1/2) <= max |g_i| ||g|| <= C^2, so one text changes the sum of squares by C^2 at most, and
   noise of standard deviation 20 C^2 makes it a Gaussian of multiplier 20, without sampling. Cutting off below zero is
   post-processing. It is a new query on the task's texts; made from gradients that already have their noise it is none.
4. Reference gradients (GEM). In each step, of every past task, the sum of clipped gradients of all its kept texts, with
   noise of its own: unsampled Gaussians in sequence. The projection works on noisy gradients alone.
5. All tasks together (MTL): one training on everybody.

Under "replace" coins belong to the place in the data and the accountant doubles the sensitivity. Noisy copies (mechanism =
fn) are released once for each text; steps, replay, Fisher information and references made of them are post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting as dp

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.cards.lm_params import BaselineParams, ErParams, EwcParams, GemParams, MtlParams
from dpcl_core.privacy import accounting, token_noise
from dpcl_core.privacy.accounting import LocalDpEvent, SampledGroupDpEvent
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.statement import shown
from dpcl_core.spec import PrivacySpec, Recurrence


@dataclass(frozen=True, slots=True)
class Plan:
    """Public numbers of a stream and its training: steps of every task, and a text's chance to be in a step of its own.

    `trains_once`: all tasks together, when the last has come.
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
    """What a ledger is told: the mechanism, for what, and the tasks whose people it reads."""

    event: dp.DpEvent
    what: str
    people_of: tuple[int, ...]


def plan(params: BaselineParams, privacy: PrivacySpec, facts: PublicSizes) -> Plan:
    """The plan that a run's settings come to."""
    size, trains_once = facts.task_size, isinstance(params, MtlParams)
    steps, rate = params.n_steps(size), params.sample_rate(size)
    if trains_once:
        steps, rate = steps * facts.n_tasks, params.sample_rate(size * facts.n_tasks)
    return Plan(facts.n_tasks, size, steps, rate, facts.recurrence, privacy, trains_once)


def noises(params: BaselineParams, plan: Plan, epsilon: float) -> Noises:
    """The noise of DP-SGD for a budget; none for an infinite one.

    "total": the smallest with which the worst-off person's whole life stays within (epsilon, delta). GEM's steps may use up
    what its references leave of epsilon, the references then what is left of the total. "per-task": as published, what one
    task's own steps need, references with the same.
    """
    if math.isinf(epsilon):
        return Noises(0.0)
    delta, adjacency = plan.privacy.delta, plan.privacy.adjacency
    if params.budget == "per-task":
        own = accounting.noise_multiplier(epsilon, delta, plan.sample_rate, plan.n_steps, adjacency)
        return Noises(own, own)

    def life(noises: Noises) -> Sequence[dp.DpEvent]:
        return _worst_off(params, plan, noises)

    if not isinstance(params, GemParams) or plan.n_tasks == 1:
        return Noises(accounting.calibrated(lambda value: life(Noises(value)), epsilon, delta, adjacency))
    n_own = plan.n_tasks if plan.recurrence == "every" else 1

    def steps(value: float) -> Sequence[dp.DpEvent]:
        return [accounting.subsampled_gaussian(value, plan.sample_rate, plan.n_steps)] * n_own

    own = accounting.calibrated(steps, (1 - params.reference_share) * epsilon, delta, adjacency)
    references = accounting.calibrated(lambda value: life(Noises(own, value)), epsilon, delta, adjacency)
    return Noises(own, references)


def charges(params: BaselineParams, plan: Plan, noises: Noises, task: int) -> list[Charge]:
    """What learning a task costs under DP-SGD, and those of earlier tasks whose texts it reads again."""
    if plan.trains_once:
        everyone = tuple(range(plan.n_tasks))
        return [_steps(params, plan, noises, everyone)] if task == plan.n_tasks - 1 else []
    if isinstance(params, ErParams) and task > 0:
        return [_replays(params, plan, noises, task)]
    found = [_steps(params, plan, noises, (task,))]
    if isinstance(params, GemParams):
        found += [_references(params, plan, noises, past) for past in range(task)]
    if isinstance(params, EwcParams) and params.fisher == "released" and task < plan.n_tasks - 1:
        what = f"Fisher information of the task, noise {params.fisher_noise:g} times what one text adds"
        found.append(Charge(_gaussian(params.fisher_noise if noises.steps > 0 else 0.0), what, (task,)))
    return found


def ledger(params: BaselineParams, plan: Plan, noises: Noises) -> Ledger:
    """A ledger with all that DP-SGD does in the whole stream."""
    made = Ledger(plan.privacy.delta, plan.privacy.adjacency, plan.recurrence)
    for task in range(plan.n_tasks):
        for charge in charges(params, plan, noises, task):
            made.spend(charge.event, task=task, what=charge.what, people_of=charge.people_of)
    return made


@dataclass(frozen=True, slots=True)
class CopyNoise:
    """How a text is released under mechanism = fn.

    `ratio`: standard deviation on each value of an embedding over the clip; `epsilon_labels`: of the random answer that
    stands for its label, inf for the label itself.
    """

    ratio: float
    epsilon_labels: float


def copy_noise(params: BaselineParams, plan: Plan, epsilon: float) -> CopyNoise:
    """The noise of a budget for a whole text, or for one token in one place. The label's share comes off first.

    Where one person has a text in every task and the budget is the total, as many tokens and labels count as he has.
    """
    if math.isinf(epsilon):
        return CopyNoise(0.0, math.inf)
    n_texts = plan.n_tasks if plan.recurrence == "every" and params.budget == "total" else 1
    label = params.label_share * epsilon
    n_tokens = params.length * n_texts if params.budget_per == "text" else 1
    ratio = token_noise.ratio_for(epsilon - label, plan.privacy.delta, n_tokens)
    return CopyNoise(ratio, label / n_texts if label > 0 else math.inf)


def copies_ledger(params: BaselineParams, plan: Plan, noise: CopyNoise) -> Ledger:
    """A ledger with one noisy copy of every text of the stream, as the mechanisms write it."""
    made = Ledger(plan.privacy.delta, plan.privacy.adjacency, plan.recurrence)
    for task in range(plan.n_tasks):
        made.spend(_gaussian(noise.ratio / math.sqrt(params.length)), task=task, what="noisy embeddings")
        if math.isfinite(noise.epsilon_labels):
            made.spend(LocalDpEvent(noise.epsilon_labels), task=task, what="random answers")
    return made


def sentence(params: BaselineParams, plan: Plan, epsilon: float) -> str:
    """Noise and total of a finite budget, in one sentence for the form."""
    if params.mechanism == "fn":
        copy = copy_noise(params, plan, epsilon)
        total = copies_ledger(params, plan, copy).epsilon()
        said = f"noise of {shown(copy.ratio)} times the clip on every token"
        return f"At ε = {epsilon:g}: {said}, total ε {shown(total)} for a text of {params.length} tokens."
    found = noises(params, plan, epsilon)
    said = f"noise multiplier {found.steps:g}"
    if isinstance(params, GemParams) and plan.n_tasks > 1 and found.references != found.steps:
        said += f", {found.references:g} on references"
    return f"At ε = {epsilon:g}: {said}, total ε {shown(ledger(params, plan, found).epsilon())}."


def _worst_off(params: BaselineParams, plan: Plan, noises: Noises) -> Sequence[dp.DpEvent]:
    """What is done to the texts of the first task's people: in later tasks they pay for all that anyone else pays for."""
    return next(iter(ledger(params, plan, noises).events_by_people().values()))


def _steps(params: BaselineParams, plan: Plan, noises: Noises, people_of: tuple[int, ...]) -> Charge:
    what = f"DP-SGD, {plan.n_steps} steps, sampling rate {plan.sample_rate:g}, clipping norm {params.clip_norm:g}"
    if noises.steps == 0:
        return Charge(dp.NonPrivateDpEvent(), what, people_of)
    return Charge(accounting.subsampled_gaussian(noises.steps, plan.sample_rate, plan.n_steps), what, people_of)


def _replays(params: ErParams, plan: Plan, noises: Noises, task: int) -> Charge:
    """One batch of the task's own texts and kept ones, under one noise."""
    rate = params.replay_rate(task, plan.task_size)
    what = (
        f"DP-SGD, {plan.n_steps} steps, sampling rate {plan.sample_rate:g}, of kept texts {rate:g}, clipping norm "
        f"{params.clip_norm:g}"
    )
    people = tuple(range(task + 1))
    if noises.steps == 0:
        return Charge(dp.NonPrivateDpEvent(), what, people)
    step = SampledGroupDpEvent(noises.steps, (rate,) * task + (plan.sample_rate,))
    return Charge(dp.SelfComposedDpEvent(step, plan.n_steps), what, people)


def _references(params: GemParams, plan: Plan, noises: Noises, past: int) -> Charge:
    what = f"reference gradients of task {past + 1}, {plan.n_steps} times, clipping norm {params.clip_norm:g}"
    event = _gaussian(noises.references)
    return Charge(event if noises.references == 0 else dp.SelfComposedDpEvent(event, plan.n_steps), what, (past,))


def _gaussian(noise_multiplier: float) -> dp.DpEvent:
    return dp.GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else dp.NonPrivateDpEvent()
