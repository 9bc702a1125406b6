"""Figures of lesson 5: lines at their numbers, means through the seeds, and a sentence that tells what is drawn."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.figures import stream


def test_pulls_are_told_where_they_are_chosen() -> None:
    scores = np.array([0.4, 0.6, 1.0])
    lines = {"none": np.ones(3), "turned": np.array([1.0, 1.0, -3.0])}
    picture = stream.token_weights(scores, lines, chosen=0.8)
    assert [list(line.y) for line in picture.figure.data] == [[1, 1, 1], [1, 1, -3]]
    assert picture.finding == "At a Score of 0.8 the token counts: none 1.00; turned −1.00."
    assert len({line.line.dash for line in picture.figure.data}) == 2


def test_a_weight_of_zero_has_no_sign() -> None:
    picture = stream.token_weights(np.array([0.0, 1.0]), {"left out": np.array([0.0, -0.001])}, chosen=1.0)
    assert picture.finding.endswith("left out 0.")


def test_secret_nats_are_cut_by_the_axis_and_not_in_the_sentence() -> None:
    lines = {"kept": np.array([2.3, 1.0, 0.5]), "turned": np.array([2.3, 40.0, 143.0])}
    picture = stream.secret_nats(lines, most=10.0, public=2.3)
    assert tuple(picture.figure.layout.yaxis.range) == (0, 10)
    assert list(picture.figure.data[1].y) == [2.3, 40, 143]
    assert picture.finding == "Nats per digit of the secret after 2 steps, from 2.3: kept 0.5; turned 143.0."


def test_code_exposure_lines_run_through_the_means_and_show_every_seed() -> None:
    found = {"none": [[1.0, 2.0, 3.0], [8.0, 9.0, 13.0]], "hinge": [[1.0, 1.5, 2.0], [1.0, 2.0, 3.0]]}
    picture = stream.code_exposure([1, 16], found, controls=1.4, most=13.3)
    lines = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
    marks = [trace for trace in picture.figure.data if trace.mode == "markers"]
    assert [list(line.y) for line in lines] == [pytest.approx([2, 10]), pytest.approx([1.5, 2])]
    assert [list(line.x) for line in lines] == [["once", "16 times"]] * 2
    assert [sorted(mark.y) for mark in marks] == [[1, 2, 3, 8, 9, 13], [1, 1, 1.5, 2, 2, 3]]
    assert not any(mark.showlegend for mark in marks)
    assert picture.finding == "Exposure of codes planted 16 times, in bits: none 10.0; hinge 2.0; never planted 1.4."
    heights = {shape.y0 for shape in picture.figure.layout.shapes}
    assert heights == {1.4, 13.3}
