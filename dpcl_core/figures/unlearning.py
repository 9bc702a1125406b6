"""Figures of unlearning terms: weight of a token, likelihood of a secret in training, exposure of planted codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, minus


def token_weights(
    scores: NDArray[np.float64], weights: Mapping[str, NDArray[np.float64]], *, chosen: float, dark: bool = False
) -> Picture:
    """Weight of a token in the loss by its Score, one line per term; above 0 it is learned, below 0 unlearned.

    `scores` [n] ascending; `weights`: by the term's name, [n]; the chosen Score is marked, and interpolated linearly.
    """
    at = {name: float(np.interp(chosen, scores, line)) for name, line in weights.items()}
    figure = _figure(dark, x="Score of the token", y="weight of its cross-entropy", height=380)
    soft = theme.ink(dark).soft
    figure.add_hline(y=0, line={"color": soft, "width": 1})
    figure.add_vline(x=chosen, line={"color": soft, "width": 1, "dash": "dot"})
    theme.add_note(figure, 0.0, "learned", x=0, above=True, dark=dark)
    theme.add_note(figure, 0.0, "unlearned", x=0, above=False, dark=dark)
    for index, (name, line) in enumerate(weights.items()):
        hover = f"{name}, Score %{{x:.2f}}: %{{y:.2f}}"
        figure.add_trace(theme.series_line(scores, line, name, index, hover, dark=dark, mode="lines"))
    weights_text = "; ".join(f"{name} {_signed(value)}" for name, value in at.items())
    finding = f"At a Score of {chosen:g} the token counts: {weights_text}."
    return Picture(figure, finding)


def secret_nats(nats: Mapping[str, NDArray[np.float64]], *, most: float, public: float, dark: bool = False) -> Picture:
    """Nats of a secret by training step, one line per term; `public`: its nats under the public model. Drawn up to `most`.

    `nats`: by the term's name, [steps + 1] from the untrained model on.
    """
    figure = _figure(dark, x="training steps", y="nats per digit of the secret", height=380)
    figure.update_yaxes(range=[0, most])
    theme.add_level(figure, public, "as unknown as to the public model", x=1, above=False, dark=dark)
    for index, (name, line) in enumerate(nats.items()):
        hover = f"{name}, step %{{x}}: %{{y:.2f}} nats"
        figure.add_trace(theme.series_line(list(range(len(line))), line, name, index, hover, dark=dark, mode="lines"))
    ends = "; ".join(f"{name} {line[-1]:.1f}" for name, line in nats.items())
    steps = len(next(iter(nats.values()))) - 1
    finding = f"Nats per digit of the secret after {steps} steps, from {public:.1f}: {ends}."
    return Picture(figure, finding)


def code_exposure(
    levels: Sequence[int], bits: Mapping[str, Sequence[Sequence[float]]], *, controls: float, most: float, dark: bool = False
) -> Picture:
    """Bits of exposure by how often a code was planted, one line per term through the means, with a mark for each seed.

    Args: levels: repetitions, ascending; bits: by the term's name, for each level the exposure with each seed; controls:
    mean exposure of codes never planted; most: of the single most likely code.
    """
    names = [f"{level} times" if level > 1 else "once" for level in levels]
    figure = _figure(dark, x="how often a code was planted", y="exposure, bits", height=400)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(range=[0, most + 0.8])
    theme.add_level(figure, controls, "never planted", x=0.5, above=False, dark=dark)
    theme.add_level(figure, most, "the single most likely code", x=0.5, above=True, dark=dark)
    for index, (name, by_level) in enumerate(bits.items()):
        means = [float(np.mean(seeds)) for seeds in by_level]
        hover = f"{name}, %{{x}}: %{{y:.1f}} bits on average"
        line = theme.series_line(names, means, name, index, hover, dark=dark, size=9)
        figure.add_trace(line)
        points = [(place, value) for place, seeds in zip(names, by_level, strict=True) for value in seeds]
        figure.add_trace(
            go.Scatter(
                x=[place for place, _ in points],
                y=[value for _, value in points],
                mode="markers",
                marker={"color": line.line.color, "symbol": line.marker.symbol, "size": 6, "opacity": 0.45},
                name=name,
                showlegend=False,
                hovertemplate=f"{name}, one seed: %{{y:.1f}} bits<extra></extra>",
            )
        )
    ends = "; ".join(f"{name} {np.mean(by_level[-1]):.1f}" for name, by_level in bits.items())
    finding = f"Exposure of codes planted {levels[-1]} times, in bits: {ends}; never planted {controls:.1f}."
    return Picture(figure, finding)


def _figure(dark: bool, *, x: str, y: str, height: int) -> go.Figure:
    return theme.figure(dark, height=height, legend_room=60, xaxis={"title": x}, yaxis={"title": y, "zeroline": False})


def _signed(value: float) -> str:
    """A weight with two digits, a true minus, and no minus before a zero."""
    return minus(f"{value:.2f}") if abs(value) >= 0.005 else "0"
