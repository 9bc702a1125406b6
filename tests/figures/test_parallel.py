"""Runs as lines through the settings that differ: places, order, labels and a finding without a cause."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from dpcl_core.figures import reproduction, svg_parts, theme

ROWS = [
    {"setting": "Learning rate", "A": "0.01", "B": "0.001", "C": "0.1"},
    {"setting": "Label list", "A": "prior", "B": "data", "C": "prior"},
]
FINALS = {"A": 0.5, "B": 0.25, "C": 0.75}
COLOURS = ("#0072b2", "#d55e00", "#008c68")


def test_numbers_are_ordered_by_size_and_words_as_they_come() -> None:
    picture = reproduction.coordinates(ROWS, FINALS, colours=COLOURS, score="accuracy")
    places = {trace.name: list(trace.x) for trace in picture.figure.data}
    assert places["B"][0] < places["A"][0] < places["C"][0]
    assert places["A"][0] == pytest.approx((places["B"][0] + places["C"][0]) / 2)
    assert places["A"][1] == places["C"][1] != places["B"][1]
    assert {name: line[-1] for name, line in places.items()} == {"A": 50, "B": 25, "C": 75}
    assert [list(trace.y) for trace in picture.figure.data] == [[2, 1, 0]] * 3
    headings = [note for note in picture.figure.layout.annotations if note.yshift == 30]
    assert [(note.text, note.y) for note in headings] == [
        (f"<b>{name}</b>", level) for name, level in (("Learning rate", 2), ("Label list", 1), ("Accuracy", 0))
    ]


def test_the_finding_names_the_best_and_no_cause() -> None:
    finding = reproduction.coordinates(ROWS, FINALS, colours=COLOURS, score="accuracy").finding
    assert finding.startswith("C ends highest, at 75.0 % accuracy; the runs differ in 2 settings.")
    assert "do not show which of them matters" in finding
    even = reproduction.coordinates(ROWS, {"A": 0.5, "B": 0.5}, colours=COLOURS[:2], score="accuracy").finding
    assert even.startswith("A and B end equally high")


def test_settings_beyond_the_drawn_ones_are_counted_and_in_the_table() -> None:
    many = [{"setting": f"Setting {k}", "A": "1", "B": str(k + 2)} for k in range(8)]
    finals = {"A": 0.5, "B": 0.6}
    picture = reproduction.coordinates(many, finals, colours=COLOURS[:2], score="accuracy")
    assert len([note for note in picture.figure.layout.annotations if note.yshift == 30]) == 7
    assert "differ in 8 settings. The first 6 are drawn." in picture.finding
    frame = reproduction.table(many, finals)
    assert list(frame.columns) == ["run", *(row["setting"] for row in many), "final accuracy"]
    assert frame.set_index("run").loc["B", "Setting 7"] == "9"


def test_endless_budgets_are_the_largest_number() -> None:
    rows = [{"setting": "Share of ε", "A": "∞", "B": "0.5"}]
    one, other = reproduction.coordinates(rows, {"A": 0.1, "B": 0.2}, colours=COLOURS[:2], score="accuracy").figure.data
    assert one.x[0] > other.x[0]


def test_no_two_texts_overlap_on_a_phone() -> None:
    """A figure is 316 pixels wide there, without its margins."""
    rows = [
        {"setting": "Method", "A": "PEFT ensemble, last layer", "B": "Cosine classifier", "C": "CSLR, head on the server"},
        {"setting": "Stream", "A": "Class-incremental", "B": "Blurred tasks", "C": "Class-incremental"},
    ]
    for finals in ({"A": 0.571, "B": 0.563, "C": 0.2}, {"A": 0.5, "B": 0.5, "C": 0.5}, {"A": 0.0, "B": 1.0, "C": 0.99}):
        figure = reproduction.coordinates(rows, finals, colours=COLOURS, score="accuracy").figure
        low, high = figure.layout.xaxis.range
        boxes = []
        for note in figure.layout.annotations:
            wide = svg_parts.width(note.text, note.font.size) * (high - low) / 316
            left = note.x - {"left": 0.0, "center": wide / 2, "right": wide}[note.xanchor]
            boxes.append((70 * note.y + note.yshift, left, left + wide))
            assert low - 1 <= left <= left + wide <= high + 1, note.text
        for (height, left, right), (other, begin, end) in combinations(boxes, 2):
            assert abs(height - other) >= 13 or right <= begin or end <= left


def test_six_runs_that_differ_in_all_settings_keep_their_texts_apart_and_off_the_lines() -> None:
    runs, budgets = "ABCDEF", "0.1, 0.2, 0.5, 1, 2, 4, 8, 16"
    rows = [{"setting": f"Setting {n}"} | {run: f"{budgets}, {n}{run}" for run in runs} for n in range(6)]
    figure = reproduction.coordinates(rows, dict.fromkeys(runs, 0.5), colours=COLOURS * 2, score="accuracy").figure
    lowest = min(note.yshift for note in figure.layout.annotations if budgets in note.text)
    levels = sorted({note.y for note in figure.layout.annotations})
    for low, high in pairwise(levels):
        assert 70 * (high - low) + lowest - 30 >= 13, "the last value is above the next setting's name"
    span = figure.layout.yaxis.range[1] - figure.layout.yaxis.range[0]
    assert figure.layout.height - figure.layout.margin.t - figure.layout.margin.b == pytest.approx(70 * span, abs=1)
    grounds = {note.bgcolor for note in figure.layout.annotations if budgets in note.text}
    assert grounds == {theme.translucent(theme.ink(False).ground, 0.8)}


def test_a_single_difference_is_named() -> None:
    finding = reproduction.coordinates(ROWS[1:], FINALS, colours=COLOURS, score="accuracy").finding
    assert finding == "C ends highest, at 75.0 % accuracy; the runs differ in “Label list” alone."
