"""The finding of a question's runs, against numbers that can be worked out by hand."""

from __future__ import annotations

import math

import pandas as pd

from dpcl_core.events import References
from dpcl_core.figures import answer, statistics
from dpcl_core.figures.statistics import Interval
from dpcl_core.papers import report


def table(**runs: dict[float, list[float]]) -> pd.DataFrame:
    rows = [
        (run, epsilon, seed, value)
        for run, budgets in runs.items()
        for epsilon, values in budgets.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["run", "epsilon", "seed", "value"])


def test_a_run_of_several_budgets_is_compared_with_its_largest() -> None:
    """Differences 10, 11, 12 points: mean 11, half width 4.303 · 1/√3 = 2.484."""
    said = answer.finding(table(a={1.0: [0.5, 0.5, 0.5], math.inf: [0.6, 0.61, 0.62]}))
    assert said.startswith("At ε = 1, “a” ends at 50.0 % [50.0, 50.0] accuracy; without noise at 61.0 %")
    assert said.endswith("a difference of 11.0 points [8.5, 13.5] (3 seeds, paired).")


def test_pairs_of_seeds_make_a_difference_clear_that_means_would_hide() -> None:
    said = answer.finding(table(a={1.0: [0.2, 0.5, 0.8]}, b={1.0: [0.21, 0.511, 0.812]}))
    assert "better: “b” by 1.1 points" in said


def test_an_unclear_difference_is_not_called_one() -> None:
    said = answer.finding(table(a={1.0: [0.5, 0.6, 0.7]}, b={1.0: [0.6, 0.5, 0.72]}))
    assert said.endswith("accuracy; no difference from “b” can be told with 3 seeds.")
    assert "better" not in said


def test_seeds_that_agree_by_luck_make_no_difference_that_prints_as_none() -> None:
    """Differences 0.04, 0.04 and 0.05 points."""
    said = answer.finding(table(a={1.0: [0.5, 0.6, 0.7]}, b={1.0: [0.5004, 0.6004, 0.7005]}))
    assert said.endswith("accuracy; no difference from “b” can be told with 3 seeds.")


def test_titles_with_commas_stay_whole_in_the_sentence() -> None:
    runs = table(**{"One, two": {1.0: [0.5] * 3}, "Three, four": {1.0: [0.6] * 3}, "Five": {1.0: [0.4, 0.5, 0.6]}})
    assert answer.finding(runs) == (
        "At ε = 1, “One, two” ends at 50.0 % [50.0, 50.0] accuracy; better: “Three, four” by 10.0 points [9.9, 10.1]; no "
        "difference from “Five” can be told with 3 seeds (intervals that hold for all 2 comparisons at once)."
    )


def test_one_seed_tells_no_difference() -> None:
    said = answer.finding(table(a={1.0: [0.1]}, b={1.0: [0.9]}))
    assert said.endswith("no difference from “b” can be told with 1 seed.")
    assert "[" not in said


def test_the_more_runs_are_compared_the_wider_the_interval() -> None:
    """Differences 2, 3, 4 points: clear beside one other run (3 > 2.48), not among ten (t = 14.09: 8.1)."""
    runs = {"a": {1.0: [0.5, 0.5, 0.5]}, "b": {1.0: [0.52, 0.53, 0.54]}}
    assert "better: “b” by 3.0 points [0.5, 5.5]" in answer.finding(table(**runs))
    many = {**runs, **{f"c{k}": {1.0: [0.4, 0.5, 0.6]} for k in range(9)}}
    said = answer.finding(table(**many))
    assert "no difference from 10 other runs can be told with 3 seeds" in said
    assert said.endswith("(intervals that hold for all 10 comparisons at once).")
    assert "at once" not in answer.finding(table(**runs))


def test_what_was_forgotten_is_told_at_the_budgets_of_the_finding() -> None:
    """Of one run at two budgets (mean 10, half width 2.484 for values 9, 10, 11); of several at the one they share."""
    lost = table(a={1.0: [0.09, 0.1, 0.11], 4.0: [0.05] * 3, math.inf: [0.02] * 3})
    assert answer.forgotten(lost) == (
        "Forgotten of the earlier tasks, since each one's best: 10.0 points [7.5, 12.5] at ε = 1, "
        "2.0 points [2.0, 2.0] without noise."
    )
    several = table(a={1.0: [0.1] * 3}, b={1.0: [-0.01], 2.0: [0.3]})
    assert answer.forgotten(several).endswith("at ε = 1: “a” 10.0 points [10.0, 10.0], “b” −1.0 points.")
    assert answer.forgotten(several.iloc[:0]) == ""
    lost_by = {"a": 0.1, "b": 0.2, "c": 0.3, "d": -0.01, "e": 0.25}
    many = table(**{name: {1.0: [one] * 3} for name, one in lost_by.items()})
    assert answer.forgotten(many).endswith(
        "“a” 10.0 points [10.0, 10.0]; of 4 other runs least “d” −1.0 points [−1.0, −1.0], "
        "most “c” 30.0 points [30.0, 30.0]."
    )


def test_a_claimed_budget_is_named_one() -> None:
    runs = table(a={1.0: [0.5] * 3}, b={1.0: [0.6, 0.61, 0.62]})
    assert "“b” (claimed)" in answer.finding(runs, standings={"b": "claimed"})
    assert answer.finding(runs, standings={"a": "claimed"}).startswith("At claimed ε = 1, “a” (claimed)")


def test_the_budget_of_most_runs_is_compared_and_one_near_1_of_several() -> None:
    assert answer.focus(table(a={0.1: [0], 2.0: [0], math.inf: [0]})) == 2.0
    assert answer.focus(table(a={1.0: [0], math.inf: [0]}, b={math.inf: [0]})) == math.inf
    assert answer.focus(table(a={8.0: [0], math.inf: [0]}, b={8.0: [0]}, c={math.inf: [0]}, d={math.inf: [0]})) == 8.0


def test_a_budget_that_the_first_run_lacks_compares_nothing() -> None:
    assert answer.focus(table(a={10.0: [0]}, b={1.0: [0]}, c={1.0: [0]})) == 10.0


def test_nothing_finished_is_a_sentence() -> None:
    assert answer.finding(table()) == "No run has finished yet."


def test_no_line_of_a_reference_runs_through_a_name() -> None:
    """A name stands at the left of its row, 12 of the row's 40 pixels high."""
    known = References(0.1, 0.4, n_tested=450.0, ceiling=0.9)
    drawn = answer.picture(table(a={1.0: [0.5] * 3, 8.0: [0.6] * 3}), references=known).figure
    lines = [trace for trace in drawn.data if trace.mode == "lines"]
    assert [trace.x[0] for trace in lines] == [10, 40, 90]
    names = [note.y for note in drawn.layout.annotations if note.xref == "paper"]
    assert len(names) == 2
    for trace in lines:
        ends = [y for y in trace.y if y is not None]
        for high, low in zip(ends[::2], ends[1::2], strict=True):
            assert all(high <= name or low >= name + 12 / 40 for name in names)


def test_names_of_references_above_all_rows_do_not_collide() -> None:
    """On a phone, 30 points are narrower than the two names; a line of text is 12 of a row's 40 pixels high."""
    known = References(0.2, 0.3, ceiling=0.5)
    drawn = answer.picture(table(a={1.0: [0.3] * 3}), references=known).figure
    chance, untrained, ceiling = (note for note in drawn.layout.annotations if note.xref != "paper")
    assert (chance.text, untrained.text, ceiling.text) == ("chance 20 %", "untrained 30 %", "at once, no noise 50 %")
    assert chance.y > 1, "above the name of the first row, where it is seen however long the picture is"
    assert min(ceiling.y - untrained.y, untrained.y - chance.y) >= 12 / 40
    assert ceiling.y < drawn.layout.yaxis.range[1]


def test_numbers_below_zero_have_a_minus_sign() -> None:
    """What was lost over three seeds, with an interval that reaches below zero, and a paper's negative difference."""
    several = table(a={1.0: [0.0, 0.03, -0.01]}, b={1.0: [0.1, 0.1, 0.1]})
    said = answer.forgotten(several)
    assert "[−" in said
    assert "-" not in said
    assert report.interval_text(Interval(-1.25, -2.0, -0.5, 5)) == "−1.2 (−2.0 to −0.5) points"
    assert "the difference lies between −" in statistics.verdict([-3.0, 1.0, 0.5], "A", "B").sentence
