"""The trials of a tuning: accuracy on the held-out examples, and the best so far."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture

_HEIGHT = 260


def trials(table: pd.DataFrame, *, n_trials: int, n_validation: int, dark: bool = False) -> Picture:
    """One dot per trial, a line for the best so far; failed trials are crosses at the bottom.

    Columns: trial (from 1), accuracy (in [0, 1]; NaN: failed), learning_rate, batch_size, clip_norm.
    """
    done = table[table["accuracy"].notna()]
    if table.empty:
        return theme.nothing("The first dot appears when a trial is over.", dark, _HEIGHT)
    figure = theme.figure(dark, height=_HEIGHT, margin={"l": 52, "r": 16, "t": 12, "b": 44})
    step = max(1, math.ceil(n_trials / 10))
    figure.update_xaxes(title="trial", range=[0.4, n_trials + 0.6], tick0=step, dtick=step, showgrid=False, zeroline=False)
    figure.update_yaxes(theme.percent_axis(title="held-out accuracy", range=[-3, 103]))
    inks, colour = theme.ink(dark), theme.colour_of_series(0, dark)
    failed = table[table["accuracy"].isna()]
    if not done.empty:
        figure.add_trace(
            go.Scatter(
                x=done["trial"], y=100 * done["accuracy"].cummax(), mode="lines", name="best so far", hoverinfo="skip",
                line={"color": colour, "width": 2, "shape": "hv"},
            )
        )  # fmt: skip
        figure.add_trace(_dots(done, 100 * done["accuracy"], "trial", colour, "circle", "%{y:.1f} %"))
    if not failed.empty:
        figure.add_trace(_dots(failed, pd.Series(0.0, index=failed.index), "failed", inks.soft, "x", "failed"))
    return Picture(figure, _finding(table, done, n_validation))


def _dots(rows: pd.DataFrame, y: pd.Series, name: str, colour: str, symbol: str, outcome: str) -> go.Scatter:
    settings = "learning rate %{customdata[0]:.2g}, batch %{customdata[1]}, clipping norm %{customdata[2]:.2g}"
    return go.Scatter(
        x=rows["trial"],
        y=y,
        mode="markers",
        name=name,
        marker={"color": colour, "symbol": symbol, "size": 8},
        customdata=rows[["learning_rate", "batch_size", "clip_norm"]],
        hovertemplate=f"trial %{{x}}: {outcome}<br>{settings}<extra></extra>",
    )


def _finding(table: pd.DataFrame, done: pd.DataFrame, n_validation: int) -> str:
    n_failed = len(table) - len(done)
    failed = f" {n_failed} of {len(table)} failed." if n_failed else ""
    if done.empty:
        return f"No trial has ended well yet.{failed}"
    best = done.loc[done["accuracy"].idxmax()]
    value = float(best["accuracy"])
    alike = int((done["accuracy"] == value).sum())
    shared = f", as good as {alike - 1} later one{'s' if alike > 2 else ''}" if alike > 1 else ""
    error = 100 * math.sqrt(value * (1 - value) / n_validation)
    doubt = f" (standard error {error:.1f} points)" if error else ""
    return (
        f"Trial {int(best['trial'])} is the best of {len(table)}{shared}: {100 * value:.1f} % of {n_validation} held-out "
        f"examples{doubt}.{failed}"
    )
