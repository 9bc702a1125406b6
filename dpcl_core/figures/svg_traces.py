"""Lines, marks, bars and heatmaps of a figure in SVG, and what they need of an axis' range."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from itertools import pairwise
from typing import Any

from dpcl_core.figures import svg_marks, svg_text
from dpcl_core.figures.svg_axes import Axis, Extreme
from dpcl_core.figures.svg_text import element, paint, path

_DARK_LINE, _BACKGROUND = "#444444", "#ffffff"  # Plotly's colours of lines that have none
_MARK, _TEXT_GAP = 6.0, 3.0  # pixels: a mark's usual size; between a bar and its text
_TEXT_ROOM = 1.5  # of the font size: what a bar with a text beyond it needs
_ERROR_WIDTH, _ERROR_CAP = 2.0, 4.0  # pixels: an error bar's line, and half of its ends, unless said
_NUMBER = re.compile(r"%\{z(?::\.(\d)f)?\}")
_ACROSS = {"left": ("end", -1), "center": ("middle", 0), "right": ("start", 1)}
_DOWN = {"top": -1, "middle": 0, "bottom": 1}


@dataclass(slots=True)
class Panel:
    """A pair of axes; `patterns`: definitions that its traces need, by their name."""

    x: Axis
    y: Axis
    patterns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the bars of a trace stand: their width, their shift from their position, and the width that a position takes, in
    the axis' own units.
    """

    width: float
    shift: float
    slot: float


def listed(values: Any) -> list[Any]:
    """Values of a trace as a list of plain Python values; a single value as a list of one."""
    if values is None:
        return []
    if hasattr(values, "tolist"):
        values = values.tolist()
    return list(values) if isinstance(values, list | tuple) else [values]


def one_each(value: Any, n: int, default: Any = None) -> list[Any]:
    """A property that is one value or a list with one for each of n points."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [default if one is None else one for one in value] + [default] * (n - len(value))
    return [default if value is None else value] * n


def mode(trace: Mapping[str, Any]) -> set[str]:
    """The parts of a scatter trace: "lines", "markers", "text"."""
    given = trace.get("mode") or ("lines+markers" if len(listed(trace.get("y"))) < 20 else "lines")
    parts = set(given.split("+")) - {"none"}
    if parts - {"lines", "markers", "text"}:
        raise TypeError(f"no mode that can be drawn as SVG: {given!r}")
    return parts


# What a trace needs of the range


def extremes(trace: Mapping[str, Any], panel: Panel, axis: Axis, place: Place | None) -> Iterator[Extreme]:
    """What a trace needs of this axis, as Plotly counts it."""
    match trace["type"]:
        case "scatter":
            yield from _scatter_extremes(trace, axis)
        case "bar":
            assert place is not None
            yield from _bar_extremes(trace, axis, place)
        case _:
            edges = _edges(listed(trace.get("x" if axis is panel.x else "y")), axis, _shape(trace)[axis is panel.x])
            yield from (Extreme(edge) for edge in edges)


def _scatter_extremes(trace: Mapping[str, Any], axis: Axis) -> Iterator[Extreme]:
    parts, letter = mode(trace), "y" if axis.is_vertical else "x"
    values = listed(trace.get(letter))
    fill = trace.get("fill", "none")
    sizes = one_each(trace.get("marker", {}).get("size"), len(values), _MARK)
    pads = [max(size / 1.6, 3) if "markers" in parts else 0.0 for size in sizes]
    is_padded = axis.is_vertical or (
        bool(trace.get("error_y")) or (fill != "tozeroy" and bool(parts & {"markers", "text"}))
    )
    for value, pad in zip(values, pads, strict=True):
        own = axis.own(value)
        if own is not None:
            yield Extreme(own, pad if is_padded else 0.0, pad if is_padded else 0.0, is_padded)
    if fill == "tozeroy" and axis.is_vertical:
        yield Extreme(0.0)
    yield from _error_extremes(trace, axis)


def _bar_extremes(trace: Mapping[str, Any], axis: Axis, place: Place) -> Iterator[Extreme]:
    is_flat = trace.get("orientation") == "h"
    values = [axis.own(value) for value in listed(trace.get("y" if axis.is_vertical else "x"))]
    for own in values:
        if own is None:
            continue
        if axis.is_vertical == is_flat:  # the axis that positions are on
            yield Extreme(own - place.slot / 2)
            yield Extreme(own + place.slot / 2)
        else:
            pad = _TEXT_ROOM * float(trace["textfont"]["size"]) if trace.get("textposition") == "outside" else 0.0
            yield Extreme(own, pad * (own < 0), pad * (own > 0), is_padded=own != 0)
            yield Extreme(0.0)
    yield from _error_extremes(trace, axis)


def _error_extremes(trace: Mapping[str, Any], axis: Axis) -> Iterator[Extreme]:
    letter = "y" if axis.is_vertical else "x"
    for value, (low, high) in zip(listed(trace.get(letter)), _errors(trace, letter), strict=False):
        for end in (value - low, value + high) if value is not None and low is not None else ():
            own = axis.own(end)
            if own is not None:
                yield Extreme(own, is_padded=True)


def _errors(trace: Mapping[str, Any], letter: str) -> list[tuple[float, float]]:
    """The lengths of every point's error bar to both sides; empty if there are none."""
    given = trace.get(f"error_{letter}") or {}
    if "array" not in given:
        return []
    up = listed(given["array"])
    down = up if given.get("symmetric", True) else listed(given.get("arrayminus"))
    return list(zip(down, up, strict=True))


# Drawing


def drawn(trace: Mapping[str, Any], panel: Panel, place: Place | None) -> tuple[str, str]:
    """A trace as SVG: its fills and lines, and its marks and texts."""
    match trace["type"]:
        case "scatter":
            return _scatter(trace, panel)
        case "bar":
            assert place is not None
            return _bars(trace, panel, place)
        case _:
            return _heatmap(trace, panel), ""


def places(trace: Mapping[str, Any], panel: Panel, place: Place | None) -> list[tuple[float | None, float | None]]:
    """The pixels of the points of a scatter trace, or of the ends of bars; None beside an axis without a value."""
    pairs = zip(listed(trace.get("x")), listed(trace.get("y")), strict=True)
    if trace["type"] == "scatter":
        return [(panel.x.of(a), panel.y.of(b)) for a, b in pairs]
    assert place is not None
    is_flat = trace.get("orientation") == "h"
    along = panel.y if is_flat else panel.x
    ends: list[tuple[float | None, float | None]] = []
    for a, b in pairs:
        own = along.own(b if is_flat else a)
        middle = None if own is None else along.pixel(own + place.shift)
        ends.append((panel.x.of(a), middle) if is_flat else (middle, panel.y.of(b)))
    return ends


def stroke(trace: Mapping[str, Any]) -> dict[str, object]:
    """The attributes of a scatter trace's line."""
    line = trace.get("line", {})
    width = float(line.get("width", 2))
    dash = svg_marks.dashes(line.get("dash", "solid"), width)
    return {"fill": "none", "stroke_width": width, "stroke_dasharray": dash, "stroke_linejoin": "round",
            **paint("stroke", line["color"])}  # fmt: skip


def marks(trace: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """The looks of n marks of a scatter trace, as arguments of `svg_marks.mark`."""
    marker = trace.get("marker", {})
    is_bubble = isinstance(marker.get("size"), list | tuple) or hasattr(marker.get("size"), "tolist")
    line = marker.get("line", {})
    looks = zip(
        one_each(marker.get("symbol"), n, "circle"), one_each(marker.get("size"), n, _MARK), one_each(marker["color"], n),
        one_each(marker.get("opacity"), n, 0.7 if is_bubble else 1.0), strict=True,
    )  # fmt: skip
    outline = {"line_width": line.get("width"), "line_colour": line.get("color", _BACKGROUND if is_bubble else _DARK_LINE)}
    return [
        {"symbol": symbol, "size": float(size), "colour": colour, "opacity": float(opacity), **outline}
        for symbol, size, colour, opacity in looks
    ]


def _scatter(trace: Mapping[str, Any], panel: Panel) -> tuple[str, str]:
    parts = mode(trace)
    points = places(trace, panel, None)
    segments = _segments(points)
    lines = _fill(trace, segments, panel)
    lines += _error_bars(trace, panel, points)
    if "lines" in parts and trace.get("line", {}).get("width", 2):
        shape = trace.get("line", {}).get("shape", "linear")
        data = "".join(path(_stepped(segment, shape)) for segment in segments if len(segment) > 1)
        lines += element("path", d=data, **stroke(trace)) if data else ""
    above = ""
    if "markers" in parts:
        above += "".join(
            svg_marks.mark(x=a, y=b, **look)
            for (a, b), look in zip(points, marks(trace, len(points)), strict=True)
            if a is not None and b is not None
        )
    if "text" in parts:
        above += _texts(trace, points, has_marks="markers" in parts)
    return lines, above


def _segments(points: Sequence[tuple[float | None, float | None]]) -> list[list[tuple[float, float]]]:
    """Stretches of a line without a gap."""
    segments: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if x is None or y is None:
            segments.append([])
        else:
            segments[-1].append((x, y))
    return [segment for segment in segments if segment]


def _stepped(points: list[tuple[float, float]], shape: str) -> list[tuple[float, float]]:
    """The corners of a line of this shape. Raises TypeError for another one."""
    if shape not in ("linear", "hv", "hvh"):
        raise TypeError(f"no line shape that can be drawn as SVG: {shape!r}")
    if shape == "linear" or len(points) < 2:
        return points
    corners = [points[0]]
    for (before, low), (x, y) in pairwise(points):
        turn = x if shape == "hv" else (before + x) / 2
        corners += [(turn, low), (turn, y), (x, y)]
    return corners


def _fill(trace: Mapping[str, Any], segments: list[list[tuple[float, float]]], panel: Panel) -> str:
    fill = trace.get("fill", "none")
    if fill == "none":
        return ""
    if fill not in ("toself", "tozeroy"):
        raise TypeError(f"no fill that can be drawn as SVG: {fill!r}")
    data = ""
    for segment in segments:
        corners = _stepped(segment, trace.get("line", {}).get("shape", "linear"))
        if fill == "tozeroy":
            zero = panel.y.pixel(0.0)
            corners = [(corners[0][0], zero), *corners, (corners[-1][0], zero)]
        data += path(corners, closed=True)
    return element("path", d=data, **paint("fill", trace["fillcolor"])) if data else ""


def _error_bars(
    trace: Mapping[str, Any], panel: Panel, points: Sequence[tuple[float | None, float | None]], colour: str | None = None
) -> str:
    data, drawn_bars = {"x": "", "y": ""}, ""
    for letter, axis in (("x", panel.x), ("y", panel.y)):
        given = trace.get(f"error_{letter}") or {}
        cap = float(given.get("width", _ERROR_CAP))
        for value, error, (x, y) in zip(listed(trace.get(letter)), _errors(trace, letter), points, strict=False):
            if x is None or y is None or None in error:
                continue
            low, high = axis.of(value - error[0]), axis.of(value + error[1])
            if low is None or high is None:
                continue
            if letter == "x":
                bar = [path([(low, y), (high, y)]), *(path([(end, y - cap), (end, y + cap)]) for end in (low, high) if cap)]
            else:
                bar = [path([(x, low), (x, high)]), *(path([(x - cap, end), (x + cap, end)]) for end in (low, high) if cap)]
            data[letter] += "".join(bar)
        if data[letter]:
            ink = given.get("color") or colour or trace["line"]["color"]
            width = float(given.get("thickness", _ERROR_WIDTH))
            drawn_bars += element("path", d=data[letter], fill="none", stroke_width=width, **paint("stroke", ink))
    return drawn_bars


def _texts(trace: Mapping[str, Any], points: Sequence[tuple[float | None, float | None]], *, has_marks: bool) -> str:
    font, n = trace["textfont"], len(points)
    size = float(font["size"])
    sizes = one_each(trace.get("marker", {}).get("size"), n, _MARK)
    drawn_texts = ""
    texts, sides = one_each(trace.get("text"), n, ""), one_each(trace.get("textposition"), n, "middle center")
    for (x, y), text, where, mark in zip(points, texts, sides, sizes, strict=True):
        if x is None or y is None or not text:
            continue
        down, across = where.split(" ")
        anchor, side = _ACROSS[across]
        radius = mark / 2 / 0.8 + 1 if has_marks else 0.0
        high = (len(svg_text.lines(text)) - 1) * svg_text.LINE + 1
        base = y + 0.75 * size + _DOWN[down] * radius + (_DOWN[down] - 1) * high * size / 2
        at = x + side * radius
        drawn_texts += svg_text.text(text, at, base, size=size, colour=font["color"], across=anchor, down="base")
    return drawn_texts


def _bars(trace: Mapping[str, Any], panel: Panel, place: Place) -> tuple[str, str]:
    is_flat, marker = trace.get("orientation") == "h", trace.get("marker", {})
    along, across = (panel.y, panel.x) if is_flat else (panel.x, panel.y)
    spots, values = (listed(trace.get(letter)) for letter in ("yx" if is_flat else "xy"))
    colours, texts = one_each(marker["color"], len(spots)), one_each(trace.get("text"), len(spots), "")
    line = marker.get("line", {})
    bars, labels = "", ""
    middles: list[tuple[float | None, float | None]] = []
    for spot, value, colour, text in zip(spots, values, colours, texts, strict=True):
        own, end = along.own(spot), across.of(value)
        if own is None or end is None:
            middles.append((None, None))
            continue
        low, high = sorted(along.pixel(own + place.shift + side * place.width / 2) for side in (-1, 1))
        zero = across.pixel(0.0)
        near, far = sorted((zero, end))
        box = {"x": near, "y": low, "width": far - near, "height": high - low}
        if not is_flat:
            box = {"x": low, "y": near, "width": high - low, "height": far - near}
        width = float(line.get("width", 0))
        outline = {"stroke_width": width, **paint("stroke", line["color"])} if width else {}
        bars += element("rect", opacity=marker.get("opacity"), **box, **bar_paint(trace, colour, panel), **outline)
        middle = (low + high) / 2
        middles.append((end, middle) if is_flat else (middle, end))
        if text:
            labels += _bar_text(trace, text, middle, end, is_down=end > zero, room=high - low)
    bars += _error_bars(trace, panel, middles, line.get("color", _DARK_LINE))
    return bars, labels


def bar_paint(trace: Mapping[str, Any], colour: str, panel: Panel) -> dict[str, object]:
    """The attributes of a bar's filling; a pattern is put among those of the panel."""
    pattern = trace.get("marker", {}).get("pattern", {})
    if not pattern.get("shape"):
        return paint("fill", colour)
    size, ink = float(pattern.get("size", 8)), pattern.get("fgcolor", colour)
    hatch = svg_marks.hatching("NAME", pattern["shape"], ink, pattern.get("bgcolor", "rgba(0,0,0,0)"), size)
    name = next((name for name, known in panel.patterns.items() if known.replace(name, "NAME") == hatch), "")
    if not name:
        name = f"ID-{panel.x.name}{panel.y.name}-{len(panel.patterns)}"
        panel.patterns[name] = hatch.replace("NAME", name)
    return {"fill": f"url(#{name})"}


def _bar_text(trace: Mapping[str, Any], text: str, middle: float, end: float, *, is_down: bool, room: float) -> str:
    """The text beyond a bar's end, small enough for its width, as Plotly makes it."""
    if trace.get("textposition") != "outside" or trace.get("orientation") == "h":
        raise TypeError("a bar's text can be drawn as SVG only outside of upright bars")
    font = trace["textfont"]
    scale = min(1.0, room / svg_text.width(text, float(font["size"])))
    at, down = (end + _TEXT_GAP, "top") if is_down else (end - _TEXT_GAP, "bottom")
    return svg_text.text(text, middle, at, size=float(font["size"]), colour=font["color"], down=down, scale=scale)


def _shape(trace: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and columns of a heatmap."""
    rows = listed(trace.get("z"))
    return len(rows), len(rows[0]) if rows else 0


def _edges(values: list[Any], axis: Axis, n: int) -> list[float]:
    """The n + 1 edges of cells around these middles, in the axis' own units."""
    middles = [axis.own(value) for value in values] if values else [float(place) for place in range(n)]
    known = [middle for middle in middles if middle is not None]
    if len(known) != n:
        raise TypeError("a heatmap can be drawn as SVG only with a value for each row and column")
    if n < 2:
        return [known[0] - 0.5, known[0] + 0.5] if known else []
    inner = [(a + b) / 2 for a, b in pairwise(known)]
    return [2 * known[0] - inner[0], *inner, 2 * known[-1] - inner[-1]]


def scaled(scale: Sequence[tuple[float, str]], share: float) -> str:
    """The colour at a share of a colour scale, mixed linearly in sRGB."""
    share = min(max(share, 0.0), 1.0)
    for (low, start), (high, end) in pairwise(scale):
        if share <= high:
            part = (share - low) / (high - low)
            mixed = (round(a + part * (b - a)) for a, b in zip(_rgb(start), _rgb(end), strict=True))
            return "#{:02x}{:02x}{:02x}".format(*mixed)
    return scale[-1][1]


@cache
def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _table(trace: Mapping[str, Any], panel: Panel) -> tuple[list[list[Any]], list[float], list[float]]:
    """The rows of a heatmap, and the pixels between its columns and between its rows."""
    n_rows, n_columns = _shape(trace)
    x = [panel.x.pixel(edge) for edge in _edges(listed(trace.get("x")), panel.x, n_columns)]
    y = [panel.y.pixel(edge) for edge in _edges(listed(trace.get("y")), panel.y, n_rows)]
    return [listed(row) for row in listed(trace.get("z"))], x, y


def cells(trace: Mapping[str, Any], panel: Panel) -> Iterator[tuple[float, float, dict[str, Any]]]:
    """The middle of each cell of a heatmap that has a value, in pixels, and what the trace knows of it, by property."""
    rows, x, y = _table(trace, panel)
    names = {"x": listed(trace.get("x")) or range(len(x) - 1), "y": listed(trace.get("y")) or range(len(y) - 1)}
    tables = {name: [listed(row) for row in listed(trace[name])] for name in ("text", "customdata") if name in trace}
    for row, values in enumerate(rows):
        for column, z in enumerate(values):
            if z is not None and not math.isnan(z):
                known = {"x": names["x"][column], "y": names["y"][row], "z": z, "fullData.name": trace["name"]}
                known |= {name: table[row][column] for name, table in tables.items()}
                yield (x[column] + x[column + 1]) / 2, (y[row] + y[row + 1]) / 2, known


def _heatmap(trace: Mapping[str, Any], panel: Panel) -> str:
    if trace.get("showscale", True) or not trace.get("colorscale"):
        raise TypeError("a heatmap can be drawn as SVG only with a colour scale and without its legend")
    rows, x, y = _table(trace, panel)
    known = [float(z) for row in rows for z in row if z is not None and not math.isnan(z)]
    low, high = trace.get("zmin"), trace.get("zmax")
    low, high = min(known, default=0.0) if low is None else low, max(known, default=1.0) if high is None else high
    gaps = float(trace.get("xgap", 0)), float(trace.get("ygap", 0))
    cells: dict[str, list[str]] = {}  # paths by colour
    texts = ""
    sides, levels = _sides(x, gaps[0]), _sides(y, gaps[1])
    for row, (values, (top, bottom)) in enumerate(zip(rows, levels, strict=True)):
        for column, (z, (left, right)) in enumerate(zip(values, sides, strict=True)):
            if z is None or math.isnan(z):
                continue
            colour = scaled(trace["colorscale"], (z - low) / (high - low) if high > low else 0.5)
            cells.setdefault(colour, []).append(f"M{left},{top}H{right}V{bottom}H{left}Z")
            if trace.get("texttemplate"):
                font, middle = trace["textfont"], ((x[column] + x[column + 1]) / 2, (y[row] + y[row + 1]) / 2)
                words = _cell_text(trace["texttemplate"], z)
                texts += svg_text.text(words, *middle, size=float(font["size"]), colour=font["color"])
    # Without gaps between cells, smoothed edges would show as seams.
    crisp = None if all(gaps) else "crispEdges"
    drawn_cells = "".join(element("path", d="".join(data), **paint("fill", colour)) for colour, data in cells.items())
    return element("g", drawn_cells, shape_rendering=crisp) + texts


def _sides(edges: Sequence[float], gap: float) -> list[tuple[str, str]]:
    """Both sides of every cell between these edges, the smaller first, without the gap."""
    pairs = (sorted(pair) for pair in pairwise(edges))
    return [(svg_text.plain(low + gap / 2), svg_text.plain(high - gap / 2)) for low, high in pairs]


def _cell_text(template: str, z: float) -> str:
    """The number of a cell; halves are rounded up, as in a browser."""
    found = _NUMBER.fullmatch(template)
    if found is None:
        raise TypeError(f"no text template that can be drawn as SVG: {template!r}")
    if found[1] is None:
        return f"{z:g}"
    return str(Decimal(z).quantize(Decimal(1).scaleb(-int(found[1])), ROUND_HALF_UP))
