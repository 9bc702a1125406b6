"""A figure in presenter size: the same picture with larger letters, lines and markers."""

from __future__ import annotations

import plotly.graph_objects as go


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
