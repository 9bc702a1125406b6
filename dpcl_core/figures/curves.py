"""Accuracy and forgetting over tasks: one line per budget, a 95 % band over seeds, or dots where there are few seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpcl_core import metrics
from dpcl_core.events import References
from dpcl_core.figures import svg_parts, theme
from dpcl_core.figures.picture import BREAK, Picture, epsilon_label, epsilon_phrase, run_label
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval
from dpcl_core.privacy.statement import Standing
from dpcl_core.spec import LabelSetting

_HEIGHT = 400
_TOTAL = ", total"  # second line of a name
_NAMES_ROOM = 84.0  # pixels right of the lines for their names
_LABEL_GAP = 5.2  # percentage points between two names at line ends, at _HEIGHT
_NO_FORGETTING = "Forgetting is defined from the second task on."


class Series(NamedTuple):
    """A run among several in one figure.

    `rows`: columns epsilon, seed, after_task, on_task (from 0), accuracy (in [0, 1]). `standing`: the kind of its budgets;
    those that do not bound all releases are named and drawn differently.
    """

    name: str
    rows: pd.DataFrame
    colour: str
    labels: LabelSetting = "prior-const"
    standing: Standing = "bound"

    @property
    def label(self) -> str:
        """Its name, marked where its budgets do not bound all releases."""
        return run_label(self.name, self.standing)


def accuracy_over_tasks(
    accuracy: pd.DataFrame, *, n_tasks: int, labels: LabelSetting = "prior-const", score: str = "accuracy",
    standing: Standing = "bound", references: References | None = None, is_ghost: bool = False, dark: bool = False,
) -> Picture:  # fmt: skip
    """Mean accuracy on the tasks seen so far, after each task.

    Columns and `standing` as of a `Series`; missing rows leave a gap. An empty frame gives an empty picture. `score`: the
    name of the score. `references`: levels to draw; they are scores after the last task. `is_ghost`: the run has other
    settings than the one beside it, and its lines are grey.
    """
    if accuracy.empty:
        return theme.nothing("The first point appears when a model has been tested.", dark, _HEIGHT)
    per_seed = mean_so_far(accuracy)
    lines = _by_budget(per_seed, labels, standing, dark)
    if is_ghost:
        lines = [line._replace(colour=theme.ink(dark).soft) for line in lines]
    chart, _ = _chart(lines, n_tasks, _accuracy_axis(score), dark, references)
    return chart.picture(_accuracy_finding(per_seed, n_tasks, score, standing))


def forgetting_over_tasks(
    accuracy: pd.DataFrame, *, n_tasks: int, labels: LabelSetting = "prior-const", standing: Standing = "bound",
    dark: bool = False,
) -> Picture:  # fmt: skip
    """Average forgetting (points) after each task from the second on; undefined and not drawn before.

    Columns and `standing` as of a `Series`.
    """
    per_seed = forgetting_so_far(accuracy)
    if per_seed.empty:
        return theme.nothing(_NO_FORGETTING, dark, _HEIGHT)
    lines = _by_budget(per_seed, labels, standing, dark)
    chart, _ = _chart(lines, n_tasks, _forgetting_axis(lines), dark)
    last = int(per_seed["after_task"].max())
    final = per_seed[per_seed["after_task"] == last].groupby("epsilon")["value"].mean()
    most, least = (float(epsilon) for epsilon in (final.idxmax(), final.idxmin()))
    finding = f"After {_tasks(last + 1)}, {100 * final[most]:.1f} points of an old task are lost on average "
    finding += epsilon_phrase(most, standing)
    return chart.picture(
        f"{finding}, {100 * final[least]:.1f} {epsilon_phrase(least, standing)}." if most != least else f"{finding}."
    )


def compared_over_tasks(
    runs: Sequence[Series], *, n_tasks: int, of: Literal["accuracy", "forgetting"] = "accuracy", score: str = "accuracy",
    references: References | None = None, dark: bool = False,
) -> Picture:  # fmt: skip
    """Several runs in one figure, one line each, of one budget each. Options as of `accuracy_over_tasks`.

    `of`: mean accuracy on the tasks seen so far, or average forgetting from the second task on.
    """
    so_far = mean_so_far if of == "accuracy" else forgetting_so_far
    lines = [run._replace(name=run.label, rows=so_far(run.rows)) for run in runs]
    return averages_over_tasks(lines, n_tasks=n_tasks, of=of, score=score, references=references, dark=dark)


def averages_over_tasks(
    runs: Sequence[Series], *, n_tasks: int, of: Literal["accuracy", "forgetting"] = "accuracy", score: str = "accuracy",
    printed: Mapping[str, float] | None = None, references: References | None = None, dark: bool = False,
) -> Picture:  # fmt: skip
    """The figure of `compared_over_tasks` from averages: rows with columns seed, after_task (from 0), value (in [0, 1]).

    `printed`: by a run's name, the number after the last task (percent) that a paper prints, drawn as a hollow diamond.
    """
    is_accuracy = of == "accuracy"
    lines = [line for line in runs if not line.rows.empty]
    if not lines:
        missing = "None of the chosen runs has a point here yet." if is_accuracy else _NO_FORGETTING
        return theme.nothing(missing, dark, _HEIGHT)
    axis = _accuracy_axis(score) if is_accuracy else _forgetting_axis(lines)
    is_listed = max(svg_parts.width(line.name) for line in lines) > _NAMES_ROOM
    chart, ends = _chart(lines, n_tasks, axis, dark, references, is_listed=is_listed)
    for line in lines:
        if (value := (printed or {}).get(line.name)) is not None:
            marker = {"color": line.colour, "size": 12, "symbol": "diamond-open", "line": {"width": 2, "color": line.colour}}
            hover = f"{line.name}, printed: %{{y:.1f}}"
            chart.marks([n_tasks], [value], f"{line.name}: printed", marker, hover, showlegend=False)
    ranked = list(zip(lines, ends, strict=True))
    ranked.sort(key=lambda pair: -pair[1][1].mean if is_accuracy else 0)
    sentences = [
        f"{line.name}: {_amount(stats) if is_accuracy else f'{100 * stats.mean:.1f} points lost'} after {_tasks(task)}"
        for line, (task, stats) in ranked
    ]
    return chart.picture("; ".join(sentences) + ".")


def mean_so_far(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy on the tasks seen so far. Columns: epsilon, seed, after_task, value (in [0, 1])."""
    grouped = accuracy.groupby(["epsilon", "seed", "after_task"], as_index=False)["accuracy"].mean()
    return grouped.rename(columns={"accuracy": "value"})


def forgetting_so_far(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Average forgetting after each task from the second on. Columns: epsilon, seed, after_task, value (in [-1, 1]).

    Rounded to twelve decimals: differences that cancel leave some 1e-17, which would get an axis of its own.
    """
    rows = [
        {"epsilon": epsilon, "seed": seed, "after_task": k, "value": round(value, 12)}
        for (epsilon, seed), cell in accuracy.groupby(["epsilon", "seed"])
        for k, value in enumerate(metrics.average_forgetting(matrix_of(cell)))
        if value is not None
    ]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "value"])


def matrix_of(cell: pd.DataFrame) -> list[list[float | None]]:
    """The accuracy matrix of one model from its rows: [after_task][on_task], None where not evaluated."""
    n = int(cell["after_task"].max()) + 1
    matrix: list[list[float | None]] = [[None] * n for _ in range(n)]
    for k, i, value in zip(cell["after_task"], cell["on_task"], cell["accuracy"], strict=True):
        matrix[int(k)][int(i)] = float(value)
    return matrix


_End = tuple[int, Interval]  # of a line: the task (from 1), and the values there (shares) over the seeds


def _by_budget(per_seed: pd.DataFrame, labels: LabelSetting, standing: Standing, dark: bool) -> list[Series]:
    """The lines of one run, one per budget; without noise there is a single kind of budget."""
    return [
        Series(
            epsilon_label(epsilon, standing), rows, theme.colour_of_epsilon(epsilon, dark), labels,
            standing if math.isfinite(epsilon) else "bound",
        )
        for epsilon, rows in per_seed.groupby("epsilon")
    ]  # fmt: skip


def _accuracy_axis(score: str) -> theme.Properties:
    return theme.percent_axis(title=f"{score} on the tasks seen so far")


def _forgetting_axis(lines: Sequence[Series]) -> theme.Properties:
    values = 115 * pd.concat([line.rows["value"] for line in lines])
    ends = [min(-1.0, float(values.min())), max(10.0, float(values.max()))]
    return {"title": "points lost since the best, mean of old tasks", "range": ends, "zeroline": True}


def _chart(
    lines: Sequence[Series], n_tasks: int, axis: theme.Properties, dark: bool, references: References | None = None, *,
    is_listed: bool = False,
) -> tuple[theme.Chart, list[_End]]:  # fmt: skip
    """All lines, with their names at their ends within the axis, or in a legend above; and the ends.

    Rows: columns seed, after_task, value.
    """
    room = 24 * math.ceil(len(lines) / 2) if is_listed else 0
    margin = (48, 16, 12 + room, 40) if is_listed else (48, 84, 12, 40)  # names at the right
    chart = theme.Chart(dark, _HEIGHT + room, theme.task_axis(1, n_tasks), axis, legend_room=room, margin=margin)
    ends = [_draw(chart, line, min(0.0, math.copysign(1.0, axis["range"][0]))) for line in lines]
    if is_listed:
        names = {line.name for line in lines}
        for trace in chart.traces:
            trace["showlegend"] = trace.get("name") in names
        chart.references(references)
        return chart, ends
    low, high = axis["range"][0], min(axis["range"][1], 100)
    gap = max(line.name.count(_TOTAL) + 1 for line in lines) * _LABEL_GAP * (high - low) / 100
    named = [
        (line.name.replace(_TOTAL, f",{BREAK}{_TOTAL[2:]}"), task, 100 * stats.mean, line.colour)
        for line, (task, stats) in zip(lines, ends, strict=True)
    ]
    chart.end_names(named, gap, low + gap / 2, high, xshift=9, size=12.5, align="left")
    chart.references(references)
    return chart, ends


def _draw(chart: theme.Chart, run: Series, lowest: float) -> _End:
    """Adds one line with its band or dots; gives its end. `lowest`: that its values can be."""
    by_task = {int(k): _shares(values.tolist(), lowest) for k, values in run.rows.groupby("after_task")["value"]}
    stats, x = list(by_task.values()), np.array(list(by_task), dtype=np.float64) + 1
    symbol = theme.MARKERS[run.labels]
    # Lists read from the data, which nothing bounds, have dots of their own.
    dash = theme.DASHES[run.labels] if run.standing in ("bound", "none") else theme.CLAIMED_DASH
    if all(s.n >= MIN_SEEDS for s in stats):
        low, high = ([100 * end for s in stats if (end := getattr(s, side)) is not None] for side in ("low", "high"))
        chart.band(x, low, high, run.colour)
    else:
        marker = {"color": theme.translucent(run.colour, 0.55), "size": 6, "symbol": symbol}
        chart.marks(
            run.rows["after_task"] + 1, 100 * run.rows["value"], f"{run.name}: single seeds", marker,
            "seed %{customdata}: %{y:.1f} %", customdata=run.rows["seed"],
        )  # fmt: skip
    shown_x, shown_y = theme.decimated(x, 100 * np.array([s.mean for s in stats]))
    mode, hover = "lines+markers" if len(x) <= 30 else "lines", f"{run.name}, task %{{x}}: %{{text}}"
    line = chart.line(shown_x, shown_y, run.name, run.colour, hover, dash=dash, symbol=symbol, size=6, mode=mode)
    line |= {"text": [_amount(s) for s in stats]} if len(shown_x) == len(x) else {"hovertemplate": None}
    return int(x[-1]), stats[-1]


def _shares(values: Sequence[float], lowest: float = 0.0) -> Interval:
    """The interval over seeds, without what no value can be: shares end at 1, and begin at `lowest`."""
    known = interval(values)
    if known.low is None or known.high is None:
        return known
    return replace(known, low=max(lowest, known.low), high=min(1.0, known.high))


def _amount(mean_interval: Interval) -> str:
    mean = f"{100 * mean_interval.mean:.1f} %"
    if mean_interval.low is None or mean_interval.high is None:
        return f"{mean} ({'a single draw' if mean_interval.n == 1 else f'{mean_interval.n} draws'})"
    return f"{mean} ({100 * mean_interval.low:.1f} to {100 * mean_interval.high:.1f})"


def _tasks(k: int) -> str:
    return "the first task" if k == 1 else f"{k} tasks"


def _accuracy_finding(per_seed: pd.DataFrame, n_tasks: int, score: str, standing: Standing) -> str:
    """The state after the last task that all budgets have reached: the ends of the grid and the line without noise."""
    reached = int(per_seed.groupby("epsilon")["after_task"].max().min())
    ended = per_seed[per_seed["after_task"] == reached]
    at = {float(e): _shares(values.tolist()) for e, values in ended.groupby("epsilon")["value"]}
    when = f"After {_tasks(reached + 1)}" + (f" of {n_tasks}" if reached + 1 < n_tasks else "")
    finite = sorted(filter(math.isfinite, at))
    chosen = [math.inf] if math.inf in at else []
    chosen += sorted({finite[-1], finite[0]}, reverse=True) if finite else []
    if len(at) == 1:
        return f"{when}, {score} {epsilon_phrase(chosen[0], standing)} is {_amount(at[chosen[0]])}."
    parts = [f"{100 * at[e].mean:.1f} % {epsilon_phrase(e, standing)}" for e in chosen]
    n = min(summary.n for summary in at.values())
    return f"{when}: {', '.join(parts)}" + (" (a single draw each)." if n == 1 else ".")


# Final accuracy of every class, one bar per class and state.


def class_bars(
    states: Mapping[str, NDArray[np.float64]], classes: Sequence[str], *, colours: Sequence[str], dark: bool = False
) -> Picture:
    """Mean over seeds of each class's accuracy. `states`: name to accuracies [seeds, classes]; the finding is on the first.

    The whiskers of a bar are its smallest and largest seed.
    """
    if not states:
        return theme.nothing("Accuracies of single classes were not recorded for this run.", dark, 300)
    chart = theme.Chart(
        dark, 330, {"type": "category", "showgrid": False, "title": "class"},
        theme.percent_axis(title="accuracy after the last task"), barmode="group", bargap=0.25, margin=(48, 16, 30, 40),
        legend={"orientation": "h", "y": 1.12, "x": 0}, showlegend=len(states) > 1,
    )  # fmt: skip
    hover = "class %{x}, %{fullData.name}: %{y:.1f} %"
    for (name, values), colour in zip(states.items(), colours, strict=True):
        low, mean, high = (100 * of(axis=0) for of in (values.min, values.mean, values.max))
        seeds = theme.error_bars(high - mean, chart.ink.soft, 1.2, below=mean - low)
        chart.add("bar", hover, x=list(classes), y=mean, name=name, marker={"color": colour}, error_y=seeds)
    name, first = next(iter(states.items()))
    mean = 100 * first.mean(axis=0)
    worst, best = int(mean.argmin()), int(mean.argmax())
    finding = f"{name}: class {classes[worst]} is hardest ({mean[worst]:.1f} %), "
    return chart.picture(f"{finding}class {classes[best]} easiest ({mean[best]:.1f} %).")
