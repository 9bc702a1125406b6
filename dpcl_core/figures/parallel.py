"""Several runs as lines through the settings in which they differ, to the accuracy where each ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from dpcl_core.figures import theme
from dpcl_core.figures.picture import Picture

_HEIGHT, _MOST_AXES = 340, 6  # further settings are in the table alone


def table(rows: Sequence[Mapping[str, str]], finals: Mapping[str, float]) -> pd.DataFrame:
    """One row per run: its values of the settings that differ, and its final accuracy in [0, 1].

    `rows`: of each setting its name ("setting") and its value in every run, as displayed; `finals`: by run.
    """
    columns = {row["setting"]: [row[name] for name in finals] for row in rows}
    return pd.DataFrame({"run": list(finals), **columns, "final accuracy": list(finals.values())})


def coordinates(
    rows: Sequence[Mapping[str, str]], finals: Mapping[str, float], *, colours: Sequence[str], score: str, dark: bool = False
) -> Picture:
    """A vertical axis per setting, its values at equal distances, and at the right an axis of 0 to 100 percent.

    Arguments as in `table`; `colours`: of the runs, in their order. Numbers are ordered by size, words as they come.
    """
    shown = rows[:_MOST_AXES]
    names = [row["setting"] for row in shown]
    places = [_places([row[run] for run in finals]) for row in shown]
    drawn = theme.figure(dark, height=_HEIGHT, margin={"l": 24, "r": 72, "t": 16, "b": 56})
    drawn.update_xaxes(tickvals=list(range(len(shown) + 1)), ticktext=[*names, score], range=[-0.5, len(shown) + 0.3])
    drawn.update_yaxes(range=[-6, 106], visible=False)
    labels = theme.spread_labels([100 * value for value in finals.values()], 7.0, 0.0, 104.0)
    for (run, final), colour, label in zip(finals.items(), colours, labels, strict=True):
        heights = [*(place[row[run]] for place, row in zip(places, shown, strict=True)), 100 * final]
        hover = f"{run}: %{{text}}"
        trace = theme.line(list(range(len(heights))), heights, run, colour, hover)
        drawn.add_trace(trace.update(text=[*(row[run] for row in shown), f"{100 * final:.1f} %"]))
        drawn.add_annotation(
            text=f"{run} {100 * final:.1f} %", x=len(shown), y=label, xanchor="left", xshift=10, showarrow=False,
            font={"color": theme.readable(colour, dark), "size": 12},
        )  # fmt: skip
    for axis, place in enumerate(places):  # values stand above their lines and to the right, where even long ones are whole
        for value, height in place.items():
            drawn.add_annotation(
                text=value, x=axis, y=height, xanchor="left", xshift=-4, yshift=12, showarrow=False,
                font={"color": theme.ink(dark).soft, "size": 11.5},
            )  # fmt: skip
    return Picture(drawn, _finding(rows, finals, score))


def _places(values: Sequence[str]) -> dict[str, float]:
    """Heights of the different values, from 8 to 92."""
    different = list(dict.fromkeys(values))
    if all(_is_number(value) for value in different):
        different.sort(key=_number)
    step = 84 / max(1, len(different) - 1)
    return {value: 8 + step * place for place, value in enumerate(different)}


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float:
    return float(text.replace("∞", "inf"))


def _finding(rows: Sequence[Mapping[str, str]], finals: Mapping[str, float], score: str) -> str:
    best = max(finals, key=lambda run: finals[run])
    ties = [run for run in finals if finals[run] == finals[best]]
    which = f"{best} ends highest" if len(ties) == 1 else f"{' and '.join(ties)} end equally high"
    highest = f"{which}, at {100 * finals[best]:.1f} % {score}"
    if len(rows) == 1:
        return f"{highest}; the runs differ in “{rows[0]['setting']}” alone."
    more = f" The first {_MOST_AXES} are drawn." if len(rows) > _MOST_AXES else ""
    return f"{highest}; the runs differ in {len(rows)} settings.{more} These lines do not show which of them matters."
