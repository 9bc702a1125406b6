"""Several runs as lines down through the settings in which they differ, to the accuracy where each ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from dpcl_core.figures import svg_parts, theme
from dpcl_core.figures.picture import Picture, bold, capital

_FIRST, _LAST = 2.0, 98.0  # places of a row's outermost values
_ROW, _TOP, _LINE = 70, 44, 15  # pixels from one setting to the next, above the first, and of a line of accuracies
_VALUE, _FREE = 13, 2  # pixels of a line of values, and lines of them below a row that need no more than _ROW
_SIZE, _NARROWEST, _EDGE = 12.0, 290, 12.0  # of letters; pixels of a row on a phone; percent at both ends of a row
_MOST_ROWS = 6  # further settings are in the table alone


def table(rows: Sequence[Mapping[str, str]], finals: Mapping[str, float]) -> pd.DataFrame:
    """One row per run: its values of the settings that differ, and its final accuracy in [0, 1].

    `rows`: of each setting its name ("setting") and its value in every run, as displayed; `finals`: by run.
    """
    columns = {row["setting"]: [row[name] for name in finals] for row in rows}
    return pd.DataFrame({"run": list(finals), **columns, "final accuracy": list(finals.values())})


def coordinates(
    rows: Sequence[Mapping[str, str]], finals: Mapping[str, float], *, colours: Sequence[str], score: str, dark: bool = False
) -> Picture:
    """A row per setting, its values at equal distances from left to right, and at the foot a row of 0 to 100 percent.

    Rows keep their names and values apart on a phone as on a wide screen. Arguments as in `table`; `colours`: of the runs,
    in their order. Numbers are ordered by size, words as they come.
    """
    shown = rows[:_MOST_ROWS]
    places = [_places([row[run] for run in finals]) for row in shown]
    lines_of = [_lines(list(place), list(place.values())) for place in places]
    levels = [0.0]  # of the rows from the first to the score's
    for more in reversed(lines_of):
        levels.insert(0, levels[0] + 1 + _VALUE * max(0, max(more) - _FREE) / _ROW)
    labels = {run: f"{run} {100 * final:.1f} %" for run, final in finals.items()}
    lines = _lines(list(labels.values()), [100 * value for value in finals.values()])
    below = _LINE * (max(lines) + 1) + 8
    margin = {"l": 12, "r": 12, "t": 8, "b": 28}
    high = round(_ROW * levels[0]) + _TOP + below
    drawn = theme.figure(dark, height=high + margin["t"] + margin["b"], margin=margin)
    drawn.update_xaxes(tickvals=[0, 50, 100], ticktext=["0", "50", "100 %"], range=[-4, 104], showgrid=False, zeroline=False)
    drawn.update_yaxes(tickvals=levels, range=[-below / _ROW, levels[0] + _TOP / _ROW], showticklabels=False)
    for (run, final), colour, line in zip(finals.items(), colours, lines, strict=True):
        way = [*(place[row[run]] for place, row in zip(places, shown, strict=True)), 100 * final]
        trace = theme.line(way, levels, run, colour, f"{run}: %{{text}}")
        drawn.add_trace(trace.update(text=[*(row[run] for row in shown), f"{100 * final:.1f} %"]))
        drawn.add_annotation(
            text=labels[run], x=100 * final, y=0, yshift=-_LINE * (line + 1), showarrow=False, xanchor=_side(100 * final),
            font={"color": theme.readable(colour, dark), "size": _SIZE},
        )  # fmt: skip
    soft = {"color": theme.ink(dark).soft, "size": _SIZE}
    hides = {"showarrow": False, "bgcolor": theme.translucent(theme.ink(dark).ground, 0.8)}  # lines behind a text fade
    for name, level in zip((*(row["setting"] for row in shown), capital(score)), levels, strict=True):
        heading = {**soft, "size": _SIZE + 1}
        drawn.add_annotation(text=bold(name), x=_FIRST, y=level, yshift=30, font=heading, **hides, **_beside(_FIRST))
    for level, place, lines in zip(levels, places, lines_of, strict=False):
        for (value, across), line in zip(place.items(), lines, strict=True):
            shift = -_VALUE * line if line else _VALUE  # the first line is above
            drawn.add_annotation(text=value, x=across, y=level, yshift=shift, font=soft, **hides, **_beside(across))
    return Picture(drawn, _finding(rows, finals, score))


def _side(place: float) -> str:
    """Where a text is anchored, so that one near an edge stays within the figure."""
    return "left" if place < _EDGE else "right" if place > 100 - _EDGE else "center"


def _beside(place: float) -> dict[str, object]:
    """The same for a text that a line may pass."""
    side = _side(place)
    return {"xanchor": side, "xshift": {"left": 4, "center": 0, "right": -4}[side]}


def _lines(texts: Sequence[str], places: Sequence[float]) -> list[int]:
    """For each text the first line on which it overlaps none before it, on a phone."""
    spans: list[tuple[float, float]] = []
    lines: list[int] = []
    for text, place in zip(texts, places, strict=True):
        wide = 100 * svg_parts.width(text, _SIZE) / _NARROWEST + 2
        left = place - {"left": 0.0, "center": wide / 2, "right": wide}[_side(place)]
        taken = {line for (begin, end), line in zip(spans, lines, strict=True) if left < end and begin < left + wide}
        lines.append(next(line for line in range(len(texts)) if line not in taken))
        spans.append((left, left + wide))
    return lines


def _places(values: Sequence[str]) -> dict[str, float]:
    """Places of the different values, from left to right."""
    different = list(dict.fromkeys(values))
    if all(_is_number(value) for value in different):
        different.sort(key=_number)
    step = (_LAST - _FIRST) / max(1, len(different) - 1)
    return {value: _FIRST + step * place for place, value in enumerate(different)}


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
    more = f" The first {_MOST_ROWS} are drawn." if len(rows) > _MOST_ROWS else ""
    return f"{highest}; the runs differ in {len(rows)} settings.{more} These lines do not show which of them matters."
