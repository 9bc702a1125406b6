"""Figures of the budget spent over the tasks, and of the growth of noise under the label settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, counted
from dpcl_core.privacy.statement import shown
from dpcl_core.spec import LABELS, LabelSetting


def ledger(spent: pd.DataFrame, *, dark: bool = False) -> Picture:
    """ε spent so far, as steps over the tasks, one line per kind of person; the plain sum of the steps as a faint line.

    Columns: people (kind of person), after_task (from 0), epsilon (accounted so far), and step (ε of the task alone, for the
    plain sum). Kinds are drawn in their order of appearance; infinite values are not drawn but named in the finding.
    """
    kinds = list(dict.fromkeys(spent["people"]))
    if not kinds:
        return theme.nothing("The ledger is empty: nothing has touched private data yet.", dark, 200)
    inks = theme.ink(dark)
    figure = make_subplots(
        rows=len(kinds), cols=1, shared_xaxes=True, vertical_spacing=0.16 / len(kinds), subplot_titles=kinds
    )
    sentences = []
    finite = spent[np.isfinite(spent["epsilon"])]
    naive_top = max((float(rows["step"].sum()) for _, rows in finite.groupby("people")), default=1.0)
    for row, kind in enumerate(kinds, start=1):
        rows = spent[spent["people"] == kind].sort_values("after_task")
        tasks, epsilon = rows["after_task"].to_numpy() + 1, rows["epsilon"].to_numpy(dtype=np.float64)
        colour = theme.colour_of_series(row - 1, dark)
        drawn = np.isfinite(epsilon)
        figure.add_trace(
            go.Scatter(
                x=tasks[drawn],
                y=epsilon[drawn],
                mode="lines+markers",  # a single task has no line
                line={"color": colour, "width": 2.2, "shape": "hvh"},
                marker={"size": 5},
                fill="tozeroy",
                fillcolor=theme.translucent(colour, 0.15),
                name=f"{kind}: accounted",
                hovertemplate="after task %{x}: ε = %{y:.3g}<extra></extra>",
            ),
            row=row,
            col=1,
        )
        figure.add_trace(
            go.Scatter(
                x=tasks[drawn],
                y=np.cumsum(rows["step"].to_numpy(dtype=np.float64)[drawn]),
                mode="lines",
                line={"color": inks.soft, "width": 1.2, "dash": "dot", "shape": "hvh"},
                name=f"{kind}: plain sum",
                hovertemplate="plain sum after task %{x}: %{y:.3g}<extra></extra>",
            ),
            row=row,
            col=1,
        )
        last = float(epsilon[-1])
        spent_text = "no bound" if math.isinf(last) else f"ε = {shown(last)} after {counted(int(tasks[-1]), 'task')}"
        sentences.append(f"{kind}: {spent_text}")
    figure.update_layout(theme.layout(dark, height=70 + 120 * len(kinds), margin={"l": 48, "r": 16, "t": 28, "b": 40}))
    figure.update_annotations(font={"size": 12, "color": inks.soft}, x=0, xanchor="left")
    figure.update_yaxes(title="ε", range=[0, 1.08 * naive_top])
    figure.update_xaxes(showgrid=False, tick0=1, dtick=max(1, int(spent["after_task"].max()) // 10))
    figure.update_xaxes(title="tasks learned", row=len(kinds), col=1)
    return Picture(figure, capital("; ".join(sentences)) + ".")


def noise_growth(noise: Mapping[LabelSetting, Sequence[float]], *, dark: bool = False) -> Picture:
    """Standard deviation of the noise in one class sum, one line per label setting; entry k: after task k + 1."""
    n_tasks = max((len(values) for values in noise.values()), default=0)
    if not n_tasks:
        return theme.nothing("Noise appears with the first task.", dark, 280)
    figure = theme.figure(
        dark,
        height=280,
        xaxis=theme.task_axis(1, n_tasks),
        yaxis={"title": "noise in one class sum (std)", "rangemode": "tozero"},
        margin={"l": 52, "r": 150, "t": 12, "b": 40},
    )
    top = max(max(values) for values in noise.values())
    heights = theme.spread_labels([values[-1] for values in noise.values()], 0.085 * top, 0, top * 1.02)
    sentences = []
    for index, ((setting, values), height) in enumerate(zip(noise.items(), heights, strict=True)):
        colour, name = theme.colour_of_series(index, dark), LABELS[setting]
        x, y = theme.decimated(np.arange(1, len(values) + 1, dtype=np.float64), np.asarray(values, dtype=np.float64))
        line = theme.line(
            x, y, name, colour, f"{name}, after task %{{x}}: %{{y:.3g}}", dash=theme.DASHES[setting],
            symbol=theme.MARKERS[setting], size=6, mode="lines+markers" if len(values) <= 30 else "lines",
        )  # fmt: skip
        figure.add_trace(line)
        figure.add_annotation(
            x=len(values), y=height, text=name, font={"color": theme.readable(colour, dark), "size": 12}, showarrow=False,
            xanchor="left", xshift=8,
        )  # fmt: skip
        sentences.append(_growth(name, values))
    return Picture(figure, capital("; ".join(sentences)) + ".")


def _growth(name: str, values: Sequence[float]) -> str:
    factor = values[-1] / values[0] if values[0] > 0 else 1.0
    after = f"after {len(values)} tasks" if len(values) > 1 else "after the first task"
    if abs(factor - 1) < 0.005:
        return f"{name}: the noise stays the same {after}"
    return f"{name}: the noise is {factor:.2g} times the first task's {after}"
