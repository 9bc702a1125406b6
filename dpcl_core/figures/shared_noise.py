"""Accuracy by scale of the noise: one shared noise for all pictures against independent noise for each."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture

_CLEAN = "none"


def accuracy_by_scale(
    accuracies: Mapping[str, Mapping[float, float]], *, chosen: float, chance: float, dark: bool = False
) -> Picture:
    """Accuracy against the scale of the noise, one line per learner; the chosen scale is marked and in the finding.

    `accuracies`: by the learner's name and scale (the same scales for all, 0 among them: no noise), in [0, 1]. `chance`:
    accuracy of guessing.
    """
    scales = sorted(next(iter(accuracies.values())))
    names = [scale_text(scale) for scale in scales]
    figure = go.Figure(
        layout=theme.layout(
            dark,
            height=380,
            xaxis={"title": "scale of the noise on a pixel, b", "type": "category", "showgrid": False},
            yaxis=theme.percent_axis(title="accuracy on new pictures"),
            legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemclick": False},
            showlegend=True,
            margin={"l": 52, "r": 16, "t": 60, "b": 44},
        )
    )
    inks = theme.ink(dark)
    figure.add_hline(y=100 * chance, line={"color": inks.soft, "width": 1, "dash": "dot"})
    figure.add_annotation(
        text="guessing", x=0, xref="paper", y=100 * chance, xanchor="left", yanchor="top", showarrow=False,
        font={"color": inks.soft, "size": 11.5},
    )  # fmt: skip
    place = scales.index(chosen)
    figure.add_shape(
        type="rect", x0=place - 0.32, x1=place + 0.32, y0=0, y1=1, yref="paper", layer="below",
        fillcolor=inks.grid, line={"width": 0},
    )  # fmt: skip
    styles = zip(("solid", "dash", "dot"), ("circle", "square", "x"), strict=True)
    for index, ((name, by_scale), (dash, symbol)) in enumerate(zip(accuracies.items(), styles, strict=False)):
        colour = theme.colour_of_series(index, dark)
        figure.add_trace(
            go.Scatter(
                x=names,
                y=[100 * by_scale[scale] for scale in scales],
                mode="lines+markers",
                line={"color": colour, "width": 2.2, "dash": dash},
                marker={"color": colour, "symbol": symbol, "size": 8},
                name=name,
                hovertemplate=f"{name}, b = %{{x}}: %{{y:.1f}} %<extra></extra>",
            )
        )
    accuracies_text = "; ".join(f"{name}: {100 * by_scale[chosen]:.1f} %" for name, by_scale in accuracies.items())
    clean = sorted(100 * by_scale[0.0] for by_scale in accuracies.values())
    before = f"Without noise {clean[0]:.1f} to {clean[-1]:.1f} %. " if chosen else ""
    finding = f"{before}{f'With b = {scale_text(chosen)}' if chosen else 'Without noise'}: {accuracies_text}."
    return Picture(figure, finding, finding)


def scale_text(scale: float) -> str:
    """A scale as text for the axis: plain digits, or words where there is no noise."""
    return f"{scale:g}" if scale else _CLEAN
