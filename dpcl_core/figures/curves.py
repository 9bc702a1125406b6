"""Accuracy and forgetting over tasks: one line per budget, a 95 % band over seeds, or dots where there are few seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core import metrics
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, apart, epsilon_label, given
from dpcl_core.figures.statistics import MIN_SEEDS, Interval, interval
from dpcl_core.privacy.statement import Standing
from dpcl_core.spec import LabelSetting

HEIGHT = 400
_TOTAL = ", total"  # second line of a name
_LABEL_GAP = 5.2  # percentage points between two names at line ends, at HEIGHT


def accuracy_over_tasks(
    accuracy: pd.DataFrame,
    *,
    n_tasks: int,
    labels: LabelSetting = "prior-const",
    score: str = "accuracy",
    standing: Standing = "bound",
    dark: bool = False,
) -> Picture:
    """Mean accuracy on the tasks seen so far, after each task.

    Columns: epsilon, seed, after_task, on_task (from 0), accuracy (in [0, 1]); missing rows leave a gap. An empty frame
    gives an empty picture. `score`: the name of the score; `standing`: the kind of the budgets; those that do not bound all
    releases are named and dashed differently.
    """
    if accuracy.empty:
        unnamed = " One whose learned list names no label cannot be." if labels == "dp-learned" else ""
        return _nothing(f"The first point appears when a model has been tested.{unnamed}", dark)
    per_seed = mean_so_far(accuracy)
    figure = _frame(n_tasks, dark, f"{score} on the tasks seen so far")
    ends = {}
    for epsilon in sorted(per_seed["epsilon"].unique()):
        rows, name = per_seed[per_seed["epsilon"] == epsilon], epsilon_label(epsilon, standing)
        dash = _dash(labels, standing if np.isfinite(epsilon) else "bound")
        ends[name, epsilon] = _line(figure, rows, name, theme.colour_of_epsilon(epsilon, dark), labels, dash)
    named = [(name, theme.colour_of_epsilon(e, dark), end) for (name, e), end in ends.items()]
    _name_ends(figure, named, n_tasks, low=0, high=100, dark=dark)
    finding = _accuracy_finding(per_seed, n_tasks, score, standing)
    return Picture(figure, finding, finding)


def compared_over_tasks(
    series: Mapping[str, pd.DataFrame],
    *,
    n_tasks: int,
    colours: Sequence[str],
    labels: Sequence[LabelSetting],
    score: str = "accuracy",
    standings: Mapping[str, Standing] | None = None,
    dark: bool = False,
) -> Picture:
    """The accuracy curves of several runs, one line each; frames as `accuracy_over_tasks` takes them, one budget each.

    `score` likewise; `standings`: the kind of budget of those runs that have no bound on all releases; they are named and
    dashed differently.
    """
    figure = _frame(n_tasks, dark, f"{score} on the tasks seen so far")
    ends, ranked = [], []
    for (name, frame), colour, setting in zip(series.items(), colours, labels, strict=True):
        if frame.empty:
            continue
        kind = (standings or {}).get(name, "bound")
        per_seed, called = mean_so_far(frame), apart(name, kind)
        ends.append((called, colour, _line(figure, per_seed, called, colour, setting, _dash(setting, kind))))
        last = int(per_seed["after_task"].max())
        ranked.append((called, interval(_values(per_seed, last)), last + 1))
    if not ends:
        return _nothing("None of the chosen runs has a point here yet.", dark)
    _name_ends(figure, ends, n_tasks, low=0, high=100, dark=dark)
    ranked.sort(key=lambda item: -item[1].mean)
    finding = "; ".join(f"{name}: {_amount(amount)} after {_tasks(k)}" for name, amount, k in ranked) + "."
    return Picture(figure, finding, finding)


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
        return _nothing("Forgetting is defined from the second task on.", dark)
    figure = _frame(n_tasks, dark, "points lost since the best, mean of old tasks")
    top = max(10.0, 100 * float(per_seed["value"].max()) * 1.15)
    bottom = min(-1.0, 100 * float(per_seed["value"].min()) * 1.15)
    figure.update_yaxes(range=[bottom, top], tickvals=None, ticktext=None, zeroline=True)
    ends = []
    for epsilon in sorted(per_seed["epsilon"].unique()):
        rows, colour = per_seed[per_seed["epsilon"] == epsilon], theme.colour_of_epsilon(epsilon, dark)
        name, dash = epsilon_label(epsilon, standing), _dash(labels, standing if np.isfinite(epsilon) else "bound")
        ends.append((name, colour, _line(figure, rows, name, colour, labels, dash)))
    _name_ends(figure, ends, n_tasks, low=bottom, high=top, dark=dark)
    last = int(per_seed["after_task"].max())
    ended = per_seed[per_seed["after_task"] == last]
    final = {float(e): float(rows["value"].mean()) for e, rows in ended.groupby("epsilon")}
    most, least = max(final, key=lambda e: final[e]), min(final, key=lambda e: final[e])
    where = [given(epsilon, standing) for epsilon in (most, least)]
    finding = f"After {_tasks(last + 1)}, {100 * final[most]:.1f} points of an old task are lost on average {where[0]}"
    finding += f", {100 * final[least]:.1f} {where[1]}." if most != least else "."
    return Picture(figure, finding, finding)


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
    kinds = [(standings or {}).get(name, "bound") for name in series]
    drawn = {
        apart(name, kind): (forgetting_so_far(frame), colour, setting, _dash(setting, kind))
        for (name, frame), colour, setting, kind in zip(series.items(), colours, labels, kinds, strict=True)
    }
    drawn = {name: entry for name, entry in drawn.items() if not entry[0].empty}
    if not drawn:
        return _nothing("Forgetting is defined from the second task on.", dark)
    values = [100 * float(value) for rows, *_ in drawn.values() for value in rows["value"]]
    low, high = min(-1.0, 1.15 * min(values)), max(10.0, 1.15 * max(values))
    figure = _frame(n_tasks, dark, "points lost since the best, mean of old tasks")
    figure.update_yaxes(range=[low, high], tickvals=None, ticktext=None, zeroline=True)
    ends, sentences = [], []
    for name, (rows, colour, setting, dash) in drawn.items():
        end = _line(figure, rows, name, colour, setting, dash)
        ends.append((name, colour, end))
        sentences.append(f"{name}: {end[1]:.1f} points lost after {_tasks(int(end[0]))}")
    _name_ends(figure, ends, n_tasks, low=low, high=high, dark=dark)
    finding = "; ".join(sentences) + "."
    return Picture(figure, finding, finding)


def mean_so_far(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy on the tasks seen so far. Columns: epsilon, seed, after_task, value (in [0, 1])."""
    grouped = accuracy.groupby(["epsilon", "seed", "after_task"], as_index=False)["accuracy"].mean()
    return grouped.rename(columns={"accuracy": "value"})


def forgetting_so_far(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Average forgetting after each task from the second on. Columns: epsilon, seed, after_task, value (in [-1, 1])."""
    rows = [
        {"epsilon": epsilon, "seed": seed, "after_task": k, "value": value}
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


def _values(per_seed: pd.DataFrame, after_task: int) -> list[float]:
    return [float(value) for value in per_seed[per_seed["after_task"] == after_task]["value"]]


def _frame(n_tasks: int, dark: bool, y_title: str) -> go.Figure:
    step = max(1, -(-n_tasks // 10))
    ticks = [task for task in range(1, n_tasks + 1) if (task - 1) % step == 0 or task == n_tasks]
    span = max(n_tasks - 1, 1)
    return go.Figure(
        layout=theme.layout(
            dark,
            height=HEIGHT,
            xaxis={
                "title": "tasks learned",
                "tickvals": ticks,
                "range": [1 - 0.04 * span, n_tasks + 0.04 * span],
                "showgrid": False,
                "zeroline": False,
            },
            yaxis=theme.percent_axis(title=y_title),
            margin={"l": 48, "r": 84, "t": 12, "b": 40},  # the right margin has the names at the line ends
        )
    )


def _dash(labels: LabelSetting, standing: Standing) -> str:
    return theme.DASHES[labels] if standing == "bound" else theme.CLAIMED_DASH


def _line(
    figure: go.Figure, per_seed: pd.DataFrame, name: str, colour: str, labels: LabelSetting, dash: str
) -> tuple[float, float]:
    """Adds one line with its band or dots; gives the end of the line (task from 1, per cent)."""
    tasks = sorted(int(k) for k in per_seed["after_task"].unique())
    stats = [interval(_values(per_seed, k)) for k in tasks]
    x = np.array(tasks, dtype=np.float64) + 1
    mean = 100 * np.array([s.mean for s in stats])
    if all(s.n >= MIN_SEEDS for s in stats):
        _band(figure, x, stats, colour)
    else:
        figure.add_trace(
            go.Scatter(
                x=per_seed["after_task"].to_numpy() + 1,
                y=100 * per_seed["value"].to_numpy(),
                mode="markers",
                marker={"color": theme.translucent(colour, 0.55), "size": 6, "symbol": theme.MARKERS[labels]},
                name=f"{name}: single seeds",
                hovertemplate="seed %{customdata}: %{y:.1f} %<extra></extra>",
                customdata=per_seed["seed"].to_numpy(),
            )
        )
    shown_x, shown_y = theme.decimated(x, mean)
    hover = [_amount(s) for s in stats] if len(shown_x) == len(x) else None
    figure.add_trace(
        go.Scatter(
            x=shown_x,
            y=shown_y,
            mode="lines+markers" if len(x) <= 30 else "lines",
            line={"color": colour, "width": 2.2, "dash": dash},
            marker={"symbol": theme.MARKERS[labels], "size": 6},
            name=name,
            text=hover,
            hovertemplate=f"{name}, task %{{x}}: %{{text}}<extra></extra>" if hover else None,
        )
    )
    return float(x[-1]), float(mean[-1])


def _band(figure: go.Figure, x: NDArray[np.float64], stats: Sequence[Interval], colour: str) -> None:
    low = 100 * np.array([s.low for s in stats], dtype=np.float64)
    high = 100 * np.array([s.high for s in stats], dtype=np.float64)
    low_x, low = theme.decimated(x, low)
    high_x, high = theme.decimated(x, high)
    figure.add_trace(
        go.Scatter(
            x=np.concatenate([high_x, low_x[::-1]]),
            y=np.concatenate([high, low[::-1]]),
            fill="toself",
            fillcolor=theme.translucent(colour, 0.15),
            line={"width": 0},
            mode="lines",
            name="95 % interval over seeds",
            hoverinfo="skip",
        )
    )


def _name_ends(
    figure: go.Figure, ends: Sequence[tuple[str, str, tuple[float, float]]], n_tasks: int, *, low: float, high: float,
    dark: bool,
) -> None:  # fmt: skip
    """Names at the line ends, pushed apart where lines end close together."""
    n_lines = max((name.count(_TOTAL) + 1 for name, _, _ in ends), default=1)
    gap = n_lines * _LABEL_GAP * (high - low) / 100
    heights = theme.spread_labels([y for _, _, (_, y) in ends], gap, low + gap / 2, high)
    for (name, colour, (x, _)), height in zip(ends, heights, strict=True):
        figure.add_annotation(
            x=x, y=height, text=name.replace(_TOTAL, f",<br>{_TOTAL[2:]}"), showarrow=False,
            font={"color": theme.readable(colour, dark), "size": 12.5}, xanchor="left", align="left", xshift=9,
        )  # fmt: skip


def _nothing(sentence: str, dark: bool) -> Picture:
    return Picture(theme.empty(sentence, dark, HEIGHT), sentence, sentence)


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
    at = {float(e): interval(_values(rows, reached)) for e, rows in per_seed.groupby("epsilon")}
    when = f"After {_tasks(reached + 1)}" + (f" of {n_tasks}" if reached + 1 < n_tasks else "")
    finite = sorted(e for e in at if e != float("inf"))
    chosen = [float("inf")] if float("inf") in at else []
    chosen += sorted({finite[-1], finite[0]}, reverse=True) if finite else []
    if len(at) == 1:
        return f"{when}, {score} {given(chosen[0], standing)} is {_amount(at[chosen[0]])}."
    parts = [f"{100 * at[e].mean:.1f} % {given(e, standing)}" for e in chosen]
    n = min(summary.n for summary in at.values())
    return f"{when}: {', '.join(parts)}" + (" (a single draw each)." if n == 1 else ".")
