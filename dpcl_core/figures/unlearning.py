"""Figures of unlearning terms: weight of a token, likelihood of a secret in training, exposure of planted codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture

_Line = Sequence[float] | NDArray[np.float64]
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "x", "diamond", "triangle-up")


def pulls(
    scores: NDArray[np.float64], weights: Mapping[str, NDArray[np.float64]], *, chosen: float, dark: bool = False
) -> Picture:
    """Weight of a token in the loss by its Score, one line per term; above 0 it is learned, below 0 unlearned.

    `scores` [n] ascending; `weights`: by the term's name, [n]; the chosen Score is marked, and interpolated linearly.
    """
    at = {name: float(np.interp(chosen, scores, line)) for name, line in weights.items()}
    figure = _figure(dark, x="Score of the token", y="weight of its cross-entropy", height=380)
    inks = theme.ink(dark)
    figure.add_hline(y=0, line={"color": inks.soft, "width": 1})
    figure.add_vline(x=chosen, line={"color": inks.soft, "width": 1, "dash": "dot"})
    for text, y, anchor in (("learned", 0.0, "bottom"), ("unlearned", 0.0, "top")):
        figure.add_annotation(
            text=text, x=0, xref="paper", y=y, xanchor="left", yanchor=anchor, showarrow=False,
            font={"color": inks.soft, "size": 11.5},
        )  # fmt: skip
    for index, (name, line) in enumerate(weights.items()):
        figure.add_trace(_line(name, scores, line, index, dark, "Score %{x:.2f}: %{y:.2f}"))
    weights_text = "; ".join(f"{name} {_signed(value)}" for name, value in at.items())
    finding = f"At a Score of {chosen:g} the token counts: {weights_text}."
    return Picture(figure, finding, finding)


def courses(nats: Mapping[str, NDArray[np.float64]], *, most: float, public: float, dark: bool = False) -> Picture:
    """Nats of a secret by training step, one line per term; `public`: its nats under the public model. Drawn up to `most`.

    `nats`: by the term's name, [steps + 1] from the untrained model on.
    """
    figure = _figure(dark, x="training steps", y="nats per digit of the secret", height=380)
    figure.update_yaxes(range=[0, most])
    inks = theme.ink(dark)
    figure.add_hline(y=public, line={"color": inks.soft, "width": 1, "dash": "dot"})
    figure.add_annotation(
        text="as unknown as to the public model", x=1, xref="paper", y=public, xanchor="right", yanchor="top",
        showarrow=False, font={"color": inks.soft, "size": 11.5},
    )  # fmt: skip
    for index, (name, line) in enumerate(nats.items()):
        figure.add_trace(_line(name, np.arange(len(line), dtype=np.float64), line, index, dark, "step %{x}: %{y:.2f} nats"))
    ends = "; ".join(f"{name} {line[-1]:.1f}" for name, line in nats.items())
    steps = len(next(iter(nats.values()))) - 1
    finding = f"Nats per digit of the secret after {steps} steps, from {public:.1f}: {ends}."
    return Picture(figure, finding, finding)


def exposures(
    levels: Sequence[int],
    bits: Mapping[str, Sequence[Sequence[float]]],
    *,
    controls: float,
    most: float,
    dark: bool = False,
) -> Picture:
    """Bits of exposure by how often a code was planted, one line per term through the means, with a mark for each seed.

    Args: levels: repetitions, ascending; bits: by the term's name, for each level the exposure with each seed; controls:
    mean exposure of codes never planted; most: of the single most likely code.
    """
    names = [f"{level} times" if level > 1 else "once" for level in levels]
    figure = _figure(dark, x="how often a code was planted", y="exposure, bits", height=400)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(range=[0, most + 0.8])
    inks = theme.ink(dark)
    for height, text, anchor in ((controls, "never planted", "top"), (most, "the single most likely code", "bottom")):
        figure.add_hline(y=height, line={"color": inks.soft, "width": 1, "dash": "dot"})
        figure.add_annotation(
            text=text, x=0.5, xref="paper", y=height, xanchor="center", yanchor=anchor, showarrow=False,
            font={"color": inks.soft, "size": 11.5},
        )  # fmt: skip
    for index, (name, by_level) in enumerate(bits.items()):
        means = [float(np.mean(seeds)) for seeds in by_level]
        line = _line(name, names, means, index, dark, "%{x}: %{y:.1f} bits on average")
        line.mode = "lines+markers"
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
    return Picture(figure, finding, finding)


def _figure(dark: bool, *, x: str, y: str, height: int) -> go.Figure:
    return go.Figure(
        layout=theme.layout(
            dark,
            height=height,
            xaxis={"title": x},
            yaxis={"title": y, "zeroline": False},
            legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemclick": False},
            showlegend=True,
            margin={"l": 52, "r": 16, "t": 60, "b": 44},
        )
    )


def _line(
    name: str,
    x: Sequence[str] | NDArray[np.float64],
    y: Sequence[float] | NDArray[np.float64],
    index: int,
    dark: bool,
    hover_text: str,
) -> go.Scatter:
    colour = theme.colour_of_series(index, dark)
    return go.Scatter(
        x=list(x),
        y=list(y),
        mode="lines",
        line={"color": colour, "width": 2.2, "dash": _DASHES[index % len(_DASHES)]},
        marker={"color": colour, "symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 9},
        name=name,
        hovertemplate=f"{name}, {hover_text}<extra></extra>",
    )


def _signed(value: float) -> str:
    """A weight with two digits, a true minus, and no minus before a zero."""
    return f"{value:.2f}".replace("-", "−") if abs(value) >= 0.005 else "0"
