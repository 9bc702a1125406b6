"""Figures as PNG, for programs that take no SVG. resvg draws what `svg` writes, in the app's own typeface."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dpcl_core.figures import svg
from dpcl_core.figures.picture import Picture

SCALE = 2  # pixels for each of the SVG's: sharp in print and on dense screens
_STYLES = ("Regular", "Semibold", "Bold", "It")


def draw_png(picture: Picture, *, width: int = 720, dark: bool = False, source: str = "") -> bytes:
    """The figure of `svg.draw_svg`, with `SCALE` pixels for each of its own. Raises TypeError as it does."""
    import resvg_py  # a library of a megabyte, for the few who ask

    drawing = svg.draw_svg(picture, width=width, dark=dark, source=source)
    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, zoom=SCALE, font_files=fonts()))


@cache
def fonts() -> list[str]:
    """Files of Source Sans: without them letters would be missing where resvg finds no typeface."""
    found = find_spec("font_source_sans_pro")
    assert found is not None
    assert found.origin is not None
    files = Path(found.origin).parent / "files"
    return [str(files / f"SourceSansPro-{style}.ttf") for style in _STYLES]
