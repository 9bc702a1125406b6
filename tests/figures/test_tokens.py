"""Figures of scores, memory, secrets and budgets draw and say the numbers of their tables."""

import math

import pandas as pd
import pytest

from dpcl_core.figures import tokens
from dpcl_core.runs import frames
from tests.support import replay
from tests.support.texts import with_texts

SAID = with_texts(replay.recorded(replay.a_spec(epsilons=(1.0,), seeds=(0, 1)), n_tasks=3))


def detection(score: float) -> pd.DataFrame:
    groups = ("all tokens", "without stop words", "against look-alikes")
    rows = [(group, detector, value) for group in groups for detector, value in (("score", score), ("pattern", 0.6))]
    return pd.DataFrame(rows, columns=["group", "detector", "auroc"])


def test_detection_draws_and_says_both_detectors() -> None:
    picture = tokens.detection(detection(0.497))
    assert [list(trace.y) for trace in picture.figure.data] == [[0.497] * 3, [0.6] * 3]
    assert "against look-alikes 0.50 (pattern 0.60)" in picture.finding
    assert tokens.detection(detection(math.nan)).finding == "No personal token is marked here."


def test_memory_is_drawn_after_the_last_task_told() -> None:
    table = frames.retained(SAID)
    picture = tokens.retained(table)
    assert [round(value, 6) for value in picture.figure.data[0].y] == [0.5, 0.6, 0.7]
    assert list(picture.figure.data[1].y) == pytest.approx([math.nan, 2.1, 2.2], nan_ok=True)
    better = "better than the public model on ordinary words (0.60 nats), better than it on personal ones (2.15)."
    assert picture.finding == f"After task 3: {better}"
    assert tokens.retained(table[table["after_task"] == 0]).finding.endswith("no personal word is marked.")
    assert "worse than the public model on" in tokens.retained(table.assign(ordinary=-0.5)).finding
    assert tokens.retained(table[:0]).is_empty
    less = tokens.retained(table.assign(ordinary=-0.061))
    assert less.figure.data[0].text[0] == "−0.06", "a true minus"
    assert "as good as the public model on ordinary words (−0.06 nats)" in less.finding


def test_exposure_stands_before_and_after_with_controls_and_the_other_end() -> None:
    table = frames.leaks(SAID)
    picture = tokens.exposure(table)
    assert {trace.name: list(trace.y) for trace in picture.figure.data} == {
        "before training": [1.4, 1.5, 1.8], "after task 3": [1.4, 1.5, 11.5], "from the unlikely end": [1.4, 1.4, 0.2],
    }  # fmt: skip
    assert list(picture.figure.data[0].x) == ["never", "1", "16"]
    assert [list(trace.text) for trace in picture.figure.data] == [[""] * 3, ["1.4", "1.5", "11.5"], [""] * 3]
    assert "11.5 bits of exposure after task 3 (1.8 before training), codes never planted 1.4." in picture.finding
    assert tokens.exposure(frames.leaks([])).is_empty
    before = tokens.exposure(table[table["after_task"] < 0])
    assert [trace.name for trace in before.figure.data] == ["before training"]
    assert "1.8 bits of exposure before training, codes never planted 1.4." in before.finding


def test_the_exposure_history_needs_three_measurements() -> None:
    table = frames.leaks(SAID)
    steps = "1.8 before training, 11.5 after task 1, 11.5 after task 2, 11.5 after task 3."
    assert tokens.exposure_history(table).endswith(steps)
    assert tokens.exposure_history(table[table["after_task"] <= 0]) == tokens.exposure_history(table[:0]) == ""


def _spent(epsilon: list[float], step: list[float]) -> pd.DataFrame:
    n = len(epsilon)
    return pd.DataFrame({"people": ["in every task"] * n, "after_task": range(n), "epsilon": epsilon, "step": step})


def test_accounted_steps_and_their_plain_sum_and_no_bound_is_said_and_not_drawn() -> None:
    picture = tokens.ledger(_spent([1.0, 1.5, 1.9], [1.0, 1.0, 1.0]))
    accounted, naive = picture.figure.data
    assert (list(accounted.x), list(accounted.y), list(naive.y)) == ([1, 2, 3], [1.0, 1.5, 1.9], [1.0, 2.0, 3.0])
    assert accounted.line.shape == "hvh"  # a step lies around its task
    assert picture.finding == "In every task: ε = 1.9 after 3 tasks."
    endless = tokens.ledger(_spent([math.inf, math.inf], [math.inf, math.inf]))
    assert "no bound" in endless.finding
    assert all(len(trace.x) == 0 for trace in endless.figure.data)
    assert tokens.ledger(_spent([], [])).is_empty


NOMINAL = (1.0, 5.0, 10.0)
TRUE = {"one token": (1.657, 10.254, 24.42), "a text of 64 tokens": (18.31, 184.9, 1598.5)}


def test_lines_hold_the_numbers_inside_the_axes_and_the_sentence_is_of_the_chosen_budget() -> None:
    picture = tokens.true_costs(NOMINAL, TRUE, chosen=10.0)
    equal, token, text = picture.figure.data
    assert (list(equal.x), list(equal.y)) == ([1, 10], [1, 10])
    assert (list(token.y), list(text.y)) == (list(TRUE["one token"]), list(TRUE["a text of 64 tokens"]))
    assert token.line.dash != text.line.dash
    assert "10 (no guarantee) really costs: one token 24.42; a text of 64 tokens 1,598." in picture.finding
    layout = picture.figure.layout
    assert (layout.shapes[0].x0, "no guarantee" in layout.xaxis.title.text) == (10, True)
    for low, high, axis in ((1.0, 10.0, layout.xaxis), (1.0, 1598.5, layout.yaxis)):
        assert 10 ** axis.range[0] < low < high < 10 ** axis.range[1]
        assert any(low <= tick <= high for tick in axis.tickvals)


def test_ranges_follow_the_shades() -> None:
    assert tokens.ranges((1, 2, 3, 4), falling=False) == ["< 1", "1–2", "2–3", "3–4", "≥ 4"]
    assert tokens.ranges((1, 2, 3, 4), falling=True)[0] == "≥ 4"


# Sums released after every task: marks are the table's numbers, the sentence the last ones.


NOISE = pd.DataFrame(
    [("fresh", 1, 1.0), ("square root", 1, 1.0), ("fresh", 4, 2.0), ("square root", 4, 1.48)],
    columns=["factorisation", "n_tasks", "noise"],
)
RACED = pd.DataFrame(
    [
        ("all", 0, 1.0, False), ("all", 1, 1.5, False), ("last", 0, 1.0, False), ("last", 1, 0.5, False),
        ("all", 1, 1.3, True),
    ],
    columns=["attack", "after_task", "epsilon", "is_measured"],
)  # fmt: skip

SPENT = pd.DataFrame(
    [("equal", 0, 0.7), ("equal", 1, 0.0), ("equal", 2, 0.0), ("alone", 0, 1.0), ("alone", 1, 1.0), ("alone", 2, 1.0)],
    columns=["rule", "after_task", "epsilon"],
)


def test_who_starves_is_crossed_out_and_counted() -> None:
    picture = tokens.spending(SPENT)
    equal, alone, crosses = picture.figure.data
    assert (list(equal.x), list(equal.y), list(alone.y)) == ([1, 2, 3], [0.7, 0.0, 0.0], [1.0] * 3)
    assert (list(crosses.x), crosses.marker.symbol, crosses.marker.color) == ([2, 3], "x", equal.line.color)
    assert picture.finding == "Equal: 2 of 3 tasks starve; alone: ε = 1 for the last task."


def test_the_noise_is_drawn_as_it_stands_in_the_table() -> None:
    picture = tokens.noise_against_tasks(NOISE)
    drawn = {trace.name: (list(trace.x), list(trace.y)) for trace in picture.figure.data}
    assert drawn == {"fresh": ([1, 4], [1.0, 2.0]), "square root": ([1, 4], [1.0, 1.48])}
    assert picture.finding == "After 4 tasks the noise, in σ of a single task: fresh 2, square root 1.48."


def test_theory_is_a_line_and_what_was_measured_dots_of_its_colour() -> None:
    picture = tokens.race(RACED)
    every, last, dots = picture.figure.data
    assert (list(every.x), list(every.y), list(last.y)) == ([1, 2], [1.0, 1.5], [1.0, 0.5])
    assert (dots.mode, list(dots.x), list(dots.y), dots.marker.color) == ("markers", [2], [1.3], every.line.color)
    assert picture.finding == "All: ε = 1.5; last: ε = 0.5, after 2 tasks."
