"""Figures as PNG: the drawing of `svg`, twice as large."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
import resvg_py
from PIL import Image

from dpcl_core.figures import png, svg, theme
from tests.figures.making import picture_of


@pytest.mark.parametrize("dark", [False, True])
def test_a_marker_has_its_colour_where_the_svg_has_it(dark: bool) -> None:
    dot = go.Scatter(x=[1.0, 2.0, 3.0], y=[1.0, 3.0, 2.0], mode="markers", marker={"size": 16, "color": "#d55e00"})
    picture = picture_of(go.Figure([dot], theme.layout(dark, height=300)), "Three dots.")
    drawing = ElementTree.fromstring(svg.drawn(picture, dark=dark))
    image = Image.open(io.BytesIO(png.drawn(picture, dark=dark))).convert("RGB")
    assert image.size == (2 * int(drawing.attrib["width"]), 2 * int(drawing.attrib["height"]))
    centres = [
        (float(one.attrib["cx"]), float(one.attrib["cy"])) for one in drawing.iter("{http://www.w3.org/2000/svg}circle")
    ]
    assert len(centres) == 3
    for x, y in centres:
        assert image.getpixel((round(2 * x), round(2 * y))) == (0xD5, 0x5E, 0x00)
    ground = tuple(int(theme.ink(dark).ground[i : i + 2], 16) for i in (1, 3, 5))
    corner = np.asarray(image)[:4, :4].reshape(-1, 3)
    assert {tuple(map(int, pixel)) for pixel in corner} == {ground}


def test_letters_are_drawn_whatever_typefaces_the_computer_has() -> None:
    """The same figure with a word more has more ink, also without any typeface of the system."""
    inks = []
    for word in ("", "ε accounted"):
        chart = theme.Chart(False, 200)
        chart.text(word or " ", 0.5, 0.5, size=30, colour=chart.ink.text, xref="paper", yref="paper")
        drawing = svg.drawn(chart.picture("A word."))
        own = resvg_py.svg_to_bytes(svg_string=drawing, zoom=1, font_files=png.fonts(), skip_system_fonts=True)
        inks.append(int((np.asarray(Image.open(io.BytesIO(bytes(own))).convert("L")) < 128).sum()))
    assert inks[1] > inks[0] + 200  # eleven letters, 30 px high, strokes of some 3 px
