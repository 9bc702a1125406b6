"""Released noisy class sums as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture

_GAP = 1  # empty pixels between two pictures
_ROOM = 5  # pictures per strip; fewer are not drawn larger


def strips(
    rows: Mapping[str, Sequence[NDArray[np.float64] | None]],
    columns: Sequence[str],
    *,
    finding: str,
    missing: str = "",
    dark: bool = False,
) -> Picture:
    """One strip of small square pictures per row, from pixels [side * side] each; None leaves a gap.

    The grey scale is that of each row's own largest and smallest number. `finding`: the sentence, by the caller; `missing`:
    the label of a gap.
    """
    side = next(round(len(one) ** 0.5) for row in rows.values() for one in row if one is not None)
    width = len(columns) * (side + _GAP) - _GAP
    room = max(width, _ROOM * (side + _GAP) - _GAP)
    inks = theme.ink(dark)
    figure = make_subplots(
        rows=len(rows), cols=1, subplot_titles=list(rows), vertical_spacing=0.24 / len(rows), shared_xaxes=True
    )
    for place, (name, pictures) in enumerate(rows.items(), start=1):
        drawn = np.full((side, width), np.nan)
        for column, one in enumerate(pictures):
            start = column * (side + _GAP)
            if one is not None:
                drawn[:, start : start + side] = one.reshape(side, side)
            elif missing:
                middle = {"x": start + (side - 1) / 2, "y": (side - 1) / 2}
                figure.add_annotation(
                    text=missing, showarrow=False, font={"color": inks.soft, "size": 11}, row=place, col=1, **middle
                )
        figure.add_trace(
            go.Heatmap(
                z=drawn,
                colorscale=[[0, inks.empty], [1, inks.text]],
                showscale=False,
                hovertemplate=f"{name}: %{{z:.2f}}<extra></extra>",
            ),
            row=place,
            col=1,
        )
    middles = [column * (side + _GAP) + (side - 1) / 2 for column in range(len(columns))]
    figure.update_xaxes(tickvals=middles, ticktext=list(columns), showgrid=False, zeroline=False, ticks="", showline=False)
    figure.update_xaxes(showticklabels=True, row=len(rows), col=1)
    figure.update_xaxes(range=[-0.5, room - 0.5], constrain="domain", constraintoward="left")
    figure.update_yaxes(visible=False, range=[side - 0.5, -0.5], constrain="domain", constraintoward="top")
    for place in range(1, len(rows) + 1):  # pixels stay square on any screen
        figure.update_yaxes(scaleanchor="x" if place == 1 else f"x{place}", row=place, col=1)
    figure.update_layout(
        theme.layout(dark, height=46 + 96 * len(rows), margin={"l": 4, "r": 4, "t": 28, "b": 28}, dragmode=False)
    )
    titles = {"yanchor": "bottom"}
    figure.update_annotations(selector=titles, x=0, xanchor="left", font={"size": 12, "color": inks.soft})
    return Picture(figure, finding)
