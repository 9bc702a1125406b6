"""The picture of a stream has the counts it is given, in the order of homes, and its sentence follows from them."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.figures.stream import stream

CLASSES = ("ant", "bee", "cat", "dog")
COUNTS = np.array([[0, 36, 10, 4], [50, 4, 0, 96]])  # bee at home in task 1 with cat; ant and dog in task 2
HOMES = ((1, 2), (0, 3))


def test_cells_hold_the_counts_in_the_order_of_homes_and_zero_is_empty() -> None:
    picture = stream(COUNTS, homes=HOMES, classes=CLASSES)
    grid, bars = picture.figure.data
    assert list(grid.y) == ["cat", "bee", "ant", "dog"], "within a home those that stay come first"
    assert grid.customdata.tolist() == [[10, 0], [36, 4], [0, 50], [4, 96]]
    np.testing.assert_allclose(grid.z, np.sqrt([[10, np.nan], [36, 4], [np.nan, 50], [4, 96]]))
    assert bars.y.tolist() == [50, 150]
    assert list(bars.text) == ["50", "150"]
    frames = [(s.x0, s.x1, s.y0, s.y1) for s in picture.figure.layout.shapes if s.line.width]
    assert frames == [(0.5, 1.5, -0.5, 1.5), (1.5, 2.5, 1.5, 3.5)]


def test_the_sentence_says_sizes_and_who_comes_back() -> None:
    assert stream(COUNTS, homes=HOMES, classes=CLASSES).finding == (
        "2 tasks of 50 to 150 training examples. 2 of 4 classes occur in several tasks, with 93 % of their examples at home."
    )
    disjoint = np.array([[5, 5, 0, 0], [0, 0, 5, 5]])
    plain = stream(disjoint, homes=((0, 1), (2, 3)), classes=CLASSES)
    assert plain.finding == "2 tasks of 10 training examples each. Every class occurs in one task only."


def test_an_empty_task_and_a_class_left_out_are_named() -> None:
    counts = np.array([[5, 0, 0, 0], [0, 0, 0, 0], [0, 7, 0, 0]])
    picture = stream(counts, homes=((0,), (), (1,)), classes=CLASSES)
    assert picture.finding == (
        "3 tasks of 0 to 7 training examples. Every class occurs in one task only. Task 2 is empty. "
        "2 of 4 classes are in no task."
    )
    assert list(picture.figure.data[0].y) == ["ant", "bee"]


def test_a_plan_has_no_number_of_examples_in_it() -> None:
    picture = stream(None, homes=HOMES, classes=CLASSES)
    (grid,) = picture.figure.data
    assert np.nan_to_num(grid.z).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert "examples" not in grid.hovertemplate
    assert picture.finding == "2 tasks with 2 classes at home in each."


@pytest.mark.parametrize("n_classes", [5, 20, 21, 100])
def test_a_hundred_classes_stay_one_small_picture(n_classes: int) -> None:
    counts = np.diag(np.arange(1, n_classes + 1))
    names = tuple(f"class number {label}" for label in range(n_classes))
    figure = stream(counts, homes=[(label,) for label in range(n_classes)], classes=names).figure
    assert figure.layout.height <= 420
    assert figure.layout.yaxis.showticklabels is (n_classes <= 20)


def test_many_tasks_in_an_order_of_their_own_keep_their_numbers() -> None:
    names = [f"task {number}" for number in range(20, 0, -1)]
    picture = stream(np.full((20, 4), 5), homes=[(0, 1, 2, 3)] * 20, classes=CLASSES, tasks=names)
    assert list(picture.figure.layout.xaxis.ticktext) == [str(number) for number in range(19, 0, -2)]
    assert list(picture.figure.data[0].text[0]) == names
    assert list(picture.figure.data[1].hovertext) == names
    assert picture.finding == "20 tasks of 20 training examples each. All classes occur in every task."
