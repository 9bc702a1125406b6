"""True costs of a token's nominal budget: in one release, over epochs and occurrences, for a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture


def true_costs(
    nominal: Sequence[float], true: Mapping[str, Sequence[float]], *, chosen: float, dark: bool = False
) -> Picture:
    """True ε against nominal ε, one line per kind of cost, on two logarithmic axes; the finding is at the chosen one.

    `true`: by name, one finite number for each entry of `nominal` (ascending, including `chosen`). A faint line marks
    equality, which the paper claims for one token.
    """
    inks = theme.ink(dark)
    top = max(max(values) for values in true.values())
    figure = theme.figure(
        dark,
        height=400,
        legend_room=76,
        xaxis=_axis("nominal ε of a token, no guarantee", nominal[0], nominal[-1], steps=(1, 2, 5)),
        yaxis=_axis("what it really costs, ε", nominal[0], top, steps=(1,)),
    )
    figure.add_trace(
        go.Scatter(
            x=[nominal[0], nominal[-1]],
            y=[nominal[0], nominal[-1]],
            mode="lines",
            line={"color": inks.soft, "width": 1, "dash": "dot"},
            name="were the nominal ε true",
            hoverinfo="skip",
        )
    )
    for index, (name, values) in enumerate(true.items()):
        hover = f"{name}: nominal ε = %{{x:.3g}}, really %{{y:.4g}}"
        figure.add_trace(theme.series_line(nominal, values, name, index, hover, dark=dark, size=6))
    figure.add_vline(x=chosen, line={"color": inks.soft, "width": 1})
    place = list(nominal).index(chosen)
    costs = "; ".join(f"{name} {number(values[place])}" for name, values in true.items())
    finding = f"What a nominal ε of {number(chosen)} (no guarantee) really costs: {costs}."
    return Picture(figure, finding)


def number(value: float) -> str:
    """A number in four digits, or as an integer from 1,000 on."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _axis(title: str, low: float, high: float, steps: Sequence[int]) -> dict[str, object]:
    bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**power for power in range(bottom, top + 1) for step in steps]
    return {
        "title": title,
        "type": "log",
        "tickvals": ticks,
        "ticktext": [f"{tick:,.10g}" for tick in ticks],
        "range": [math.log10(low) - 0.05, math.log10(high) + 0.05],
    }
