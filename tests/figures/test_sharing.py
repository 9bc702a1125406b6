"""Accuracy by the scale of the noise: every point at its scale, and the sentence is of the chosen one."""

from __future__ import annotations

import pytest

from dpcl_core.figures import stream

FOUND = {
    "one noise": {0.0: 0.97, 1.4: 0.95, 8000.0: 0.931},
    "one noise, clipped": {0.0: 0.96, 1.4: 0.96, 8000.0: 0.11},
    "fresh noise": {0.0: 0.97, 8000.0: 0.098, 1.4: 0.155},
}


def test_points_stand_at_their_scales_whatever_their_order() -> None:
    picture = stream.accuracy_by_scale(FOUND, chosen=8000.0, chance=0.1)
    assert [list(line.x) for line in picture.figure.data] == [["none", "1.4", "8000"]] * 3
    assert [list(line.y) for line in picture.figure.data] == [
        pytest.approx([97, 95, 93.1]), pytest.approx([96, 96, 11]), pytest.approx([97, 15.5, 9.8])
    ]  # fmt: skip
    assert picture.finding == (
        "Without noise 96.0 to 97.0 %. With b = 8000: one noise: 93.1 %; one noise, clipped: 11.0 %; fresh noise: 9.8 %."
    )
    assert len({line.line.dash for line in picture.figure.data}) == 3


def test_the_chosen_scale_is_marked() -> None:
    figure = stream.accuracy_by_scale(FOUND, chosen=1.4, chance=0.1).figure
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    assert band.x0 < 1 < band.x1
    assert next(shape.y0 for shape in figure.layout.shapes if shape.type == "line") == 10
    assert stream.accuracy_by_scale(FOUND, chosen=0.0, chance=0.1).finding.startswith(
        "Without noise: one noise: 97.0 %;"
    )
