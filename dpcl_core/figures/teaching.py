"""Charts of lessons: curves and bars of computed numbers. The finding comes from the lesson, which computes the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture, bold

_HEIGHT, _LEGEND = 340, 56
_BAR, _ABOVE = 30, 0.42  # pixels of a bar with its name; how far above the bar's middle the name stands


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a chart. `is_share`: values in [0, 1] are shown in percent, from 0 to 100 unless `is_log`.

    `ticks`: places of ticks on a logarithmic axis, else the powers of ten.
    """

    title: str
    is_log: bool = False
    is_share: bool = False
    ticks: tuple[float, ...] = ()

    def shown(self, value: float) -> str:
        """A value as text."""
        return f"{100 * value:.1f} %" if self.is_share else f"{value:,.4g}"


def curves(
    table: pd.DataFrame, x: Axis, y: Axis, finding: str, *, chosen: float | None = None, dark: bool = False
) -> Picture:
    """A line for each series. Columns: series, x, y, and `half`, half widths of error bars, if there are any.

    `chosen`: a place on the x axis to mark.
    """
    scale = 100.0 if y.is_share else 1.0
    axes = {"xaxis": _across(x, table["x"]), "yaxis": _axis(y, table["y"])}
    figure = theme.figure(dark, height=_HEIGHT, legend_room=_LEGEND, **axes)
    for index, (name, rows) in enumerate(table.groupby("series", sort=False)):
        mode = "lines+markers" if len(rows) <= 24 else "lines"
        hover = f"{name}: %{{y:.4g}}"
        line = theme.series_line(rows["x"], scale * rows["y"], str(name), index, hover, dark=dark, mode=mode)
        if "half" in rows:
            line.error_y = {"type": "data", "array": scale * rows["half"], "thickness": 1.2}
        line.cliponaxis = False  # marks at 0 and at 100 % are drawn whole
        figure.add_trace(line)
    if chosen is not None:
        figure.add_vline(x=chosen, line={"color": theme.ink(dark).soft, "width": 1.2, "dash": "dot"})
    return Picture(figure, finding)


def bars(table: pd.DataFrame, x: Axis, finding: str, *, dark: bool = False) -> Picture:
    """A bar for each row, from top to bottom, its name above it. Columns: name, value, and `half` if there are any."""
    scale = 100.0 if x.is_share else 1.0
    places = [-2.0 * row for row in range(len(table))]
    figure = theme.figure(
        dark, height=60 + 2 * _BAR * len(table), margin={"l": 12, "r": 24, "t": 12, "b": 44}, xaxis=_axis(x, table["value"]),
        yaxis={"showticklabels": False, "showgrid": False, "zeroline": False, "range": [places[-1] - 0.8, 1.4]},
    )  # fmt: skip
    half = {"type": "data", "array": scale * table["half"], "thickness": 1.5} if "half" in table else None
    figure.add_trace(
        go.Bar(x=scale * table["value"], y=places, orientation="h", width=0.9, error_x=half, hoverinfo="skip",
               marker={"color": theme.colour_of_series(0, dark)})
    )  # fmt: skip
    for place, name, value in zip(places, table["name"], table["value"], strict=True):
        figure.add_annotation(
            text=f"{name}: {bold(x.shown(value))}", xref="paper", x=0, xanchor="left", y=place + _ABOVE, yanchor="bottom",
            align="left", showarrow=False, font={"color": theme.ink(dark).text, "size": 13},
        )  # fmt: skip
    return Picture(figure, finding)


def _across(axis: Axis, values: pd.Series) -> dict[str, object]:
    """The x axis of curves: a linear one begins where they do, with a tick at each place if there are few."""
    if axis.is_log or axis.is_share:
        return _axis(axis, values)
    places = sorted(set(values))
    room = 0.04 * (places[-1] - places[0])
    few = {"tickvals": places, "ticktext": [f"{place:g}" for place in places]} if len(places) <= 12 else {}
    return {"title": axis.title, "range": [places[0] - room, places[-1] + room], **few}


def _axis(axis: Axis, values: pd.Series) -> dict[str, object]:
    """The axis with its title; logarithmic ones have a tick for each power of ten within their values."""
    if axis.is_log:
        positive = values[(values > 0) & values.map(math.isfinite)]
        low, high = math.log10(positive.min()), math.log10(positive.max())
        room = 0.04 * max(high - low, 0.5)
        powers = range(math.ceil(low - room), math.floor(high + room) + 1)
        ticks = axis.ticks or ([10.0**power for power in powers] if len(powers) > 1 else [10**low, 10**high])
        shown = [axis.shown(tick) if axis.is_share else f"{tick:,.0f}" if tick >= 10 else f"{tick:.3g}" for tick in ticks]
        return {"title": axis.title, "type": "log", "range": [low - room, high + room], "tickvals": ticks, "ticktext": shown}
    if axis.is_share:
        return theme.percent_axis(title=axis.title)
    return {"title": axis.title, "rangemode": "tozero"}
