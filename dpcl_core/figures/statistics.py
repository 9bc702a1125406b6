"""Confidence intervals over seeds and the verdict on a paired difference, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from dpcl_core.figures.picture import counted, minus

MIN_SEEDS = 3  # with fewer an interval is almost meaningless: draw the dots instead
_MAX_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval; `low` and `high` are None with fewer than three values."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float:
        """From the mean to either end; 0 without an interval."""
        return self.high - self.mean if self.high is not None else 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """A paired difference (in points), whether its sign is clear, and a sentence on it.

    Where the sign is not clear, the sentence says about how many seeds would be needed, up to 1,000.
    """

    interval: Interval
    is_clear: bool
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
    """The verdict on paired differences first - second (points, one per seed, at least one), as the interval supports it."""
    mean = interval(differences)
    seeds = counted(mean.n, "seed")
    better, worse = (first, second) if mean.mean >= 0 else (second, first)
    if mean.low is None or mean.high is None:
        sentence = f"Cannot tell from {seeds}: at least {MIN_SEEDS} seeds that both runs share are needed."
        return Verdict(mean, False, sentence)
    if not any(differences):
        return Verdict(mean, False, f"{first} and {second} agree exactly in each of {seeds}.")
    if mean.low > 0 or mean.high < 0:
        low, high = sorted((abs(mean.low), abs(mean.high)))
        size = f"{abs(mean.mean):.1f} points ({low:.1f} to {high:.1f})"
        return Verdict(mean, True, f"{better} is better than {worse} by {size}, {seeds}.")
    spread = float(np.std(differences, ddof=1))
    needed = next((n for n in range(mean.n + 1, _MAX_SEEDS + 1) if _half_width(spread, n) < abs(mean.mean)), None)
    range_text = f"the difference lies between {minus(f'{mean.low:+.1f}')} and {minus(f'{mean.high:+.1f}')} points"
    advice = f"about {needed} seeds needed" if needed is not None else f"more than {_MAX_SEEDS:,} seeds would be needed"
    return Verdict(mean, False, f"Cannot tell yet: {range_text} ({seeds}); {advice}.")


def interval_factor(n: int) -> float | None:
    """Half width of the 95 % interval of n values of this standard deviation; None with fewer than three."""
    return _half_width(1.0, n) if n >= MIN_SEEDS else None


def _half_width(spread: float, n: int) -> float:
    return float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)
