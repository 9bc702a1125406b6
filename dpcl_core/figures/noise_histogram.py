"""Figures of noise over tasks, measured and computed, and of its cost in accuracy by number of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, capital, counted, epsilon_phrase
from dpcl_core.figures.statistics import interval
from dpcl_core.spec import LABELS, LabelSetting

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
    figure = theme.figure(
        dark,
        height=340,
        legend_room=60,
        xaxis={"title": "tasks learned", "showgrid": False, "dtick": 1, "range": [0.6, n_tasks + 0.4]},
        yaxis={"title": "spread of the noise (std)", "rangemode": "tozero"},
    )
    tasks = list(range(1, n_tasks + 1))
    growths, worst = [], 0.0
    for setting, values in measured.items():
        colour, name, line = theme.colour_of_series(_COLOURS[setting], dark), LABELS[setting], formula[setting]
        dash, hover = theme.DASHES[setting], "after task %{x}: %{y:.2f}"
        figure.add_trace(theme.line(tasks, line, f"{name}: formula", colour, f"formula {hover}", dash=dash, mode="lines"))
        symbol = theme.MARKERS[setting]
        figure.add_trace(
            theme.line(tasks, values, "measured", colour, f"measured {hover}", symbol=symbol, size=9, mode="markers")
        )
        growths.append(f"{name}: {values[-1] / values[0]:.2f} times the first task's noise")
        worst = max(worst, float(np.abs(values / np.asarray(line) - 1).max()))
    finding = (
        f"Measured over {n_numbers:,} released numbers, after {n_tasks} tasks: {'; '.join(growths)}. "
        f"No dot is further than {100 * worst:.1f} % from its formula."
    )
    return Picture(figure, finding)


def accuracy_by_cuts(
    finals: Mapping[LabelSetting, Mapping[int, Sequence[float]]], *, epsilon: float, dark: bool = False
) -> Picture:
    """Final accuracy against the number of tasks over which the same examples are split; bars are 95 % over seeds.

    `finals`: by label setting and number of tasks, one accuracy in [0, 1] per seed.
    """
    cuts = sorted(next(iter(finals.values())))
    figure = theme.figure(
        dark,
        height=360,
        legend_room=40,
        xaxis={"title": "tasks that the same pictures were cut into", "type": "category", "showgrid": False},
        yaxis=theme.percent_axis(title="accuracy after the last task"),
    )
    changes = []
    for setting, by_cut in finals.items():
        colour = theme.colour_of_series(_COLOURS[setting], dark)
        stats = [interval([100 * value for value in by_cut[cut]]) for cut in cuts]
        line = theme.line(
            [str(cut) for cut in cuts], [one.mean for one in stats], LABELS[setting], colour, "%{x} tasks: %{y:.1f} %",
            dash=theme.DASHES[setting], symbol=theme.MARKERS[setting],
        )  # fmt: skip
        spread = {"type": "data", "array": [one.half_width for one in stats], "color": colour, "width": 4}
        figure.add_trace(line.update(error_y=spread))
        ends = [f"{one.mean:.1f} % with {counted(cut, 'task')}" for one, cut in ((stats[0], cuts[0]), (stats[-1], cuts[-1]))]
        changes.append(f"{LABELS[setting]} from {ends[0]} to {ends[1]}")
    return Picture(figure, f"{capital(epsilon_phrase(epsilon))}: {'; '.join(changes)}.")
