"""Pictures of streams, class sums and lessons hold the numbers they are given, and their sentences follow from them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpcl_core.figures import stream, svg
from dpcl_core.lessons.text import Scale

CLASSES = ("ant", "bee", "cat", "dog")
COUNTS = np.array([[0, 36, 10, 4], [50, 4, 0, 96]])  # bee at home in task 1 with cat; ant and dog in task 2
HOMES = ((1, 2), (0, 3))


def test_cells_hold_the_counts_in_the_order_of_homes_and_zero_is_empty() -> None:
    picture = stream.stream(COUNTS, homes=HOMES, classes=CLASSES)
    grid, bars = picture.figure.data
    assert list(grid.y) == ["cat", "bee", "ant", "dog"], "within a home those that stay come first"
    assert grid.customdata.tolist() == [[10, 0], [36, 4], [0, 50], [4, 96]]
    np.testing.assert_allclose(grid.z, np.sqrt([[10, np.nan], [36, 4], [np.nan, 50], [4, 96]]))
    assert (bars.y.tolist(), list(bars.text)) == ([50, 150], ["50", "150"])
    frames = [(s.x0, s.x1, s.y0, s.y1) for s in picture.figure.layout.shapes if s.line.width]
    assert frames == [(0.5, 1.5, -0.5, 1.5), (1.5, 2.5, 1.5, 3.5)]


def test_what_is_not_read_yet_is_veiled() -> None:
    whole, half = (stream.stream(COUNTS, homes=HOMES, classes=CLASSES, filled=filled) for filled in (1.0, 0.25))
    (veil,) = half.figure.layout.shapes[len(whole.figure.layout.shapes) :]
    assert (veil.x0, veil.x1) == (1.0, 2.5)
    assert half.finding == whole.finding


@pytest.mark.parametrize(("counts", "homes", "said"), [
    (COUNTS, HOMES, "2 tasks of 50 to 150 training examples. 2 of 4 classes occur in several tasks, with 93 % of their"),
    ([[5, 5, 0, 0], [0, 0, 5, 5]], ((0, 1), (2, 3)), "10 training examples each. Every class occurs in one task only."),
    ([[5, 0, 0, 0], [0, 0, 0, 0], [0, 7, 0, 0]], ((0,), (), (1,)), "Task 2 is empty. 2 of 4 classes are in no task."),
    (None, HOMES, "2 tasks with 2 classes at home in each."),
    (np.full((20, 4), 5), [(0, 1, 2, 3)] * 20, "20 training examples each. All classes occur in every task."),
])  # fmt: skip
def test_the_sentence_says_sizes_who_comes_back_and_what_is_empty(counts: Any, homes: Any, said: str) -> None:
    picture = stream.stream(None if counts is None else np.array(counts), homes=homes, classes=CLASSES)
    assert said in picture.finding
    if counts is None:  # a plan has no number of examples in it
        (grid,) = picture.figure.data
        assert np.nan_to_num(grid.z).tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]
        assert "examples" not in grid.hovertemplate


def test_many_tasks_in_an_order_of_their_own_keep_their_numbers() -> None:
    names = [f"task {number}" for number in range(20, 0, -1)]
    figure = stream.stream(np.full((20, 4), 5), homes=[(0, 1, 2, 3)] * 20, classes=CLASSES, tasks=names).figure
    assert list(figure.layout.xaxis.ticktext) == [str(number) for number in range(19, 0, -2)]
    assert list(figure.data[0].text[0]) == list(figure.data[1].hovertext) == names


def test_pictures_lie_side_by_side_square_and_upright() -> None:
    first, second = np.arange(9.0), np.arange(9.0) * 2
    picture = stream.strips({"a": [first, second], "b": [second, first]}, ["0", "1"], finding="They are swapped.")
    (above, below), layout = picture.figure.data, picture.figure.layout
    assert np.array_equal(above.z[:, :3], first.reshape(3, 3))
    assert np.isnan(above.z[:, 3]).all()
    assert np.array_equal(above.z[:, 4:7], second.reshape(3, 3))
    assert np.array_equal(below.z[:, 4:7], first.reshape(3, 3))
    assert [note.text for note in layout.annotations] == ["a", "b"]
    assert (list(layout.xaxis2.ticktext), list(layout.xaxis2.tickvals)) == (["0", "1"], [1, 5])
    assert (layout.yaxis.scaleanchor, layout.yaxis2.scaleanchor) == ("x", "x2")
    assert layout.yaxis.range[0] > layout.yaxis.range[1]
    assert picture.finding == "They are swapped."


FOUND = {
    "one noise": {0.0: 0.97, 1.4: 0.95, 8000.0: 0.931},
    "one noise, clipped": {0.0: 0.96, 1.4: 0.96, 8000.0: 0.11},
    "fresh noise": {0.0: 0.97, 8000.0: 0.098, 1.4: 0.155},
}


def test_points_stand_at_their_scales_whatever_their_order_and_the_chosen_one_is_marked() -> None:
    picture = stream.accuracy_by_scale(FOUND, chosen=8000.0, chance=0.1)
    assert [list(line.x) for line in picture.figure.data] == [["none", "1.4", "8000"]] * 3
    assert np.array([line.y for line in picture.figure.data]) == pytest.approx(
        np.array([[97, 95, 93.1], [96, 96, 11], [97, 15.5, 9.8]])
    )
    assert "With b = 8000: one noise: 93.1 %; one noise, clipped: 11.0 %; fresh noise: 9.8 %." in picture.finding
    assert len({line.line.dash for line in picture.figure.data}) == 3
    shapes = {shape.type: shape for shape in stream.accuracy_by_scale(FOUND, chosen=1.4, chance=0.1).figure.layout.shapes}
    assert shapes["rect"].x0 < 1 < shapes["rect"].x1
    assert shapes["line"].y0 == 10
    assert stream.accuracy_by_scale(FOUND, chosen=0.0, chance=0.1).finding.startswith("Without noise: one noise: 97.0 %;")


CURVES = pd.DataFrame({"series": ["a", "a", "b", "b"], "x": [1, 10, 1, 10], "y": [0.1, 0.9, 0.3, 0.4]})
SHARE = Scale(title="share", is_share=True)
BARS = pd.DataFrame({"name": ["one", "two"], "value": [0.25, 0.75], "half": [0.1, 0.05]})


@pytest.mark.parametrize("dark", [False, True])
def test_each_series_is_a_line_of_its_numbers(dark: bool) -> None:
    picture = stream.curves(CURVES.assign(half=0.05), Scale(title="n", is_log=True), SHARE, "Found.", chosen=3.0, dark=dark)
    assert [(line.name, list(line.y)) for line in picture.figure.data] == [("a", [10, 90]), ("b", [30, 40])]
    assert (list(picture.figure.data[0].error_y.array), picture.finding) == ([5, 5], "Found.")
    assert 'aria-label="Found."' in svg.draw_svg(picture, width=330, dark=dark)


def test_each_bar_has_its_name_and_value() -> None:
    picture = stream.bars(BARS, SHARE, "Found.")
    assert list(picture.figure.data[0].x) == [25, 75]
    assert [note.text for note in picture.figure.layout.annotations] == ["one: <b>25.0 %</b>", "two: <b>75.0 %</b>"]
    assert svg.draw_svg(picture).startswith("<svg")


@pytest.mark.parametrize(("axis", "values", "ticks"), [
    (Scale(title="n", is_log=True), [1.0, 1000.0], ["1", "10", "100", "1,000"]),
    (Scale(title="n", is_log=True, ticks=(1.0, 5.0)), [1.0, 5.0], ["1", "5"]),
    (Scale(title="n", is_log=True), [2.0, 5.0], ["2", "5"]),
    (Scale(title="n"), [1.0, 2.0, 3.0], ["1", "2", "3"]),
    (Scale(title="q", is_log=True, is_share=True), [0.001, 1.0], ["0.1 %", "1.0 %", "10.0 %", "100.0 %"]),
])  # fmt: skip
def test_ticks_are_round_and_readable(axis: Scale, values: list[float], ticks: list[str]) -> None:
    table = pd.DataFrame({"series": "a", "x": values, "y": values})
    assert list(stream.curves(table, axis, Scale(title="y"), "").figure.layout.xaxis.ticktext) == ticks


PULLS = {"none": np.ones(3), "turned": np.array([1.0, 1.0, -3.0])}
NATS = {"kept": np.array([2.3, 1.0, 0.5]), "turned": np.array([2.3, 40.0, 143.0])}
EXPOSURES = {"none": [[1.0, 2.0, 3.0], [8.0, 9.0, 13.0]], "hinge": [[1.0, 1.5, 2.0], [1.0, 2.0, 3.0]]}


def test_pulls_are_told_where_they_are_chosen_and_zero_has_no_sign() -> None:
    picture = stream.token_weights(np.array([0.4, 0.6, 1.0]), PULLS, chosen=0.8)
    assert [list(line.y) for line in picture.figure.data] == [[1, 1, 1], [1, 1, -3]]
    assert picture.finding == "At a Score of 0.8 the token counts: none 1.00; turned −1.00."
    assert len({line.line.dash for line in picture.figure.data}) == 2
    zero = stream.token_weights(np.array([0.0, 1.0]), {"left out": np.array([0.0, -0.001])}, chosen=1.0)
    assert zero.finding.endswith("left out 0.")


def test_secret_nats_are_cut_by_the_axis_and_not_in_the_sentence() -> None:
    picture = stream.secret_nats(NATS, most=10.0, public=2.3)
    assert (tuple(picture.figure.layout.yaxis.range), list(picture.figure.data[1].y)) == ((0, 10), [2.3, 40, 143])
    assert picture.finding == "Nats per digit of the secret after 2 steps, from 2.3: kept 0.5; turned 143.0."


def test_code_exposure_lines_run_through_the_means_and_show_every_seed() -> None:
    picture = stream.code_exposure([1, 16], EXPOSURES, controls=1.4, most=13.3)
    lines = [trace for trace in picture.figure.data if trace.mode == "lines+markers"]
    marks = [trace for trace in picture.figure.data if trace.mode == "markers"]
    assert [list(line.y) for line in lines] == [pytest.approx([2, 10]), pytest.approx([1.5, 2])]
    assert [list(line.x) for line in lines] == [["once", "16 times"]] * 2
    assert [sorted(mark.y) for mark in marks] == [[1, 2, 3, 8, 9, 13], [1, 1, 1.5, 2, 2, 3]]
    assert not any(mark.showlegend for mark in marks)
    assert picture.finding == "Exposure of codes planted 16 times, in bits: none 10.0; hinge 2.0; never planted 1.4."
    assert {shape.y0 for shape in picture.figure.layout.shapes} == {1.4, 13.3}
