"""Final accuracy of every class, one bar per class and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture


def class_bars(
    states: Mapping[str, NDArray[np.float64]], classes: Sequence[str], *, colours: Sequence[str], dark: bool = False
) -> Picture:
    """Mean over seeds of each class's accuracy. `states`: name to accuracies [seeds, classes]; the finding is on the first.

    The whiskers of a bar are its smallest and largest seed.
    """
    if not states:
        return theme.nothing("Accuracies of single classes were not recorded for this run.", dark, 300)
    figure = theme.figure(
        dark,
        height=330,
        barmode="group",
        bargap=0.25,
        xaxis={"type": "category", "showgrid": False, "title": "class"},
        yaxis=theme.percent_axis(title="accuracy after the last task"),
        legend={"orientation": "h", "y": 1.12, "x": 0},
        showlegend=len(states) > 1,
        margin={"l": 48, "r": 16, "t": 30, "b": 40},
    )
    for (name, values), colour in zip(states.items(), colours, strict=True):
        mean = 100 * values.mean(axis=0)
        figure.add_trace(
            go.Bar(
                x=list(classes),
                y=mean,
                name=name,
                marker={"color": colour},
                error_y={
                    "type": "data", "symmetric": False, "array": 100 * values.max(axis=0) - mean,
                    "arrayminus": mean - 100 * values.min(axis=0), "thickness": 1.2, "color": theme.ink(dark).soft,
                },
                hovertemplate="class %{x}, %{fullData.name}: %{y:.1f} %<extra></extra>",
            )
        )  # fmt: skip
    name, first = next(iter(states.items()))
    mean = 100 * first.mean(axis=0)
    worst, best = int(mean.argmin()), int(mean.argmax())
    finding = f"{name}: class {classes[worst]} is hardest ({mean[worst]:.1f} %), "
    finding += f"class {classes[best]} easiest ({mean[best]:.1f} %)."
    return Picture(figure, finding)
