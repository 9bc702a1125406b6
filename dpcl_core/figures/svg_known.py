"""What of a Plotly figure can be drawn as SVG, and its properties with the template's and Plotly's own values filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpcl_core.figures.picture import Parts

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
