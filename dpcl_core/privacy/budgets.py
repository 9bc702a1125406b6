"""Privacy budgets: what numbers are allowed, and the budget of one row of a person who has several. Loads no accountant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Protocol

from dpcl_core.errors import BadInput
from dpcl_core.spec import LARGEST_EPSILON, SMALLEST_DELTA, Adjacency, PrivacySpec

if TYPE_CHECKING:
    from dpcl_core.privacy.dp_events import dp

SMALLEST_SIGMA = 0.01  # of a noise multiplier that somebody asks about: less noise hides nobody


# Each check raises BadInput with the field, its value and what is allowed.


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


# Several rows of one person: the budget of a row with which the person stays within the asked one, and back.
#
# Group privacy (Dwork and Roth 2014, Theorem 2.2, with its delta): let a release be (e, d)-DP for one row, and let a person
# have at most m rows. A chain of m neighbours leads from the data with the person to those without, one row at a time, so
# the probability of any outcome grows at most to
#
#     P0 <= exp(e) P1 + d <= exp(e) (exp(e) P2 + d) + d <= ... <= exp(m e) Pm + d (1 + exp(e) + ... + exp((m - 1) e)):
#
# the person has epsilon m e at delta d (exp(m e) - 1) / (exp(e) - 1). That holds for every mechanism and however the rows
# are spread over tasks, as each step of the chain changes a single row. It needs that the m rows that count are chosen by a
# rule under which no other person's rows matter (`data.outline`), and that each row alone decides which task it is in.


class Accountant(Protocol):
    """Computes the epsilon of events; keeps no state between calls. Raises Unaccountable."""

    def epsilon(self, events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> float: ...


_STEPS, _UP = 100, 1 + 1e-6
# Of a row's delta. An epsilon is accounted a little above the asked one, which leaves a row a little less.
_LEAST = SMALLEST_DELTA / 10


def for_a_row(privacy: PrivacySpec, size: int) -> PrivacySpec:
    """The budgets and the delta of a row with which a person of `size` rows stays within these.

    Every budget is divided by `size`; the one delta is the least that any of them needs.
    """
    if size == 1:
        return privacy
    of_row = tuple(epsilon / (size * _UP**2) for epsilon in privacy.epsilons)  # `epsilon_of` is at most _UP too large
    finite = [epsilon for epsilon in of_row if math.isfinite(epsilon)]
    return replace(privacy, epsilons=of_row, delta=privacy.delta / _growth(max(finite, default=0.0), size))


def smallest_delta(epsilon: float, size: int) -> float:
    """The smallest delta of a person of `size` rows at which the accountants resolve that of a row; infinite for none."""
    return SMALLEST_DELTA * (_growth(epsilon / size, size) if size > 1 else 1.0)


def epsilon_of(accountant: Accountant, events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency, size: int) -> float:
    """Epsilon of a person with `size` rows, at this delta: m e for the least e that is large enough for its own delta.

    e(d) falls with d, and the delta that is left for a row, delta / (1 + exp(e) + ...), falls with e. So from e(delta) on,
    every try that is too small leads to a larger one, and the first that suffices is at most 1e-6 of itself too large.
    Infinite where none does, and where a row would need a delta that the accountants do not resolve.
    """
    epsilon = accountant.epsilon(events, delta, adjacency)
    if size == 1:
        return epsilon
    for _ in range(_STEPS):
        of_row = delta / _growth(epsilon, size)
        if of_row < _LEAST:
            return math.inf
        needed = accountant.epsilon(events, of_row, adjacency)
        if needed <= epsilon:
            return size * epsilon
        epsilon = needed * _UP
    return math.inf


def _growth(epsilon: float, size: int) -> float:
    """1 + exp(epsilon) + ... + exp((size - 1) epsilon), rounded up."""
    if (size - 1) * epsilon > 700:
        return math.inf
    return math.fsum(math.exp(place * epsilon) for place in range(size)) * (1 + 1e-12)
