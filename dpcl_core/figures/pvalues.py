"""The curve and the table of p values (`figures.t_tests`) by number of tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, minus
from dpcl_core.figures.t_tests import PValue

_LEVELS = (0.05, 0.01)
_SMALLEST = 1e-12  # smaller values are drawn here: a few tasks cannot support less


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
    figure.add_trace(line.update(text=[minus(f"{100 * one.difference:+.1f} points") for one in results], connectgaps=False))
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
