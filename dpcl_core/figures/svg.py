"""A figure as SVG: the very Plotly figure that a page draws, without a browser or JavaScript.

It takes the values of the figure and of its template, and chooses what they leave open as Plotly does: ranges, ticks,
margins that make room for labels, places in the legend. Widths of texts are estimated (`svg_text`), since no font is read. A
part of a figure that this drawing does not know raises TypeError, so that it cannot be left out unseen.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dpcl_core.figures import svg_layout, svg_text, svg_traces
from dpcl_core.figures.picture import Parts, Picture
from dpcl_core.figures.svg_axes import Axis, Extreme
from dpcl_core.figures.svg_layout import Area
from dpcl_core.figures.svg_text import element, paint
from dpcl_core.figures.svg_traces import Panel, Place

if TYPE_CHECKING:
    from dpcl_core.figures.theme import Ink

_SILENT = "type name customdata hovertemplate hovertext hoverinfo hoverlabel hoverongaps showlegend xaxis yaxis "  # no ink
_ERRORS = " ".join(
    f"error_{axis}.{part}"
    for axis in "xy"
    for part in ("type", "symmetric", "array", "arrayminus", "color", "thickness", "width")
)
_TRACES = {
    "scatter": _SILENT + _ERRORS + " x y mode text textposition textfont.color textfont.size cliponaxis connectgaps fill "
    "fillcolor line.color line.width line.dash line.shape marker.color marker.size marker.symbol marker.opacity "
    "marker.line.color marker.line.width",
    "bar": _SILENT + _ERRORS + " x y orientation width text textposition textfont.color textfont.size cliponaxis "
    "marker.color marker.opacity marker.line.color marker.line.width marker.pattern.shape marker.pattern.fgcolor "
    "marker.pattern.bgcolor marker.pattern.size",
    "heatmap": _SILENT + " x y z zmin zmax colorscale showscale xgap ygap text texttemplate textfont.color textfont.size",
}
_LAYOUT = (
    "height margin.l margin.r margin.t margin.b plot_bgcolor showlegend legend.orientation legend.x legend.y legend.yanchor "
    "legend.itemclick barmode bargap hovermode uirevision dragmode annotations shapes"
)
_AXIS = (
    "title.text type range autorange rangemode dtick tick0 nticks tickvals ticktext showticklabels ticks showline showgrid "
    "zeroline gridcolor color visible automargin domain anchor matches categoryarray categoryorder scaleanchor constrain "
    "constraintoward tickangle"
)
_SHAPE = "type x0 x1 y0 y1 xref yref layer line.color line.width line.dash fillcolor"
_ANNOTATION = "text x y xref yref xanchor yanchor xshift yshift align showarrow bgcolor font.color font.size"
_COLOURS = ("#636efa", "#ef553b", "#00cc96", "#ab63fa", "#ffa15a", "#19d3f3", "#ff6692", "#b6e880", "#ff97ff", "#fecb52")

Said = tuple[float, float, str]
_FIELD = re.compile(r"%\{([\w.]+)(?:\[(\d)\])?(?::([^}]+))?\}")
_EXTRA = re.compile(r"<extra>.*?</extra>")

_ROUNDS = 4  # ranges depend on margins, and margins on the labels of ranges
_LEAST = 0.2  # of the drawing, which margins leave to the plot
_EDGE = 4.0  # pixels between the drawing's edge and an axis' title or labels
_SOURCE_SIZE, _SOURCE_GAP = 11.0, 8.0
_ID = "ID"  # of definitions, before the drawing's own prefix is known


def drawn(picture: Picture, *, width: int = 720, dark: bool = False, source: str = "") -> str:
    """The figure as one self-contained `<svg>` element, `width` pixels wide and as high as its layout says.

    Its title and description are the finding. `dark`: the theme that the figure was built for; its ground is painted.
    `source`: a line below the figure, such as its provenance. Raises TypeError for a figure with a part that is not known.
    """
    from dpcl_core.figures import theme  # loads plotly, which no page does before its first figure

    first, _, rest = picture.finding.partition(". ")
    named = element("title", svg_text.letters(first + ("." if rest else "")))
    named += element("desc", svg_text.letters(picture.finding))
    return _written(_Drawing(picture, width), picture.finding, theme.ink(dark), source, named)


def in_page(picture: Picture, *, place: int, factor: float = 1.0, dark: bool = False) -> dict[str, object]:
    """The figure as a document for the element in `assets/picture/`: SVG, its width in pixels, and what its points say.

    `place`: the width of its place on the page; with letters and lines `factor` times as large, the drawing is that much
    narrower and shown as wide. It has no title, which a browser would show beside the words of a point.
    """
    from dpcl_core.figures import theme

    drawing = _Drawing(picture, round(place / factor))
    written = _written(drawing, picture.finding, theme.ink(dark))
    return {"svg": written, "width": drawing.width, "place": place, "said": drawing.said()}


def _written(drawing: _Drawing, finding: str, inks: Ink, source: str = "", named: str = "") -> str:
    body, high, width = drawing.body(), drawing.height, round(drawing.width)
    if source:
        words = svg_text.wrapped(svg_text.letters(source), _SOURCE_SIZE, width - 2 * _SOURCE_GAP)
        body += svg_text.text(
            words, _SOURCE_GAP, high, size=_SOURCE_SIZE, colour=inks.soft, across="start", down="top"
        )  # fmt: skip
        high += svg_text.height(words, _SOURCE_SIZE) + _SOURCE_GAP
    prefix = f"svg-{zlib.crc32(body.encode()):08x}"
    ground = element("rect", width=width, height=high, **paint("fill", inks.ground))
    return element(
        "svg", named + ground + body.replace(f'"{_ID}-', f'"{prefix}-').replace(f"url(#{_ID}-", f"url(#{prefix}-"),
        xmlns="http://www.w3.org/2000/svg", role="img", aria_label=finding, width=width, height=round(high),
        viewBox=f"0 0 {width} {svg_text.plain(high)}", style="max-width:100%;height:auto",
        font_family=drawing.layout["font"]["family"],
    )  # fmt: skip


class _Drawing:
    """The figure with its axes and margins settled."""

    def __init__(self, picture: Picture, width: int) -> None:
        parts = picture.parts
        self.layout = layout_of(parts)
        self.traces = traces_of(parts, self.layout)
        self.width, self.height = float(width), float(self.layout.get("height", 450))
        self.axes = {name[0] + name[5:]: self._axis(name) for name in self.layout if name.startswith(("xaxis", "yaxis"))}
        pairs = [(trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in self.traces] or [("x", "y")]
        self.panels = {pair: Panel(self.axes[pair[0]], self.axes[pair[1]]) for pair in pairs}
        shown = {name for pair in self.panels for name in pair}
        self.axes = {name: axis for name, axis in self.axes.items() if name in shown}
        self.places = _bar_places(self.traces, self.panels, self.layout)
        self.legend = svg_layout.Legend((), 0.0)
        self.extremes = {name: self._extremes(axis) for name, axis in self.axes.items() if not axis.is_given}
        self.area = self._settled()

    def _axis(self, name: str) -> Axis:
        short, props = name[0] + name[5:], self.layout[name]
        letter = short[0]
        values = [
            value
            for trace in self.traces
            if trace.get(f"{letter}axis", letter) == short
            for value in svg_traces.listed(trace.get(letter))
        ]
        kind = props.get("type") or ("category" if any(isinstance(value, str) for value in values) else "linear")
        if kind not in ("linear", "log", "category"):
            raise TypeError(f"no axis that can be drawn as SVG: {kind}")
        categories = list(dict.fromkeys([*(props.get("categoryarray") or ()), *values])) if kind == "category" else []
        return Axis(short, props, kind, [one for one in categories if one is not None])

    def _settled(self) -> Area:
        """The area of the plots, when axes, their labels and the margins agree."""
        given = {"l": 80.0, "r": 80.0, "t": 100.0, "b": 80.0, **(self.layout.get("margin") or {})}
        margins = dict(given)
        for _ in range(_ROUNDS):
            area = self._area(margins)
            self._place(area)
            margins = self._needed(given, area)
        area = self._area(margins)
        self._place(area)
        return area

    def _area(self, margins: Mapping[str, float]) -> Area:
        wide = max(self.width - margins["l"] - margins["r"], _LEAST * self.width)
        high = max(self.height - margins["t"] - margins["b"], _LEAST * self.height)
        return Area(margins["l"], margins["t"], wide, high)

    def _place(self, area: Area) -> None:
        """Gives every axis its place in the area, and its range."""
        for axis in self.axes.values():
            low, high = axis.props.get("domain") or (0.0, 1.0)
            if axis.is_vertical:
                axis.start, axis.length = area.bottom - high * area.height, (high - low) * area.height
            else:
                axis.start, axis.length = area.left + low * area.width, (high - low) * area.width
        for group in self._matching():
            extremes = [one for axis in group for one in self.extremes.get(axis.name, ())]
            for axis in group:
                axis.set_range(extremes)
        for axis in self.axes.values():
            if axis.props.get("scaleanchor"):
                _equal_units(axis, self.axes[axis.props["scaleanchor"]])

    def _matching(self) -> list[list[Axis]]:
        """Axes in groups that have one range."""
        groups: dict[str, list[Axis]] = {}
        for name, axis in self.axes.items():
            groups.setdefault(axis.props.get("matches") or name, []).append(axis)
        return list(groups.values())

    def _extremes(self, axis: Axis) -> list[Extreme]:
        """What all traces, shapes and annotations need of an axis."""
        found = []
        for trace, place in zip(self.traces, self.places, strict=True):
            pair = trace.get("xaxis", "x"), trace.get("yaxis", "y")
            if axis.name in pair:
                found += list(svg_traces.extremes(trace, self.panels[pair], axis, place))
        letter = axis.name[0]
        for one in self.layout["shapes"]:
            if one.get(f"{letter}ref", letter) == axis.name:
                ends = (axis.own(one[f"{letter}{end}"]) for end in "01")
                found += [Extreme(own, 1.0, 1.0) for own in ends if own is not None]
        return found

    def _needed(self, given: Mapping[str, float], area: Area) -> dict[str, float]:
        """The margins that the axes' labels and titles and the legend need, at least those given."""
        margins = dict(given)
        for axis in self.axes.values():
            if not axis.props.get("automargin"):
                continue
            words = svg_layout.title(axis, self._title_room(axis))
            size = float(axis.props["title"]["font"]["size"])
            deep = axis.depth() + (float(axis.props["title"]["standoff"]) + svg_text.height(words, size) if words else 0.0)
            deep += _EDGE
            if axis.is_vertical:
                margins["l"] = max(margins["l"], deep)
            else:
                beyond = area.bottom - self._edge(axis)
                margins["b"] = max(margins["b"], deep - beyond)
                left, right = axis.overhang()
                margins["l"], margins["r"] = max(margins["l"], left), max(margins["r"], right)
        self.legend = svg_layout.legend(self.traces, self.layout, self.width - margins["l"])
        if self.legend.items:
            margins["t"] = max(margins["t"], area.top - svg_layout.legend_top(self.layout, area, self.legend.height) + _EDGE)
        return margins

    def _title_room(self, axis: Axis) -> float:
        return max(axis.length, 0.5 * self.height) if axis.is_vertical else self.width - 16

    def _edge(self, axis: Axis) -> float:
        """The side of the plot that an axis is at: the bottom or the left side of the axis across."""
        across = next(b if axis is a else a for a, b in ((p.x, p.y) for p in self.panels.values()) if axis in (a, b))
        return across.start if axis.is_vertical else across.end

    def body(self) -> str:
        """All that is drawn, from the ground up."""
        parts, clips = [], []
        background = self.layout.get("plot_bgcolor")
        shapes = [(one, svg_layout.panel_of(one, self.axes)) for one in self.layout["shapes"]]
        for number, (pair, panel) in enumerate(self.panels.items()):
            box = {"x": panel.x.start, "y": panel.y.start, "width": panel.x.length, "height": panel.y.length}
            clips.append(element("clipPath", element("rect", **box), id=f"{_ID}-clip{number}"))
            clip = f"url(#{_ID}-clip{number})"
            if background and paint("fill", background).get("fill_opacity") != 0:
                parts.append(element("rect", **box, **paint("fill", background)))
            own = [one for one, where in shapes if where == pair]
            below, above = (
                "".join(svg_layout.shape(one, self.axes, self.area) for one in own if (one.get("layer") == "below") is first)
                for first in (True, False)
            )
            parts += [element("g", below, clip_path=clip) if below else "", svg_layout.grid(panel.x, panel.y)]
            parts += self._traces_of(pair, panel, clip)
            parts.append(element("g", above, clip_path=clip) if above else "")
        parts += [svg_layout.shape(one, self.axes, self.area) for one, where in shapes if where is None]
        for axis in self.axes.values():
            words, edge = svg_layout.title(axis, self._title_room(axis)), self._edge(axis)
            parts += [axis.labels(edge), svg_layout.titled(axis, edge, words, self._middle(axis, words))]
        parts += [
            svg_layout.annotation(one, self.axes, self.area, self.width - 16) for one in self.layout["annotations"]
        ]  # fmt: skip
        if self.legend.items:
            left = self.area.left + float(self.layout["legend"].get("x", 0)) * self.area.width
            parts.append(
                svg_layout.keyed(
                    self.legend, self.layout, self.panels, left,
                    svg_layout.legend_top(self.layout, self.area, self.legend.height),
                )
            )  # fmt: skip
        hatches = [hatch for panel in self.panels.values() for hatch in panel.patterns.values()]
        return element("defs", "".join([*clips, *hatches])) + "".join(parts)

    def said(self) -> list[Said]:
        """What the points of all traces say, in the order in which they are drawn."""
        return [
            one
            for trace, place in zip(self.traces, self.places, strict=True)
            for one in said(trace, self.panels[trace.get("xaxis", "x"), trace.get("yaxis", "y")], place)
        ]

    def _traces_of(self, pair: tuple[str, str], panel: Panel, clip: str) -> list[str]:
        """The traces of a panel: heatmaps, then bars, then lines and marks."""
        parts = []
        for kind in ("heatmap", "bar", "scatter"):
            for trace, place in zip(self.traces, self.places, strict=True):
                if trace["type"] != kind or (trace.get("xaxis", "x"), trace.get("yaxis", "y")) != pair:
                    continue
                lines, marks = svg_traces.drawn(trace, panel, place)
                is_clipped = trace.get("cliponaxis", True)
                whole = lines + marks if is_clipped else lines
                parts.append(element("g", whole, clip_path=clip) if whole else "")
                parts.append("" if is_clipped else marks)
        return parts

    def _middle(self, axis: Axis, words: str) -> float:
        """The middle of an axis' title: of the axis, if the title then is within the drawing."""
        middle, size = axis.start + axis.length / 2, float(axis.props["title"]["font"]["size"])
        half = svg_text.width(words, size) / 2 if words else 0.0
        most = self.height if axis.is_vertical else self.width
        return min(max(middle, half + 2), most - half - 2) if 2 * half < most else most / 2


def _equal_units(axis: Axis, other: Axis) -> None:
    """Makes a unit as long on both axes: by shrinking the longer one's part of the drawing, or by widening its range."""
    scales = [one.length / abs(one.high - one.low) for one in (axis, other)]
    wider = axis if scales[0] > scales[1] else other
    if wider.props.get("constrain") == "domain":
        length = min(scales) * abs(wider.high - wider.low)
        toward = wider.props.get("constraintoward", "middle")
        free = wider.length - length
        wider.start += {"left": 0.0, "top": 0.0, "right": free, "bottom": free}.get(toward, free / 2)
        wider.length = length
    else:
        half, middle = wider.length / min(scales) / 2, (wider.low + wider.high) / 2
        sign = 1 if wider.high > wider.low else -1
        wider.low, wider.high = middle - sign * half, middle + sign * half


def _bar_places(
    traces: Sequence[Mapping[str, Any]], panels: Mapping[tuple[str, str], Panel], layout: Mapping[str, Any]
) -> list[Place | None]:
    """Where the bars of each trace stand; None for other traces. Raises TypeError for stacked bars."""
    mode = layout.get("barmode", "group")
    if mode not in ("group", "overlay"):
        raise TypeError(f"no bars that can be drawn as SVG: {mode!r}")
    groups: dict[tuple[str, str], list[int]] = {}
    for number, trace in enumerate(traces):
        if trace["type"] == "bar":
            groups.setdefault((trace.get("xaxis", "x"), trace.get("yaxis", "y")), []).append(number)
    places: list[Place | None] = [None] * len(traces)
    for pair, numbers in groups.items():
        own = []
        for number in numbers:
            is_flat = traces[number].get("orientation") == "h"
            axis = panels[pair].y if is_flat else panels[pair].x
            own += [axis.own(value) for value in svg_traces.listed(traces[number].get("y" if is_flat else "x"))]
        known = sorted({value for value in own if value is not None})
        least = min((b - a for a, b in pairwise(known)), default=1.0)
        n = len(numbers) if mode == "group" else 1
        width = least * (1 - float(layout.get("bargap", 0.2))) / n
        for order, number in enumerate(numbers):
            shift = (order - (n - 1) / 2) * width if mode == "group" else 0.0
            given = traces[number].get("width")
            places[number] = Place(width, shift, least) if given is None else Place(float(given), 0.0, float(given))
    return places


def said(trace: Mapping[str, Any], panel: Panel, place: Place | None) -> Iterator[Said]:
    """Of each point of a trace that says something: its place in pixels, and its text in lines.

    Raises TypeError for a template with a field that is not known.
    """
    template = trace.get("hovertemplate")
    if not template or trace.get("hoverinfo") == "skip":
        return
    words = _EXTRA.sub("", template)
    if trace["type"] == "heatmap":
        for middle, level, cell in svg_traces.cells(trace, panel):
            yield round(middle, 1), round(level, 1), _filled(words, cell)
        return
    x, y = svg_traces.listed(trace.get("x")), svg_traces.listed(trace.get("y"))
    columns = {"x": x, "y": y, "fullData.name": [trace["name"]] * len(x)}
    columns |= {name: svg_traces.one_each(trace.get(name), len(x)) for name in ("text", "hovertext", "customdata")}
    for at, (across, down) in enumerate(svg_traces.places(trace, panel, place)):
        if across is not None and down is not None:
            yield round(across, 1), round(down, 1), _filled(words, {name: values[at] for name, values in columns.items()})


def _filled(template: str, values: Mapping[str, Any]) -> str:
    def field(found: re.Match[str]) -> str:
        name, number, form = found.groups()
        if name not in values:
            raise TypeError(f"no field that can be said of a point: {name}")
        value = values[name] if number is None else values[name][int(number)]
        if isinstance(value, str) or value is None:
            return value or ""
        return format(value, form or ".6g")

    return "\n".join(svg_text.plain_lines(_FIELD.sub(field, template)))


def layout_of(parts: Parts) -> dict[str, Any]:
    """The layout with the template's values, and every axis with those of its kind; raises TypeError for what is unknown."""
    own = dict(parts.layout)
    given = own.pop("template", None)
    given = given.to_plotly_json() if hasattr(given, "to_plotly_json") else given
    axes = {name: part for name, part in own.items() if name.startswith(("xaxis", "yaxis"))}
    _check({name: part for name, part in own.items() if name not in axes}, _LAYOUT, "layout")
    for name, part in axes.items():
        _check(part, _AXIS, name)
    for kind, known in (("shape", _SHAPE), ("annotation", _ANNOTATION)):
        for part in own.get(f"{kind}s") or ():
            _check(part, known, kind)
    template = (given or {}).get("layout") or {}
    layout = merged(template, own) | {"template": given}
    font = layout["font"]
    for name in {"xaxis", "yaxis", *axes}:
        axis = merged(template.get(name[:5]) or {}, own.get(name) or {})
        ink = axis.get("color") or font["color"]
        axis["tickfont"] = {"size": font["size"], "color": ink, **(axis.get("tickfont") or {})}
        axis["title"] = merged({"font": {"size": 1.2 * font["size"], "color": ink}, "standoff": 0}, axis.get("title") or {})
        layout[name] = axis
    for kind in ("shapes", "annotations"):
        layout[kind] = [merged(template.get(f"{kind[:-1]}defaults") or {}, part) for part in layout.get(kind) or ()]
    layout["annotations"] = [merged({"font": font}, part) for part in layout["annotations"]]
    return layout


def traces_of(parts: Parts, layout: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The traces with the template's values and the colours that Plotly gives those without; TypeError for unknown parts."""
    template = ((layout.get("template") or {}).get("data")) or {}
    colours = layout.get("colorway") or _COLOURS
    traces = []
    for place, own in enumerate(parts.traces):
        if own["type"] not in _TRACES:
            raise TypeError(f"no trace that can be drawn as SVG: {own['type']}")
        _check(own, _TRACES[own["type"]], own["type"])
        defaults: tuple[Mapping[str, Any], ...] = template.get(own["type"]) or ({},)
        trace = merged(defaults[place % len(defaults)], own)
        trace.setdefault("name", f"trace {place}")
        trace["textfont"] = merged(layout["font"], trace.get("textfont") or {})
        line, marker = dict(trace.get("line") or {}), dict(trace.get("marker") or {})
        given = marker.get("color") if isinstance(marker.get("color"), str) else None
        line["color"] = line.get("color") or given or colours[place % len(colours)]
        if marker.get("color") is None:
            marker["color"] = line["color"]
        trace["line"], trace["marker"] = line, marker
        traces.append(trace)
    return traces


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; of two values for one property the one from `above`."""
    result = dict(below)
    for name, value in above.items():
        known = result.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            result[name] = merged(known, value)
        elif value is not None:
            result[name] = value
    return result


def _check(own: Mapping[str, Any], known: str, where: str) -> None:
    unknown = sorted(set(_paths(own)) - set(known.split()))
    if unknown:
        raise TypeError(f"cannot be drawn as SVG: {where}.{unknown[0]}")


def _paths(part: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of all values."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from _paths(value, f"{prefix}{name}.")
        elif value is not None and not (isinstance(value, Mapping) and not value):
            yield prefix + name
