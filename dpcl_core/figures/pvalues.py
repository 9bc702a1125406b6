"""t-tests between two curves of average accuracy after every task, as printed in papers; descriptive only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from dpcl_core.errors import BadInput
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, counted

_LEVELS = (0.05, 0.01)
CAVEAT = (
    "Descriptive only. Each point of a curve is an average that holds the tasks of the points before it, so they are no "
    "independent samples, and p is not the chance of an error. For a verdict look at the paired difference over seeds."
)
_NO_SPREAD = 1e-12  # accuracies have 16 digits: a smaller spread is rounding
_SMALLEST = 1e-12  # smaller values are drawn here: a few tasks cannot support less


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


def table(tests: Sequence[PValue]) -> pd.DataFrame:
    """Columns tasks, difference (mean, in [-1, 1]), t, p (NaN: no test), note."""
    rows = [(one.n_tasks, one.difference, one.t, one.p, one.why_not) for one in tests]
    columns = ["tasks", "difference", "t", "p", "note"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:4], "float64"))


def p_value_curve(results: Sequence[PValue], *, names: tuple[str, str], dark: bool = False) -> Picture:
    """The p value by number of tasks on a logarithmic axis, with lines at 0.05 and 0.01; gaps where there is no test."""
    tests = [one for one in results if one.p is not None]
    reasons = dict.fromkeys(one.why_not for one in results if one.p is None)
    missing = f"No test after {_numbers([one.n_tasks for one in results if one.p is None])}: {'; '.join(reasons)}."
    if not tests:
        sentence = f"{names[0]} and {names[1]}: {missing[0].lower()}{missing[1:]}"
        return theme.nothing(sentence, dark, 200)
    drawn = [None if one.p is None else max(one.p, _SMALLEST) for one in results]
    low = min(min(value for value in drawn if value is not None) / 2, _LEVELS[-1] / 4)
    powers = [10.0**-digits for digits in range(math.ceil(-math.log10(low)))]
    inks, colour = theme.ink(dark), theme.colour_of_series(0, dark)
    figure = theme.figure(
        dark,
        height=360,
        xaxis=theme.task_axis(2, results[-1].n_tasks),
        yaxis={
            "title": "p (two-tailed t-test)", "type": "log", "range": [math.log10(low), 0.08],
            "tickvals": powers, "ticktext": [f"{power:g}" for power in powers],
        },
        margin={"l": 56, "r": 52, "t": 12, "b": 40},
    )  # fmt: skip
    for level in _LEVELS:
        figure.add_hline(y=level, line={"color": inks.soft, "width": 1, "dash": "dash"})
        figure.add_annotation(
            text=f"{level:g}", x=1, xref="paper", y=math.log10(level), xanchor="left", showarrow=False, xshift=4,
            font={"color": inks.soft, "size": 12},
        )  # fmt: skip
    line = theme.line(
        [one.n_tasks for one in results], drawn, "", colour, "%{x} tasks: p = %{y:.2g}, %{text}", size=6,
        mode="lines+markers" if len(results) <= 30 else "lines",
    )  # fmt: skip
    figure.add_trace(line.update(text=[f"{100 * one.difference:+.1f} points" for one in results], connectgaps=False))
    finding = _finding(tests, len(results), names)
    return Picture(figure, f"{finding} {missing}" if reasons else finding)


def _finding(tests: Sequence[PValue], n_curve: int, names: tuple[str, str]) -> str:
    last = tests[-1]
    size = f"{abs(100 * last.difference):.1f} points"
    ahead = names[0] if last.difference > 0 else names[1]
    where = f"{ahead} is ahead by {size} on average" if last.difference else "their means are equal"
    counts = " and ".join(f"below {level:g} at {sum((one.p or 0) < level for one in tests)}" for level in _LEVELS)
    return f"After {last.n_tasks} tasks p = {last.p:.2g}: {where}. Of {n_curve} points, {counts}."


def _numbers(n_tasks: Sequence[int]) -> str:
    return f"{', '.join(map(str, n_tasks[:6]))}{' and more' if len(n_tasks) > 6 else ''} tasks"
