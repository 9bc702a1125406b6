"""Colours, axes and line handling of all figures, in light and dark.

Eight colours that colour-blind readers can distinguish (after Okabe and Ito), fixed per method. Within one method's run,
colour shows the budget, on a scale that is also ordered in lightness: a small ε is warm, a large one cold, no noise is ink.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.spec import LabelSetting

MAX_POINTS = 1000
_READABLE = 4.8  # above the required 4.5: a redrawn figure is slightly pale for a moment
DASHES: dict[LabelSetting, str] = {"prior-const": "solid", "prior": "dash", "data": "dot", "dp-learned": "dashdot"}
MARKERS: dict[LabelSetting, str] = {"prior-const": "circle", "prior": "square", "data": "x", "dp-learned": "diamond"}
CLAIMED_DASH, CLAIMED_PATTERN = "longdashdot", "/"  # for claimed epsilons: never the style of proved ones
_FIXED = {"cosine": 0}
_PALETTE = ("#0072b2", "#d55e00", "#008c68", "#b0578d", "#a87900", "#3a87b8", "#6a4fb3", "#7a5230")
_PALETTE_DARK = ("#5aafe6", "#f08a4b", "#3dbe98", "#e29ac6", "#e0b040", "#8fd0f5", "#b3a0f2", "#c79b76")
# (log10 epsilon, colour); colours between two of them are interpolated
_BUDGETS = ((-1.0, "#dd6a0a"), (0.0, "#0c7452"), (0.9, "#175fa8"), (1.3, "#3c3590"))
_BUDGETS_DARK = ((-1.0, "#f5944a"), (0.0, "#3fc39b"), (0.9, "#62b2ee"), (1.3, "#b0a4f5"))


@dataclass(frozen=True, slots=True)
class Ink:
    """The neutral colours of one theme."""

    text: str
    soft: str
    grid: str
    empty: str
    ground: str


LIGHT = Ink(text="#1d2329", soft="#59636e", grid="#eceae2", empty="#f3f1ea", ground="#ffffff")
DARK = Ink(text="#e8e6e1", soft="#a8b0b5", grid="#2c353b", empty="#20282d", ground="#1a2024")


def ink(dark: bool) -> Ink:
    """The neutral colours of the theme."""
    return DARK if dark else LIGHT


def colour_of_method(method: str, dark: bool) -> str:
    """The fixed colour of a method; a method without one gets one by its name, the same everywhere."""
    palette = _PALETTE_DARK if dark else _PALETTE
    return palette[_FIXED.get(method, zlib.crc32(method.encode()) % len(palette))]


def colour_of_series(index: int, dark: bool) -> str:
    """The colour of the n-th of several series."""
    palette = _PALETTE_DARK if dark else _PALETTE
    return palette[index % len(palette)]


def colour_of_epsilon(epsilon: float, dark: bool) -> str:
    """The colour of a budget, the same in every figure."""
    if math.isinf(epsilon):
        return ink(dark).text
    stops = _BUDGETS_DARK if dark else _BUDGETS
    place = min(max(math.log10(epsilon), stops[0][0]), stops[-1][0])
    for (low, start), (high, end) in pairwise(stops):
        if place <= high:
            return _mixed(start, end, (place - low) / (high - low))
    return stops[-1][1]


def readable(colour: str, dark: bool) -> str:
    """The colour for text: mixed with ink to a contrast of 4.8 to 1 on a card (WCAG 2.2, 1.4.3, requires 4.5)."""
    inks = ink(dark)
    steps = (_mixed(colour, inks.text, share / 20) for share in range(21))
    return next((mixed for mixed in steps if contrast(mixed, inks.ground) >= _READABLE), inks.text)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def translucent(colour: str, alpha: float) -> str:
    """The colour as the fill of a band."""
    return "rgba({}, {}, {}, {:g})".format(*_rgb(colour), alpha)


def layout(dark: bool, *, height: int, **axes: object) -> go.Layout:
    """The common layout: transparent ground, quiet grid, stable zoom, no legend (lines are named at their ends)."""
    inks = ink(dark)
    axis = {
        "gridcolor": inks.grid,
        "linecolor": inks.grid,
        "zerolinecolor": inks.grid,
        "tickfont": {"color": inks.soft},
        "title": {"font": {"color": inks.soft, "size": 12}, "standoff": 8},
        "automargin": True,
    }
    template = go.layout.Template(
        layout={
            "font": {"family": '"Source Sans", "Source Sans Pro", system-ui, sans-serif', "size": 13, "color": inks.text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": inks.ground, "bordercolor": inks.soft, "font": {"color": inks.text}},
            "showlegend": False,
            "margin": {"l": 48, "r": 16, "t": 16, "b": 40},
        }
    )
    return go.Layout(template=template, height=height, uirevision="keep", hovermode="closest", **axes)


def percent_axis(**more: object) -> dict[str, object]:
    """An axis of accuracies, always 0 to 100 %, so that figures are comparable by eye."""
    ticks = [0, 25, 50, 75, 100]
    return {"range": [0, 101], "tickvals": ticks, "ticktext": [f"{tick} %" for tick in ticks], "zeroline": False, **more}


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights of labels as close as possible to `wanted`, at least `gap` apart and within [low, high] if they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed: list[float] = []
    for index in order:
        placed.append(max(wanted[index], placed[-1] + gap) if placed else max(wanted[index], low))
    ceiling = high
    for place in range(len(placed) - 1, -1, -1):  # push back down labels that were pushed out at the top
        placed[place] = min(placed[place], ceiling)
        ceiling = placed[place] - gap
    result = [0.0] * len(wanted)
    for index, height in zip(order, placed, strict=True):
        result[index] = height
    return result


def decimated(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most 1,000 points of a line [n] that keep its extremes: first, last, lowest and highest of every stretch."""
    if len(x) <= MAX_POINTS:
        return x, y
    edges = np.linspace(0, len(x), MAX_POINTS // 2, dtype=np.int64)  # two points from each of 499 stretches, and two ends
    rows = {0, len(x) - 1}
    for start, stop in pairwise(edges):
        rows |= {int(start + np.argmin(y[start:stop])), int(start + np.argmax(y[start:stop]))}
    indices = np.array(sorted(rows))
    return x[indices], y[indices]


def empty(sentence: str, dark: bool, height: int) -> go.Figure:
    """A figure of the usual size with a sentence why there is nothing to draw yet."""
    figure = go.Figure(layout=layout(dark, height=height, xaxis={"visible": False}, yaxis={"visible": False}))
    middle = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    figure.add_annotation(text=sentence, showarrow=False, font_color=ink(dark).soft, **middle)
    return figure


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _mixed(start: str, end: str, share: float) -> str:
    mixed = (round(a + share * (b - a)) for a, b in zip(_rgb(start), _rgb(end), strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _luminance(colour: str) -> float:
    """Relative luminance of sRGB, in [0, 1]."""
    parts = np.array(_rgb(colour)) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
