"""The answer in a sentence, and where a run ended between chance and the ceiling."""

import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, ttest_1samp

from dpcl_core.events import References
from dpcl_core.figures import answer, statistics
from dpcl_core.figures.answer import ALPHA, is_told_from_chance, lucky, sentence, warning
from dpcl_core.papers import report


def table(**runs: dict[float, list[float]]) -> pd.DataFrame:
    rows = [
        (run, epsilon, seed, value)
        for run, budgets in runs.items()
        for epsilon, values in budgets.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["run", "epsilon", "seed", "value"])


@pytest.mark.parametrize(("runs", "said"), [
    # Of one run its largest budget: differences 10, 11, 12 points, mean 11, half width 4.303 · 1/√3 = 2.484.
    ({"a": {1.0: [0.5, 0.5, 0.5], math.inf: [0.6, 0.61, 0.62]}}, "a difference of 11.0 points [8.5, 13.5] (3 seeds,"),
    # Pairs of seeds make a difference clear that means would hide.
    ({"a": {1.0: [0.2, 0.5, 0.8]}, "b": {1.0: [0.21, 0.511, 0.812]}}, "better: “b” by 1.1 points"),
    ({"a": {1.0: [0.5, 0.6, 0.7]}, "b": {1.0: [0.6, 0.5, 0.72]}}, "; 3 seeds are too few to tell it from “b”."),
    # Differences of 0.04, 0.04 and 0.05 points agree by luck, and print as none.
    ({"a": {1.0: [0.5, 0.6, 0.7]}, "b": {1.0: [0.5004, 0.6004, 0.7005]}}, "; 3 seeds are too few to tell it from “b”"),
    ({"a": {1.0: [0.1]}, "b": {1.0: [0.9]}}, "ends at 10.0 % accuracy; 1 seed is too few to tell it from “b”."),
    # Titles with commas stay whole.
    ({"One, two": {1.0: [0.5] * 3}, "Three, four": {1.0: [0.6] * 3}, "Five": {1.0: [0.4, 0.5, 0.6]}},
     "“One, two” ends at 50.0 % [50.0, 50.0] accuracy; better: “Three, four” by 10.0 points [9.9, 10.1]; 3 seeds are "),
    ({}, "No run has finished yet."),
])  # fmt: skip
def test_the_finding_claims_what_pairs_of_seeds_support(runs: dict[str, dict[float, list[float]]], said: str) -> None:
    found = answer.finding(table(**runs))
    assert said in found
    assert ("better" in found) == ("better" in said)


def test_the_more_runs_are_compared_the_wider_the_interval() -> None:
    """Differences 2, 3, 4 points: clear beside one other run (3 > 2.48), not among ten (t = 14.09: 8.1)."""
    runs = {"a": {1.0: [0.5, 0.5, 0.5]}, "b": {1.0: [0.52, 0.53, 0.54]}}
    assert "better: “b” by 3.0 points [0.5, 5.5]" in answer.finding(table(**runs))
    said = answer.finding(table(**{**runs, **{f"c{k}": {1.0: [0.4, 0.5, 0.6]} for k in range(9)}}))
    assert "3 seeds are too few to tell it from the 10 others" in said
    assert said.endswith("(intervals that hold for all 10 comparisons at once).")
    assert "at once" not in answer.finding(table(**runs))


def test_what_was_forgotten_is_told_at_the_budgets_of_the_finding() -> None:
    """Of one run at two budgets (mean 10, half width 2.484 for values 9, 10, 11); of several at the one they share."""
    lost = table(a={1.0: [0.09, 0.1, 0.11], 4.0: [0.05] * 3, math.inf: [0.02] * 3})
    assert "10.0 points [7.5, 12.5] at ε = 1, 2.0 points [2.0, 2.0] without noise." in answer.forgotten(lost)
    several = table(a={1.0: [0.1] * 3}, b={1.0: [-0.01], 2.0: [0.3]})
    assert answer.forgotten(several).endswith("at ε = 1: “a” 10.0 points [10.0, 10.0], “b” −1.0 points.")
    assert answer.forgotten(several.iloc[:0]) == ""
    lost_by = {"a": 0.1, "b": 0.2, "c": 0.3, "d": -0.01, "e": 0.25}
    many = table(**{name: {1.0: [one] * 3} for name, one in lost_by.items()})
    assert "“a” 10.0 points [10.0, 10.0]; of 4 other runs least “d” −1.0 points [−1.0, −1.0]" in answer.forgotten(many)
    assert answer.forgotten(many).endswith("most “c” 30.0 points [30.0, 30.0].")


def test_a_claimed_budget_is_named_one() -> None:
    runs = table(a={1.0: [0.5] * 3}, b={1.0: [0.6, 0.61, 0.62]})
    assert "“b” (claimed)" in answer.finding(runs, standings={"b": "claimed"})
    assert answer.finding(runs, standings={"a": "claimed"}).startswith("At claimed ε = 1, “a” (claimed)")


def test_the_budget_of_most_runs_is_compared_and_one_near_1_of_several() -> None:
    assert answer.focus(table(a={0.1: [0], 2.0: [0], math.inf: [0]})) == 2.0
    assert answer.focus(table(a={1.0: [0], math.inf: [0]}, b={math.inf: [0]})) == math.inf
    assert answer.focus(table(a={8.0: [0], math.inf: [0]}, b={8.0: [0]}, c={math.inf: [0]}, d={math.inf: [0]})) == 8.0
    assert answer.focus(table(a={10.0: [0]}, b={1.0: [0]}, c={1.0: [0]})) == 10.0, "a budget that the first run lacks"


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


def test_numbers_below_zero_have_a_minus_sign() -> None:
    """What was lost over three seeds, with an interval that reaches below zero, and a paper's negative difference."""
    said = answer.forgotten(table(a={1.0: [0.0, 0.03, -0.01]}, b={1.0: [0.1, 0.1, 0.1]}))
    assert "[−" in said
    assert "-" not in said
    assert report.interval_text(statistics.Interval(-1.25, -2.0, -0.5, 5)) == "−1.2 (−2.0 to −0.5) points"
    assert "the difference lies between −" in statistics.verdict([-3.0, 1.0, 0.5], "A", "B").sentence


KNOWN = References(0.1, None, n_tested=450.0, ceiling=0.9)


@pytest.mark.parametrize("n", [5, 40, 450, 10_000])
@pytest.mark.parametrize("chance", [0.01, 0.1, 0.25, 0.5, 0.9])
def test_guessing_exceeds_the_level_with_the_named_probability_at_most(chance: float, n: int) -> None:
    """The exact tail of the binomial distribution: at most alpha, and not so rarely that the rule would find nothing."""
    level = lucky(chance, n)
    assert float(binom.sf(math.floor(level * n + 1e-9), n, chance)) <= ALPHA
    if level < 1:
        assert level - chance <= math.sqrt(math.log(1 / ALPHA) / (2 * n)), "never above Hoeffding's simpler bound"


def test_unequal_weights_are_covered_by_the_number_of_the_largest() -> None:
    """Two tasks of 2 and 10 examples, each half of the mean: 1/w = 4. Exact tail over all outcomes, for several p."""
    for chance in (0.1, 0.25, 0.5):
        level = lucky(chance, 4.0)
        outcomes = [
            (a / 4 + b / 20, binom.pmf(a, 2, chance) * binom.pmf(b, 10, chance)) for a in range(3) for b in range(11)
        ]  # fmt: skip
        assert sum(p for mean, p in outcomes if mean > level + 1e-12) <= ALPHA


def test_ends_of_the_scale() -> None:
    assert (lucky(0.0, 10), lucky(1.0, 10)) == (0, 1)
    assert lucky(0.5, 2) == 1, "two right answers of two show nothing"
    assert lucky(0.1, 450) == pytest.approx(0.1 + math.sqrt(2 * 0.1 * 0.9 * math.log(100) / 450), abs=0.005)


def test_from_three_seeds_on_their_spread_counts_as_in_a_one_sided_t_test() -> None:
    draw = np.random.default_rng(1)
    told = []
    for centre in np.linspace(0.12, 0.4, 40):
        values = (centre + 0.05 * draw.standard_normal(3)).tolist()
        expected = ttest_1samp(values, 0.1, alternative="greater").pvalue < ALPHA
        expected = bool(expected and np.mean(values) > lucky(0.1, 450))
        assert is_told_from_chance(values, KNOWN) is expected
        told.append(expected)
    assert any(told)
    assert not all(told)


def test_models_that_are_right_by_luck_on_whole_classes_seldom_pass() -> None:
    """Ten classes whose examples all get one random label, as after noise alone; 4,000 runs of five seeds.

    At a rate of 1 % it would be 40 of them: more than 40 and six standard deviations has a probability below 1e-6.
    """
    right = np.random.default_rng(2).binomial(10, 0.1, size=(4000, 5)) / 10
    assert sum(is_told_from_chance(values.tolist(), KNOWN) is True for values in right) <= 40 + 6 * math.sqrt(40)


def test_entity_f1_is_judged_over_seeds_alone() -> None:
    f1 = References(0.0, 0.0, n_tested=None, ceiling=None)
    assert is_told_from_chance([0.5, 0.6], f1) is None
    assert is_told_from_chance([0.5, 0.55, 0.6], f1) is True
    assert is_told_from_chance([0.0, 0.0, 0.01], f1) is False
    assert warning({1.0: [0.0]}, f1) == ""


GUESS, ENDS = "guessing gives", "the run ends at"
CEILING, SHARE = "all at once without noise", "of the way to the ceiling."
PLAIN = References(0.25, None, n_tested=450.0, ceiling=0.8)
UNTRAINED = References(0.25, 0.4, n_tested=450.0, ceiling=0.8)
LEVELS = f"{GUESS} 25.0 %, the untrained network 40.0 % and {CEILING} 80.0 %"


@pytest.mark.parametrize(("values", "known", "expected"), [
    ([0.5], References(0.1, None, n_tested=450.0, ceiling=0.9),
     f"At ε = 1 {ENDS} 50.0 % accuracy (1 seed): {GUESS} 10.0 % and {CEILING} 90.0 %, so it covers 50 % {SHARE}"),
    ([0.5, 0.6, 0.7], References(0.1, 0.1, n_tested=450.0, ceiling=None),
     f"At ε = 1 {ENDS} 60.0 % accuracy: guessing, which is all that the untrained network can do, gives 10.0 %."),
    ([0.6] * 3, UNTRAINED, f"{ENDS} 60.0 % accuracy: {LEVELS}, so it covers 50 % {SHARE}"),
    ([0.3] * 3, UNTRAINED, f"{ENDS} 30.0 % accuracy: {LEVELS}, so it ends below the untrained network."),
    ([0.85] * 3, PLAIN, f"{GUESS} 25.0 % and {CEILING} 80.0 %, so it reaches the ceiling."),
    ([0.2] * 3, PLAIN, f"{GUESS} 25.0 % and {CEILING} 80.0 %, so it covers 0 % {SHARE}"),
])  # fmt: skip
def test_one_sentence_says_where_the_run_ended(values: list[float], known: References, expected: str) -> None:
    assert sentence(1.0, values, known).startswith(f"At ε = 1 {ENDS} {100 * fmean(values):.1f} %")
    assert sentence(1.0, values, known).endswith(expected)


def test_the_warning_names_budgets_rule_and_rate() -> None:
    finals = {0.1: [0.11, 0.1, 0.12], 0.5: [0.12, 0.1, 0.11], 8.0: [0.7, 0.72, 0.71], math.inf: [0.9, 0.9, 0.91]}
    said = warning(finals, KNOWN)
    for part in ("at ε = 0.1 (11.0 %) and at ε = 0.5 (11.0 %)", "10.0 % accuracy", "450 test", "3 seeds", "in 100 times"):
        assert part in said
    assert warning({8.0: finals[8.0]}, KNOWN) == ""
