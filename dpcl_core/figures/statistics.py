"""Confidence intervals over seeds and the verdict on a paired difference, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

MIN_SEEDS = 3  # with fewer an interval is almost meaningless: draw the dots instead
MAX_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval; `low` and `high` are None with fewer than three values."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A paired difference (in points), whether its sign is clear, and about how many seeds would be needed.

    `n_needed` is None where the sign is clear already or no number of seeds up to 1,000 is enough.
    """

    interval: Interval
    is_clear: bool
    n_needed: int | None
    sentence: str


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % t-interval of independent values."""
    n = len(values)
    mean = float(np.mean(values))
    if n < MIN_SEEDS:
        return Interval(mean, None, None, n)
    half = _half_width(float(np.std(values, ddof=1)), n)
    return Interval(mean, mean - half, mean + half, n)


def verdict(differences: Sequence[float], first: str, second: str) -> Verdict:
    """The verdict on paired differences first - second (points, one per seed), as far as the interval supports it.

    Raises ValueError without any pair.
    """
    mean = interval(differences)
    better, worse = (first, second) if mean.mean >= 0 else (second, first)
    if mean.low is None or mean.high is None:
        sentence = f"Cannot tell from {_seeds(mean.n)}: at least {MIN_SEEDS} seeds that both runs share are needed."
        return Verdict(mean, False, MIN_SEEDS, sentence)
    if not any(differences):
        return Verdict(mean, False, None, f"{first} and {second} agree exactly in each of {_seeds(mean.n)}.")
    if mean.low > 0 or mean.high < 0:
        low, high = sorted((abs(mean.low), abs(mean.high)))
        size = f"{abs(mean.mean):.1f} points ({low:.1f} to {high:.1f})"
        return Verdict(mean, True, None, f"{better} is better than {worse} by {size}, {_seeds(mean.n)}.")
    spread = float(np.std(differences, ddof=1))
    needed = next(
        (n for n in range(mean.n + 1, MAX_SEEDS + 1) if _half_width(spread, n) < abs(mean.mean)),
        None,
    )
    range_text = f"the difference lies between {mean.low:+.1f} and {mean.high:+.1f} points"
    advice = f"about {needed} seeds needed" if needed is not None else f"more than {MAX_SEEDS:,} seeds would be needed"
    return Verdict(mean, False, needed, f"Cannot tell yet: {range_text} ({_seeds(mean.n)}); {advice}.")


def interval_factor(n: int) -> float | None:
    """Half width of the 95 % interval of n values of this standard deviation; None with fewer than three."""
    return _half_width(1.0, n) if n >= MIN_SEEDS else None


def _half_width(spread: float, n: int) -> float:
    return float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)


def _seeds(n: int) -> str:
    return f"{n} seed{'s' if n != 1 else ''}"
