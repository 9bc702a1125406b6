"""Small pictures of answers as SVG of a few kilobytes: two lines over tasks, one line over budgets, or rows side by side.

Colours are classes (`main`, `other`, `guide`) that the page's style sheet sets, so a picture fits both themes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from dpcl_core.figures.picture import minus
from dpcl_core.figures.statistics import Interval

WIDTH, HEIGHT = 240, 162
_LEFT, _RIGHT, _TOP, _FOOT = 8.0, 154.0, 20.0, 140.0  # pixels of the plot; names of lines stand right of it
_LOOKS = ("main", "other")
_LINE = 15.0  # pixels between two names
_WORDS = 156.0  # the base line of words below the plot


def curves(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]], *, unit: str) -> str:
    """Lines over tasks with their names and last values. `lines`: name, (task, value)."""
    low, high = _range([value for _, points in lines for _, value in points], unit)
    last = max(task for _, points in lines for task, _ in points)
    body, ends = _guides(low, high, unit), list[tuple[str, float, float]]()
    for look, (name, points) in reversed(list(zip(_LOOKS, lines, strict=False))):
        places = [(_across(task - 1, last - 1), _height(value, low, high)) for task, value in points]
        body += f'<path class="{look}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
        body += _dot(look, *places[-1])
        ends.insert(0, (name, points[-1][1], places[-1][1]))
    return _svg(body + _names(ends))


def budgets(levels: Sequence[tuple[str, Interval]], *, unit: str) -> str:
    """One line over budgets, small ones at the left. `levels`: budget as displayed, and the value."""
    low, high = _range([end for _, level in levels for end in (level.mean, *_ends(level))], unit)
    most = len(levels) - 1
    places = [(_across(place, most) + 12, _height(one.mean, low, high)) for place, (_, one) in enumerate(levels)]
    body = _guides(low, high, unit) + f'<path class="main" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>'
    body += f'<text x="{_LEFT - 6:g}" y="{_WORDS:g}">ε</text>'
    for place, ((x, y), (name, level)) in enumerate(zip(places, levels, strict=True)):
        body += _bar("main", x, *(_height(end, low, high) for end in _ends(level))) + _dot("main", x, y)
        if place in (0, len(levels) - (2 if levels[-1][0] == "∞" else 1)):  # no noise is named beside the line
            body += f'<text class="middle" x="{x:.1f}" y="{_WORDS:g}">{escape(name)}</text>'
    (_, first), (_, last) = levels[0], levels[-1]
    above = max(_height(_ends(first)[1], low, high) - 5, _TOP + 6)
    body += f'<text class="main strong middle" x="{places[0][0] + 4:.1f}" y="{above:.1f}">{_number(first.mean)}</text>'
    return _svg(body + _names([("no noise" if levels[-1][0] == "∞" else "", last.mean, places[-1][1])], shift=12))


def rows(levels: Sequence[tuple[str, Interval]], *, unit: str) -> str:
    """A bar a side, from zero to its mean, with its interval, name and number."""
    values = [end for _, level in levels for end in (level.mean, *_ends(level))]
    low, high = _range([0.0, *values], unit)
    wide, body = WIDTH - 2 * _LEFT - 40, ""

    def across(value: float) -> float:
        return _LEFT + wide * (min(max(value, low), high) - low) / (high - low)

    for place, (look, (name, level)) in enumerate(zip(_LOOKS, levels, strict=False)):
        y, start, end = 48 + 62 * place, *sorted((across(0.0), across(level.mean)))
        body += f'<rect class="{look}" x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="16" rx="3"/>'
        if level.low is not None and level.high is not None:
            body += f'<path class="whisker" d="M{across(level.low):.1f} {y + 8}H{across(level.high):.1f}"/>'
        body += f'<text x="{_LEFT:g}" y="{y - 6}">{escape(name)}</text>'
        body += f'<text class="{look} strong" x="{max(across(_ends(level)[1]), end) + 6:.1f}" y="{y + 13}">'
        body += f"{_number(level.mean)}</text>"
    return _svg(body)


def _ends(level: Interval) -> tuple[float, float]:
    """The ends of its interval; its mean twice where it has none."""
    return (level.mean, level.mean) if level.low is None or level.high is None else (level.low, level.high)


def _range(values: Sequence[float], unit: str) -> tuple[float, float]:
    """The ends of the axis: 0 to 100 %, or to a round place above the data; below zero where the data are."""
    low, most = min(0.0, *values), max(1.0, *values)
    step = 10.0 ** math.floor(math.log10(most)) / 2
    return low, 100.0 if unit == "%" else step * math.ceil(most / step)


def _across(place: float, last: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * place / max(last, 1)


def _height(value: float, low: float, high: float) -> float:
    return _FOOT - (_FOOT - _TOP) * (min(max(value, low), high) - low) / (high - low)


def _guides(low: float, high: float, unit: str) -> str:
    """Lines at zero, at the middle and at the end of the axis, which has its number and unit."""
    heights = (_height(value, low, high) for value in (0.0, high / 2, high))
    lines = "".join(f'<path class="guide" d="M{_LEFT:g} {y:.1f}H{_RIGHT:g}"/>' for y in heights)
    return f'{lines}<text x="{_LEFT:g}" y="{_TOP - 5:g}">{high:.0f}{"%" * (unit == "%")}</text>'


def _dot(look: str, x: float, y: float) -> str:
    return f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'


def _bar(look: str, x: float, start: float, end: float) -> str:
    return f'<path class="{look} thin" d="M{x:.1f} {start:.1f}V{end:.1f}"/>' if abs(start - end) > 1 else ""


def _names(ends: Sequence[tuple[str, float, float]], shift: float = 0.0) -> str:
    """Number and name right of each line's end, a line of text apart at least. `ends`: name, value, height in pixels."""
    order = sorted(range(len(ends)), key=lambda place: ends[place][2])
    heights, least = [0.0] * len(ends), _TOP
    for place in order:
        heights[place] = least = max(ends[place][2], least)
        least += _LINE
    over = max(0.0, least - _LINE - _FOOT)
    return "".join(
        f'<text class="{look}" x="{_RIGHT + 8 + shift:g}" y="{height - over + 4:.1f}"><tspan class="strong">{_number(value)}'
        f'</tspan><tspan class="name" dx="4">{escape(name)}</tspan></text>'
        for look, height, (name, value, _) in zip(_LOOKS, heights, ends, strict=False)
    )


def _number(value: float) -> str:
    return minus(f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}")


def _svg(body: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">{body}</svg>'
