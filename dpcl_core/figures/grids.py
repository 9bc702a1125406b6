"""Grids with numbers: the accuracy matrix and the forgetting of each old task; anchors and released statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
