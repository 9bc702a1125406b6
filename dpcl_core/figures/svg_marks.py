"""Marks, dashes and hatching of SVG, in the shapes that Plotly gives them."""

from __future__ import annotations

import math

from dpcl_core.figures.svg_text import element, paint, path, plain

Points = list[tuple[float, float]]
# Lengths of strokes and gaps, in widths of the line.
_DASHES = {
    "solid": (), "dot": (1, 1), "dash": (3, 3), "longdash": (5, 5), "dashdot": (3, 1, 1, 1), "longdashdot": (5, 2, 1, 2),
}  # fmt: skip
_THINNEST = 3.0  # pixels: dashes of thinner lines are as long as of this one
_ROOT = math.sqrt(3)


def dashes(name: str, width: float) -> str | None:
    """The stroke-dasharray of a dash by its name, None for a solid line. Raises TypeError for another name."""
    if name not in _DASHES:
        raise TypeError(f"no dash that can be drawn as SVG: {name!r}")
    unit = max(width, _THINNEST)
    return ",".join(plain(part * unit) for part in _DASHES[name]) or None


def _regular(corners: int, radius: float = 1.0, turn: float = 0.0, inner: float | None = None) -> Points:
    """A regular polygon, the first corner on top; with `inner`, a star with as many points."""
    n = corners if inner is None else 2 * corners
    angles = [2 * math.pi * place / n + turn for place in range(n)]
    radii = [radius if inner is None or place % 2 == 0 else inner for place in range(n)]
    return [(r * math.sin(angle), -r * math.cos(angle)) for angle, r in zip(angles, radii, strict=True)]


def _turned(points: Points, angle: float) -> Points:
    sine, cosine = math.sin(angle), math.cos(angle)
    return [(x * cosine - y * sine, x * sine + y * cosine) for x, y in points]


def _plus(arm: float, half: float) -> Points:
    return [
        (arm, half), (half, half), (half, arm), (-half, arm), (-half, half), (-arm, half), (-arm, -half), (-half, -half),
        (-half, -arm), (half, -arm), (half, -half), (arm, -half),
    ]  # fmt: skip


_UP: Points = [(-2 / _ROOT, 0.5), (2 / _ROOT, 0.5), (0.0, -1.0)]
# Corners for a radius of one.
_STARS: dict[str, Points] = {
    "star": _regular(5, 1.4, inner=0.535),
    "hexagram": _regular(6, 1.32, math.pi / 6, inner=0.76),
    "star-square": _regular(4, 1.56, math.pi / 4, inner=0.8),
    "star-diamond": _regular(4, 1.4, inner=0.7),
    "star-triangle-up": _regular(3, 1.6, inner=0.55),
}
_POLYGONS: dict[str, Points] = {
    "square": [(1, 1), (-1, 1), (-1, -1), (1, -1)],
    "diamond": _regular(4, 1.3),
    "diamond-tall": [(0, 1.4), (0.7, 0), (0, -1.4), (-0.7, 0)],
    "diamond-wide": [(0, 0.7), (1.4, 0), (0, -0.7), (-1.4, 0)],
    "cross": _plus(1.2, 0.4),
    "x": _turned(_plus(1.2, 0.4), math.pi / 4),
    "triangle-up": _UP,
    "triangle-down": [(x, -y) for x, y in _UP],
    "triangle-left": [(y, x) for x, y in _UP],
    "triangle-right": [(-y, x) for x, y in _UP],
    "pentagon": _regular(5),
    "hexagon": _regular(6),
    "hourglass": [(1, 1), (-1, 1), (1, -1), (-1, -1)],
    "bowtie": [(1, 1), (1, -1), (-1, 1), (-1, -1)],
    **_STARS,
}
_STROKES: dict[str, tuple[Points, ...]] = {
    "cross-thin": ([(0, 1.4), (0, -1.4)], [(1.4, 0), (-1.4, 0)]),
    "line-ns": ([(0, 1.4), (0, -1.4)],),
}


def mark(
    symbol: str, x: float, y: float, size: float, colour: str, *, opacity: float = 1.0, line_width: float | None = None,
    line_colour: str | None = None,
) -> str:  # fmt: skip
    """A mark at (x, y). Open ones and strokes are drawn in lines, one pixel wide unless said. Raises TypeError for a symbol
    that is not known.
    """
    shape, is_open = symbol.removesuffix("-open"), symbol.endswith("-open")
    radius, faint = size / 2, opacity if opacity < 1 else None
    is_stroke = shape in _STROKES
    stroke = colour if is_open or line_colour is None else line_colour
    wide = (line_width or 1.0) if is_open or is_stroke else line_width or 0.0
    outline = {"stroke_width": wide, **paint("stroke", stroke)} if wide else {}
    filled = {"fill": "none"} if is_open or is_stroke else paint("fill", colour)
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=radius, opacity=faint, **filled, **outline)
    if is_stroke:
        data = "".join(path([(x + radius * a, y + radius * b) for a, b in one]) for one in _STROKES[shape])
    elif shape in _POLYGONS:
        data = path([(x + radius * a, y + radius * b) for a, b in _POLYGONS[shape]], closed=True)
    else:
        raise TypeError(f"no symbol that can be drawn as SVG: {symbol!r}")
    return element("path", d=data, opacity=faint, **filled, **outline)


def hatching(name: str, shape: str, colour: str, ground: str, size: float) -> str:
    """A pattern of slanted lines for definitions. Raises TypeError for another shape."""
    if shape != "/":
        raise TypeError(f"no pattern that can be drawn as SVG: {shape!r}")
    side, width = math.sqrt(2) * size, 0.3 * size
    data = (
        path([(-side / 4, side / 4), (side / 4, -side / 4)])
        + path([(0, side), (side, 0)])
        + path([(side * 3 / 4, side * 5 / 4), (side * 5 / 4, side * 3 / 4)])
    )
    below = element("rect", width=side, height=side, **paint("fill", ground))
    drawn = element("path", d=data, fill="none", stroke_width=width, **paint("stroke", colour))
    return element("pattern", below + drawn, id=name, patternUnits="userSpaceOnUse", width=side, height=side)
