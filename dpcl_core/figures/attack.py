"""Figures of the membership duel: an attack against the exact bound of its noise, and the lower bounds on ε it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, epsilon_text
from dpcl_core.lessons.duel import Duel, exact_hits, is_held, promised_hits
from dpcl_core.privacy.statement import gaussian_odds_bound, shown

_GRID = np.concatenate([[0.0], np.logspace(-4, -2, 40), np.linspace(0.011, 1, 160)])
_DOTS = 50  # thresholds drawn out of thousands


def duel(played: Duel, *, sigma: float, epsilon: float, delta: float, dark: bool = False) -> Picture:
    """True alarms against false alarms: dots of the attack, the exact curve of this noise, the region allowed by ε."""
    inks = theme.ink(dark)
    attack, exact = theme.colour_of_series(1, dark), theme.colour_of_series(0, dark)
    figure = theme.figure(
        dark,
        height=400,
        legend_room=60,
        xaxis=theme.percent_axis(title="false alarms: she is out, he says in", range=[-1, 101]),
        yaxis=theme.percent_axis(title="hits: she is in, he says in", range=[-1, 103]),
    )
    figure.add_trace(
        go.Scatter(
            x=100 * np.concatenate([_GRID, [1.0, 0.0]]),
            y=100 * np.concatenate([promised_hits(_GRID, epsilon, delta), [0.0, 0.0]]),
            mode="lines",
            fill="toself",
            fillcolor=theme.translucent(inks.soft, 0.16),
            line={"color": inks.soft, "width": 1, "dash": "dot"},
            name=f"promised by ε = {epsilon_text(epsilon)}",
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=100 * _GRID,
            y=100 * exact_hits(_GRID, sigma),
            mode="lines",
            line={"color": exact, "width": 2.4},
            name="best possible against this noise",
            hovertemplate="false alarms %{x:.1f} %, hits at most %{y:.1f} %<extra></extra>",
        )
    )
    alarms, hits = played.curve()
    places = np.unique(np.linspace(0, len(alarms) - 1, _DOTS).astype(np.int64))
    figure.add_trace(
        go.Scatter(
            x=100 * alarms[places],
            y=100 * hits[places],
            mode="markers",
            marker={"color": attack, "size": 7, "symbol": "circle-open", "line": {"width": 1.8}},
            name="the attack, measured",
            hovertemplate="false alarms %{x:.1f} %, hits %{y:.1f} %<extra></extra>",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[0, 100], y=[0, 100], mode="lines", line={"color": inks.soft, "width": 1}, name="a coin", hoverinfo="skip"
        )
    )
    return Picture(figure, _finding(played, sigma))


def _finding(played: Duel, sigma: float) -> str:
    right, best = 100 * played.share_right, 100 * gaussian_odds_bound(sigma)
    result = (
        f"The attack was right in {right:.1f} % of {played.n_rounds:,} rounds; the best possible against this noise is "
        f"{best:.1f} %."
    )
    held = "No cut of it beats the best possible by more than chance does."
    return f"{result} {held if is_held(played, sigma) else 'It breaks through: this noise does not hold it.'}"


def proven_epsilon(
    bounds: Mapping[str, Sequence[float]], rounds: Sequence[int], *, advertised: float, dark: bool = False
) -> Picture:
    """Lower bound on ε by number of rounds per side, one line per attack, with the advertised ε.

    `bounds`: by name, one lower bound for each entry of `rounds`.
    """
    top = max([advertised, *(value for values in bounds.values() for value in values)])
    ticks = [10, 100, 1000, 10_000]
    figure = theme.figure(
        dark,
        height=330,
        legend_room=40,
        xaxis={
            "title": "rounds with her in, and as many with her out", "type": "log", "showgrid": False, "tickvals": ticks,
            "ticktext": [f"{tick:,}" for tick in ticks],
        },
        yaxis={"title": "ε is proven to be at least", "range": [-0.04 * top, 1.12 * top]},
        showlegend=len(bounds) > 1,
    )  # fmt: skip
    sentences = []
    for (name, values), index in zip(bounds.items(), (1, 0), strict=False):
        colour = theme.colour_of_series(index, dark)
        figure.add_trace(theme.line(rounds, values, name, colour, "%{x:,} rounds a side: ε at least %{y:.2f}", size=7))
        comparison = "more than was promised" if values[-1] > advertised else "no more than was promised"
        sentences.append(f"{capital(name)}: after {rounds[-1]:,} rounds a side ε is at least {values[-1]:.2f}, {comparison}")
    line = theme.ink(dark).text
    figure.add_hline(y=advertised, line={"color": line, "width": 1.4, "dash": "dash"})
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", y=advertised, yanchor="bottom", showarrow=False, font={"color": line},
        text=f"promised: ε = {shown(advertised)}",
    )  # fmt: skip
    return Picture(figure, ". ".join(sentences) + ".")
