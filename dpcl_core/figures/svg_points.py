"""What a figure says of its points when a pointer comes near, as Plotly says it: the templates of its traces, filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpcl_core.figures import svg_text, svg_traces
from dpcl_core.figures.svg_traces import Panel, Place

Said = tuple[float, float, str]
_FIELD = re.compile(r"%\{([\w.]+)(?:\[(\d)\])?(?::([^}]+))?\}")
_EXTRA = re.compile(r"<extra>.*?</extra>")


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
