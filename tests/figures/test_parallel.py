"""Runs as lines through the settings that differ: places, order, labels and a finding without a cause."""

from __future__ import annotations

import pytest

from dpcl_core.figures import parallel

ROWS = [
    {"setting": "Learning rate", "A": "0.01", "B": "0.001", "C": "0.1"},
    {"setting": "Label list", "A": "prior", "B": "data", "C": "prior"},
]
FINALS = {"A": 0.5, "B": 0.25, "C": 0.75}
COLOURS = ("#0072b2", "#d55e00", "#008c68")


def test_numbers_are_ordered_by_size_and_words_as_they_come() -> None:
    picture = parallel.coordinates(ROWS, FINALS, colours=COLOURS, score="accuracy")
    heights = {trace.name: list(trace.y) for trace in picture.figure.data}
    assert heights["B"][0] < heights["A"][0] < heights["C"][0]
    assert heights["A"][0] == pytest.approx((heights["B"][0] + heights["C"][0]) / 2)
    assert heights["A"][1] == heights["C"][1] != heights["B"][1]
    assert {name: line[-1] for name, line in heights.items()} == {"A": 50, "B": 25, "C": 75}
    assert list(picture.figure.layout.xaxis.ticktext) == ["Learning rate", "Label list", "accuracy"]


def test_the_finding_names_the_best_and_no_cause() -> None:
    finding = parallel.coordinates(ROWS, FINALS, colours=COLOURS, score="accuracy").finding
    assert finding.startswith("C ends highest, at 75.0 % accuracy; the runs differ in 2 settings.")
    assert "do not show which of them matters" in finding
    even = parallel.coordinates(ROWS, {"A": 0.5, "B": 0.5}, colours=COLOURS[:2], score="accuracy").finding
    assert even.startswith("A and B end equally high")


def test_settings_beyond_the_drawn_ones_are_counted_and_in_the_table() -> None:
    many = [{"setting": f"Setting {k}", "A": "1", "B": str(k + 2)} for k in range(8)]
    finals = {"A": 0.5, "B": 0.6}
    picture = parallel.coordinates(many, finals, colours=COLOURS[:2], score="accuracy")
    assert len(picture.figure.layout.xaxis.ticktext) == 7
    assert "differ in 8 settings. The first 6 are drawn." in picture.finding
    frame = parallel.table(many, finals)
    assert list(frame.columns) == ["run", *(row["setting"] for row in many), "final accuracy"]
    assert frame.set_index("run").loc["B", "Setting 7"] == "9"


def test_endless_budgets_are_the_largest_number() -> None:
    rows = [{"setting": "Share of ε", "A": "∞", "B": "0.5"}]
    one, other = parallel.coordinates(rows, {"A": 0.1, "B": 0.2}, colours=COLOURS[:2], score="accuracy").figure.data
    assert one.y[0] > other.y[0]


def test_values_stand_above_their_lines_and_leave_the_figure_nowhere_on_the_left() -> None:
    picture = parallel.coordinates(ROWS, FINALS, colours=COLOURS, score="accuracy")
    values = [note for note in picture.figure.layout.annotations if note.x < len(ROWS)]
    assert len(values) == 5
    assert all(note.xanchor == "left" and note.yshift > 0 for note in values)


def test_a_single_difference_is_named() -> None:
    finding = parallel.coordinates(ROWS[1:], FINALS, colours=COLOURS, score="accuracy").finding
    assert finding == "C ends highest, at 75.0 % accuracy; the runs differ in “Label list” alone."
