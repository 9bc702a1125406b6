"""Accuracy by scale of the noise: one shared noise for all pictures against independent noise for each."""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture


def accuracy_by_scale(
    accuracies: Mapping[str, Mapping[float, float]], *, chosen: float, chance: float, dark: bool = False
) -> Picture:
    """Accuracy against the scale of the noise, one line per learner; the chosen scale is marked and in the finding.

    `accuracies`: by the learner's name and scale (the same scales for all, 0 among them: no noise), in [0, 1]. `chance`:
    accuracy of guessing.
    """
    scales = sorted(next(iter(accuracies.values())))
    names = [scale_text(scale) for scale in scales]
    figure = theme.figure(
        dark,
        height=380,
        legend_room=60,
        xaxis={"title": "scale of the noise on a pixel, b", "type": "category", "showgrid": False},
        yaxis=theme.percent_axis(title="accuracy on new pictures"),
    )
    theme.add_level(figure, 100 * chance, "guessing", x=0, above=False, dark=dark)
    place = scales.index(chosen)
    figure.add_shape(
        type="rect", x0=place - 0.32, x1=place + 0.32, y0=0, y1=1, yref="paper", layer="below",
        fillcolor=theme.ink(dark).grid, line={"width": 0},
    )  # fmt: skip
    for index, (name, by_scale) in enumerate(accuracies.items()):
        values = [100 * by_scale[scale] for scale in scales]
        figure.add_trace(theme.series_line(names, values, name, index, f"{name}, b = %{{x}}: %{{y:.1f}} %", dark=dark))
    accuracies_text = "; ".join(f"{name}: {100 * by_scale[chosen]:.1f} %" for name, by_scale in accuracies.items())
    clean = sorted(100 * by_scale[0.0] for by_scale in accuracies.values())
    before = f"Without noise {clean[0]:.1f} to {clean[-1]:.1f} %. " if chosen else ""
    finding = f"{before}{f'With b = {scale_text(chosen)}' if chosen else 'Without noise'}: {accuracies_text}."
    return Picture(figure, finding)


def scale_text(scale: float) -> str:
    """A scale as text for the axis: plain digits, or words where there is no noise."""
    return f"{scale:g}" if scale else "none"
