"""t-tests between two curves of average accuracy after every task, as printed in papers; descriptive only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from dpcl_core.errors import BadInput
from dpcl_core.figures.picture import counted

CAVEAT = (
    "Descriptive only. Each point of a curve is an average that holds the tasks of the points before it, so they are no "
    "independent samples, and p is not the chance of an error. For a verdict look at the paired difference over seeds."
)
_NO_SPREAD = 1e-12  # accuracies have 16 digits: a smaller spread is rounding


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-tailed t-test of the first `n_tasks` points of two curves.

    `difference`: of their means. `t` and `p` are None where there is no test; `why_not` gives the reason.
    """

    n_tasks: int
    difference: float
    t: float | None
    p: float | None
    why_not: str = ""


def p_values(first: Sequence[float | None], second: Sequence[float | None], *, is_paired: bool = True) -> list[PValue]:
    """Tests of acc_1..acc_n of two runs for every number n of tasks from 2 on (Lai et al. 2022, "p value" curves).

    `first` and `second`: average accuracy after each task, in [0, 1], None where nothing was evaluated; such a task is left
    out of both. Paired: test of the differences by task. Not paired: Student's test with equal variances. The values are
    descriptive (`CAVEAT`). Raises BadInput where the curves differ in length or are shorter than two.
    """
    if len(first) != len(second):
        lengths = f"{len(first)} and {len(second)} tasks"
        raise BadInput("curves", lengths, "must be of the same length for a t-test; choose two runs with as many tasks")
    if len(first) < 2:
        raise BadInput("curves", counted(len(first), "task"), "must have two tasks for a t-test")
    tests = []
    for n in range(2, len(first) + 1):
        pairs = [(a, b) for a, b in zip(first[:n], second[:n], strict=True) if a is not None and b is not None]
        values = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        tests.append(_tested(n, values[:, 0], values[:, 1], is_paired))
    return tests


def _tested(n_tasks: int, first: NDArray[np.float64], second: NDArray[np.float64], is_paired: bool) -> PValue:
    n = len(first)
    if n < 2:
        return PValue(n_tasks, math.nan, None, None, "fewer than two tasks were evaluated in both runs")
    mean = float((first - second).mean())
    if is_paired:
        spread, freedom = float((first - second).std(ddof=1)), n - 1
        error = spread / math.sqrt(n)
    else:
        spread, freedom = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2), 2 * n - 2
        error = spread * math.sqrt(2 / n)
    if spread <= _NO_SPREAD:
        if abs(mean) <= _NO_SPREAD:
            return PValue(n_tasks, mean, None, None, "the two curves are equal so far")
        what = "the difference is the same after every task" if is_paired else "neither curve has moved"
        return PValue(n_tasks, mean, None, None, f"{what}, so there is no spread to hold it against")
    t = mean / error
    return PValue(n_tasks, mean, t, float(2 * stdtr(freedom, -abs(t))))
