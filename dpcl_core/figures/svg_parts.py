"""What figures in SVG are made of: elements, colours, texts, marks and axes.

A text is markup as `picture` makes it: escaped letters, `<b>` and `<br>`. Widths are estimated, since no font is read.
"""

import cmath
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from itertools import cycle, pairwise
from typing import Any

Point = tuple[float, float]
Attributes = dict[str, Any]
Tick = tuple[float, str, float]

SIZE, PAD, EDGE = 13.0, 3.0, 4.0  # pixels: of labels' letters, around labels, and between the drawing's edge and titles

_LINE, _HIGH, _ASCENT = 1.3, 1.2, 0.95  # of letters: from one line to the next, of a single line, and above its base line
_BOLD = re.compile("<b>(.*?)(?:</b>|$)")
_RGBA = re.compile(r"rgba\((\d+), ?(\d+), ?(\d+), ?([\d.]+)\)")
_WIDER = 1.14  # a reader's font may be wider than Helvetica, as DejaVu Sans is
# Widths of letters in Helvetica, in thousandths of the font's size.
_WIDTHS = {
    222: "ijl'", 278: " .,:;!/|ftI[]\\", 333: "()-r`\"{}*", 500: "ckvsxyzJ", 556: "abdeghnopqu0123456789$#?_L",
    584: "+=<>~^−", 611: "FTZ", 667: "ABEKPSVXY&", 722: "wCDHNRU", 778: "GOQ", 833: "mM", 889: "%", 944: "W", 1000: "@—…",
}  # fmt: skip
_WIDTH_OF = {letter: width / 1000 for width, letters in _WIDTHS.items() for letter in letters}
# Lengths of strokes and gaps, in widths of the line, or of three pixels where the line is thinner.
_DASHES = {
    "solid": (), "dot": (1, 1), "dash": (3, 3), "longdash": (5, 5), "dashdot": (3, 1, 1, 1), "longdashdot": (5, 2, 1, 2),
}  # fmt: skip
# Regular marks: the number of corners, by how much the first is turned from the top clockwise, and their distances from the
# middle, one after the other.
_REGULAR = {
    "square": (4, 1 / 8, 1.41), "diamond": (4, 0, 1.29), "diamond-tall": (4, 0, 1.4, 0.7), "diamond-wide": (4, 0, 0.7, 1.4),
    "triangle-up": (3, 0, 1.2), "triangle-right": (3, 1 / 4, 1.2), "triangle-down": (3, 1 / 2, 1.2), "hexagon": (6, 0, 1),
    "triangle-left": (3, 3 / 4, 1.2), "pentagon": (5, 0, 1), "star": (10, 0, 1.4, 0.54), "hexagram": (12, 1 / 12, 1.3, 0.76),
    "star-square": (8, 1 / 8, 1.56, 0.8), "star-diamond": (8, 0, 1.4, 0.7), "star-triangle-up": (6, 0, 1.61, 0.55),
}  # fmt: skip
_LINES = {"line-ns": (1.4j, -1.4j), "cross-thin": (1.4j, -1.4j, 0j, 1.4 + 0j, -1.4 + 0j)}
_CROSS = [1j**quarter * corner for quarter in range(4) for corner in (-0.4 - 0.4j, -0.4 - 1.2j, 0.4 - 1.2j)]
_CORNERS: dict[str, Sequence[complex]] = {  # for a radius of one, down being imaginary
    name: [-1j * r * cmath.exp(2j * cmath.pi * (turn + k / n)) for k, r in zip(range(int(n)), cycle(radii), strict=False)]
    for name, (n, turn, *radii) in _REGULAR.items()
}
_CORNERS |= {"cross": _CROSS, "x": [cmath.exp(0.25j * cmath.pi) * corner for corner in _CROSS], **_LINES}
_CORNERS |= {"hourglass": (1 + 1j, -1 + 1j, 1 - 1j, -1 - 1j), "bowtie": (1 + 1j, 1 - 1j, -1 + 1j, -1 - 1j)}


def plain(value: float) -> str:
    """A coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, body: str = "", /, **attributes: object) -> str:
    """An element; underscores in attributes become hyphens, None leaves one out, and every value is escaped."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = plain(value) if isinstance(value, int | float) else escape(str(value), quote=True)
            parts.append(f'{key.replace("_", "-")}="{text}"')
    return f"<{' '.join(parts)}>{body}</{name}>" if body else f"<{' '.join(parts)}/>"


def paint(kind: str, colour: str) -> Attributes:
    """The attributes of a fill or stroke (`kind`)."""
    if (found := _RGBA.fullmatch(colour)) is None:
        return {kind: colour}
    return {kind: "#{:02x}{:02x}{:02x}".format(*map(int, found.groups()[:3])), f"{kind}_opacity": float(found[4])}


def outline(colour: str, width: float, dash: str = "solid") -> Attributes:
    """The attributes of a stroke; none if it has no width."""
    dashes = ",".join(plain(part * max(width, 3.0)) for part in _DASHES[dash])
    return {"stroke_width": width, "stroke_dasharray": dashes or None, **paint("stroke", colour)} if width else {}


def path(points: Iterable[Point], *, closed: bool = False) -> str:
    """The data of a path through these points."""
    return f"M{'L'.join(f'{plain(x)},{plain(y)}' for x, y in points)}{'Z' if closed else ''}"


def bare(markup: str) -> str:
    """A text without markup."""
    return unescape(markup.replace("<b>", "").replace("</b>", "").replace("<br>", "\n"))


def width(markup: str, size: float = SIZE) -> float:
    """The estimated width of a text's longest line in pixels, at a font size in pixels."""
    lines, broad = bare(markup).split("\n"), unicodedata.east_asian_width
    return _WIDER * size * max(sum(_WIDTH_OF.get(a) or (1.0 if broad(a) in "WF" else 0.6) for a in line) for line in lines)


def height(markup: str = "", size: float = SIZE) -> float:
    """The height of a text in pixels."""
    return (markup.count("<br>") * _LINE + _HIGH) * size


def wrapped(markup: str, size: float, room: float) -> str:
    """The text, broken between words where a line is wider than `room` pixels."""
    rows: list[str] = []
    for line in markup.split("<br>"):
        rows.append("")
        for word in line.split(" "):
            longer = f"{rows[-1]} {word}" if rows[-1] else word
            rows[-1:] = [longer] if width(longer, size) <= room or not rows[-1] else [rows[-1], word]
    return "<br>".join(rows)


def text(
    markup: str, x: float, y: float, *, size: float = SIZE, colour: str, across: float = 0.5, down: float = 0.5,
    angle: float = 0,
) -> str:  # fmt: skip
    """A text at (x, y). `across`: which share of its width is left of x, 0, 0.5 or 1; `down`: which share of its height is
    above y; `angle`: clockwise, in degrees.
    """
    first = y - down * height(markup, size) + _ASCENT * size
    rows = [_BOLD.sub(r'<tspan font-weight="bold">\1</tspan>', row).replace("</b>", "") for row in markup.split("<br>")]
    if len(rows) > 1:
        rows = [element("tspan", row, x=x, y=first + place * _LINE * size) for place, row in enumerate(rows)]
    anchor, turn = ("start", "middle", "end")[round(2 * across)], f"rotate({plain(angle)} {plain(x)} {plain(y)})"
    return element(
        "text", "".join(rows), x=x, y=first, font_size=size, text_anchor=anchor, transform=turn if angle else None,
        **paint("fill", colour),
    ) if markup else ""  # fmt: skip


def mark(x: float, y: float, symbol: str, size: float, opacity: float, colour: str, line: Attributes) -> str:
    """A mark at (x, y). `line`: its outline; open marks and strokes have one of a pixel unless said."""
    shape, r = symbol.removesuffix("-open"), size / 2
    is_filled = shape == symbol and shape not in _LINES
    ink = paint("fill", colour) | line if is_filled else {"fill": "none", **(line or outline(colour, 1))}
    ink["opacity"] = opacity if opacity < 1 else None
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=r, **ink)
    corners = ((x + r * corner.real, y + r * corner.imag) for corner in _CORNERS[shape])
    return element("path", d=path(corners, closed=shape not in _LINES), **ink)


@dataclass(slots=True)
class Axis:
    """An axis, "x" or "y". `start`, `length`: its place in pixels, below zero upwards; `props`: its layout.

    `low`, `high`: its range in own units: the value, its power of ten on a logarithmic axis, or the number of a category,
    from 0. Without `props`, the shares of a part of the drawing.
    """

    letter: str
    start: float
    length: float
    props: Mapping[str, Any] = field(default_factory=dict)
    categories: Mapping[Any, int] = field(default_factory=dict)
    is_log: bool = False
    low: float = 0.0
    high: float = 1.0

    def own(self, value: Any) -> float:
        """A value of the data in own units; NaN where there is nothing to draw."""
        if value in self.categories:
            return self.categories[value]
        if value is None or isinstance(value, str) or (self.is_log and value <= 0):
            return math.nan
        return math.log10(value) if self.is_log else float(value)

    def pixel(self, own: float) -> float:
        """The place in pixels of a value in own units."""
        return self.start + (own - self.low) / (self.high - self.low) * self.length

    def at(self, value: Any) -> float:
        """The place in pixels of a value of the data."""
        return self.pixel(self.own(value))

    def point(self, along: float, across: float) -> Point:
        """The point at these places on the axis and on the one across."""
        return (along, across) if self.letter == "x" else (across, along)

    def holds(self, pixel: float) -> bool:
        """Whether a place is on the axis, but for rounding."""
        return -1e-3 <= (pixel - self.start) / self.length <= 1.001

    def fit(self, values: Iterable[Any], feet: Sequence[float]) -> None:
        """Takes the range of the layout, or one around all values. `feet`: places in own units where it may end."""
        owns = [*filter(math.isfinite, map(self.own, values)), *feet]
        low, high = min(owns, default=0.0), max(owns, default=1.0)
        share = 0.08 if self.letter == "x" else 0.14  # a text may be above the highest mark
        free = share * (high - low) if high - low > 1e-9 else 1.0  # smaller differences are rounding
        ends = low - free * (low not in feet), high + free * (high not in feet or high == low)
        self.low, self.high = self.props.get("range", ends[::-1] if self.props.get("autorange") == "reversed" else ends)

    def ticks(self) -> list[Tick]:
        """Place in pixels, label and its width of every tick."""
        low, high = sorted((self.low, self.high))
        most = min(self.props.get("nticks", math.inf), abs(self.length) / height())
        every = math.ceil((high - low) / most)  # of the categories
        values = self.props.get("tickvals", list(self.categories)[::every])
        if not self.categories and "tickvals" not in self.props:
            step = self.props.get("dtick") or self._step(high - low)
            owns = [step * place for place in range(math.ceil(low / step - 1e-6), math.floor(high / step + 1e-6) + 1)]
            values = [10**own for own in owns] if self.is_log else owns
        texts = self.props.get("ticktext", values)
        labels = [one if isinstance(one, str) else f"{one:,.10g}".replace("-", "−") for one in texts]
        ticks = [(self.at(value), label, width(label)) for value, label in zip(values, labels, strict=True)]
        return [tick for tick in ticks if self.holds(tick[0]) and self.props.get("visible", True)]

    def _step(self, span: float) -> float:
        rough = span / (1 + min(max(abs(self.length) / (40 if self.letter == "y" else 80), 4), 9))
        base = 10.0 ** math.floor(math.log10(rough))
        return base * next(factor for factor in (2, 5, 10, 20) if rough <= factor * base)

    def labels(self) -> list[Tick]:
        """The ticks that have a label."""
        return self.ticks() if self.props.get("showticklabels", True) else []

    def is_turned(self) -> bool:
        """Whether labels below a plot are turned, so that they do not overlap."""
        pairs = pairwise(sorted(self.labels()) if self.letter == "x" and self.props.get("tickangle") != 0 else ())
        return any(right[0] - left[0] < (left[2] + right[2]) / 2 + EDGE for left, right in pairs)

    def depth(self) -> float:
        """Pixels that tick labels take, away from the plot."""
        is_wide = self.letter == "y" or self.is_turned()
        return max((PAD + (wide if is_wide else height(label)) for _, label, wide in self.labels()), default=0.0)
