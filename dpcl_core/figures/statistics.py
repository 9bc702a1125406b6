"""Confidence intervals over seeds and the verdict on a paired difference, by Student's t.

Scores come in steps, so seeds can agree by luck, and a spread of zero is no certainty. Seeds also share the test examples:
one example more or less in the test data moves the difference of all seeds by a step alike, which their spread cannot show.
The interval of a difference therefore reaches a step to both sides at least: one test example where their number is known,
and never less than what sentences print.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from dpcl_core.figures.picture import counted, minus

MIN_SEEDS = 3  # with fewer an interval is almost meaningless: draw the dots instead
PRINTED = 0.1  # points: the last decimal place of a difference in a sentence
_MAX_SEEDS = 1000
_SAME = 1e-9  # points: rounding


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


def step(n_tested: float | None) -> float:
    """The least half width (points) of the interval of a difference of two scores on this many test examples."""
    return PRINTED if n_tested is None else max(PRINTED, 100 / n_tested)


def widened(difference: Interval, least: float = PRINTED) -> Interval:
    """The interval of a difference (points), which reaches at least so far to both sides."""
    if difference.low is None or difference.half_width >= least:
        return difference
    return replace(difference, low=difference.mean - least, high=difference.mean + least)


def verdict(differences: Sequence[float], first: str, second: str, *, n_tested: float | None = None) -> Verdict:
    """The verdict on paired differences first - second (points, one per seed, at least one), as the interval supports it.

    `n_tested`: how many test examples both scores are means over; None if unknown.
    """
    least = step(n_tested)
    mean = widened(interval(differences), least)
    seeds = counted(mean.n, "seed")
    better, worse = (first, second) if mean.mean >= 0 else (second, first)
    if mean.low is None or mean.high is None:
        sentence = f"Cannot tell from {seeds}: at least {MIN_SEEDS} seeds that both runs share are needed."
        return Verdict(mean, False, sentence)
    if max(map(abs, differences)) < _SAME:
        return Verdict(mean, False, f"{first} and {second} agree exactly in each of {seeds}.")
    size = abs(mean.mean)
    if size - mean.half_width > _SAME:
        between = f"{points_text(size - mean.half_width)} to {points_text(size + mean.half_width)}"
        return Verdict(mean, True, f"{better} is better than {worse} by {points_text(size)} points ({between}), {seeds}.")
    low, high = (minus(f"{end:+.1f}") for end in (mean.low, mean.high))
    range_text = f"the difference lies between {low} and {high} points ({seeds})"
    if mean.half_width <= least + _SAME:
        little = f"a difference of {least:.2g} points or less cannot be told with any number of seeds"
        return Verdict(mean, False, f"Cannot tell: {range_text}; {little}.")
    spread = float(np.std(differences, ddof=1))
    needed = next((n for n in range(mean.n + 1, _MAX_SEEDS + 1) if _half_width(spread, n) < size), None)
    advice = f"about {needed} seeds needed" if needed is not None else f"more than {_MAX_SEEDS:,} seeds would be needed"
    return Verdict(mean, False, f"Cannot tell yet: {range_text}; {advice}.")


def points_text(points: float) -> str:
    """Points (not negative) with one decimal place; with one digit where that would print as zero."""
    return f"{points:.1f}" if points >= PRINTED / 2 else f"{points:.1g}"


def interval_factor(n: int) -> float | None:
    """Half width of the 95 % interval of n values of this standard deviation; None with fewer than three."""
    return _half_width(1.0, n) if n >= MIN_SEEDS else None


def _half_width(spread: float, n: int) -> float:
    return float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)
