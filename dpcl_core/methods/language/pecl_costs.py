"""What the repaired PeCL costs whom, and the noise that a budget leads to: public arithmetic, before any text is read.

central. A person is one text of one task ("once"), or has one in every task ("every"). Each step is a Poisson-sampled
Gaussian on the sum of clipped gradients. The term for sensitive tokens is part of each text's own loss, a function of that
text, of weights made so far and of public numbers: it changes nothing. L_reg is made of weights, Omega of weights and public
texts, and lambda_dyn of the released mean score: one Gaussian more for each task, of sensitivity 1 over the nominal number
of texts.

local. Every token of a text leaves one noisy vector, every label one answer; what is made of them is post-processing. Scores
and Omega come from public texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import dp_accounting as dp

from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.privacy import accounting, token_noise
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.spec import PrivacySpec


@dataclass(frozen=True, slots=True)
class Noises:
    """`multiplier`: of DP-SGD; `ratio`: sigma / C on a token's embedding; 0: none. `labels`: epsilon of an answer."""

    multiplier: float = 0.0
    ratio: float = 0.0
    labels: float = math.inf


def schedule(params: PeclParams, task_size: float) -> Schedule:
    """Public numbers of a task's steps; under local the rate is not used."""
    rate = params.sample_rate(task_size)
    return Schedule(rate, params.n_steps(task_size), params.clip_norm, params.learning_rate, rate * task_size)


def events(params: PeclParams, privacy: PrivacySpec, task_size: float, multiplier: float) -> Sequence[dp.DpEvent]:
    """What a task costs each of its people under mode = central."""
    plan = schedule(params, task_size)
    steps = accounting.subsampled_gaussian(multiplier, plan.sample_rate, plan.n_steps)
    if not params.releases_mean_score:
        return [steps]
    return [steps, dp.GaussianDpEvent(params.mean_score_std * task_size * SENSITIVITY[privacy.adjacency])]


def noises(params: PeclParams, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> Noises:
    """The noise with which a person's whole life stays within (epsilon, delta); budget = per-task: one task of it.

    Under local with budget_per = token: one token in one place, whatever the text then costs.
    """
    if math.isinf(epsilon):
        return Noises()
    n_lives = facts.n_tasks if facts.recurrence == "every" and params.budget == "total" else 1
    if not params.is_local:
        size = facts.task_size
        return Noises(
            multiplier=accounting.calibrated(
                lambda value: list(events(params, privacy, size, value)) * n_lives, epsilon, privacy.delta, privacy.adjacency
            )
        )
    n_tokens = params.length if params.budget_per == "text" else 1
    ratio = token_noise.ratio_for((1 - params.label_share) * epsilon, privacy.delta, n_tokens, n_lives)
    return Noises(ratio=ratio, labels=params.label_share * epsilon / n_lives if params.label_share > 0 else math.inf)
