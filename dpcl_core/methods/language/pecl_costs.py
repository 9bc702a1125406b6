"""Privacy costs of the repaired PeCL, and the noise that a budget requires: public arithmetic, before any text is read.

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
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting as dp

from dpcl_core.methods.common.dpsgd import PublicSizes, Schedule, each_task
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.privacy import accounting, text_mechanisms
from dpcl_core.privacy.accounting import LocalDpEvent
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import PrivacySpec, RunSpec


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
    plan = schedule(params, task_size)
    steps = accounting.of_steps(plan.steps(multiplier))
    if not params.releases_mean_score:
        return [steps]
    return [steps, dp.GaussianDpEvent(params.mean_score_std * task_size * SENSITIVITY[privacy.adjacency])]


def noises(params: PeclParams, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> Noises:
    """The noise that keeps everything done to one person within (epsilon, delta); budget = per-task: one task of it.

    Under mode = local with budget_per = token: one token in one position; the whole text then costs more.
    """
    if math.isinf(epsilon):
        return Noises()
    n_uses = facts.n_tasks if facts.recurrence == "every" and params.budget == "total" else 1
    if not params.is_local:
        size = facts.task_size
        return Noises(
            multiplier=accounting.calibrated(
                lambda value: list(events(params, privacy, size, value)) * n_uses, epsilon, privacy.delta, privacy.adjacency
            )
        )
    n_tokens = params.length if params.budget_per == "text" else 1
    ratio = text_mechanisms.ratio_for((1 - params.label_share) * epsilon, privacy.delta, n_tokens, n_uses)
    return Noises(ratio=ratio, labels=params.label_share * epsilon / n_uses if params.label_share > 0 else math.inf)


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.planned`): a training a task with its mean score, or noisy copies."""
    params = spec.params
    assert isinstance(params, PeclParams)
    noise = noises(params, spec.privacy, facts, epsilon)
    if not params.is_local:
        return each_task(ledger, facts, *events(params, spec.privacy, facts.task_size, noise.multiplier))
    labels = [LocalDpEvent(noise.labels)] if math.isfinite(noise.labels) else []
    return each_task(ledger, facts, dp.GaussianDpEvent(noise.ratio / math.sqrt(params.length)), *labels)
