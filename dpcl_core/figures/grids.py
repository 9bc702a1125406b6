"""The accuracy matrix and the forgetting of each old task, as grids with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from dpcl_core import metrics
from dpcl_core.figures import theme
from dpcl_core.figures.curves import matrix_of
from dpcl_core.figures.picture import BREAK, Picture, bold, capital, counted, epsilon_phrase
from dpcl_core.privacy.statement import Standing

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
    values = _mean_matrix(accuracy, epsilon, n_tasks)
    evaluated = np.flatnonzero(~np.isnan(values).all(axis=1))
    if not len(evaluated):
        return theme.nothing("The first row appears when a model has been tested.", dark, _height(n_tasks))
    rows, columns = [f"after {k + 1}" for k in range(n_tasks)], [f"{i + 1}" for i in range(n_tasks)]
    hover, scale = "after task %{y}, on task %{x}: %{z:.1f} %", _BLUES_DARK if dark else _BLUES
    figure = _grid(100 * values, rows, columns, scale, 0.0, 100.0, hover, f"{score} on task (%)", dark)
    last = int(evaluated[-1])
    where = f"{capital(epsilon_phrase(epsilon, standing))}, after {counted(last + 1, 'task')}"
    row = 100 * values[last, : last + 1]
    tested = np.flatnonzero(~np.isnan(row))
    oldest, newest, weakest = int(tested[0]), int(tested[-1]), int(np.nanargmin(row))
    if last == 0:
        finding = f"{where}, it stands at {row[0]:.1f} %."
    elif oldest == newest:
        finding = f"{where}, task {oldest + 1} alone was tested: {row[oldest]:.1f} %."
    else:
        name = "the newest" if newest == last else f"task {newest + 1}"
        finding = f"{where}, task {oldest + 1} stands at {row[oldest]:.1f} % and {name} at {row[newest]:.1f} %"
        finding += f"; task {weakest + 1} is weakest"
        finding += f" ({row[weakest]:.1f} %)." if weakest not in (oldest, newest) else "."
    return Picture(figure, finding)


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
    figure = _grid(lost, rows, columns, scale, -bound, bound, hover, "after task", dark)
    last = int(defined[-1])
    row = 100 * values[last, :last]
    worst = int(np.nanargmax(row))
    where = f"{capital(epsilon_phrase(epsilon, standing))}, after {last + 1} tasks"
    if row[worst] < 0.5:
        finding = f"{where}, no old task is more than 0.5 points below its best."
    elif last == 1:
        finding = f"{where}, task 1 is {row[worst]:.1f} points below its best."
    else:
        finding = f"{where}, task {worst + 1} lost most: {row[worst]:.1f} points since its best; mean {np.nanmean(row):.1f}."
    return Picture(figure, finding)


def _mean_matrix(accuracy: pd.DataFrame, epsilon: float, n_tasks: int) -> NDArray[np.float64]:
    """Mean [n_tasks, n_tasks] over the seeds that evaluated, NaN where none did."""
    rows = accuracy[accuracy["epsilon"] == epsilon]
    values = np.full((n_tasks, n_tasks), np.nan)
    for (k, i), values_of_pair in rows.groupby(["after_task", "on_task"]):
        values[int(k), int(i)] = float(values_of_pair["accuracy"].mean())
    return values


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
    values: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], scale: theme.Scale, low: float, high: float,
    hover: str, x_title: str, dark: bool,
) -> go.Figure:  # fmt: skip
    return go.Figure(
        theme.heatmap(  # numbers are rounded as in the sentence below: a browser rounds 48.25 up, Python down
            np.round(values, 1), columns, rows, scale, hover, dark=dark, zmin=low, zmax=high, hoverongaps=False,
            text="%{z:.0f}" if len(rows) <= _MAX_NUMBERS else None,
        ),
        layout=theme.layout(
            dark,
            height=_height(len(rows)),
            xaxis={"type": "category", "title": x_title, "showgrid": False, "nticks": 12},
            yaxis={"type": "category", "autorange": "reversed", "showgrid": False, "nticks": 14},
            margin={"l": 60, "r": 8, "t": 8, "b": 40},
            plot_bgcolor=theme.ink(dark).empty,
        ),
    )


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
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.62, 0.38], vertical_spacing=0.08)
    lines = (
        ("agreement", "agreement with the truth", "solid", "circle", 1),
        ("mean_rate", "anchors that see a pair, mean p̂", "dash", "square", 1),
        ("least_rate", "the same, worst pair", "dot", "diamond", 1),
        ("least_gap", "least gap", "solid", "triangle-up", 2),
    )
    for index, (column, name, dash, symbol, row) in enumerate(lines):
        colour = theme.colour_of_series(index, dark)
        hover = f"{name}, m = %{{x}}: %{{y:.2f}}"
        figure.add_trace(theme.line(names, means[column], name, colour, hover, dash=dash, symbol=symbol), row=row, col=1)
    figure.data[-1].showlegend = False
    figure.update_layout(theme.layout(dark, height=440, legend_room=76, margin={"l": 56, "r": 16, "t": 76, "b": 48}))
    figure.update_xaxes(type="category", showgrid=False, color=inks.soft)
    figure.update_xaxes(title_text="anchors m", row=2, col=1)
    if chosen in means.index:
        theme.add_marker(figure, names.index(f"{chosen}"), dark)
    figure.update_yaxes(range=[-0.05, 1.05], tickvals=[0, 0.5, 1], gridcolor=inks.grid, row=1, col=1)
    figure.update_yaxes(title_text="gap", rangemode="tozero", gridcolor=inks.grid, row=2, col=1)
    first, last = means.iloc[0], means.iloc[-1]
    low, high = means.index[0], means.index[-1]
    needed = f"{last['needed']:.0f} anchors" if math.isfinite(last["needed"]) else "more anchors than there can be"
    finding = (
        f"From {low} to {high} anchors p̂ stays near {last['mean_rate']:.2f} (it was {first['mean_rate']:.2f}); the worst "
        f"pair's largest gap grows from {first['least_gap']:.2g} to {last['least_gap']:.2g}. For gaps of "
        f"{last['gap']:.2g} at p = {last['least_rate']:.2f} Theorem 2 requires {needed}."
    )
    return Picture(figure, finding)


def signal_and_noise(statistics: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Length of each released statistic and of its noise, on a logarithmic axis.

    Columns statistic, signal, noise (0: none); several rows per statistic are averaged.
    """
    if statistics.empty:
        return theme.nothing("Nothing has been released yet.", dark, 260)
    means = statistics.groupby("statistic", sort=False)[["signal", "noise"]].mean()
    drowned = means.index[(means["noise"] > means["signal"])].tolist()
    names = means.index.tolist()
    shown = [f"{name}{BREAK}{bold('noise only')}" if name in drowned else name for name in names]
    positive = [value for value in means.to_numpy().ravel().tolist() if 0 < value < math.inf] or [1.0]
    floor, ceiling = min(positive) / 3, max(positive) * 6
    figure = theme.figure(
        dark,
        height=110 + 62 * len(names),
        legend_room=44,
        xaxis={"type": "log", "title": "length", "range": [math.log10(floor), math.log10(ceiling)], "dtick": 1},
        yaxis={"type": "category", "range": [len(names) - 0.4, -0.6], "showgrid": False},
        margin={"l": 96, "r": 16, "t": 44, "b": 44},
    )
    for index, (column, symbol) in enumerate((("signal", "circle"), ("noise", "x"))):
        values = means[column].where(means[column] > 0)
        marker = {"color": theme.colour_of_series(index, dark), "size": 13, "symbol": symbol}
        texts = ["" if not np.isfinite(value) else f"{value:.2g}" for value in values]
        numbers = {"mode": "markers+text", "text": texts, "textfont": {"color": theme.ink(dark).text}}
        side = "top center" if index == 0 else "bottom center"
        hover = f"%{{y}}: {column} %{{x:.3g}}"
        figure.add_trace(theme.marks(values, shown, column, marker, hover, textposition=side, **numbers))
    ratios = means["noise"] / means["signal"].where(means["signal"] > 0)
    if drowned:
        worst = ratios[drowned].idxmax()
        which = "; ".join(drowned)
        finding = f"Noise only: {which}. The noise on {worst} is {ratios[worst]:.3g} times as long as the statistic itself."
    elif (means["noise"] > 0).any():
        worst = ratios.idxmax()
        finding = f"Every released statistic stands above its noise; the closest is {worst}, at {ratios[worst]:.2g}."
    else:
        finding = "Nothing carries noise here."
    return Picture(figure, finding)
