"""Strips of class sums: every picture at its place, empty places in words."""

from __future__ import annotations

import numpy as np

from dpcl_core.figures import stream


def test_pictures_lie_side_by_side() -> None:
    first, second = np.arange(9.0), np.arange(9.0) * 2
    picture = stream.strips({"a": [first, second], "b": [second, first]}, ["0", "1"], finding="They are swapped.")
    above, below = picture.figure.data
    assert np.array_equal(above.z[:, :3], first.reshape(3, 3))
    assert np.isnan(above.z[:, 3]).all()
    assert np.array_equal(above.z[:, 4:7], second.reshape(3, 3))
    assert np.array_equal(below.z[:, 4:7], first.reshape(3, 3))
    assert [note.text for note in picture.figure.layout.annotations] == ["a", "b"]
    assert list(picture.figure.layout.xaxis2.ticktext) == ["0", "1"]
    assert list(picture.figure.layout.xaxis2.tickvals) == [1, 5]
    assert picture.finding == "They are swapped."


def test_pixels_stay_square_and_upright() -> None:
    figure = stream.strips({"a": [np.zeros(64)], "b": [np.zeros(64)]}, ["0"], finding="Nothing.").figure
    assert (figure.layout.yaxis.scaleanchor, figure.layout.yaxis2.scaleanchor) == ("x", "x2")
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
