"""Checks of privacy numbers: each raises BadInput with the field, its value and what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real

from dpcl_core.errors import BadInput
from dpcl_core.spec import LARGEST_EPSILON, SMALLEST_DELTA

SMALLEST_SIGMA = 0.01  # of a noise multiplier that somebody asks about
# Of what somebody asks a calculator about: below, closed forms lose their digits; above, an answer takes minutes.
SMALLEST_ASKED_EPSILON, SMALLEST_ASKED_DELTA, MOST_ASKED_STEPS = 1e-6, 1e-100, 1_000_000


def check_positive(**named: float) -> None:
    """Each must be above 0; infinity is allowed."""
    for name, value in named.items():
        if not value > 0:
            raise BadInput(name, value, "must be a number above 0")


def check_finite(**named: float) -> None:
    """Each must be above 0 and finite."""
    for name, value in named.items():
        if not 0 < value < math.inf:
            raise BadInput(name, value, "must be a finite number above 0")


def check_budget(epsilon: float) -> None:
    """A budget must be above 0, finite and at most a million."""
    check_finite(epsilon=epsilon)
    if epsilon > LARGEST_EPSILON:
        raise BadInput("epsilon", epsilon, f"must be at most {LARGEST_EPSILON:,}: a larger budget protects nobody")


def check_noise(sigma: float) -> None:
    """A noise multiplier must be finite and at least a hundredth."""
    check_finite(sigma=sigma)
    if sigma < SMALLEST_SIGMA:
        raise BadInput("sigma", sigma, f"must be at least {SMALLEST_SIGMA:g}: less noise hides nobody")


def check_counts(**named: int) -> None:
    """Each must be a whole number of at least 1."""
    for name, count in named.items():
        if not isinstance(count, Integral):
            raise BadInput(name, count, "must be a whole number")
        if count < 1:
            raise BadInput(name, count, "must be at least 1")


def check_delta(delta: float) -> None:
    """Delta must be a probability other than 0 and 1."""
    if not 0 < delta < 1:
        raise BadInput("delta", delta, "must lie between 0 and 1, both excluded")


def check_accounted(delta: float) -> None:
    """Delta must be one at which the accountants are exact; closed forms are at any."""
    check_delta(delta)
    if delta < SMALLEST_DELTA:
        raise BadInput("delta", delta, f"must be at least {SMALLEST_DELTA:g}: the accountants resolve no smaller one")


def check_rate(sample_rate: float) -> None:
    """A sampling rate must be above 0 and at most 1."""
    if not 0 < sample_rate <= 1:
        raise BadInput("sample_rate", sample_rate, "must lie in (0, 1]")


def check_numbers(**named: float | None) -> None:
    """Each must be a number or None; before the other checks, which compare them."""
    for name, value in named.items():
        if value is not None and not isinstance(value, Real):
            raise BadInput(name, value, "must be a number")


def check_asked(epsilon: float | None, delta: float | None, n_steps: int) -> None:
    """What somebody asks a calculator about must be within what it can compute, and soon."""
    if epsilon is not None and epsilon < SMALLEST_ASKED_EPSILON:
        raise BadInput("epsilon", epsilon, f"must be at least {SMALLEST_ASKED_EPSILON:g}")
    if delta is not None and delta < SMALLEST_ASKED_DELTA:
        raise BadInput("delta", delta, f"must be at least {SMALLEST_ASKED_DELTA:g}")
    if n_steps > MOST_ASKED_STEPS:
        raise BadInput("steps", n_steps, f"must be at most {MOST_ASKED_STEPS:,}")
