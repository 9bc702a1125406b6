"""Metrics of finished models by seed, with published values as grey ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, counted, epsilon_phrase, minus
from dpcl_core.metrics import right_after_learning
from dpcl_core.privacy.statement import Standing

_METRICS = ("AA", "BWT", "FWT")


def by_seed(
    metrics: pd.DataFrame, *, epsilon: float, n_tasks: int, published: Mapping[str, Sequence[float]] | None = None,
    score: str = "accuracy", standing: Standing = "bound", dark: bool = False,
) -> Picture:  # fmt: skip
    """AA, BWT and FWT of the models of one budget in points: one dot per seed, a bar for their mean.

    Columns epsilon, seed, metric, value (shares; NaN: undefined, no dot). `published`: printed values in points by metric,
    each a grey tick. `score`: the name of the score. The finding includes the accuracy right after learning that AA and BWT
    imply.
    """
    titles = {"AA": f"average {score}", "BWT": "backward transfer", "FWT": "forward transfer"}
    rows = metrics[(metrics["epsilon"] == epsilon) & metrics["metric"].isin(_METRICS)].dropna(subset=["value"])
    if rows.empty:
        return theme.nothing("The metrics appear when the first model has learned all its tasks.", dark, 280)
    inks, colour = theme.ink(dark), theme.colour_of_epsilon(epsilon, dark)
    names = [name for name in _METRICS if (rows["metric"] == name).any()]
    means = rows.groupby("metric")["value"].mean().reindex(names)
    figure = theme.figure(
        dark,
        height=90 + 62 * len(names),
        xaxis={"title": "points", "zeroline": True},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        margin={"l": 130, "r": 24, "t": 16, "b": 44},
    )
    for kind, values in (published or {}).items():
        if kind in names:
            figure.add_trace(
                go.Scatter(
                    x=list(values), y=[titles[kind]] * len(values), mode="markers", name="published",
                    marker={"symbol": "line-ns", "size": 26, "line": {"color": inks.soft, "width": 2}},
                    hovertemplate="published: %{x:.1f}<extra></extra>",
                )
            )  # fmt: skip
    for name in names:
        values = 100 * rows.loc[rows["metric"] == name, "value"]
        figure.add_trace(
            go.Scatter(
                x=values, y=[titles[name]] * len(values), mode="markers", name=name,
                marker={"color": colour, "size": 9, "opacity": 0.75}, customdata=rows.loc[values.index, "seed"],
                hovertemplate="seed %{customdata}: %{x:.1f}<extra></extra>",
            )
        )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=100 * means, y=[titles[name] for name in names], mode="markers+text", name="mean",
            marker={"symbol": "line-ns", "size": 20, "line": {"color": inks.text, "width": 3}},
            text=[minus(f"{100 * value:.1f}") for value in means], textposition="top center", textfont={"color": inks.text},
            hovertemplate="mean: %{x:.1f}<extra></extra>",
        )
    )  # fmt: skip
    seeds = counted(rows["seed"].nunique(), "seed")
    values_text = ", ".join(f"{titles[name]} {minus(f'{100 * value:.1f}')}" for name, value in means.items())
    printed = [f"{titles[kind]} {', '.join(f'{value:g}' for value in values)}" for kind, values in (published or {}).items()]
    finding = f"{capital(epsilon_phrase(epsilon, standing))}, mean of {seeds}: {values_text} points."
    if "BWT" in means:
        learned = right_after_learning(100 * means["AA"], 100 * means["BWT"], n_tasks)
        finding += f" Right after learning a task: {learned:.1f}, which is AA − BWT (T − 1) / T."
    finding += f" Published: {'; '.join(printed)}." if printed else ""
    return Picture(figure, finding)
