"""Colours, layout, lines and labels that all figures share, in light and dark.

Eight colours that colour-blind readers can distinguish (the first four after Okabe and Ito), a fixed one per method. Within
one method's run, colour shows the budget, on a scale that is also ordered in lightness: a small ε is warm, a large one cold,
no noise is ink.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.figures.picture import Picture
from dpcl_core.spec import LabelSetting

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from dpcl_core.events import References

Properties = dict[str, Any]  # of a trace, an axis or a layout, by Plotly's names
Scale = Sequence[tuple[float, str]]  # places in [0, 1] and their colours
_MAX_POINTS = 1000
_NAMES_ROOM = 24  # pixels at the right edge where the names of curves begin
_LABEL_ROOM, _ALIKE = 7.0, 5e-3  # a name's height in percentage points, and levels in [0, 1] with one name
_BOTH = "chance = untrained"
_NAME_WIDTH, _LOOKS = 0.2, 21  # a name's share of the panel's width, and places in it where curves are looked for
_READABLE = 4.8  # above the required 4.5: a redrawn figure is slightly pale for a moment
DASHES: dict[LabelSetting, str] = {"prior-const": "solid", "prior": "dash", "data": "dot", "dp-learned": "dashdot"}
MARKERS: dict[LabelSetting, str] = {"prior-const": "circle", "prior": "square", "data": "x", "dp-learned": "diamond"}
CLAIMED_DASH, CLAIMED_PATTERN = "longdashdot", "/"  # for claimed epsilons: never the style of proved ones
_SERIES_LOOKS = (("solid", "circle"), ("dash", "square"), ("dot", "x"), ("dashdot", "diamond"), ("longdash", "triangle-up"))
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
    (low, start), (high, end) = next(pair for pair in pairwise(stops) if place <= pair[1][0])
    return _mixed(start, end, (place - low) / (high - low))


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


def layout(dark: bool, height: float, *, legend_room: int = 0, **options: Any) -> Properties:
    """The common layout's properties: transparent ground, quiet grid, stable zoom, no legend (lines are named at their end).

    `legend_room`: pixels above the plot for a legend, which is drawn only then. `options`: further layout properties; a
    margin is (left, right, top, bottom), and an axis' title may be its text alone.
    """
    if legend_room:
        legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemclick": False}
        options = {"legend": legend, "showlegend": True, "margin": (52, 16, legend_room, 44)} | options
    if "margin" in options:
        options["margin"] = dict(zip("lrtb", options["margin"], strict=True))
    for name in options:
        if name[1:5] == "axis" and isinstance(title := options[name].get("title"), str):
            options[name] = options[name] | {"title": {"text": title}}
    return {"template": _template(dark), "height": height, "uirevision": "keep", "hovermode": "closest", **options}


@cache
def _template(dark: bool) -> Properties:
    """What all figures of a theme have in common."""
    inks = ink(dark)
    axis = {
        "gridcolor": inks.grid, "linecolor": inks.grid, "zerolinecolor": inks.grid, "tickfont": {"color": inks.soft},
        "title": {"font": {"color": inks.soft, "size": 12}, "standoff": 8}, "automargin": True,
    }  # fmt: skip
    family = '"Source Sans", "Source Sans Pro", system-ui, sans-serif'
    common = {
        "font": {"family": family, "size": 13, "color": inks.text}, "xaxis": axis, "yaxis": axis,
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "showlegend": False,
        "hoverlabel": {"bgcolor": inks.ground, "bordercolor": inks.soft, "font": {"color": inks.text}},
        "margin": {"l": 48, "r": 16, "t": 16, "b": 40},
    }  # fmt: skip
    return {"layout": common}


def percent_axis(**more: Any) -> Properties:
    """An axis of accuracies, always 0 to 100 %, so that figures are comparable by eye."""
    ticks = [0, 25, 50, 75, 100]
    return {"range": [0, 101], "tickvals": ticks, "ticktext": [f"{tick} %" for tick in ticks], "zeroline": False, **more}


def task_axis(first: int, last: int) -> Properties:
    """An axis of tasks learned, from `first` to `last`, with at most 11 ticks and a little room at both ends."""
    step = max(1, -(-last // 10))
    room = 0.04 * max(last - first, 1)
    return {
        "title": "tasks learned", "tickvals": sorted({*range(first, last + 1, step), last}), "showgrid": False,
        "zeroline": False, "range": [first - room, last + room],
    }  # fmt: skip


def panels(heights: Sequence[float], gap: float, x: Properties, ys: Sequence[Properties]) -> Properties:
    """The axes of plots above one another with a common x axis, from the top; `gap`: between two, a share of the height.

    `heights`: of the plots, relative to one another. The title and labels of `x` are below the last one.
    """
    axes, top, free = dict[str, Any](), 1.0, 1 - gap * (len(heights) - 1)
    for place, (height, y) in enumerate(zip(heights, ys, strict=True)):
        number, is_last = str(place + 1) if place else "", place == len(heights) - 1
        bottom = 0.0 if is_last else top - free * height / sum(heights)
        inner = {} if is_last else {"matches": f"x{len(heights)}", "showticklabels": False, "title": None}
        axes[f"xaxis{number}"] = {**x, "anchor": f"y{number}", "domain": [0.0, 1.0], **inner}
        axes[f"yaxis{number}"] = {**y, "anchor": f"x{number}", "domain": [bottom, top]}
        top = bottom - gap
    return axes


def error_bars(array: Any, colour: str, thickness: float, *, below: Any = None, width: int | None = None) -> Properties:
    """Bars from a point to both sides by `array`, or by `below` to the lower one; `width`: half of their caps'."""
    sides = {} if below is None else {"symmetric": False, "arrayminus": below}
    return {"type": "data", "array": array, "color": colour, "thickness": thickness, "width": width, **sides}


class Chart:
    """A figure in the making, in the common look, with a method for each kind of mark that it can have.

    `axes`: the x axis and the y axis, unless `options`, which are those of `layout`, name several. `more` of a method:
    further properties of the trace or the annotation.
    """

    def __init__(self, dark: bool, height: float, *axes: Properties, **options: Any) -> None:
        self.dark, self.ink = dark, ink(dark)
        self.layout = layout(dark, height, **options, **dict[str, Any](zip(("xaxis", "yaxis"), axes, strict=False)))
        self.traces, self.shapes, self.texts = list[Properties](), list[Properties](), list[Properties]()

    def colour(self, index: int) -> str:
        """The colour of the n-th of several series."""
        return colour_of_series(index, self.dark)

    def picture(self, finding: str) -> Picture:
        """The figure with its finding."""
        return Picture(self.traces, self.layout | {"shapes": self.shapes, "annotations": self.texts}, finding)

    # Traces

    def add(self, kind: Literal["scatter", "bar", "heatmap"], hover: str = "", **properties: Any) -> Properties:
        """Adds a trace and returns it. `hover`: template of a point's text; empty: a point has none."""
        said = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
        self.traces.append({"type": kind, **said, **properties})
        return self.traces[-1]

    def marks(self, x: Any, y: Any, name: str | None, marker: Properties, hover: str = "", **more: Any) -> Properties:
        """Adds points alone."""
        return self.add("scatter", hover, **{"x": x, "y": y, "name": name, "mode": "markers", "marker": marker, **more})

    def line(
        self, x: Any, y: Any, name: str, colour: str, hover: str = "", *, dash: str = "solid", symbol: str = "circle",
        size: int = 8, mode: str = "lines+markers", **more: Any,
    ) -> Properties:  # fmt: skip
        """Adds a line in one colour, with a mark at every point unless `mode` is "lines"."""
        line, marker = {"color": colour, "width": 2.2, "dash": dash}, {"color": colour, "symbol": symbol, "size": size}
        return self.marks(x, y, name, marker, hover, mode=mode, line=line, **more)

    def series(self, index: int, x: Any, y: Any, name: str, hover: str, **more: Any) -> Properties:
        """Adds the line of the n-th of several series (up to five), with a colour, dash and mark of its own.

        `hover`: after the name.
        """
        dash, symbol = _SERIES_LOOKS[index % len(_SERIES_LOOKS)]
        return self.line(x, y, name, self.colour(index), f"{name}{hover}", dash=dash, symbol=symbol, **more)

    def band(self, x: NDArray[np.float64], low: Any, high: Any, colour: str) -> None:
        """Adds the 95 % interval around a line, from `low` to `high` [n], both in the units of the axis."""
        low_x, low = decimated(x, np.array(low, dtype=np.float64))
        high_x, high = decimated(x, np.array(high, dtype=np.float64))
        self.add(
            "scatter", x=np.concatenate([high_x, low_x[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself",
            mode="lines", fillcolor=translucent(colour, 0.15), line={"width": 0}, name="95 % interval over seeds",
        )  # fmt: skip

    def cells(self, z: Any, x: Sequence[str], y: Sequence[str], scale: Scale, hover: str, **more: Any) -> None:
        """Adds a grid of shaded cells with gaps; `texttemplate`: of the numbers in them."""
        gaps = {"xgap": 3, "ygap": 3, "showscale": False, "colorscale": scale, "textfont": {"color": self.ink.text}}
        self.add("heatmap", hover, z=z, x=x, y=y, **gaps, **more)

    # Lines across the plots, and texts

    def across(self, axis: Literal["x", "y"], at: float, *, colour: str | None = None, **line: object) -> None:
        """Adds a line through all plots at a place on an axis; dotted and soft unless said."""
        other = "y" if axis == "x" else "x"
        look = {"color": colour or self.ink.soft, "width": 1, "dash": "dot", **line}
        for number in [name[5:] for name in self.layout if name[:5] == "xaxis"] or [""]:
            along = {f"{other}0": 0, f"{other}1": 1, f"{other}ref": f"{other}{number} domain"}
            place = {f"{axis}0": at, f"{axis}1": at, f"{axis}ref": f"{axis}{number}"}
            self.shapes.append({"type": "line", **place, **along, "line": look})

    def stripe(self, x: float) -> None:
        """Adds a broad pale stripe behind the chosen place on the x axis."""
        before = len(self.shapes)
        self.across("x", x, colour=self.ink.grid, width=14, dash=None)
        for shape in self.shapes[before:]:
            shape["layer"] = "below"

    def text(self, text: str, x: Any, y: Any, *, colour: str = "", size: float | None = None, **more: Any) -> None:
        """Adds a text at a place; soft unless a colour is said."""
        font = {"color": colour or self.ink.soft, "size": size}
        self.texts.append({"text": text, "x": x, "y": y, "showarrow": False, "font": font, **more})

    def note(self, height: float, text: str, *, x: float, above: bool, shift: int = 0) -> None:
        """Adds a small text above or below this height, at `x` (0: left, 1: right edge), moved right by `shift` pixels."""
        side, anchor = {0.0: "left", 1.0: "right"}.get(x, "center"), "bottom" if above else "top"
        self.text(text, x, height, size=11.5, xref="paper", xanchor=side, yanchor=anchor, xshift=shift)

    def level(self, height: float, text: str, *, x: float, above: bool) -> None:
        """Adds a dotted horizontal line, with its name above or below it at `x` (0: left, 1: right edge)."""
        self.across("y", height)
        self.note(height, text, x=x, above=above)

    def end_names(
        self, ends: Iterable[tuple[str, float, float, str]], gap: float, low: float, high: float, **more: Any
    ) -> None:
        """Adds names right of lines' ends (name, x, y, colour), at least `gap` apart and within [low, high] if they fit."""
        ends = list(ends)
        for (name, x, _, colour), y in zip(ends, spread_labels([end[2] for end in ends], gap, low, high), strict=True):
            self.text(name, x, y, colour=readable(colour, self.dark), **{"xanchor": "left", "xshift": 8, **more})

    def upright_level(self, level: float, pieces: Iterable[tuple[float, float]], **more: Any) -> None:
        """Adds a dotted vertical line at a level, drawn between these heights alone: in the gaps stand names."""
        y = [height for start, end in pieces for height in (start, end, None)]
        line = {"color": self.ink.soft, "width": 1, "dash": "dot"}
        self.add("scatter", x=[None if height is None else level for height in y], y=y, mode="lines", line=line, **more)

    def level_name(self, text: str, level: float, height: float) -> None:
        """Adds the name of a vertical line at a level (percent), beside it at this height."""
        self.text(text, level, height, size=11.5, xanchor="right" if level >= 50 else "left", yanchor="middle")

    def references(self, references: References | None, *, is_rising: bool = False) -> None:
        """Adds chance, the untrained network and the ceiling as thin lines with names, in percent, to the first plot.

        They differ by dash and name, not by colour. Names stand where curves seldom are: above the ceiling at the right,
        others at the left; the other way round where curves rise from left to right (`is_rising`). A name that would cover a
        curve goes where it covers none, if there is such a place.
        """
        known = {name: 100 * level for name, level in levels(references, is_merged=True).items()}
        low_x, high_x = (1.0, 0.0) if is_rising else (0.0, 1.0)
        chance, untrained = known.get("chance", 0.0), known.get("untrained", math.inf)
        looks = {  # dash, side, and whether the name is above the line
            "chance": ("dot", low_x, chance < _LABEL_ROOM or untrained < chance),
            _BOTH: ("dot", low_x, True),
            "untrained": ("dashdot", low_x, untrained >= chance),
            "at once, no noise": ("dash", high_x, True),
        }
        low, high = self.layout.get("xaxis", {}).get("range", (0, 1))
        named = [(note["x"], note["y"]) for note in self.texts if note.get("xref", "x") == "x"]  # at the ends of curves
        for name, height in known.items():
            dash, x, is_above = looks[name]
            line = {"color": self.ink.soft, "width": 1.2, "dash": dash}
            met = [(x - low) / (high - low) for x, y in named if abs(y - height) < _LABEL_ROOM]
            end = min([1.0, *met])  # no line runs through a name
            ends = {"x0": 0, "x1": end, "y0": height, "y1": height}
            self.shapes.append({"type": "line", "xref": "paper", "yref": "y", "layer": "below", "line": line, **ends})
            places = [(side, above) for above in (is_above, not is_above) for side in (x, 0.5, 1 - x)]
            side, above = next((place for place in places if not self._covers(height, *place)), places[0])
            shift = -_NAMES_ROOM if side == 1 and not is_rising else 0
            self.note(height, f"{name} {height:.0f} %", x=side, above=above, shift=shift)

    def _covers(self, height: float, side: float, is_above: bool) -> bool:
        """Whether a name at this level (0: left, 0.5: middle, 1: right) would cover a curve or a name in the first plot."""
        low, high = (height, height + _LABEL_ROOM) if is_above else (height - _LABEL_ROOM, height)
        for note in self.texts:
            bottom = note["y"] if note.get("yanchor") == "bottom" else note["y"] - _LABEL_ROOM
            if note["x"] == side and bottom < high and low < bottom + _LABEL_ROOM:
                return True
        curves = [one for one in self.traces if one["type"] == "scatter" and one.get("yaxis", "y") == "y"]
        steps = sorted({x for curve in curves for x in curve["x"]})
        looked_at = np.clip(np.linspace(side - _NAME_WIDTH, side + _NAME_WIDTH, _LOOKS), 0, 1)
        for curve in curves:
            known = [(steps.index(x), y) for x, y in zip(curve["x"], curve["y"], strict=True) if y is not None]
            if known:
                places, heights = np.array(known, dtype=np.float64).T
                drawn_at = np.interp(looked_at, places / max(len(steps) - 1, 1), heights, left=np.nan, right=np.nan)
                if ((low <= drawn_at) & (drawn_at <= high)).any():
                    return True
        return False


def levels(references: References | None, *, is_merged: bool = False) -> dict[str, float]:
    """The references that are known, in [0, 1], by name. `is_merged`: chance and the untrained network are one if alike."""
    if references is None:
        return {}
    chance, untrained, ceiling = references.chance, references.untrained, references.ceiling
    known = {"chance": chance, "untrained": untrained, "at once, no noise": ceiling}
    if is_merged and untrained is not None and abs(untrained - chance) < _ALIKE:
        known = {_BOTH: chance, "at once, no noise": ceiling}
    return {name: level for name, level in known.items() if level is not None}


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
    chart = Chart(dark, height, {"visible": False}, {"visible": False})
    chart.text(sentence, 0.5, 0.5, xref="paper", yref="paper")
    return chart.picture(sentence)


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
    import plotly.graph_objects as go

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
