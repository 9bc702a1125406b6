"""Accuracy and forgetting over tasks: one line per budget, a 95 % band over seeds, or dots where there are few seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core import metrics
from dpcl_core.events import References
from dpcl_core.figures import theme
from dpcl_core.figures.picture import BREAK, Picture, capital, counted, epsilon_label, epsilon_phrase, minus, run_label
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval
from dpcl_core.metrics import right_after_learning
from dpcl_core.privacy.statement import Standing
from dpcl_core.spec import LabelSetting

_HEIGHT = 400
_TOTAL = ", total"  # second line of a name
_LABEL_GAP = 5.2  # percentage points between two names at line ends, at _HEIGHT
_NO_FORGETTING = "Forgetting is defined from the second task on."


@dataclass(frozen=True, slots=True)
class _Curve:
    """One line to draw. `rows`: columns seed, after_task, value (a share), at least one row."""

    name: str
    rows: pd.DataFrame
    colour: str
    labels: LabelSetting
    standing: Standing

    @property
    def dash(self) -> str:
        # Lists read from the data, which nothing bounds, have dots of their own.
        return theme.DASHES[self.labels] if self.standing in ("bound", "none") else theme.CLAIMED_DASH


def accuracy_over_tasks(
    accuracy: pd.DataFrame,
    *,
    n_tasks: int,
    labels: LabelSetting = "prior-const",
    score: str = "accuracy",
    standing: Standing = "bound",
    references: References | None = None,
    dark: bool = False,
) -> Picture:
    """Mean accuracy on the tasks seen so far, after each task.

    Columns: epsilon, seed, after_task, on_task (from 0), accuracy (in [0, 1]); missing rows leave a gap. An empty frame
    gives an empty picture. `score`: the name of the score; `standing`: the kind of the budgets; those that do not bound all
    releases are named and dashed differently. `references`: levels to draw; they are scores after the last task.
    """
    if accuracy.empty:
        unnamed = " One whose learned list names no label cannot be." if labels == "dp-learned" else ""
        return theme.nothing(f"The first point appears when a model has been tested.{unnamed}", dark, _HEIGHT)
    per_seed = mean_so_far(accuracy)
    curves = _by_budget(per_seed, labels, standing, dark)
    figure, _ = _figure(curves, n_tasks, _accuracy_axis(score), dark, references)
    return Picture(figure, _accuracy_finding(per_seed, n_tasks, score, standing))


def compared_over_tasks(
    series: Mapping[str, pd.DataFrame],
    *,
    n_tasks: int,
    colours: Sequence[str],
    labels: Sequence[LabelSetting],
    score: str = "accuracy",
    standings: Mapping[str, Standing] | None = None,
    references: References | None = None,
    dark: bool = False,
) -> Picture:
    """The accuracy curves of several runs, one line each; frames as `accuracy_over_tasks` takes them, one budget each.

    `score` and `references` likewise; `standings`: the kind of budget of those runs that have no bound on all releases; they
    are named and dashed differently.
    """
    curves = _by_run(series, mean_so_far, colours, labels, standings or {})
    if not curves:
        return theme.nothing("None of the chosen runs has a point here yet.", dark, _HEIGHT)
    figure, ends = _figure(curves, n_tasks, _accuracy_axis(score), dark, references)
    ranked = sorted(zip(curves, ends, strict=True), key=lambda pair: -pair[1][1].mean)
    sentences = [f"{curve.name}: {_amount(stats)} after {_tasks(task)}" for curve, (task, stats) in ranked]
    return Picture(figure, "; ".join(sentences) + ".")


def forgetting_over_tasks(
    accuracy: pd.DataFrame,
    *,
    n_tasks: int,
    labels: LabelSetting = "prior-const",
    standing: Standing = "bound",
    dark: bool = False,
) -> Picture:
    """Average forgetting (points) after each task from the second on; undefined and not drawn before.

    Columns and `standing` as `accuracy_over_tasks`.
    """
    per_seed = forgetting_so_far(accuracy)
    if per_seed.empty:
        return theme.nothing(_NO_FORGETTING, dark, _HEIGHT)
    curves = _by_budget(per_seed, labels, standing, dark)
    figure, _ = _figure(curves, n_tasks, _forgetting_axis(curves), dark)
    last = int(per_seed["after_task"].max())
    final = per_seed[per_seed["after_task"] == last].groupby("epsilon")["value"].mean()
    most, least = (float(epsilon) for epsilon in (final.idxmax(), final.idxmin()))
    finding = f"After {_tasks(last + 1)}, {100 * final[most]:.1f} points of an old task are lost on average "
    finding += epsilon_phrase(most, standing)
    finding += f", {100 * final[least]:.1f} {epsilon_phrase(least, standing)}." if most != least else "."
    return Picture(figure, finding)


def forgetting_compared(
    series: Mapping[str, pd.DataFrame],
    *,
    n_tasks: int,
    colours: Sequence[str],
    labels: Sequence[LabelSetting],
    standings: Mapping[str, Standing] | None = None,
    dark: bool = False,
) -> Picture:
    """Average forgetting of several runs after each task from the second on, one line each; frames of one budget each.

    `standings` as `compared_over_tasks`.
    """
    curves = _by_run(series, forgetting_so_far, colours, labels, standings or {})
    if not curves:
        return theme.nothing(_NO_FORGETTING, dark, _HEIGHT)
    figure, ends = _figure(curves, n_tasks, _forgetting_axis(curves), dark)
    sentences = [
        f"{curve.name}: {100 * stats.mean:.1f} points lost after {_tasks(task)}"
        for curve, (task, stats) in zip(curves, ends, strict=True)
    ]
    return Picture(figure, "; ".join(sentences) + ".")


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


def _by_budget(per_seed: pd.DataFrame, labels: LabelSetting, standing: Standing, dark: bool) -> list[_Curve]:
    """The curves of one run, one per budget; without noise there is a single kind of budget."""
    return [
        _Curve(
            epsilon_label(epsilon, standing), rows, theme.colour_of_epsilon(epsilon, dark), labels,
            standing if math.isfinite(epsilon) else "bound",
        )
        for epsilon, rows in per_seed.groupby("epsilon")
    ]  # fmt: skip


def _by_run(
    series: Mapping[str, pd.DataFrame],
    so_far: Callable[[pd.DataFrame], pd.DataFrame],
    colours: Sequence[str],
    labels: Sequence[LabelSetting],
    standings: Mapping[str, Standing],
) -> list[_Curve]:
    """The curves of those runs that have rows."""
    runs = [(name, so_far(frame), standings.get(name, "bound")) for name, frame in series.items()]
    return [
        _Curve(run_label(name, standing), rows, colour, setting, standing)
        for (name, rows, standing), colour, setting in zip(runs, colours, labels, strict=True)
        if not rows.empty
    ]


def _accuracy_axis(score: str) -> dict[str, Any]:
    return theme.percent_axis(title=f"{score} on the tasks seen so far")


def _forgetting_axis(curves: Sequence[_Curve]) -> dict[str, Any]:
    values = 115 * pd.concat([curve.rows["value"] for curve in curves])
    ends = [min(-1.0, float(values.min())), max(10.0, float(values.max()))]
    return {"title": "points lost since the best, mean of old tasks", "range": ends, "zeroline": True}


def _figure(
    curves: Sequence[_Curve], n_tasks: int, axis: Mapping[str, Any], dark: bool, references: References | None = None
) -> tuple[go.Figure, list[_End]]:
    """All curves, with their names at the line ends within the axis; and the ends."""
    margin = {"l": 48, "r": 84, "t": 12, "b": 40}  # the right margin has the names at the line ends
    figure = theme.figure(dark, height=_HEIGHT, xaxis=theme.task_axis(1, n_tasks), yaxis=axis, margin=margin)
    ends = [_line(figure, curve) for curve in curves]
    low, high = axis["range"][0], min(axis["range"][1], 100)
    gap = max(curve.name.count(_TOTAL) + 1 for curve in curves) * _LABEL_GAP * (high - low) / 100
    named = [
        (curve.name.replace(_TOTAL, f",{BREAK}{_TOTAL[2:]}"), task, 100 * stats.mean, curve.colour)
        for curve, (task, stats) in zip(curves, ends, strict=True)
    ]
    theme.add_end_names(figure, named, gap, low + gap / 2, high, dark=dark, shift=9, font={"size": 12.5}, align="left")
    if references is not None:
        theme.add_references(figure, references, dark=dark)
    return figure, ends


def _line(figure: go.Figure, curve: _Curve) -> _End:
    """Adds one line with its band or dots; gives its end."""
    by_task = {int(k): interval(values.tolist()) for k, values in curve.rows.groupby("after_task")["value"]}
    stats = list(by_task.values())
    x = np.array(list(by_task), dtype=np.float64) + 1
    symbol = theme.MARKERS[curve.labels]
    if all(s.n >= MIN_SEEDS for s in stats):
        low, high = ([100 * end for s in stats if (end := getattr(s, side)) is not None] for side in ("low", "high"))
        figure.add_trace(theme.band(x, low, high, curve.colour))
    else:
        marker, seeds = {"color": theme.translucent(curve.colour, 0.55), "size": 6, "symbol": symbol}, curve.rows["seed"]
        tasks, values = curve.rows["after_task"] + 1, 100 * curve.rows["value"]
        hover = "seed %{customdata}: %{y:.1f} %"
        figure.add_trace(theme.marks(tasks, values, f"{curve.name}: single seeds", marker, hover, customdata=seeds))
    shown_x, shown_y = theme.decimated(x, 100 * np.array([s.mean for s in stats]))
    mode, hover = "lines+markers" if len(x) <= 30 else "lines", f"{curve.name}, task %{{x}}: %{{text}}"
    line = theme.line(shown_x, shown_y, curve.name, curve.colour, hover, dash=curve.dash, symbol=symbol, size=6, mode=mode)
    if len(shown_x) == len(x):
        line.text = [_amount(s) for s in stats]
    else:
        line.hovertemplate = None
    figure.add_trace(line)
    return int(x[-1]), stats[-1]


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
    at = {float(e): interval(values.tolist()) for e, values in ended.groupby("epsilon")["value"]}
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
    figure = theme.figure(
        dark,
        height=330,
        barmode="group",
        bargap=0.25,
        xaxis={"type": "category", "showgrid": False, "title": "class"},
        yaxis=theme.percent_axis(title="accuracy after the last task"),
        legend={"orientation": "h", "y": 1.12, "x": 0},
        showlegend=len(states) > 1,
        margin={"l": 48, "r": 16, "t": 30, "b": 40},
    )
    for (name, values), colour in zip(states.items(), colours, strict=True):
        mean = 100 * values.mean(axis=0)
        figure.add_trace(
            go.Bar(
                x=list(classes),
                y=mean,
                name=name,
                marker={"color": colour},
                error_y={
                    "type": "data", "symmetric": False, "array": 100 * values.max(axis=0) - mean,
                    "arrayminus": mean - 100 * values.min(axis=0), "thickness": 1.2, "color": theme.ink(dark).soft,
                },
                hovertemplate="class %{x}, %{fullData.name}: %{y:.1f} %<extra></extra>",
            )
        )  # fmt: skip
    name, first = next(iter(states.items()))
    mean = 100 * first.mean(axis=0)
    worst, best = int(mean.argmin()), int(mean.argmax())
    finding = f"{name}: class {classes[worst]} is hardest ({mean[worst]:.1f} %), "
    finding += f"class {classes[best]} easiest ({mean[best]:.1f} %)."
    return Picture(figure, finding)


# Metrics of finished models by seed, with published values as grey ticks.


_METRICS = ("AA", "BWT", "FWT")


def _tick(size: int, colour: str, width: int) -> dict[str, object]:
    """A marker: an upright stroke."""
    return {"symbol": "line-ns", "size": size, "line": {"color": colour, "width": width}}


def by_seed(
    metrics: pd.DataFrame, *, epsilon: float, n_tasks: int, published: Mapping[str, Sequence[float]] | None = None,
    score: str = "accuracy", standing: Standing = "bound", dark: bool = False,
) -> Picture:  # fmt: skip
    """AA, BWT and FWT of the models of one budget in points: one dot per seed, a bar for their mean.

    Columns epsilon, seed, metric, value (shares; NaN: undefined, no dot). `published`: printed values in points by metric,
    each a grey tick. `score`: the name of the score. The finding includes the accuracy right after learning that AA and BWT
    imply.
    """
    titles = {"AA": f"average {score}", "BWT": "backward transfer", "FWT": "forward transfer"}
    rows = metrics[(metrics["epsilon"] == epsilon) & metrics["metric"].isin(_METRICS)].dropna(subset=["value"])
    if rows.empty:
        return theme.nothing("The metrics appear when the first model has learned all its tasks.", dark, 280)
    inks, colour = theme.ink(dark), theme.colour_of_epsilon(epsilon, dark)
    names = [name for name in _METRICS if (rows["metric"] == name).any()]
    means = rows.groupby("metric")["value"].mean().reindex(names)
    figure = theme.figure(
        dark,
        height=90 + 62 * len(names),
        xaxis={"title": "points", "zeroline": True},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        margin={"l": 130, "r": 24, "t": 16, "b": 44},
    )
    for kind, values in (published or {}).items():
        if kind in names:
            places, hover = [titles[kind]] * len(values), "published: %{x:.1f}"
            figure.add_trace(theme.marks(list(values), places, "published", _tick(26, inks.soft, 2), hover))
    for name in names:
        values = 100 * rows.loc[rows["metric"] == name, "value"]
        marker, seeds = {"color": colour, "size": 9, "opacity": 0.75}, rows.loc[values.index, "seed"]
        places, hover = [titles[name]] * len(values), "seed %{customdata}: %{x:.1f}"
        figure.add_trace(theme.marks(values, places, name, marker, hover, customdata=seeds))
    figure.add_trace(
        theme.marks(
            100 * means, [titles[name] for name in names], "mean", _tick(20, inks.text, 3), "mean: %{x:.1f}",
            mode="markers+text", text=[minus(f"{100 * value:.1f}") for value in means], textposition="top center",
            textfont={"color": inks.text},
        )
    )  # fmt: skip
    seeds = counted(rows["seed"].nunique(), "seed")
    values_text = ", ".join(f"{titles[name]} {minus(f'{100 * value:.1f}')}" for name, value in means.items())
    printed = [f"{titles[kind]} {', '.join(f'{value:g}' for value in values)}" for kind, values in (published or {}).items()]
    finding = f"{capital(epsilon_phrase(epsilon, standing))}, mean of {seeds}: {values_text} points."
    if "BWT" in means:
        learned = right_after_learning(100 * means["AA"], 100 * means["BWT"], n_tasks)
        finding += f" Right after learning a task: {learned:.1f}, which is AA − BWT (T − 1) / T."
    finding += f" Published: {'; '.join(printed)}." if printed else ""
    return Picture(figure, finding)
