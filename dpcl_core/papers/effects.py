"""Unpaired intervals of a difference: from printed standard deviations, and from our own seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy.special import stdtrit

from dpcl_core.figures.statistics import MIN_SEEDS, Interval
from dpcl_core.published import Published

LEVEL = 0.975  # of the t-quantile: 95 % intervals


def eq_23(first: tuple[float, float], second: tuple[float, float], n: int) -> Interval:
    """Difference of two means with the interval that Shihab et al. print (Eq. 23), each from n repetitions.

    Its quantile is that of a paired test (n - 1 degrees of freedom; 2.776 for 5), its standard error that of two independent
    samples. Args: mean and standard deviation of each.
    """
    mean = first[0] - second[0]
    half = float(stdtrit(n - 1, LEVEL)) * math.sqrt((first[1] ** 2 + second[1] ** 2) / n)
    return Interval(mean, mean - half, mean + half, n)


def of_printed(first: Published, second: Published) -> Interval | None:
    """The same for two printed numbers, in points; None unless both have deviations over the same number of repetitions."""
    if None in (first.percent, second.percent, first.percent_std, second.percent_std):
        return None
    if first.n_seeds is None or first.n_seeds != second.n_seeds or first.n_seeds < MIN_SEEDS:
        return None
    pairs = [(one.percent or 0.0, one.percent_std or 0.0) for one in (first, second)]
    return eq_23(pairs[0], pairs[1], first.n_seeds)


def unpaired(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """The same for our own values; None unless both sides have the same number, at least three."""
    if len(first) != len(second) or len(first) < MIN_SEEDS:
        return None
    return eq_23((fmean(first), stdev(first)), (fmean(second), stdev(second)), len(first))
