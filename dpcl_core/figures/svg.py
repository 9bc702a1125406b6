"""A figure as SVG, without a browser or JavaScript: the kinds of figures that this package builds.

They have lines, bands, marks, bars and heatmaps, one horizontal legend, lines and rectangles as shapes, and annotations
without arrows. What such a figure leaves open is chosen simply: ranges, ticks, margins that make room for labels. Other
properties are ignored: `tests/figures/test_svg.py` fails for a figure that has some. All else is drawn by Plotly.
"""

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.util import find_spec
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpcl_core.figures import svg_parts, theme
from dpcl_core.figures.picture import Picture
from dpcl_core.figures.svg_parts import EDGE, PAD, SIZE, Attributes, Axis, Point, element, outline, paint, path, text

Props = Mapping[str, Any]

_FIELD = re.compile(r"%\{([\w.]+)(?:\[(\d)\])?(?::([^}]+))?\}")
_TITLE, _SOURCE, _STANDOFF = 12.0, 11.0, 8.0  # pixels: letters of axes' titles and of the source, and from labels to titles
_KEY, _KEY_TEXT, _KEY_GAP = 30.0, 40.0, 10.0  # pixels: a legend's line, where its text begins, and between two items
_SHARES = {"left": 0.0, "center": 0.5, "right": 1.0, "top": 0.0, "middle": 0.5, "bottom": 1.0}
_ID = "\0"  # of definitions, before the drawing's own prefix is known


def draw_svg(picture: Picture, *, width: int = 720, dark: bool = False, source: str = "") -> str:
    """The figure as one self-contained `<svg>` element, `width` pixels wide and as high as its layout says.

    Its title and description are the finding. `dark`: the theme that the figure was built for; its ground is painted.
    `source`: a line below the figure, such as its provenance. Raises ValueError for a trace that it cannot draw.
    """
    first, dot, _ = picture.finding.partition(". ")
    named = element("title", escape(first + dot.strip())) + element("desc", escape(picture.finding))
    return _Drawing(picture, width, dark).written(source, named)


def in_page(picture: Picture, *, place: int, factor: float = 1.0, dark: bool = False) -> dict[str, object]:
    """The figure as a document for the element in `assets/picture/`: SVG, its width in pixels, and what its points say.

    `place`: the width of its place on the page; with letters and lines `factor` times as large, the drawing is that much
    narrower and shown as wide. It has no title, which a browser would show beside the words of a point.
    """
    drawing = _Drawing(picture, round(place / factor), dark)
    return {"svg": drawing.written(), "width": drawing.width, "place": place, "said": drawing.said}


class _Drawing:
    """The figure with its axes and margins settled. `said`: what points say near a pointer, and where, once it is drawn."""

    def __init__(self, picture: Picture, width: int, dark: bool) -> None:
        self.finding, self.inks, self.width = picture.finding, theme.ink(dark), width
        template = picture.layout["template"]["layout"]
        self.layout = {**template, **_plain(picture.layout)}
        self.height, self.definitions = float(self.layout["height"]), dict[str, int]()
        self.said: list[tuple[float, float, str]] = []
        usual = {"name": "", "marker": {}, "line": {}, "mode": "", "orientation": "v"}
        traces = (usual | _plain(trace) for trace in picture.traces)
        self.traces = sorted(traces, key=lambda trace: ("heatmap", "bar", "scatter").index(trace["type"]))
        bars = [trace for trace in self.traces if trace["type"] == "bar" and "width" not in trace]
        for place, trace in enumerate(bars):  # side by side; those with a width stand where they are
            trace["width"] = (1 - self.layout.get("bargap", 0.2)) / len(bars)
            trace["shift"] = (place - (len(bars) - 1) / 2) * trace["width"]
        self.axes = {name[0] + name[5:]: self._axis(name) for name in self.layout if name[1:5] == "axis"}
        for trace in self.traces:
            trace["axes"] = self.axes[trace.get("xaxis", "x")], self.axes[trace.get("yaxis", "y")]
            trace["ink"] = trace["line"].get("color") or trace["marker"].get("color") or self.inks.text
        margins = template["margin"] | self.layout["margin"]
        self._place(margins)
        for _ in range(3):  # labels depend on margins, and margins on labels
            self._place(self._needed(margins))

    def _axis(self, name: str) -> Axis:
        letter, props = name[0], self.layout[name]
        traces = [trace for trace in self.traces if trace.get(f"{letter}axis", letter) == letter + name[5:]]
        values = [value for trace in traces for value in trace.get(letter, ())]
        is_named = props.get("type") == "category" or any(isinstance(value, str) for value in values)
        names = dict.fromkeys([*props.get("categoryarray", ()), *values]) if is_named else ()
        axis = Axis(letter, 0, 1, props, {one: place for place, one in enumerate(names)}, props.get("type") == "log")
        feet = [0.0] if props.get("rangemode") == "tozero" or any(one["type"] == "bar" for one in traces) else []
        feet = [-0.5, len(names) - 0.5] if names and any(one["type"] != "scatter" for one in traces) else feet
        axis.fit([*values, *chain(*(end for one in traces for end in _ends(one, letter)))], feet)
        return axis

    # Margins

    def _place(self, margins: Mapping[str, float]) -> None:
        """Gives every axis its place."""
        wide = max(self.width - margins["l"] - margins["r"], 0.2 * self.width)
        high = max(self.height - margins["t"] - margins["b"], 0.2 * self.height)
        self.paper = {"x": Axis("x", margins["l"], wide), "y": Axis("y", margins["t"] + high, -high)}
        for axis in self.axes.values():
            axis.start, end = map(self.paper[axis.letter].pixel, axis.props.get("domain", (0.0, 1.0)))
            axis.length = end - axis.start
        for y in (axis for axis in self.axes.values() if "scaleanchor" in axis.props):
            both = (self.axes[y.props["scaleanchor"]], y)
            unit = min(abs(axis.length / (axis.high - axis.low)) for axis in both)
            for axis in both:  # a unit is as long on both: the longer axis shows more, or leaves some of its place free
                used, middle = unit * abs((axis.high - axis.low) / axis.length), (axis.low + axis.high) / 2
                if "constrain" in axis.props:
                    axis.start += (1 - used) * axis.length * {"left": 0.0, "top": 1.0}[axis.props["constraintoward"]]
                    axis.length *= used
                else:
                    axis.low, axis.high = (middle + (end - middle) / used for end in (axis.low, axis.high))

    def _needed(self, given: Mapping[str, float]) -> dict[str, float]:
        """The margins that labels, titles and the legend need, at least those given."""
        area, needed = self.paper, dict(given)
        for axis in self.axes.values():
            words, side = self._title(axis), "l" if axis.letter == "y" else "b"
            deep = axis.depth() + EDGE + (_STANDOFF + svg_parts.height(words, _TITLE) if words else 0.0)
            beyond = 0.0 if axis.letter == "y" else area["y"].start - self._across(axis).start
            needed[side] = max(needed[side], deep - beyond)
            for at, _, wide in axis.labels() if axis.letter == "x" and not axis.is_turned() else ():
                needed["r"] = max(needed["r"], at + wide / 2 - area["x"].pixel(1.0))
        top = area["y"].pixel(1.0)
        return needed | {"t": max([needed["t"], *(top - y + EDGE for _, _, y in self._legend())])}

    def _across(self, axis: Axis) -> Axis:
        return self.axes[axis.props.get("anchor", "x" if axis.letter == "y" else "y")]

    def _title(self, axis: Axis) -> str:
        """The axis' title in lines that fit when their middle is the axis' own."""
        middle, most = axis.start + axis.length / 2, self.width if axis.letter == "x" else self.height
        return svg_parts.wrapped(axis.props.get("title", {}).get("text", ""), _TITLE, 2 * min(middle, most - middle) - EDGE)

    def _legend(self) -> list[tuple[Props, float, float]]:
        """The traces of the legend with their places in pixels, in columns, and rows no wider than the plots."""
        shown = [trace for trace in self.traces if self.layout["showlegend"] and trace.get("showlegend", True)]
        wide = max((svg_parts.width(trace["name"]) for trace in shown), default=0.0) + _KEY_TEXT + _KEY_GAP
        left, high, given = self.paper["x"].start, svg_parts.height() + EDGE, self.layout.get("legend", {})
        per_row = max(1, int((self.width - left) / wide))
        top = self.paper["y"].pixel(given.get("y", 1.0)) - high * math.ceil(len(shown) / per_row) * ("yanchor" in given)
        return [(one, left + at % per_row * wide, top + at // per_row * high) for at, one in enumerate(shown)]

    # The drawing

    def written(self, source: str = "", named: str = "") -> str:
        """The `<svg>` element. `named`: its title and description."""
        # All that is drawn, from the ground up.
        shapes, axes = self.layout.get("shapes", ()), self.axes.values()
        draw = {"heatmap": self._heatmap, "bar": self._bars, "scatter": self._scatter}
        body = _box(*self.paper.values(), **paint("fill", self.layout["plot_bgcolor"]))
        body += "".join(self._shape(one) for one in shapes if "layer" in one) + "".join(map(self._grid, axes))
        body += "".join(draw[trace["type"]](trace) for trace in self.traces)
        body += "".join(self._shape(one) for one in shapes if "layer" not in one) + "".join(map(self._labels, axes))
        body += "".join(map(self._annotation, self.layout.get("annotations", ())))
        body += "".join(self._key(*one) for one in self._legend())
        made = (one.replace(f'"{_ID}"', f'"{_ID}{number}"') for one, number in self.definitions.items())
        body, high = element("defs", "".join(made)) + body, self.height
        if source:
            words = svg_parts.wrapped(escape(source), _SOURCE, self.width - 16)
            body += text(words, 8, high, size=_SOURCE, colour=self.inks.soft, across=0, down=0)
            high += svg_parts.height(words, _SOURCE) + 8
        body = element("rect", width=self.width, height=high, fill=self.inks.ground) + body
        return element(
            "svg", named + body.replace(_ID, f"svg-{zlib.crc32(body.encode()):08x}-"), role="img", aria_label=self.finding,
            xmlns="http://www.w3.org/2000/svg", width=self.width, height=round(high), style="max-width:100%;height:auto",
            viewBox=f"0 0 {self.width} {svg_parts.plain(high)}", font_family=self.layout["font"]["family"],
        )  # fmt: skip

    def _defined(self, kind: str, body: str, **attributes: Any) -> str:
        """A reference to a definition."""
        made = element(kind, body, id=_ID, **attributes)
        return f"url(#{_ID}{self.definitions.setdefault(made, len(self.definitions))})"

    def _clipped(self, body: str, x: Axis, y: Axis) -> str:
        return element("g", body, clip_path=self._defined("clipPath", _box(x, y))) if body else ""

    def _grid(self, axis: Axis) -> str:
        """The lines at the ticks of an axis, and at zero where that is wanted."""
        across = self._across(axis)
        places = [at for at, *_ in axis.ticks()] if axis.props.get("showgrid", True) else []
        places += [zero for zero in [axis.pixel(0.0)] if axis.props.get("zeroline") and axis.holds(zero)]
        ends = (across.start, across.start + across.length)
        data = "".join(path([axis.point(at, end) for end in ends]) for at in places)
        return element("path", d=data, **outline(self.inks.grid, 1)) if data else ""

    def _labels(self, axis: Axis) -> str:
        """The labels and the title of an axis."""
        edge, away, middle = self._across(axis).start, axis.depth() + _STANDOFF, axis.start + axis.length / 2
        title, ink = self._title(axis), dict[str, Any](colour=self.inks.soft)
        if axis.letter == "y":
            labels = (text(label, edge - PAD, at, across=1, **ink) for at, label, _ in axis.labels())
            return "".join(labels) + text(title, edge - away, middle, size=_TITLE, down=1, angle=-90, **ink)
        ink |= {"across": 0, "angle": 90} if axis.is_turned() else {"down": 0}
        labels = (text(label, at, edge + PAD, **ink) for at, label, _ in axis.labels())
        return "".join(labels) + text(title, middle, edge + away, size=_TITLE, colour=self.inks.soft, down=0)

    def _scale(self, letter: str, one: Props) -> Axis:
        """What a coordinate of a shape or an annotation refers to: an axis, or shares of it or of all plots together."""
        name, _, domain = one.get(f"{letter}ref", letter).partition(" ")
        axis = self.axes.get(name, self.paper[letter])
        return Axis(letter, axis.start, axis.length) if domain else axis

    def _shape(self, one: Props) -> str:
        """A line or a rectangle."""
        x, y = self._scale("x", one), self._scale("y", one)
        ends = [(x.at(one[f"x{end}"]), y.at(one[f"y{end}"])) for end in "01"]
        line = {"color": self.inks.text, "width": 2, "dash": "solid", **one.get("line", {})}
        ink = paint("fill", one.get("fillcolor", "none")) | outline(line["color"], line["width"], line["dash"])
        return self._clipped(_rect(*ends, **ink) if one["type"] == "rect" else element("path", d=path(ends), **ink), x, y)

    def _annotation(self, one: Props) -> str:
        """A text at its place, its lines aligned where it is anchored; empty where its place is out of an axis' range."""
        font = {"size": SIZE, "color": self.inks.text, **one.get("font", {})}
        words = svg_parts.wrapped(one["text"], font["size"], self.width - 16)
        wide = svg_parts.width(words, font["size"])
        across, down = (_SHARES[one.get(f"{letter}anchor", "middle")] for letter in "xy")
        axes = [self._scale(letter, one) for letter in "xy"]
        x, y = (axis.pixel(float(one[axis.letter]) if axis.is_log else axis.own(one[axis.letter])) for axis in axes)
        if not (axes[0].holds(x) and axes[1].holds(y)):
            return ""
        x, y = x + one.get("xshift", 0) + 2 - 4 * across, y - one.get("yshift", 0) + 2 - 4 * down  # two pixels beside it
        x = max(min(x, self.width - (1 - across) * wide), across * wide)  # a wide text stays within the drawing
        return text(words, x, y, size=font["size"], colour=font["color"], across=across, down=down)

    def _key(self, trace: Props, left: float, top: float) -> str:
        """The look of a trace and its name."""
        start, middle, end = left + 5, top + svg_parts.height() / 2, left + 5 + _KEY
        name = text(trace["name"], left + _KEY_TEXT, middle, colour=self.inks.text, across=0)
        if trace["type"] == "bar":
            return _rect((start + 9, middle - 6), (start + 21, middle + 6), **self._bar_inks(trace)[0]) + name
        line = element("path", d=path([(start, middle), (end, middle)]), **self._stroke(trace))
        looks = self._looks(trace)[:1] if "markers" in trace["mode"] else []
        return line + "".join(svg_parts.mark((start + end) / 2, middle, *look) for look in looks) + name

    # Traces

    def _points(self, trace: Props) -> list[Point]:
        """The pixels of the points of a trace, or of the ends of its bars; NaN beside an axis without a value."""
        (x, y), shift, points = trace["axes"], trace.get("shift", 0.0), []
        across, down = (0.0, shift) if trace["orientation"] == "h" else (shift, 0.0)
        names = [name for name in ("x", "y", "text", "hovertext", "customdata") if name in trace]
        for place, (a, b) in enumerate(zip(trace["x"], trace["y"], strict=True)):
            points.append((x.pixel(x.own(a) + across), y.pixel(y.own(b) + down)))
            self._speak(trace, points[-1], {name: trace[name][place] for name in names})
        return points

    def _speak(self, trace: Props, at: Point, known: Props) -> None:
        """Notes what a point says near a pointer. `known`: what the trace knows of it, by property."""
        if trace.get("hoverinfo") != "skip" and "hovertemplate" in trace and math.isfinite(sum(at)):
            words = _filled(trace["hovertemplate"].partition("<extra>")[0], {**known, "fullData.name": trace["name"]})
            self.said.append((round(at[0], 1), round(at[1], 1), svg_parts.bare(words)))

    def _text(self, trace: Props, words: str, at: Point, side: str, away: float, room: float = math.inf) -> str:
        """The text beside a point, no wider than `room` pixels."""
        if not words:
            return ""
        font = {"size": SIZE, "color": self.inks.text, **trace.get("textfont", {})}
        down, across = (_SHARES[each] for each in side.split())
        x, y = at[0] + (2 * across - 1) * away, at[1] + (2 * down - 1) * away
        size = min(font["size"], room / svg_parts.width(words, 1.0))
        return text(words, x, y, size=size, colour=font["color"], across=1 - across, down=1 - down)

    def _stroke(self, trace: Props) -> Attributes:
        """The attributes of a line; none if it has no width or is not to be drawn."""
        width = trace["line"].get("width", 2) if "lines" in trace["mode"] else 0
        return outline(trace["ink"], width, trace["line"].get("dash", "solid")) | {"fill": "none"}

    def _looks(self, trace: Props) -> list[tuple[Any, ...]]:
        """How the marks look, as arguments of `mark`: symbol, size, opacity, colour and outline."""
        marker, colour = trace["marker"], trace["marker"].get("color", trace["ink"])
        given, line = {"symbol": "circle", "size": 6.0, "opacity": 1.0, **marker}, marker.get("line", {})
        columns = (_each(given[name], len(trace["x"])) for name in ("symbol", "size", "opacity"))
        edge, drawn = (outline(line.get("color", usual), line.get("width", 0)) for usual in (self.inks.ground, colour))
        return [(*row, colour, drawn if row[0].endswith("-open") else edge) for row in zip(*columns, strict=True)]

    def _scatter(self, trace: Props) -> str:
        (x, y), points, fill, above = trace["axes"], self._points(trace), trace.get("fill"), ""
        grouped = groupby(points, lambda point: math.isfinite(sum(point)))
        runs = [_stepped(list(run), trace["line"].get("shape")) for is_known, run in grouped if is_known]
        zero, is_marked, n = y.pixel(0.0), "markers" in trace["mode"], len(points)
        bands = (path(run + [(run[at][0], zero) for at in (-1, 0) if fill == "tozeroy"], closed=True) for run in runs)
        below = element("path", d="".join(bands), **paint("fill", trace["fillcolor"])) if fill else ""
        below += self._error_bars(trace, points, trace["ink"])
        below += element("path", d="".join(map(path, runs)), **self._stroke(trace)) if "lines" in trace["mode"] else ""
        texts = trace["text"] if "text" in trace["mode"] else [""] * n
        sides = _each(trace.get("textposition", "middle center"), n)
        looks = self._looks(trace) if is_marked else [("", 0.0)] * n
        for at, look, words, side in zip(points, looks, texts, sides, strict=True):
            if x.holds(at[0]) and y.holds(at[1]):
                above += svg_parts.mark(*at, *look) if is_marked else ""
                above += self._text(trace, words, at, side, PAD + look[1] / 2)
        return self._clipped(below, x, y) + above

    def _error_bars(self, trace: Props, points: Sequence[Point], colour: str) -> str:
        drawn = ""
        for axis in trace["axes"]:
            given, data = trace.get(f"error_{axis.letter}", {}), ""
            cap = given.get("width", 4.0)
            for ends, point in zip(_ends(trace, axis.letter), points, strict=False):
                middle, places = point[axis.letter == "x"], [axis.at(end) for end in ends]
                lines = [[(at, middle - cap), (at, middle + cap)] for at in places] + [[(at, middle) for at in places]]
                if math.isfinite(sum(places) + middle):
                    data += "".join(path(axis.point(*one) for one in line) for line in lines)
            ink = outline(given.get("color", colour), given.get("thickness", 2))
            drawn += element("path", d=data, fill="none", **ink) if data else ""
        return drawn

    def _bar_inks(self, trace: Props) -> list[Attributes]:
        """The attributes of each bar."""
        marker, n = trace["marker"], len(trace["x"])
        pattern, line = marker.get("pattern", {}), marker.get("line", {})
        edge = {"opacity": marker.get("opacity"), **outline(line.get("color", self.inks.text), line.get("width", 0))}
        if not pattern.get("shape"):
            return [paint("fill", colour) | edge for colour in _each(trace["ink"], n)]
        side = pattern.get("size", 8)
        hatch = element("path", d=f"M{side / 2},0V{side}", **outline(pattern.get("fgcolor", trace["ink"]), 0.3 * side))
        size = {"width": side, "height": side, "patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
        return [{"fill": self._defined("pattern", hatch, **size), **edge}] * n

    def _bars(self, trace: Props) -> str:
        (x, y), points, below, above = trace["axes"], self._points(trace), "", ""
        along, across = (y, x) if trace["orientation"] == "h" else (x, y)
        zero, half = across.pixel(0.0), abs(along.pixel(trace["width"]) - along.pixel(0.0)) / 2
        texts = trace.get("text", [""] * len(points))
        for point, ink, words in zip(points, self._bar_inks(trace), texts, strict=True):
            if math.isfinite(sum(point)):
                middle, end = along.point(*point)
                below += _rect(along.point(middle - half, zero), along.point(middle + half, end), **ink)
                above += self._text(trace, words, point, "top center" if end <= zero else "bottom center", PAD, 2 * half)
        return self._clipped(below + self._error_bars(trace, points, self.inks.text), x, y) + above

    def _heatmap(self, trace: Props) -> str:
        (x, y), z, paths, texts = trace["axes"], np.array(trace["z"], dtype=np.float64), dict[str, str](), ""
        names, is_known = {"y": range(len(z)), "x": range(z.shape[1]), **trace}, ~np.isnan(z)
        known = z[is_known]
        low, high = trace.get("zmin", known.min(initial=math.inf)), trace.get("zmax", known.max(initial=-math.inf))
        colours = _scaled(trace["colorscale"], (z - low) / ((high - low) or 1.0))
        for row, column in np.argwhere(is_known).tolist():
            cell = {name: trace[name][row][column] for name in ("text", "customdata") if name in trace}
            cell |= {"x": names["x"][column], "y": names["y"][row], "z": z.item(row, column)}
            a, b, ink = x.own(cell["x"]), y.own(cell["y"]), colours[row][column]
            sides = x.pixel(a - 0.5), x.pixel(a + 0.5), y.pixel(b - 0.5), y.pixel(b + 0.5)
            paths[ink] = paths.get(ink, "") + "M{0},{2}H{1}V{3}H{0}Z".format(*map(svg_parts.plain, sides))
            at = x.pixel(a), y.pixel(b)
            texts += self._text(trace, _filled(trace.get("texttemplate", ""), cell), at, "middle center", 0)
            self._speak(trace, at, cell)
        # Without gaps between cells, smoothed edges would show as seams.
        gap = outline(self.inks.empty, trace.get("xgap", 0)) or {"shape_rendering": "crispEdges"}
        cells = "".join(element("path", d=data, fill=ink) for ink, data in paths.items())
        return self._clipped(element("g", cells, **gap), x, y) + texts


def _rect(one: Point, other: Point, **ink: Any) -> str:
    """A rectangle between two corners."""
    (left, right), (top, bottom) = (sorted(ends) for ends in zip(one, other, strict=True))
    return element("rect", x=left, y=top, width=right - left, height=bottom - top, **ink)


def _box(x: Axis, y: Axis, **ink: Any) -> str:
    return _rect((x.start, y.start), (x.start + x.length, y.start + y.length), **ink)


def _plain(part: Any) -> Any:
    """A part of a figure with lists of Python's own values, and without what is not given."""
    if hasattr(part, "tolist"):
        return part.tolist()
    if isinstance(part, Mapping):
        return {name: _plain(value) for name, value in part.items() if value is not None}
    is_nested = isinstance(part, list | tuple) and part and isinstance(part[0], Mapping)
    return [_plain(one) for one in part] if is_nested else part


def _each(value: Any, n: int) -> Sequence[Any]:
    """A property that is one value, or a list with one for each of n points."""
    return value if isinstance(value, list | tuple) else [value] * n


def _ends(trace: Props, letter: str) -> list[Point]:
    """Both ends of every error bar along an axis; empty if there are none."""
    given = trace.get(f"error_{letter}", {})
    up = given.get("array", ())
    return [(at - a, at + b) for at, a, b in zip(trace.get(letter, ()), given.get("arrayminus", up), up, strict=False)]


def _stepped(points: list[Point], shape: str | None) -> list[Point]:
    """The corners of a line; `shape`: "hv" and "hvh" for steps."""
    corners = points[:1]
    for (before, low), (x, y) in pairwise(points):
        turn = x if shape == "hv" else (before + x) / 2
        corners += [(turn, low), (turn, y), (x, y)] if shape in ("hv", "hvh") else [(x, y)]
    return corners


def _scaled(scale: Sequence[tuple[float, str]], shares: Any) -> list[list[str]]:
    """The colours at shares [rows, columns] of a colour scale, mixed linearly in sRGB."""
    places, stops = zip(*scale, strict=True)
    mixed = [np.interp(np.nan_to_num(shares), places, [int(stop[i : i + 2], 16) for stop in stops]) for i in (1, 3, 5)]
    cells = np.rint(np.stack(mixed, -1)).astype(int).tolist()
    return [["#{:02x}{:02x}{:02x}".format(*cell) for cell in row] for row in cells]


def _filled(template: str, values: Mapping[str, Any]) -> str:
    def field(found: re.Match[str]) -> str:
        name, number, form = found.groups()
        value = values[name] if number is None else values[name][int(number)]
        return value or "" if isinstance(value, str | None) else format(value * (1 + 1e-12), form or ".6g")  # halves up

    return _FIELD.sub(field, template)


# The same as PNG, for programs that take no SVG. resvg draws what is written above, in the app's own typeface.


SCALE = 2  # pixels for each of the SVG's: sharp in print and on dense screens


def draw_png(picture: Picture, *, width: int = 720, dark: bool = False, source: str = "") -> bytes:
    """The figure of `draw_svg`, with `SCALE` pixels for each of its own. Raises TypeError as it does."""
    import resvg_py  # a library of a megabyte, for the few who ask

    drawing = draw_svg(picture, width=width, dark=dark, source=source)
    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, zoom=SCALE, font_files=fonts()))


@cache
def fonts() -> list[str]:
    """Files of Source Sans: without them letters would be missing where resvg finds no typeface."""
    found = find_spec("font_source_sans_pro")
    assert found is not None
    assert found.origin is not None
    files = Path(found.origin).parent / "files"
    return [str(files / f"SourceSansPro-{style}.ttf") for style in ("Regular", "Semibold", "Bold", "It")]
