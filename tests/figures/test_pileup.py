"""Measured noise beside its formula, and accuracy by number of tasks: what is said is what is drawn."""

from __future__ import annotations

import math

import numpy as np

from dpcl_core.figures import noise_histogram


def test_dots_lines_and_the_largest_distance_between_them() -> None:
    formula = {"prior-const": [2.0, 2 * math.sqrt(2)], "prior": [2.0, 2.0]}
    measured = {"prior-const": np.array([2.0, 2 * math.sqrt(2) * 1.03]), "prior": np.array([2.0, 1.98])}
    picture = noise_histogram.measured_noise(measured, formula, n_numbers=640)
    assert [trace.mode for trace in picture.figure.data] == ["lines", "markers"] * 2
    assert list(picture.figure.data[0].y) == formula["prior-const"]
    assert list(picture.figure.data[3].y) == [2.0, 1.98]
    assert "over 640 released numbers, after 2 tasks: one public list: 1.46 times" in picture.finding
    assert "public list per task: 0.99 times" in picture.finding
    assert picture.finding.endswith("No dot is further than 3.0 % from its formula.")


def test_accuracy_by_cuts_has_means_and_intervals() -> None:
    finals = {"prior-const": {1: [0.8, 0.9, 1.0], 10: [0.4, 0.5, 0.6]}, "prior": {1: [0.9] * 3, 10: [0.9] * 3}}
    picture = noise_histogram.accuracy_by_cuts(finals, epsilon=1.0)
    one, per_task = picture.figure.data
    assert [round(y, 6) for y in one.y] == [90, 50]
    assert list(one.x) == ["1", "10"]
    assert round(one.error_y.array[0], 1) == 24.8  # 4.303 x 10 / sqrt(3)
    assert list(per_task.error_y.array) == [0, 0]
    assert picture.finding == (
        "At ε = 1: one public list from 90.0 % with 1 task to 50.0 % with 10 tasks; "
        "public list per task from 90.0 % with 1 task to 90.0 % with 10 tasks."
    )
    assert noise_histogram.accuracy_by_cuts(finals, epsilon=math.inf).finding.startswith("Without noise: one public list")
