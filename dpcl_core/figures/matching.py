"""Figures of matching quality: against the truth, by matcher, and by level of noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from dpcl_core.explorers import rand_index
from dpcl_core.figures import theme
from dpcl_core.figures.picture import Parts, Picture, bold, capital

_NEAR = 0.3  # of the axis: on a phone two names closer than this overlap
_UNKNOWN = "The true groups of these entries are unknown, so agreement cannot be measured."
_NOT_COMPARED = (
    "No agreement here: the true groups are unknown, or all entries are of one group, or the lists are too long to compare."
)
_BLUES = ((0.0, "#f3f8fc"), (1.0, "#6fafdc"))
_BLUES_DARK = ((0.0, "#18252e"), (1.0, "#236690"))
_CHANCE = 0.1  # an index below it is hardly above chance


def confusion(entries: pd.DataFrame, groups: Sequence[str], modes: Sequence[str], *, dark: bool = False) -> Picture:
    """Counts of entries by true mode (rows) and by the group they were matched to (columns).

    Columns as in `runs.matching.entries`, of one round; `groups`, `modes`: names in order of their ids.
    """
    rows = entries[entries["mode"] >= 0]
    if rows.empty:
        return theme.nothing(_UNKNOWN, dark, 260)
    ids, truth = rows["group"].to_numpy(), rows["mode"].to_numpy()
    counts = rand_index.confusion(ids, truth, len(groups), len(modes))
    figure = go.Figure(
        go.Heatmap(
            z=counts,
            x=[f"{name} " for name in groups],
            y=list(modes),
            colorscale=_BLUES_DARK if dark else _BLUES,
            showscale=False,
            xgap=3,
            ygap=3,
            texttemplate="%{z}",
            textfont={"color": theme.ink(dark).text},
            hovertemplate="of %{y}, matched to %{x}: %{z}<extra></extra>",
        ),
        layout=theme.layout(
            dark,
            height=min(460, 110 + 32 * max(3, len(modes))),
            xaxis={"type": "category", "title": "matched to", "showgrid": False},
            yaxis={"type": "category", "title": "really of", "autorange": "reversed", "showgrid": False},
        ),
    )
    finding = (
        f"{100 * rows['is_right'].mean():.0f} % of entries lie in the group of their mode (chance "
        f"{100 / max(len(groups), 1):.0f} %); adjusted Rand index {rand_index.adjusted_rand(ids, truth):.2f}."
    )
    return Picture(figure, finding)


def matcher_bars(agreement: pd.DataFrame, *, dark: bool = False) -> Picture:
    """Agreement with the truth on the same lists, one bar per matcher; the run's own matcher is highlighted.

    Columns matcher, is_own, agreement (several rows per matcher are averaged).
    """
    if agreement.empty:
        return theme.nothing(_NOT_COMPARED, dark, 260)
    means = agreement.groupby("matcher", sort=False)[["agreement", "is_own"]].mean()
    inks = theme.ink(dark)
    names = means.index.tolist()
    is_own = means["is_own"] > 0
    bars = {
        "type": "bar", "x": means["agreement"].tolist(), "y": names, "orientation": "h",
        "marker": {"color": [theme.colour_of_series(0, dark) if mine else inks.soft for mine in is_own]},
        "hovertemplate": "%{y}: %{x:.3f}<extra></extra>",
    }  # fmt: skip
    numbers = {  # right of zero even where a bar goes left
        "type": "scatter", "x": means["agreement"].clip(lower=0).tolist(), "y": names, "mode": "text",
        "textposition": "middle right", "hoverinfo": "skip",
        "text": [bold(f" {_number(value)}") if mine else f" {_number(value)}"
                 for value, mine in zip(means["agreement"], is_own, strict=True)],
        "textfont": {"color": inks.text}, "cliponaxis": False,
    }  # fmt: skip
    layout = theme.layout(
        dark,
        height=70 + 30 * len(names),
        xaxis={"range": [min(-0.05, float(means["agreement"].min()) - 0.02), 1.12], "title": {"text": "adjusted Rand index"},
               "zeroline": True, "tickvals": [0, 0.5, 1]},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        bargap=0.35,
    )  # fmt: skip
    drawn = Parts([bars, numbers], layout)
    best = float(means["agreement"].max())
    if best < _CHANCE:
        finding = f"No matcher agrees with the truth much better than chance does (the most: {_number(best)})."
        return Picture(drawn, finding)
    winners = [name for name in names if means.loc[name, "agreement"] >= best - 0.005]
    first = f"{winners[0]} agrees best with the truth ({best:.2f})"
    if len(winners) > 1:
        first = f"{'; '.join(winners[:-1])} and {winners[-1]} agree best with the truth ({best:.2f})"
    mine = [name for name in names if is_own[name] and name not in winners]
    finding = f"{first}; {mine[0]}, which is used here, has {means.loc[mine[0], 'agreement']:.2f}." if mine else f"{first}."
    return Picture(drawn, capital(finding))


def agreement_by_noise(
    agreement: pd.DataFrame, required: Mapping[str, float], *, chosen: float | None = None, dark: bool = False
) -> Picture:
    """Agreement against the noise on a coordinate of every entry's mean, one line per matcher.

    Columns matcher, noise (ascending levels, 0 among them), agreement. `required`: the noise that a budget requires, by kind
    of trust; each is a vertical line. `chosen`: the level selected on the page.
    """
    rows = agreement.dropna(subset=["noise"])
    if rows.empty:
        return theme.nothing(_UNKNOWN, dark, 340)
    levels = sorted(float(level) for level in rows["noise"].unique())
    positive = [level for level in levels if level > 0]
    finite = {name: level for name, level in required.items() if math.isfinite(level) and level > 0}
    lowest = min([*positive, *finite.values()])
    places = {level: math.log10(level) if level > 0 else math.log10(lowest) - 0.4 for level in levels}
    inks = theme.ink(dark)
    ends = [*places.values(), *(math.log10(level) for level in finite.values())]
    figure = theme.figure(
        dark,
        height=360,
        legend_room=96,
        xaxis={
            "title": "noise on a coordinate of a mean", "showgrid": False, "zeroline": False,
            "tickvals": list(places.values()), "ticktext": [f"{level:g}" for level in levels],
            "range": [min(ends) - 0.12, max(ends) + 0.15],
        },
        yaxis={"title": "adjusted Rand index", "range": [-0.12, 1.08], "tickvals": [0, 0.5, 1]},
        margin={"l": 52, "r": 16, "t": 96, "b": 48},
    )  # fmt: skip
    figure.update_layout(legend_y=1.1 if finite else 1.02)  # above the names of the dashed lines
    if chosen is not None and chosen in places:
        figure.add_vline(x=places[chosen], line={"color": inks.grid, "width": 14}, layer="below")
    above: list[float] = []  # lines whose names are above the plot; of two close ones the second name is within it
    for name, level in finite.items():
        x = math.log10(level)
        is_near = any(abs(x - other) < _NEAR * (max(ends) - min(ends)) for other in above)
        above += [] if is_near else [x]
        figure.add_vline(x=x, line={"color": inks.text, "width": 1.5, "dash": "dash"})
        figure.add_annotation(
            x=x, y=1.0, yref="paper", yanchor="top" if is_near else "bottom", text=f"{name} {level:.2g}", showarrow=False,
            xanchor="right" if x > np.mean(ends) else "left", font={"color": inks.text, "size": 12},
        )  # fmt: skip
    at_noise: dict[str, dict[float, float]] = {}
    for index, (matcher, of) in enumerate(rows.groupby("matcher", sort=False)):
        by = of.groupby("noise")["agreement"].mean()
        at_noise[str(matcher)] = by.to_dict()
        hover = f"{matcher}, noise %{{customdata}}: %{{y:.2f}}"
        line = theme.series_line(
            [places[float(level)] for level in by.index], by, str(matcher), index, hover, dark=dark, size=7
        )
        figure.add_trace(line.update(customdata=[f"{level:g}" for level in by.index]))
    return Picture(figure, _best_at_noise(at_noise, levels, finite, chosen))


def _best_at_noise(
    at_noise: Mapping[str, Mapping[float, float]],
    levels: Sequence[float],
    required: Mapping[str, float],
    chosen: float | None,
) -> str:
    """Sentence on the best matcher at the selected noise, or at the largest that a budget requires."""
    wanted = max(required.values()) if required and chosen is None else chosen if chosen is not None else levels[-1]
    level = min(levels, key=lambda candidate: abs(math.log10(max(candidate, 1e-9)) - math.log10(max(wanted, 1e-9))))
    best = max(at_noise, key=lambda name: at_noise[name].get(level, -1.0))
    reached = at_noise[best][level]
    sentence = f"At noise {level:g} {best} agrees best with the truth: {reached:.2f}"
    if reached < _CHANCE:
        sentence = f"At noise {level:g} no matcher agrees with the truth much better than chance does"
    requirements = ", ".join(f"{name} {value:.2g}" for name, value in required.items())
    return f"{sentence}. The budget requires: {requirements}." if required else f"{sentence}."


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")
