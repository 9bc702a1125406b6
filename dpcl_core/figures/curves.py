"""Accuracy and forgetting over tasks: lines with a 95 % band over seeds, or dots where there are few, and as grids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcl_core import metrics
from dpcl_core.events import References
from dpcl_core.figures import svg_parts, theme
from dpcl_core.figures.picture import BREAK, Picture, bold, capital, counted, epsilon_label, epsilon_phrase, run_label
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval
from dpcl_core.later import pd
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
    chart, _ = _chart(lines, n_tasks, _axis(lines, score), dark, references)
    # The state after the last task that all budgets have reached: the ends of the grid and the line without noise.
    reached = int(per_seed.groupby("epsilon")["after_task"].max().min())
    ended = per_seed[per_seed["after_task"] == reached]
    at = {float(e): _shares(values.tolist()) for e, values in ended.groupby("epsilon")["value"]}
    when = f"After {_tasks(reached + 1)}" + (f" of {n_tasks}" if reached + 1 < n_tasks else "")
    finite = sorted(filter(math.isfinite, at))
    chosen = [math.inf] if math.inf in at else []
    chosen += sorted({finite[-1], finite[0]}, reverse=True) if finite else []
    if len(at) == 1:
        return chart.picture(f"{when}, {score} {epsilon_phrase(chosen[0], standing)} is {_amount(at[chosen[0]])}.")
    parts = [f"{100 * at[e].mean:.1f} % {epsilon_phrase(e, standing)}" for e in chosen]
    n = min(summary.n for summary in at.values())
    return chart.picture(f"{when}: {', '.join(parts)}" + (" (a single draw each)." if n == 1 else "."))


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
    chart, _ = _chart(lines, n_tasks, _axis(lines), dark)
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
    if not (lines := [line for line in runs if not line.rows.empty]):
        missing = "None of the chosen runs has a point here yet." if is_accuracy else _NO_FORGETTING
        return theme.nothing(missing, dark, _HEIGHT)
    axis = _axis(lines, score if is_accuracy else "")
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


def _axis(lines: Sequence[Series], score: str = "") -> theme.Properties:
    """The axis of a score, or of points lost where none is named."""
    if score:
        return theme.percent_axis(title=f"{score} on the tasks seen so far")
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
    else:
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


# Grids with numbers: the accuracy matrix and the forgetting of each old task; anchors and released statistics.

_MAX_NUMBERS = 14  # tasks; with more, numbers do not fit into the cells and are shown on hover only
# On every shade the numbers, in the theme's ink, have a contrast of at least 4.5 to 1.
_BLUES = ((0.0, "#f3f8fc"), (0.5, "#bcdaef"), (1.0, "#6fafdc"))
_BLUES_DARK = ((0.0, "#18252e"), (0.5, "#1f4a66"), (1.0, "#236690"))
_LOSS = ((0.0, "#8cbfe4"), (0.5, "#fbf6f1"), (0.75, "#f6cda6"), (1.0, "#ee9a55"))
_LOSS_DARK = ((0.0, "#236690"), (0.5, "#232a2e"), (0.75, "#6d4322"), (1.0, "#955016"))


def accuracy_matrix(
    accuracy: pd.DataFrame, *, epsilon: float, n_tasks: int, score: str = "accuracy", standing: Standing = "bound",
    dark: bool = False,
) -> Picture:  # fmt: skip
    """Accuracy on every task (column) after every task learned (row), mean over seeds; empty where nothing was evaluated.

    Columns: epsilon, seed, after_task, on_task (from 0), accuracy (in [0, 1]). `score`: the name of the score; `standing`:
    the kind of the budget.
    """
    values = np.full((n_tasks, n_tasks), np.nan)
    for (k, i), of_pair in accuracy[accuracy["epsilon"] == epsilon].groupby(["after_task", "on_task"]):
        values[int(k), int(i)] = 100 * float(of_pair["accuracy"].mean())
    evaluated = np.flatnonzero(~np.isnan(values).all(axis=1))
    if not len(evaluated):
        return theme.nothing("The first row appears when a model has been tested.", dark, _height(n_tasks))
    rows, columns = [f"after {k + 1}" for k in range(n_tasks)], [f"{i + 1}" for i in range(n_tasks)]
    hover, scale = "after task %{y}, on task %{x}: %{z:.1f} %", _BLUES_DARK if dark else _BLUES
    chart = _grid(values, rows, columns, scale, (0.0, 100.0), hover, f"{score} on task (%)", dark)
    last = int(evaluated[-1])
    where = f"{capital(epsilon_phrase(epsilon, standing))}, after {counted(last + 1, 'task')}"
    row = values[last, : last + 1]
    tested = np.flatnonzero(~np.isnan(row))
    oldest, newest, weakest = int(tested[0]), int(tested[-1]), int(np.nanargmin(row))
    if last == 0:
        return chart.picture(f"{where}, it stands at {row[0]:.1f} %.")
    if oldest == newest:
        return chart.picture(f"{where}, task {oldest + 1} alone was tested: {row[oldest]:.1f} %.")
    name = "the newest" if newest == last else f"task {newest + 1}"
    finding = f"{where}, task {oldest + 1} stands at {row[oldest]:.1f} % and {name} at {row[newest]:.1f} %"
    finding += f"; task {weakest + 1} is weakest" + (f" ({row[weakest]:.1f} %)" if weakest not in (oldest, newest) else "")
    return chart.picture(f"{finding}.")


def forgetting_grid(
    accuracy: pd.DataFrame, *, epsilon: float, n_tasks: int, standing: Standing = "bound", dark: bool = False
) -> Picture:
    """Points that each old task (row) has lost since its best, after each later task (column), mean over seeds.

    Undefined and not drawn before the second task. Columns and `standing` as in `accuracy_matrix`.
    """
    values = _mean_forgetting(accuracy, epsilon, n_tasks)
    defined = np.flatnonzero(~np.isnan(values).all(axis=1))
    if not len(defined):
        return theme.nothing("Forgetting is defined from the second task on.", dark, _height(n_tasks))
    lost = 100 * values[1:, : n_tasks - 1].T  # rows: old tasks; columns: after task 2, 3, ...
    bound = max(10.0, float(np.nanmax(np.abs(lost))))
    rows, columns = [f"task {i + 1}" for i in range(n_tasks - 1)], [f"{k + 1}" for k in range(1, n_tasks)]
    hover, scale = "%{y} after task %{x}: %{z:.1f} points lost", _LOSS_DARK if dark else _LOSS
    chart = _grid(lost, rows, columns, scale, (-bound, bound), hover, "after task", dark)
    last = int(defined[-1])
    row = 100 * values[last, :last]
    worst = int(np.nanargmax(row))
    most = f"task {worst + 1} lost most: {row[worst]:.1f} points since its best; mean {np.nanmean(row):.1f}"
    if row[worst] < 0.5:
        most = "no old task is more than 0.5 points below its best"
    elif last == 1:
        most = f"task 1 is {row[worst]:.1f} points below its best"
    return chart.picture(f"{capital(epsilon_phrase(epsilon, standing))}, after {last + 1} tasks, {most}.")


def _mean_forgetting(accuracy: pd.DataFrame, epsilon: float, n_tasks: int) -> NDArray[np.float64]:
    """Mean over seeds of each seed's own forgetting [after, on], NaN where undefined."""
    sums, counts = np.zeros((n_tasks, n_tasks)), np.zeros((n_tasks, n_tasks))
    for _, cell in accuracy[accuracy["epsilon"] == epsilon].groupby("seed"):
        for k, row in enumerate(metrics.forgetting(matrix_of(cell))):
            lost = np.array(row, dtype=np.float64)  # None becomes NaN
            sums[k, : len(row)] += np.nan_to_num(lost)
            counts[k, : len(row)] += ~np.isnan(lost)
    return np.divide(sums, counts, out=np.full_like(sums, math.nan), where=counts > 0)


def _grid(
    values: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], scale: theme.Scale, ends: tuple[float, float],
    hover: str, x_title: str, dark: bool,
) -> theme.Chart:  # fmt: skip
    across = {"type": "category", "title": x_title, "showgrid": False, "nticks": 12}
    down = {"type": "category", "autorange": "reversed", "showgrid": False, "nticks": 14}
    chart = theme.Chart(dark, _height(len(rows)), across, down, margin=(60, 8, 8, 40), plot_bgcolor=theme.ink(dark).empty)
    chart.cells(  # numbers are rounded as in the sentence below: a browser rounds 48.25 up, Python down
        np.round(values, 1), columns, rows, scale, hover, zmin=ends[0], zmax=ends[1], hoverongaps=False,
        texttemplate="%{z:.0f}" if len(rows) <= _MAX_NUMBERS else None,
    )  # fmt: skip
    return chart


def _height(n_rows: int) -> int:
    return min(420, 62 + max(3, n_rows) * 27)


# Figures of the gain from more anchors, and of the noise in released statistics.


def diagnostics(anchors: pd.DataFrame, *, chosen: int | None = None, dark: bool = False) -> Picture:
    """By number of anchors: share of anchors that separate a pair, agreement with the truth, and below, the least gap.

    Columns m, gap, mean_rate, least_rate, least_gap, needed, agreement; several rows per m are averaged. `chosen`: the
    selected m.
    """
    if anchors.empty:
        return theme.nothing("There are no two modes to tell apart, so anchors have nothing to be measured by.", dark, 420)
    means = anchors.groupby("m")[["gap", "mean_rate", "least_rate", "least_gap", "needed", "agreement"]].mean()
    inks, names = theme.ink(dark), [f"{m}" for m in means.index]
    x = {"type": "category", "showgrid": False, "color": inks.soft, "title": "anchors m"}
    shares = {"range": [-0.05, 1.05], "tickvals": [0, 0.5, 1], "gridcolor": inks.grid}
    gaps = {"title": "gap", "rangemode": "tozero", "gridcolor": inks.grid}
    axes = theme.panels([0.62, 0.38], 0.08, x, [shares, gaps])
    chart = theme.Chart(dark, 440, legend_room=76, margin=(56, 16, 76, 48), **axes)
    lines = (
        ("agreement", "agreement with the truth", "solid", "circle", ""),
        ("mean_rate", "anchors that see a pair, mean p̂", "dash", "square", ""),
        ("least_rate", "the same, worst pair", "dot", "diamond", ""),
        ("least_gap", "least gap", "solid", "triangle-up", "2"),
    )
    for index, (column, name, dash, symbol, plot) in enumerate(lines):
        chart.line(
            names, means[column], name, chart.colour(index), f"{name}, m = %{{x}}: %{{y:.2f}}", dash=dash, symbol=symbol,
            xaxis=f"x{plot}", yaxis=f"y{plot}", showlegend=False if plot else None,
        )  # fmt: skip
    if chosen in means.index:
        chart.stripe(names.index(f"{chosen}"))
    first, last = means.iloc[0], means.iloc[-1]
    needed = f"{last['needed']:.0f} anchors" if math.isfinite(last["needed"]) else "more anchors than there can be"
    return chart.picture(
        f"From {means.index[0]} to {means.index[-1]} anchors p̂ stays near {last['mean_rate']:.2f} (it was "
        f"{first['mean_rate']:.2f}); the worst pair's largest gap grows from {first['least_gap']:.2g} to "
        f"{last['least_gap']:.2g}. For gaps of {last['gap']:.2g} at p = {last['least_rate']:.2f} Theorem 2 requires "
        f"{needed}."
    )


def signal_and_noise(statistics: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Length of each released statistic and of its noise, on a logarithmic axis.

    Columns statistic, signal, noise (0: none); several rows per statistic are averaged.
    """
    if statistics.empty:
        return theme.nothing("Nothing has been released yet.", dark, 260)
    means = statistics.groupby("statistic", sort=False)[["signal", "noise"]].mean()
    drowned = means.index[(means["noise"] > means["signal"])].tolist()
    shown = [f"{name}{BREAK}{bold('noise only')}" if name in drowned else name for name in means.index]
    positive = [value for value in means.to_numpy().ravel().tolist() if 0 < value < math.inf] or [1.0]
    ends = [math.log10(min(positive) / 3), math.log10(max(positive) * 6)]
    x = {"type": "log", "title": "length", "range": ends, "dtick": 1}
    y = {"type": "category", "range": [len(means) - 0.4, -0.6], "showgrid": False}
    chart = theme.Chart(dark, 110 + 62 * len(means), x, y, legend_room=44, margin=(96, 16, 44, 44))
    looks = (("signal", "circle", "top center"), ("noise", "x", "bottom center"))
    for index, (column, symbol, side) in enumerate(looks):
        values = means[column].where(means[column] > 0)
        texts = ["" if not np.isfinite(value) else f"{value:.2g}" for value in values]
        chart.marks(
            values, shown, column, {"color": chart.colour(index), "size": 13, "symbol": symbol},
            f"%{{y}}: {column} %{{x:.3g}}", mode="markers+text", text=texts, textposition=side,
            textfont={"color": chart.ink.text},
        )  # fmt: skip
    ratios = means["noise"] / means["signal"].where(means["signal"] > 0)
    finding = "Nothing carries noise here."
    if drowned:
        worst = ratios[drowned].idxmax()
        finding = f"Noise only: {'; '.join(drowned)}. "
        finding += f"The noise on {worst} is {ratios[worst]:.3g} times as long as the statistic itself."
    elif (means["noise"] > 0).any():
        worst = ratios.idxmax()
        finding = f"Every released statistic stands above its noise; the closest is {worst}, at {ratios[worst]:.2g}."
    return chart.picture(finding)
