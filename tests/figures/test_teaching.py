"""Charts of lessons draw the numbers they are given, in both themes, and every one of them can be drawn as SVG."""

from __future__ import annotations

import pandas as pd
import pytest

from dpcl_core.figures import stream, svg
from dpcl_core.figures.stream import Axis

CURVES = pd.DataFrame({"series": ["a", "a", "b", "b"], "x": [1, 10, 1, 10], "y": [0.1, 0.9, 0.3, 0.4]})
BARS = pd.DataFrame({"name": ["one", "two"], "value": [0.25, 0.75], "half": [0.1, 0.05]})


@pytest.mark.parametrize("dark", [False, True])
def test_each_series_is_a_line_of_its_numbers(dark: bool) -> None:
    picture = stream.curves(
        CURVES.assign(half=0.05), Axis("n", is_log=True), Axis("share", is_share=True), "Found.", chosen=3.0, dark=dark
    )
    assert [(line.name, list(line.y)) for line in picture.figure.data] == [("a", [10, 90]), ("b", [30, 40])]
    assert list(picture.figure.data[0].error_y.array) == [5, 5]
    assert picture.finding == "Found."
    assert 'aria-label="Found."' in svg.drawn(picture, width=330, dark=dark)


def test_each_bar_has_its_name_and_value() -> None:
    picture = stream.bars(BARS, Axis("share", is_share=True), "Found.")
    assert list(picture.figure.data[0].x) == [25, 75]
    assert [note.text for note in picture.figure.layout.annotations] == ["one: <b>25.0 %</b>", "two: <b>75.0 %</b>"]
    assert svg.drawn(picture).startswith("<svg")


@pytest.mark.parametrize(
    ("axis", "values", "ticks"),
    [
        (Axis("n", is_log=True), [1.0, 1000.0], ["1", "10", "100", "1,000"]),
        (Axis("n", is_log=True, ticks=(1.0, 5.0)), [1.0, 5.0], ["1", "5"]),
        (Axis("n", is_log=True), [2.0, 5.0], ["2", "5"]),
        (Axis("n"), [1.0, 2.0, 3.0], ["1", "2", "3"]),
        (Axis("q", is_log=True, is_share=True), [0.001, 1.0], ["0.1 %", "1.0 %", "10.0 %", "100.0 %"]),
    ],
)
def test_ticks_are_round_and_readable(axis: Axis, values: list[float], ticks: list[str]) -> None:
    table = pd.DataFrame({"series": "a", "x": values, "y": values})
    assert list(stream.curves(table, axis, Axis("y"), "").figure.layout.xaxis.ticktext) == ticks
