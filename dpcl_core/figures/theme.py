"""Colours, layout, lines and labels that all figures share, in light and dark.

Eight colours that colour-blind readers can distinguish (the first four after Okabe and Ito), a fixed one per method. Within
one method's run, colour shows the budget, on a scale that is also ordered in lightness: a small ε is warm, a large one cold,
no noise is ink.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.events import References
from dpcl_core.figures.picture import Picture
from dpcl_core.spec import LabelSetting

Scale = Sequence[tuple[float, str]]  # places in [0, 1] and their colours
_MAX_POINTS = 1000
_NAMES_ROOM = 24  # pixels at the right edge where the names of curves begin
_LABEL_ROOM, ALIKE = 7.0, 0.5  # percentage points: a name's height, and levels with one name
_NAME_WIDTH, _LOOKS = 0.2, 21  # a name's share of the panel's width, and places in it where curves are looked for
_READABLE = 4.8  # above the required 4.5: a redrawn figure is slightly pale for a moment
DASHES: dict[LabelSetting, str] = {"prior-const": "solid", "prior": "dash", "data": "dot", "dp-learned": "dashdot"}
MARKERS: dict[LabelSetting, str] = {"prior-const": "circle", "prior": "square", "data": "x", "dp-learned": "diamond"}
CLAIMED_DASH, CLAIMED_PATTERN = "longdashdot", "/"  # for claimed epsilons: never the style of proved ones
_SERIES_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SERIES_SYMBOLS = ("circle", "square", "x", "diamond", "triangle-up")
_FIXED = {"cosine": 0}
_PALETTE = ("#0072b2", "#d55e00", "#008c68", "#b0578d", "#5f431c", "#8a5cf0", "#a3123f", "#9c8a4e")
_PALETTE_DARK = ("#5aafe6", "#f08a4b", "#3dbe98", "#e29ac6", "#f5e08a", "#7566ee", "#d23c50", "#b59a70")
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


_LIGHT = Ink(text="#1d2329", soft="#59636e", grid="#eceae2", empty="#f3f1ea", ground="#ffffff")
_DARK = Ink(text="#e8e6e1", soft="#a8b0b5", grid="#2c353b", empty="#20282d", ground="#1a2024")


def ink(dark: bool) -> Ink:
    """The neutral colours of the theme."""
    return _DARK if dark else _LIGHT


def colour_of_method(method: str, dark: bool) -> str:
    """The fixed colour of a method; a method without one gets one by its name, the same everywhere.

    There are more methods than colours: `colours_of_runs` tells several apart.
    """
    palette = _PALETTE_DARK if dark else _PALETTE
    return palette[_FIXED.get(method, zlib.crc32(method.encode()) % len(palette))]


def colours_of_runs(methods: Sequence[str], dark: bool) -> list[str]:
    """A colour for each of up to eight runs in one figure: its method's own where all of these differ, else its place's."""
    own = [colour_of_method(method, dark) for method in methods]
    return own if len(set(own)) == len(own) else [colour_of_series(place, dark) for place in range(len(own))]


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


def layout(dark: bool, *, height: int, legend_room: int = 0, **options: object) -> dict[str, object]:
    """The common layout's properties: transparent ground, quiet grid, stable zoom, no legend (lines are named at their end).

    `legend_room`: pixels above the plot for a legend, which is drawn only then. `options`: further layout properties.
    """
    if legend_room:
        legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemclick": False}
        margin = {"l": 52, "r": 16, "t": legend_room, "b": 44}
        options = {"legend": legend, "showlegend": True, "margin": margin} | options
    return {"template": _template(dark), "height": height, "uirevision": "keep", "hovermode": "closest", **options}


@cache
def _template(dark: bool) -> go.layout.Template:
    """What all figures of a theme have in common; a layout takes a copy."""
    inks = ink(dark)
    axis = {
        "gridcolor": inks.grid,
        "linecolor": inks.grid,
        "zerolinecolor": inks.grid,
        "tickfont": {"color": inks.soft},
        "title": {"font": {"color": inks.soft, "size": 12}, "standoff": 8},
        "automargin": True,
    }
    return go.layout.Template(
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


def figure(dark: bool, *, height: int, legend_room: int = 0, **options: object) -> go.Figure:
    """A figure without data in the common layout; arguments as in `layout`."""
    return go.Figure(layout=layout(dark, height=height, legend_room=legend_room, **options))


def percent_axis(**more: object) -> dict[str, object]:
    """An axis of accuracies, always 0 to 100 %, so that figures are comparable by eye."""
    ticks = [0, 25, 50, 75, 100]
    return {"range": [0, 101], "tickvals": ticks, "ticktext": [f"{tick} %" for tick in ticks], "zeroline": False, **more}


def task_axis(first: int, last: int) -> dict[str, object]:
    """An axis of tasks learned, from `first` to `last`, with at most 11 ticks and a little room at both ends."""
    step = max(1, -(-last // 10))
    room = 0.04 * max(last - first, 1)
    return {
        "title": "tasks learned",
        "tickvals": sorted({*range(first, last + 1, step), last}),
        "range": [first - room, last + room],
        "showgrid": False,
        "zeroline": False,
    }


def line(
    x: Sequence[object] | NDArray[np.float64], y: Sequence[float | None] | NDArray[np.float64], name: str, colour: str,
    hover: str, *, dash: str = "solid", symbol: str = "circle", size: int = 8, mode: str = "lines+markers",
) -> go.Scatter:  # fmt: skip
    """A line in one colour, with a mark at every point unless `mode` is "lines". `hover`: template of a point's text."""
    marker = {"color": colour, "symbol": symbol, "size": size}
    return marks(x, y, name, marker, hover, mode=mode, line={"color": colour, "width": 2.2, "dash": dash})


def series_line(
    x: Sequence[object] | NDArray[np.float64], y: Sequence[float | None] | NDArray[np.float64], name: str, index: int,
    hover: str, *, dark: bool, **more: Any,
) -> go.Scatter:  # fmt: skip
    """The line of the n-th of several series (up to five), with a colour, dash and mark of its own. `more`: as in `line`."""
    dash, symbol = _SERIES_DASHES[index % len(_SERIES_DASHES)], _SERIES_SYMBOLS[index % len(_SERIES_SYMBOLS)]
    return line(x, y, name, colour_of_series(index, dark), hover, dash=dash, symbol=symbol, **more)


def add_series(drawn: go.Figure, x: Any, series: Mapping[str, Any], hover: str, *, dark: bool, **more: Any) -> None:
    """Adds a line for each series, values [n] by name, over x [n]. `hover`: after the name; `more`: as in `line`."""
    for index, (name, values) in enumerate(series.items()):
        drawn.add_trace(series_line(x, values, name, index, f"{name}{hover}", dark=dark, **more))


def marks(x: Any, y: Any, name: str | None, marker: Mapping[str, object], hover: str = "", **more: Any) -> go.Scatter:
    """Points alone. `hover`: template of a point's text; empty: a point has none. `more`: further properties by name."""
    texts = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
    return go.Scatter({"x": x, "y": y, "name": name, "mode": "markers", "marker": marker} | texts | more)


def band(x: NDArray[np.float64], low: Any, high: Any, colour: str) -> go.Scatter:
    """The 95 % interval around a line, from `low` to `high` [n], both in the units of the axis."""
    low_x, low = decimated(x, np.array(low, dtype=np.float64))
    high_x, high = decimated(x, np.array(high, dtype=np.float64))
    return go.Scatter(
        x=np.concatenate([high_x, low_x[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself", mode="lines",
        fillcolor=translucent(colour, 0.15), line={"width": 0}, hoverinfo="skip", name="95 % interval over seeds",
    )  # fmt: skip


def heatmap(
    z: Any, x: Sequence[str], y: Sequence[str], scale: Scale, hover: str, *, dark: bool, text: str | None, **more: Any
) -> go.Heatmap:
    """A grid of shaded cells with gaps, each with its number. `text`: template of the numbers; None: none."""
    return go.Heatmap(
        z=z, x=x, y=y, colorscale=scale, showscale=False, xgap=3, ygap=3, texttemplate=text,
        textfont={"color": ink(dark).text}, hovertemplate=f"{hover}<extra></extra>", **more,
    )  # fmt: skip


def add_marker(drawn: go.Figure, x: float, dark: bool) -> None:
    """Adds a broad pale stripe behind the chosen place on the x axis."""
    drawn.add_vline(x=x, line={"color": ink(dark).grid, "width": 14}, layer="below")


def add_end_names(
    drawn: go.Figure, ends: Iterable[tuple[str, float, float, str]], gap: float, low: float, high: float, *, dark: bool,
    shift: int = 8, font: Mapping[str, float] | None = None, **where: object,
) -> None:  # fmt: skip
    """Adds names right of where lines end (name, x, y, colour), at least `gap` apart and within [low, high] if they fit."""
    ends = list(ends)
    for (name, x, _, colour), height in zip(ends, spread_labels([end[2] for end in ends], gap, low, high), strict=True):
        drawn.add_annotation(
            text=name, x=x, y=height, showarrow=False, xanchor="left", xshift=shift,
            font={"color": readable(colour, dark), **(font or {})}, **where,
        )  # fmt: skip


def known_levels(references: References | None) -> list[tuple[str, float]]:
    """The references that are known, in [0, 1], each with its name."""
    if references is None:
        return []
    known = [("chance", references.chance), ("untrained", references.untrained), ("at once, no noise", references.ceiling)]
    return [(name, level) for name, level in known if level is not None]


def level_in_pieces(level: float, pieces: Iterable[tuple[float, float]], dark: bool, **more: object) -> go.Scatter:
    """A dotted vertical line at a level, drawn between these heights alone: in the gaps stand names."""
    y = [height for start, end in pieces for height in (start, end, None)]
    return go.Scatter(
        x=[None if height is None else level for height in y], y=y, mode="lines", hoverinfo="skip",
        line={"color": ink(dark).soft, "width": 1, "dash": "dot"}, **more,
    )  # fmt: skip


def level_name(text: str, level: float, height: float, dark: bool) -> dict[str, object]:
    """An annotation: the name of a vertical line at a level (percent), beside it at this height."""
    place = {"x": level, "xanchor": "right" if level >= 50 else "left", "y": height, "yanchor": "middle"}
    return {"text": text, "showarrow": False, "font": {"color": ink(dark).soft, "size": 11.5}, **place}


def add_references(drawn: go.Figure, references: References, *, dark: bool, is_rising: bool = False) -> None:
    """Adds chance, the untrained network and the ceiling as thin lines with names, in percent, to the first panel.

    They differ by dash and name, not by colour. Names stand where curves seldom are: above the ceiling at the right, others
    at the left; the other way round where curves rise from left to right (`is_rising`). A name that would cover a curve goes
    where it covers none, if there is such a place.
    """
    low_x, high_x = (1.0, 0.0) if is_rising else (0.0, 1.0)
    chance, untrained = 100 * references.chance, 100 * (references.untrained or 0.0)
    is_beaten = references.untrained is not None and untrained < chance
    named = [(chance, f"chance {chance:.0f} %", "dot", low_x, chance < _LABEL_ROOM or is_beaten)]
    if references.untrained is not None and abs(untrained - chance) < ALIKE:
        named = [(chance, f"chance = untrained {chance:.0f} %", "dot", low_x, True)]
    elif references.untrained is not None:
        named.append((untrained, f"untrained {untrained:.0f} %", "dashdot", low_x, not is_beaten))
    if references.ceiling is not None:
        top = 100 * references.ceiling
        named.append((top, f"at once, no noise {top:.0f} %", "dash", high_x, True))
    for height, text, dash, x, is_above in named:
        drawn.add_shape(
            type="line", xref="paper", x0=0, x1=1, yref="y", y0=height, y1=height, layer="below",
            line={"color": ink(dark).soft, "width": 1.2, "dash": dash},
        )  # fmt: skip
        places = [(side, above) for above in (is_above, not is_above) for side in (x, 0.5, 1 - x)]
        side, above = next((place for place in places if not _covers(drawn, height, *place)), places[0])
        shift = -_NAMES_ROOM if side == 1 and not is_rising else 0
        add_note(drawn, height, text, x=side, above=above, dark=dark, shift=shift)


def _covers(drawn: go.Figure, height: float, side: float, is_above: bool) -> bool:
    """Whether a name at this level (0: left, 0.5: middle, 1: right) would cover a curve or a name in the first panel."""
    low, high = (height, height + _LABEL_ROOM) if is_above else (height - _LABEL_ROOM, height)
    for note in drawn.layout.annotations:
        bottom = note.y if note.yanchor == "bottom" else note.y - _LABEL_ROOM
        if note.x == side and bottom < high and low < bottom + _LABEL_ROOM:
            return True
    curves = [curve for curve in drawn.data if curve.type == "scatter" and curve.yaxis in (None, "y")]
    steps = sorted({x for curve in curves for x in curve.x})
    looked_at = np.clip(np.linspace(side - _NAME_WIDTH, side + _NAME_WIDTH, _LOOKS), 0, 1)
    for curve in curves:
        known = [(steps.index(x), y) for x, y in zip(curve.x, curve.y, strict=True) if y is not None]
        if known:
            places, heights = np.array(known, dtype=np.float64).T
            drawn_at = np.interp(looked_at, places / max(len(steps) - 1, 1), heights, left=np.nan, right=np.nan)
            if ((low <= drawn_at) & (drawn_at <= high)).any():
                return True
    return False


def add_level(drawn: go.Figure, height: float, text: str, *, x: float, above: bool, dark: bool) -> None:
    """Adds a dotted horizontal line, with its name above or below it at `x` (0: left, 1: right edge)."""
    drawn.add_hline(y=height, line={"color": ink(dark).soft, "width": 1, "dash": "dot"})
    add_note(drawn, height, text, x=x, above=above, dark=dark)


def add_note(drawn: go.Figure, height: float, text: str, *, x: float, above: bool, dark: bool, shift: int = 0) -> None:
    """Adds a small text above or below this height, at `x` (0: left, 1: right edge), moved right by `shift` pixels."""
    drawn.add_annotation(
        text=text, x=x, xref="paper", y=height, xanchor={0.0: "left", 1.0: "right"}.get(x, "center"),
        yanchor="bottom" if above else "top", showarrow=False, font={"color": ink(dark).soft, "size": 11.5}, xshift=shift,
    )  # fmt: skip


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights of labels as close as possible to `wanted`, at least `gap` apart and within [low, high] if they fit."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed: list[float] = []
    for index in order:
        placed.append(max(wanted[index], placed[-1] + gap) if placed else max(wanted[index], low))
    result = [0.0] * len(wanted)
    for index, height in zip(reversed(order), reversed(placed), strict=True):
        result[index] = min(height, high)  # push back down labels that were pushed out at the top
        high = result[index] - gap
    return result


def decimated(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At most 1,000 points of a line [n] that keep its extremes: first, last, lowest and highest of every stretch."""
    if len(x) <= _MAX_POINTS:
        return x, y
    edges = np.linspace(0, len(x), _MAX_POINTS // 2, dtype=np.int64)  # two points from each of 499 stretches, and two ends
    rows = {0, len(x) - 1}
    for start, stop in pairwise(edges):
        rows |= {int(start + np.argmin(y[start:stop])), int(start + np.argmax(y[start:stop]))}
    indices = np.array(sorted(rows))
    return x[indices], y[indices]


def nothing(sentence: str, dark: bool, height: int) -> Picture:
    """A picture of the usual height with a sentence why there is nothing to draw yet."""
    hidden = {"visible": False}
    drawn = figure(dark, height=height, xaxis=hidden, yaxis=hidden)
    middle = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    drawn.add_annotation(text=sentence, showarrow=False, font_color=ink(dark).soft, **middle)
    return Picture(drawn, sentence)


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


# A figure in presenter size: the same picture with larger letters, lines and markers.


def enlarged(figure: go.Figure, factor: float) -> go.Figure:
    """A copy with letters, margins, lines and markers `factor` times as large; what it shows and its height stay."""
    larger = go.Figure(figure)
    base = larger.layout.font.size or larger.layout.template.layout.font.size or 12
    larger.update_layout(font_size=factor * base)
    margin = larger.layout.margin
    margin.update({side: factor * margin[side] for side in ("l", "r", "t", "b") if margin[side] is not None})
    for annotation in larger.layout.annotations:
        annotation.font.size = factor * (annotation.font.size or base)
    template = larger.layout.template.layout
    for axis in (template.xaxis, template.yaxis, *larger.select_xaxes(), *larger.select_yaxes()):
        for font in (axis.tickfont, axis.title.font):
            if font.size is not None:
                font.size *= factor
    for trace in larger.data:
        for part in (trace[name] for name in ("line", "marker", "textfont") if name in trace):
            for key in ("width", "size"):
                if key in part and isinstance(part[key], int | float):
                    part[key] *= factor
    return larger
