"""Released noisy class sums as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Parts, Picture

_GAP = 1  # empty pixels between two pictures
_BETWEEN = 0.24  # of the height, for the titles of all strips but the first
_ROOM = 5  # pictures per strip; fewer are not drawn larger


def strips(
    rows: Mapping[str, Sequence[NDArray[np.float64]]],
    columns: Sequence[str],
    *,
    finding: str,
    dark: bool = False,
) -> Picture:
    """One strip of small square pictures per row, from pixels [side * side] each.

    The grey scale is that of each row's own largest and smallest number. `finding`: the sentence, by the caller.
    """
    side = next(round(len(one) ** 0.5) for row in rows.values() for one in row)
    width = len(columns) * (side + _GAP) - _GAP
    room = max(width, _ROOM * (side + _GAP) - _GAP)
    inks = theme.ink(dark)
    middles = [column * (side + _GAP) + (side - 1) / 2 for column in range(len(columns))]
    ticks = {"tickvals": middles, "ticktext": list(columns), "ticks": "", "showgrid": False, "zeroline": False}
    across = {"range": [-0.5, room - 0.5], "constrain": "domain", "constraintoward": "left", "showline": False, **ticks}
    down = {"visible": False, "range": [side - 0.5, -0.5], "constrain": "domain", "constraintoward": "top"}
    between = _BETWEEN / len(rows)
    high = (1 - between * (len(rows) - 1)) / len(rows)
    traces: list[dict[str, object]] = []
    axes: dict[str, object] = {}
    titles: list[dict[str, object]] = []
    for place, (name, pictures) in enumerate(rows.items()):
        drawn = np.full((side, width), np.nan)
        number, is_last = str(place + 1) if place else "", place == len(rows) - 1
        bottom = (len(rows) - 1 - place) * (high + between)
        top = min(bottom + high, 1.0)
        for column, one in enumerate(pictures):
            start = column * (side + _GAP)
            drawn[:, start : start + side] = one.reshape(side, side)
        title = {"text": name, "x": 0, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper", "yanchor": "bottom"}
        titles.append({**title, "showarrow": False, "font": {"color": inks.soft, "size": 12}})
        traces.append(
            {
                "type": "heatmap",
                "name": name,
                "xaxis": f"x{number}",
                "yaxis": f"y{number}",
                "z": drawn,
                "colorscale": [[0, inks.empty], [1, inks.text]],
                "showscale": False,
                "hovertemplate": "%{fullData.name}: %{z:.2f}<extra></extra>",
            }
        )
        same = {} if is_last else {"matches": f"x{len(rows)}"}
        axes[f"xaxis{number}"] = {**across, **same, "anchor": f"y{number}", "showticklabels": is_last}
        # Pixels stay square on any screen.
        axes[f"yaxis{number}"] = {**down, "anchor": f"x{number}", "scaleanchor": f"x{number}", "domain": [bottom, top]}
    margin = {"l": 4, "r": 4, "t": 28, "b": 28}
    layout = theme.layout(dark, height=46 + 96 * len(rows), margin=margin, dragmode=False, annotations=titles)
    return Picture(Parts(traces, layout | axes), finding)
