"""Figures of noise over tasks, measured and computed, and of its cost in accuracy by number of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import LABELS, Picture, epsilon_label
from dpcl_core.figures.statistics import Interval, interval
from dpcl_core.spec import LabelSetting

_COLOURS: dict[LabelSetting, int] = {"prior-const": 1, "prior": 0, "data": 2, "dp-learned": 3}


def measured_noise(
    measured: Mapping[LabelSetting, NDArray[np.float64]],
    formula: Mapping[LabelSetting, Sequence[float]],
    *,
    n_numbers: int,
    dark: bool = False,
) -> Picture:
    """Standard deviation of the noise in one class sum after each task: measured on `n_numbers` (dots), computed (lines)."""
    n_tasks = len(next(iter(measured.values())))
    figure = go.Figure(
        layout=theme.layout(
            dark,
            height=340,
            xaxis={"title": "tasks learned", "showgrid": False, "dtick": 1, "range": [0.6, n_tasks + 0.4]},
            yaxis={"title": "spread of the noise (std)", "rangemode": "tozero"},
            legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemclick": False},
            showlegend=True,
            margin={"l": 52, "r": 16, "t": 60, "b": 44},
        )
    )
    tasks = list(range(1, n_tasks + 1))
    growths, worst = [], 0.0
    for setting, values in measured.items():
        colour, name, line = theme.colour_of_series(_COLOURS[setting], dark), LABELS[setting], formula[setting]
        figure.add_trace(
            go.Scatter(
                x=tasks,
                y=list(line),
                mode="lines",
                line={"color": colour, "width": 2, "dash": theme.DASHES[setting]},
                name=f"{name}: formula",
                hovertemplate="formula after task %{x}: %{y:.2f}<extra></extra>",
            )
        )
        figure.add_trace(
            go.Scatter(
                x=tasks,
                y=[float(value) for value in values],
                mode="markers",
                marker={"color": colour, "size": 9, "symbol": theme.MARKERS[setting]},
                name="measured",
                hovertemplate="measured after task %{x}: %{y:.2f}<extra></extra>",
            )
        )
        growths.append(f"{name}: {values[-1] / values[0]:.2f} times the first task's noise")
        worst = max(worst, float(np.abs(values / np.asarray(line) - 1).max()))
    finding = (
        f"Measured over {n_numbers:,} released numbers, after {n_tasks} tasks: {'; '.join(growths)}. "
        f"No dot is further than {100 * worst:.1f} % from its formula."
    )
    return Picture(figure, finding, finding)


def accuracy_by_cuts(
    finals: Mapping[LabelSetting, Mapping[int, Sequence[float]]], *, epsilon: float, dark: bool = False
) -> Picture:
    """Final accuracy against the number of tasks over which the same examples are split; bars are 95 % over seeds.

    `finals`: by label setting and number of tasks, one accuracy in [0, 1] per seed.
    """
    cuts = sorted(next(iter(finals.values())))
    figure = go.Figure(
        layout=theme.layout(
            dark,
            height=360,
            xaxis={"title": "tasks that the same pictures were cut into", "type": "category", "showgrid": False},
            yaxis=theme.percent_axis(title="accuracy after the last task"),
            legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemclick": False},
            showlegend=True,
            margin={"l": 52, "r": 16, "t": 40, "b": 44},
        )
    )
    changes = []
    for setting, by_cut in finals.items():
        colour = theme.colour_of_series(_COLOURS[setting], dark)
        stats = [interval([100 * value for value in by_cut[cut]]) for cut in cuts]
        figure.add_trace(
            go.Scatter(
                x=[str(cut) for cut in cuts],
                y=[one.mean for one in stats],
                error_y={"type": "data", "array": [_half(one) for one in stats], "color": colour, "width": 4},
                mode="lines+markers",
                line={"color": colour, "width": 2, "dash": theme.DASHES[setting]},
                marker={"color": colour, "symbol": theme.MARKERS[setting], "size": 8},
                name=LABELS[setting],
                hovertemplate="%{x} tasks: %{y:.1f} %<extra></extra>",
            )
        )
        ends = [f"{one.mean:.1f} % with {_tasks(cut)}" for one, cut in ((stats[0], cuts[0]), (stats[-1], cuts[-1]))]
        changes.append(f"{LABELS[setting]} from {ends[0]} to {ends[1]}")
    lead = epsilon_label(epsilon)
    finding = f"{lead[0].upper() + lead[1:] if math.isinf(epsilon) else 'At ' + lead}: {'; '.join(changes)}."
    return Picture(figure, finding, finding)


def _half(stats: Interval) -> float:
    return stats.high - stats.mean if stats.high is not None else 0.0


def _tasks(n: int) -> str:
    return f"{n} task{'s' if n != 1 else ''}"
