"""The figures of sums released after every task: their marks are the table's numbers, their sentence the last ones."""

from __future__ import annotations

import pandas as pd

from dpcl_core.figures import tokens

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
