"""Figures of the gain from more anchors, and of the noise in released statistics."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpcl_core.figures import theme
from dpcl_core.figures.picture import BREAK, Picture, bold


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
        figure.add_trace(
            theme.line(names, means[column], name, colour, f"{name}, m = %{{x}}: %{{y:.2f}}", dash=dash, symbol=symbol),
            row=row,
            col=1,
        )
    figure.data[-1].showlegend = False
    figure.update_layout(theme.layout(dark, height=440, legend_room=76, margin={"l": 56, "r": 16, "t": 76, "b": 48}))
    figure.update_xaxes(type="category", showgrid=False, color=inks.soft)
    figure.update_xaxes(title_text="anchors m", row=2, col=1)
    if chosen in means.index:
        figure.add_vline(x=names.index(f"{chosen}"), line={"color": inks.grid, "width": 14}, layer="below")
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
    inks, names = theme.ink(dark), means.index.tolist()
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
        figure.add_trace(
            go.Scatter(
                x=values, y=shown, mode="markers+text", name=column,
                marker={"color": theme.colour_of_series(index, dark), "size": 13, "symbol": symbol},
                text=["" if not np.isfinite(value) else f"{value:.2g}" for value in values],
                textposition="top center" if index == 0 else "bottom center", textfont={"color": inks.text},
                hovertemplate=f"%{{y}}: {column} %{{x:.3g}}<extra></extra>",
            )
        )  # fmt: skip
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
