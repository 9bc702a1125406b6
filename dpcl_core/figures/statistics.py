"""Intervals over seeds and the verdict on a paired difference. Student's t, because seeds are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

MIN_SEEDS = 3  # below this an interval says next to nothing: draw the dots instead
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
    """A paired difference (in points), whether its sign is clear, and about how many seeds would make it so.

    `n_needed` is None where the sign is clear already or no number of seeds up to 1,000 would do.
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
    """What paired differences first - second (points, one a seed) say; never more than the interval allows.

    Raises ValueError without any pair.
    """
    found = interval(differences)
    better, worse = (first, second) if found.mean >= 0 else (second, first)
    if found.low is None or found.high is None:
        sentence = f"Cannot tell from {_seeds(found.n)}: at least {MIN_SEEDS} seeds that both runs share are needed."
        return Verdict(found, False, MIN_SEEDS, sentence)
    if not any(differences):
        return Verdict(found, False, None, f"{first} and {second} agree exactly in each of {_seeds(found.n)}.")
    if found.low > 0 or found.high < 0:
        low, high = sorted((abs(found.low), abs(found.high)))
        size = f"{abs(found.mean):.1f} points ({low:.1f} to {high:.1f})"
        return Verdict(found, True, None, f"{better} is better than {worse} by {size}, {_seeds(found.n)}.")
    spread = float(np.std(differences, ddof=1))
    needed = next(
        (n for n in range(found.n + 1, MAX_SEEDS + 1) if _half_width(spread, n) < abs(found.mean)),
        None,
    )
    range_text = f"the difference lies between {found.low:+.1f} and {found.high:+.1f} points"
    advice = f"about {needed} seeds needed" if needed is not None else f"more than {MAX_SEEDS:,} seeds would be needed"
    return Verdict(found, False, needed, f"Cannot tell yet: {range_text} ({_seeds(found.n)}); {advice}.")


def interval_factor(n: int) -> float | None:
    """Half width of the 95 % interval of n values, in their standard deviations; None with fewer than three."""
    return _half_width(1.0, n) if n >= MIN_SEEDS else None


def _half_width(spread: float, n: int) -> float:
    return float(stdtrit(n - 1, 0.975)) * spread / math.sqrt(n)


def _seeds(n: int) -> str:
    return f"{n} seed{'s' if n != 1 else ''}"
