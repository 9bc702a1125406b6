"""What a figure in SVG has beside its traces: grids, titles, shapes, annotations and the legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcl_core.figures import svg_marks, svg_text, svg_traces
from dpcl_core.figures.svg_axes import Axis
from dpcl_core.figures.svg_text import element, paint
from dpcl_core.figures.svg_traces import Panel

_ITEM_LINE, _ITEM_TEXT, _ITEM_GAP = 30, 40, 10  # pixels: a legend's line, where its text begins, and between two items
_BORDER = 2.0  # pixels around an annotation's text


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the drawing, in pixels from its left and upper side."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def grid(x: Axis, y: Axis) -> str:
    """The lines at the ticks of both axes, and at zero."""
    lines = ""
    for axis, other in ((x, y), (y, x)):
        if not axis.is_shown:
            continue
        has_grid = axis.props.get("showgrid", True)
        places = [place for place, _ in axis.ticks()] if has_grid else []
        has_zero = axis.kind == "linear" and axis.props.get("zeroline", has_grid) and axis.holds(0.0)
        places = [place for place in places if not (has_zero and abs(place) < 1e-12)]
        lines += _across(axis, other, places, axis.props.get("gridcolor", "#eeeeee"), 1.0)
        if has_zero:
            width = float(axis.props.get("zerolinewidth", 1))
            lines += _across(axis, other, [0.0], axis.props.get("zerolinecolor", "#444444"), width)
    return lines


def _across(axis: Axis, other: Axis, places: Sequence[float], colour: str, width: float) -> str:
    data = ""
    for place in places:
        at = axis.pixel(place)
        ends = [(other.start, at), (other.end, at)] if axis.is_vertical else [(at, other.start), (at, other.end)]
        data += svg_text.path(ends)
    return element("path", d=data, fill="none", stroke_width=width, **paint("stroke", colour)) if data else ""


def title(axis: Axis, room: float) -> str:
    """The axis' title, in lines no longer than `room` pixels; empty if there is none."""
    words = axis.props["title"].get("text") or ""
    return svg_text.wrapped(words, float(axis.props["title"]["font"]["size"]), room) if axis.is_shown else ""


def titled(axis: Axis, edge: float, words: str, middle: float) -> str:
    """The title beside a plot's edge, beyond the labels of its ticks."""
    if not words:
        return ""
    font, away = axis.props["title"]["font"], axis.depth() + float(axis.props["title"]["standoff"])
    size, colour = float(font["size"]), font["color"]
    if axis.is_vertical:
        return svg_text.text(words, edge - away, middle, size=size, colour=colour, down="bottom", angle=-90)
    return svg_text.text(words, middle, edge + away, size=size, colour=colour, down="top")


def _placed(value: Any, reference: str, axes: Mapping[str, Axis], area: Area, *, is_power: bool = False) -> float:
    """The place in pixels of a shape's or an annotation's coordinate. `is_power`: on a logarithmic axis it is the power."""
    is_vertical = reference.startswith("y")
    if reference.endswith("paper"):
        raise AssertionError("the caller knows the direction of paper coordinates")
    name, _, domain = reference.partition(" ")
    axis = axes[name]
    if domain:
        return axis.end - float(value) * axis.length if is_vertical else axis.start + float(value) * axis.length
    own = float(value) if is_power and axis.kind == "log" else axis.own(value)
    if own is None:
        raise TypeError(f"no place on axis {name} for {value!r}")
    return axis.pixel(own)


def _x(value: Any, reference: str, axes: Mapping[str, Axis], area: Area, *, is_power: bool = False) -> float:
    if reference == "paper":
        return area.left + float(value) * area.width
    return _placed(value, reference, axes, area, is_power=is_power)


def _y(value: Any, reference: str, axes: Mapping[str, Axis], area: Area, *, is_power: bool = False) -> float:
    if reference == "paper":
        return area.bottom - float(value) * area.height
    return _placed(value, reference, axes, area, is_power=is_power)


def shape(one: Mapping[str, Any], axes: Mapping[str, Axis], area: Area) -> str:
    """A line or a rectangle. Raises TypeError for another shape."""
    x_of, y_of = one.get("xref", "x"), one.get("yref", "y")
    x0, x1 = (_x(one[end], x_of, axes, area) for end in ("x0", "x1"))
    y0, y1 = (_y(one[end], y_of, axes, area) for end in ("y0", "y1"))
    line = one.get("line") or {}
    width = float(line.get("width", 2))
    dash = svg_marks.dashes(line.get("dash", "solid"), width)
    ink = paint("stroke", line.get("color", "#444444"))
    outline = {"stroke_width": width, "stroke_dasharray": dash, **ink} if width else {}
    match one["type"]:
        case "line":
            return element("path", d=svg_text.path([(x0, y0), (x1, y1)]), fill="none", **outline)
        case "rect":
            fill = paint("fill", one["fillcolor"]) if one.get("fillcolor") else {"fill": "none"}
            box = {"x": min(x0, x1), "y": min(y0, y1), "width": abs(x1 - x0), "height": abs(y1 - y0)}
            return element("rect", **box, **fill, **outline)
    raise TypeError(f"no shape that can be drawn as SVG: {one['type']}")


def panel_of(one: Mapping[str, Any], axes: Mapping[str, Axis]) -> tuple[str, str] | None:
    """The pair of axes within which a shape is drawn; None where it is placed on the whole paper."""
    x_of, y_of = (one.get(f"{letter}ref", letter).partition(" ")[0] for letter in "xy")
    if x_of == y_of == "paper":
        return None
    x_of = axes[y_of].props.get("anchor") or "x" if x_of == "paper" else x_of
    y_of = axes[x_of].props.get("anchor") or "y" if y_of == "paper" else y_of
    return x_of, y_of


def annotation(one: Mapping[str, Any], axes: Mapping[str, Axis], area: Area, room: float) -> str:
    """A text at its place, in lines no longer than `room` pixels; empty where its place is out of the axis' range."""
    if one.get("showarrow", True):
        raise TypeError("no annotation with an arrow can be drawn as SVG")
    anchors, places = {}, {}
    for letter, find, ends in (("x", _x, ("left", "center", "right")), ("y", _y, ("bottom", "middle", "top"))):
        reference, value = one.get(f"{letter}ref", letter), one[letter]
        if " " not in reference and reference != "paper":
            axis = axes[reference]
            own = float(value) if axis.kind == "log" else axis.own(value)
            if own is None or not axis.holds(own):
                return ""
        places[letter] = find(value, reference, axes, area, is_power=True)
        third = 1 if reference != "paper" or 1 / 3 <= value <= 2 / 3 else 0 if value < 1 / 3 else 2
        anchors[letter] = one.get(f"{letter}anchor", "auto")
        anchors[letter] = ends[third] if anchors[letter] == "auto" else anchors[letter]
    font = one["font"]
    size = float(font["size"])
    words = svg_text.wrapped(one.get("text") or "", size, room)
    wide, high = svg_text.width(words, size), svg_text.height(words, size)
    x = places["x"] + float(one.get("xshift", 0))
    x += {"left": _BORDER, "center": -wide / 2, "right": -wide - _BORDER}[anchors["x"]]
    y = places["y"] - float(one.get("yshift", 0))
    y += {"top": _BORDER, "middle": -high / 2, "bottom": -high - _BORDER}[anchors["y"]]
    # Lines are aligned within the text; the text stays at its anchor however wide its letters really are.
    is_single = len(svg_text.lines(words)) == 1
    align = anchors["x"] if is_single else one.get("align", "center")
    at = x + {"left": 0.0, "center": wide / 2, "right": wide}[align]
    across = {"left": "start", "center": "middle", "right": "end"}[align]
    drawn = svg_text.text(words, at, y, size=size, colour=font["color"], across=across, down="top")
    if (ground := one.get("bgcolor")) is None:
        return drawn
    sides = {"x": x - _BORDER, "y": y - _BORDER, "width": wide + 2 * _BORDER, "height": high + 2 * _BORDER}
    return element("rect", **sides, **paint("fill", ground)) + drawn


@dataclass(frozen=True, slots=True)
class Legend:
    """A legend's items with their places, in pixels from its upper left corner, and its height."""

    items: tuple[tuple[Mapping[str, Any], float, float], ...]
    height: float


def legend(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], room: float) -> Legend:
    """The legend in rows no wider than `room` pixels; as Plotly's, in columns where it has more than one row."""
    if not layout.get("showlegend", len(traces) > 1):
        return Legend((), 0.0)
    if layout["legend"].get("orientation") != "h":
        raise TypeError("no upright legend can be drawn as SVG")
    size = float(layout["font"]["size"])
    named = [trace for trace in traces if trace.get("showlegend", True)]
    widths = [_ITEM_TEXT + svg_text.width(trace["name"], size) + _ITEM_GAP for trace in named]
    step = max(widths, default=0.0)
    is_one_row = sum(widths) <= room
    items, x, y, row = [], 0.0, 0.0, 0.0
    for trace, width in zip(named, widths, strict=True):
        if not is_one_row and x and x + width > room:
            x, y, row = 0.0, y + row, 0.0
        items.append((trace, x, y))
        row = max(row, svg_text.height(trace["name"], size) + 4)
        x += width if is_one_row else step
    return Legend(tuple(items), y + row)


def legend_top(layout: Mapping[str, Any], area: Area, high: float) -> float:
    """The upper side of a legend of this height, in pixels."""
    given = layout["legend"]
    y = float(given.get("y", 1.0))
    anchor = given.get("yanchor", "auto")
    anchor = ("bottom" if y < 1 / 3 else "top" if y > 2 / 3 else "middle") if anchor == "auto" else anchor
    return area.bottom - y * area.height - {"top": 0.0, "middle": high / 2, "bottom": high}[anchor]


def keyed(
    one: Legend, layout: Mapping[str, Any], panels: Mapping[tuple[str, str], Panel], left: float, top: float
) -> str:  # fmt: skip
    """The legend, with its upper left corner there: the look of each trace and its name."""
    size, colour = float(layout["font"]["size"]), layout["font"]["color"]
    drawn = ""
    for trace, x, y in one.items:
        middle = top + y + (svg_text.height(trace["name"], size) + 4) / 2
        drawn += _key(trace, panels[trace.get("xaxis", "x"), trace.get("yaxis", "y")], left + x, middle)
        drawn += svg_text.text(trace["name"], left + x + _ITEM_TEXT, middle, size=size, colour=colour, across="start")
    return drawn


def _key(trace: Mapping[str, Any], panel: Panel, left: float, middle: float) -> str:
    start, end = left + 5, left + 5 + _ITEM_LINE
    if trace["type"] == "bar":
        marker = trace["marker"]
        line = marker.get("line", {})
        colour = svg_traces.one_each(marker["color"], 1)[0]
        outline = {"stroke_width": line["width"], **paint("stroke", line["color"])} if line.get("width") else {}
        fill = svg_traces.bar_paint(trace, colour, panel)
        box = {"x": start + 9, "y": middle - 6, "width": 12, "height": 12, "opacity": marker.get("opacity")}
        return element("rect", **box, **fill, **outline)
    parts, drawn = svg_traces.mode(trace), ""
    if trace.get("fill", "none") != "none":
        drawn += element("rect", x=start, y=middle, width=_ITEM_LINE, height=6, **paint("fill", trace["fillcolor"]))
    if "lines" in parts and trace["line"].get("width", 2):
        drawn += element("path", d=svg_text.path([(start, middle), (end, middle)]), **svg_traces.stroke(trace))
    if "markers" in parts:
        look = svg_traces.marks(trace, 1)[0]
        look["size"] = min(max(look["size"], 2.0), 16.0)
        drawn += svg_marks.mark(x=(start + end) / 2, y=middle, **look)
    return drawn
