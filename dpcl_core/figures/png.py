"""Figures as PNG, for programs that take no SVG. resvg draws what `svg` writes, with the fonts of the computer."""

from __future__ import annotations

from dpcl_core.figures import svg
from dpcl_core.figures.picture import Picture

SCALE = 2  # pixels for each of the SVG's: sharp in print and on dense screens


def drawn(picture: Picture, *, width: int = 720, dark: bool = False, source: str = "") -> bytes:
    """The figure of `svg.drawn`, with `SCALE` pixels for each of its own. Raises TypeError as it does."""
    import resvg_py  # a library of a megabyte, for the few who ask

    return bytes(resvg_py.svg_to_bytes(svg_string=svg.drawn(picture, width=width, dark=dark, source=source), zoom=SCALE))
