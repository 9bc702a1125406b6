"""Axes of a figure in SVG: their range, as Plotly chooses it, the place of a value in pixels, and ticks with labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dpcl_core.figures import svg_text

_EXTRA = 0.05  # of the axis' length, left free beside marks
_MIN_SHARE = 0.1  # of the axis' length that padding must leave
_DUST = 1e-9  # smaller differences are rounding: no figure shows numbers that differ by less
_PREFIXES = {-6: "μ", -3: "m", 0: "", 3: "k", 6: "M", 9: "B", 12: "T"}
_PAD = 3  # pixels between the plot and a tick's label
_SLANTS = (0, 30, 90)  # degrees that labels are turned by until they do not overlap


@dataclass(frozen=True, slots=True)
class Extreme:
    """A drawn value in an axis' own units, with the pixels needed below and above it, and whether 5 % are left free, too."""

    value: float
    below: float = 0.0
    above: float = 0.0
    is_padded: bool = False


@dataclass(slots=True)
class Axis:
    """An axis of a figure. `props`: resolved layout; `start`, `length`: place in pixels; `low`, `high`: range in own units.

    Own units are the value, its power of ten on a logarithmic axis, or the number of a category from 0.
    """

    name: str
    props: Mapping[str, Any]
    kind: str
    categories: list[object] = field(default_factory=list)
    start: float = 0.0
    length: float = 1.0
    low: float = 0.0
    high: float = 1.0

    @property
    def is_vertical(self) -> bool:
        return self.name.startswith("y")

    @property
    def end(self) -> float:
        return self.start + self.length

    @property
    def is_shown(self) -> bool:
        return self.props.get("visible", True) is not False

    @property
    def is_given(self) -> bool:
        """Whether the layout gives the range, whatever the traces need."""
        return self.props.get("range") is not None and self.props.get("autorange") not in (True, "reversed")

    def own(self, value: Any) -> float | None:
        """A value of the data in the axis' own units; None where there is nothing to draw."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if self.kind == "category":
            if value in self.categories:
                return float(self.categories.index(value))
            return None if isinstance(value, str) else float(value)
        number = float(value)
        if not math.isfinite(number):
            return None
        return number if self.kind == "linear" else math.log10(number) if number > 0 else None

    def pixel(self, own: float) -> float:
        """The place in pixels of a value in own units."""
        share = (own - self.low) / (self.high - self.low)
        return self.end - share * self.length if self.is_vertical else self.start + share * self.length

    def of(self, value: Any) -> float | None:
        """The place in pixels of a value of the data."""
        own = self.own(value)
        return None if own is None else self.pixel(own)

    def holds(self, own: float) -> bool:
        """Whether a value in own units is within the range, but for rounding."""
        low, high = sorted((self.low, self.high))
        slack = 1e-6 * (high - low)
        return low - slack <= own <= high + slack

    def set_range(self, extremes: Iterable[Extreme]) -> None:
        """Takes the range given in the layout, or the one that the extremes need."""
        if self.is_given:
            self.low, self.high = (float(end) for end in self.props["range"])
            return
        self.low, self.high = needed_range(list(extremes), self.length, to_zero=self.props.get("rangemode") == "tozero")
        if self.props.get("autorange") == "reversed":
            self.low, self.high = self.high, self.low

    def ticks(self) -> list[tuple[float, str]]:
        """Place in own units and label of every tick in the range."""
        places, labels = self._places()
        return [(place, label) for place, label in zip(places, labels, strict=True) if self.holds(place)]

    def _places(self) -> tuple[list[float], list[str]]:
        values, texts = self.props.get("tickvals"), self.props.get("ticktext")
        if values is not None:
            owns = [self.own(value) for value in values]
            labels = [str(text) for text in texts] if texts is not None else [str(value) for value in values]
            kept = [(place, label) for place, label in zip(owns, labels, strict=False) if place is not None]
            return [place for place, _ in kept], [label for _, label in kept]
        span = abs(self.high - self.low)
        step = self.props.get("dtick") or self._step(span)
        first = float(self.props.get("tick0") or 0.0)
        low, high = sorted((self.low, self.high))
        numbers = range(math.ceil((low - first) / step - 1e-6), math.floor((high - first) / step + 1e-6) + 1)
        places = [first + number * step for number in numbers]
        if self.kind == "category":
            places = [place for place in places if 0 <= place < len(self.categories) and place == int(place)]
            return places, [str(self.categories[int(place)]) for place in places]
        if self.kind == "log":
            return places, [number_text(10**place, 10**place, 10**place) for place in places]
        return places, [number_text(place, step, max(abs(low), abs(high))) for place in places]

    def _step(self, span: float) -> float:
        size = float(self.props["tickfont"]["size"])
        if self.kind == "category":
            return max(1, math.ceil(span / (self.props.get("nticks") or self.length / round(svg_text.LINE * size))))
        rough = span / (self.props.get("nticks") or min(max(self.length / (40 if self.is_vertical else 80), 4), 9) + 1)
        if self.kind == "log":
            if rough < 0.3:
                raise TypeError(f"axis {self.name}: logarithmic ticks within a decade need tickvals for SVG")
            return math.ceil(rough)
        base = 10.0 ** math.floor(math.log10(rough))
        return base * next(factor for factor in (2, 5, 10) if rough / base <= factor * (1 + 1e-9))

    def slant(self, ticks: Sequence[tuple[float, str]]) -> int:
        """Degrees by which labels below a plot are turned: as the figure has it, else so that they do not overlap."""
        if (given := self.props.get("tickangle")) in _SLANTS:
            return int(given)
        size = float(self.props["tickfont"]["size"])
        middles = sorted((self.pixel(place), label) for place, label in ticks if label)
        for angle in _SLANTS[:-1]:
            radians = math.radians(angle)
            gaps = [(right - left, a, b) for (left, a), (right, b) in pairwise(middles)]
            if angle == 0 and all(gap > (svg_text.width(a, size) + svg_text.width(b, size)) / 2 + 4 for gap, a, b in gaps):
                return 0
            if angle and all(gap * math.sin(radians) >= svg_text.height(a, size) for gap, a, _ in gaps):
                return angle
        return _SLANTS[-1]

    def depth(self) -> float:
        """Pixels that tick labels take, away from the plot."""
        ticks = self.ticks() if self.is_shown and self.props.get("showticklabels", True) else []
        size = float(self.props["tickfont"]["size"])
        labels = [label for _, label in ticks if label]
        if not labels:
            return 0.0
        if self.is_vertical:
            return _PAD + max(svg_text.width(label, size) for label in labels)
        angle = math.radians(self.slant(ticks))
        sizes = [(svg_text.width(label, size), svg_text.height(label, size)) for label in labels]
        return _PAD + max(math.sin(angle) * wide + math.cos(angle) * high for wide, high in sizes)

    def labels(self, edge: float) -> str:
        """The labels of ticks beside a plot's edge, its bottom or its left side in pixels."""
        if not self.is_shown or not self.props.get("showticklabels", True):
            return ""
        font, ticks = self.props["tickfont"], self.ticks()
        size, colour = float(font["size"]), font["color"]
        drawn = []
        angle = 0 if self.is_vertical else self.slant(ticks)
        for place, label in ticks:
            at = self.pixel(place)
            if self.is_vertical:
                drawn.append(svg_text.text(label, edge - _PAD, at, size=size, colour=colour, across="end"))
            elif angle:
                shift = 0.35 * size if angle == 90 else 0.8 * size
                drawn.append(
                    svg_text.text(label, at - (shift if angle == 90 else 0), edge + _PAD + (0 if angle == 90 else shift / 2),
                                  size=size, colour=colour, across="start", down="middle", angle=angle)
                )  # fmt: skip
            else:
                drawn.append(svg_text.text(label, at, edge + _PAD, size=size, colour=colour, down="top"))
        return "".join(drawn)

    def overhang(self) -> tuple[float, float]:
        """Pixels by which the first and the last label of a horizontal axis stick out of the plot."""
        if not self.is_shown or not self.props.get("showticklabels", True):
            return 0.0, 0.0
        size, ticks = float(self.props["tickfont"]["size"]), self.ticks()
        angle = math.radians(self.slant(ticks))
        left, right = 0.0, 0.0
        for place, label in ticks:
            at, wide = self.pixel(place), svg_text.width(label, size)
            ends = (at - wide / 2, at + wide / 2) if angle == 0 else (at, at + wide * math.cos(angle))
            left, right = max(left, self.start - ends[0]), max(right, ends[1] - self.end)
        return left, right


def needed_range(extremes: Sequence[Extreme], length: float, *, to_zero: bool = False) -> tuple[float, float]:
    """The range in which all values have the pixels that they need, as Plotly's autorange finds it."""
    if not extremes:
        return -1.0, 6.0  # Plotly's empty axis
    free = _EXTRA * length
    lows: dict[float, float] = {}  # the outermost value of each padding
    highs: dict[float, float] = {}
    for one in extremes:
        extra = free if one.is_padded else 0.0
        lows[one.below + extra] = min(one.value, lows.get(one.below + extra, math.inf))
        highs[one.above + extra] = max(one.value, highs.get(one.above + extra, -math.inf))
    smallest, largest = min(lows.values()), max(highs.values())
    if largest - smallest < _DUST:
        smallest = largest = 0.0 if abs(largest) < _DUST else largest
        if not to_zero:
            return smallest - 1, smallest + 1
        pad = max(highs) if smallest > 0 else max(lows)
        far = smallest / (1 - min(0.5, pad / length)) if smallest else 1.0
        return min(0.0, far), max(0.0, far)
    scale, low, high = 0.0, (smallest, 0.0), (largest, 0.0)
    for below, bottom in lows.items():
        for above, top in highs.items():
            room = length - below - above
            if room > _MIN_SHARE * length and (top - bottom) / room > scale:
                scale, low, high = (top - bottom) / room, (bottom, below), (top, above)
    if to_zero:
        low, high = (0.0, 0.0) if low[0] >= 0 else low, (0.0, 0.0) if high[0] <= 0 else high
    scale = (high[0] - low[0]) / (length - low[1] - high[1])
    return low[0] - scale * low[1], high[0] + scale * high[1]


def number_text(value: float, step: float, largest: float) -> str:
    """A tick's number with a true minus, in as few digits as the step needs; large and small ones with a prefix like k."""
    power = math.floor(math.log10(largest) + 0.01) if largest > 0 else 0
    exponent = 3 * round((power - 1) / 3) if abs(power) > 3 else 0
    if exponent not in _PREFIXES:
        raise TypeError(f"no prefix for a tick at {value:g}")
    digits = max(0, 2 - math.floor(math.log10(step / 10**exponent) + 0.01))
    text = f"{abs(value) / 10**exponent:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{'−' if value < 0 and float(text) else ''}{text}{_PREFIXES[exponent] if float(text) else ''}"
