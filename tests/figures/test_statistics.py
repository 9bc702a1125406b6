"""Intervals, verdicts, paired differences, p values, and the answer that follows from them in a sentence."""

import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import binom, ttest_1samp

from dpcl_core.events import References
from dpcl_core.figures import answer, statistics
from dpcl_core.figures.curves import mean_so_far
from dpcl_core.figures.picture import Picture
from dpcl_core.figures.statistics import interval, p_values, step, verdict
from dpcl_core.papers import report
from tests.figures.making import accuracy, by_rule
from tests.support.asserting import includes, refusal_of


@pytest.mark.parametrize(("n", "t"), [(3, 4.303), (5, 2.776), (10, 2.262), (30, 2.045)])
def test_interval_uses_the_printed_t_table(n: int, t: float) -> None:
    values = np.arange(n, dtype=float)
    found = interval(list(values))
    assert found.mean - found.low == pytest.approx(t * values.std(ddof=1) / math.sqrt(n), rel=3e-4)
    assert found.high == pytest.approx(2 * found.mean - found.low)
    assert interval([0.5]).low is interval([0.5, 0.7]).high is None


def test_interval_covers_the_truth_and_a_verdict_without_a_difference_is_right_in_95_of_100_cases() -> None:
    rng, spread = np.random.default_rng(1), 4 * math.sqrt(0.95 * 0.05 / 4000)
    found = [interval(list(rng.normal(3.0, 2.0, 5))) for _ in range(4000)]
    assert abs(sum(one.low <= 3.0 <= one.high for one in found) / 4000 - 0.95) < spread
    rng = np.random.default_rng(2)
    wrong = sum(verdict(list(rng.normal(0, 1, 6)), "A", "B").is_clear for _ in range(4000))
    assert abs(wrong / 4000 - 0.05) < spread


ALIKE = "; a difference of {} points or less cannot be told with any number of seeds."


@pytest.mark.parametrize(("differences", "n_tested", "is_clear", "said"), [
    ([2.0, 2.2, 1.8, 2.1, 1.9], None, True, "A is better than B by 2.0 points (1.8 to 2.2), 5 seeds."),
    ([-2.0, -2.2, -1.8, -2.1, -1.9], None, True, "B is better than A by 2.0 points (1.8 to 2.2), 5 seeds."),
    ([5.0, 5.0], None, False, "Cannot tell from 2 seeds"),
    ([0.0, 0.0, 0.0], None, False, "agree exactly"),
    ([1e-14, 0.0, -1e-14], None, False, "agree exactly"),
    ([10.0, -10.0, 0.001], None, False, "more than 1,000 seeds"),
    # A spread of zero is no certainty: the interval reaches what is printed to both sides, or a test example.
    ([1.0, 1.0, 1.0], None, True, "A is better than B by 1.0 points (0.9 to 1.1), 3 seeds."),
    ([1.0, 1.0, 1.0], 200, True, "A is better than B by 1.0 points (0.5 to 1.5), 3 seeds."),
    ([1.0, 1.0, 1.0], 1e6, True, "A is better than B by 1.0 points (0.9 to 1.1), 3 seeds."),
    ([0.04, 0.04, 0.05], None, False, ALIKE.format(0.1)), ([-0.04, -0.04, -0.05], None, False, ALIKE.format(0.1)),
    ([0.1, 0.1, 0.1], None, False, ALIKE.format(0.1)), ([100 / 450] * 5, 450, False, ALIKE.format(0.22)),
])  # fmt: skip
def test_a_verdict_is_of_its_interval(differences: list[float], n_tested: float | None, is_clear: bool, said: str) -> None:
    found = verdict(differences, "A", "B", n_tested=n_tested)
    assert (found.is_clear, said in found.sentence) == (is_clear, True), found.sentence


def test_seeds_needed_are_the_fewest_that_would_do_and_an_end_near_zero_does_not_print_it() -> None:
    differences = [1.0, -0.6, 0.9, -0.4, 1.1]
    found = verdict(differences, "A", "B")
    needed = int(found.sentence.split("about ")[1].split()[0])
    half = [stats.t.ppf(0.975, n - 1) * np.std(differences, ddof=1) / math.sqrt(n) for n in (needed, needed - 1)]
    assert not found.is_clear
    assert half[0] < np.mean(differences) <= half[1]
    half = interval([0.0, 1.0, 2.0]).half_width
    found = verdict([half - 0.98, half + 0.02, half + 1.02], "A", "B")
    assert (found.is_clear, "(0.02 to " in found.sentence) == (True, True)


def _finals(**more: object) -> pd.DataFrame:
    per_seed = mean_so_far(accuracy(**more))  # type: ignore[arg-type]
    return per_seed[per_seed["after_task"] == per_seed["after_task"].max()]


def _difference(one: pd.DataFrame, other: pd.DataFrame, n_tested: float | None = None) -> Picture:
    return statistics.paired_difference(one, other, names=("A", "B"), n_tested=n_tested)


def test_pairing_removes_what_seeds_have_in_common() -> None:
    better = _finals(rule=lambda *at: by_rule(*at) + 0.03, seeds=(0, 1, 2, 3))
    verdicts = statistics.paired(better, _finals(), ("A", "B"))
    assert set(verdicts) == {0.5, 8.0, math.inf}
    assert (verdicts[8.0].interval.mean, verdicts[8.0].interval.n) == (pytest.approx(3.0), 3)
    assert verdicts[8.0].is_clear


def test_figure_shows_zero_and_the_sentence_claims_only_what_is_clear() -> None:
    picture = _difference(_finals(rule=lambda *at: by_rule(*at) + 0.03, epsilons=(8.0,)), _finals())
    assert picture.finding.startswith("At ε = 8: A is better than B by 3.0 points")
    assert any(shape.x0 == 0 and shape.x1 == 0 for shape in picture.figure.layout.shapes)
    mixed = _finals(rule=lambda *at: by_rule(*at) + (0.05 if at[0] == 8.0 else 0.03 * (at[1] - 1)))
    finding = _difference(mixed, _finals()).finding
    assert finding.startswith("A is better at ε = 8; cannot tell at ε = 0.5, without noise")
    nothing = _difference(_finals(seeds=(7, 8, 9)), _finals())
    assert (nothing.is_empty, "share no budget and seed" in nothing.finding) == (True, True)


def _of(points: float, *, seeds: tuple[int, ...] = (0,), epsilons: tuple[float, ...] = (8.0,)) -> pd.DataFrame:
    return pd.DataFrame([(e, seed, points / 100) for e in epsilons for seed in seeds], columns=["epsilon", "seed", "value"])


@pytest.mark.parametrize(("apart", "n_tested"), [(-(2**-52), None), (-(2**-52), 20.0), (1e-5, 400.0)])
def test_rounding_is_no_difference_and_an_axis_is_at_least_a_test_example_long(apart: float, n_tested: float | None) -> None:
    one, other = _of(60.0, seeds=(0, 1)), _of(60.0, seeds=(0, 1))
    one.loc[0, "value"] += apart
    picture = _difference(one, other, n_tested)
    if apart < 0:
        assert [list(trace.x) for trace in picture.figure.data] == [[0.0, 0.0], [0.0]]
    low, high = picture.figure.layout.xaxis.range
    assert low < 0 < high
    assert high - low >= step(n_tested)


def test_budgets_with_and_without_intervals_are_told_apart() -> None:
    budgets = (1.0, 8.0, math.inf)
    picture = _difference(_of(65, epsilons=budgets), _of(60, epsilons=budgets))
    needs = "at least 3 seeds that both runs share are needed."
    assert picture.finding == f"Cannot tell at ε = 1, at ε = 8, without noise from 1 seed: {needs}"
    assert not any("interval" in trace.name for trace in picture.figure.data)
    many, few = (pd.concat([_of(of, seeds=(0, 1, 2)), _of(of, epsilons=(1.0,))]) for of in (65, 60))
    finding = _difference(many, few).finding
    assert finding.startswith("A is better at ε = 8 (95 % intervals, each budget on its own). Cannot tell at ε = 1 from 1 ")


RISING, FALLING = [0.9, 0.85, 0.7, 0.72, 0.6], [0.88, 0.8, 0.71, 0.6, 0.52]


def test_the_curve_starts_at_two_tasks_and_is_scipys() -> None:
    paired = p_values(RISING, FALLING)
    assert paired["tasks"].tolist() == [2, 3, 4, 5]
    for one in paired.itertuples():
        n = one.tasks
        assert (one.t, one.p) == pytest.approx(tuple(stats.ttest_rel(RISING[:n], FALLING[:n])))
        assert one.difference == pytest.approx(np.mean(RISING[:n]) - np.mean(FALLING[:n]))
    first, second = np.random.default_rng(0).uniform(size=(2, 40))
    found = p_values(list(first), list(second))
    assert found["p"].tolist() == pytest.approx([stats.ttest_rel(first[:n], second[:n]).pvalue for n in range(2, 41)])


@pytest.mark.parametrize(("first", "second"), [(RISING, FALLING[:3]), ([0.5], [0.6])])
def test_curves_of_other_lengths_are_refused(first: list[float], second: list[float]) -> None:
    assert refusal_of(p_values, first, second).field == "curves"


def test_equal_curves_constant_differences_and_untested_tasks_have_a_reason_instead_of_a_value() -> None:
    constant = p_values([a - 0.1 for a in RISING], RISING)
    gaps = p_values([None, 0.8, 0.7, 0.9], [0.9, 0.7, 0.65, 0.7])
    for found, why in (
        (p_values(RISING, RISING), "the two curves are equal so far"),
        (constant, "the difference is the same after every task"),
        (gaps, "fewer than two tasks"),
    ):
        assert why in found["note"][0]
        assert math.isnan(found["p"][0])
    assert constant["difference"][0] == pytest.approx(-0.1)
    assert math.isnan(gaps["difference"][0])
    assert gaps["p"][2] == pytest.approx(stats.ttest_rel([0.8, 0.7, 0.9], [0.7, 0.65, 0.7]).pvalue)
    assert p_values([0.9, 0.8, 0.7], [0.9, 0.8, 0.6])["p"].isna().tolist() == [True, False]


def test_the_figure_has_a_log_axis_both_lines_and_a_sentence() -> None:
    picture = statistics.p_value_curve(p_values(RISING, FALLING), names=("A", "B"))
    figure, p = picture.figure, stats.ttest_rel(RISING, FALLING).pvalue
    assert (figure.layout.yaxis.type, sorted(shape.y0 for shape in figure.layout.shapes)) == ("log", [0.01, 0.05])
    assert (list(figure.data[0].x), figure.data[0].y[-1]) == ([2, 3, 4, 5], pytest.approx(p))
    assert picture.finding.startswith(f"After 5 tasks p = {p:.2g}: A is ahead by 5.2 points on average.")
    tiny = statistics.p_value_curve(p_values([0.9 + 1e-9 * n for n in range(20)], [0.1] * 20), names=("A", "B")).figure
    assert min(tiny.data[0].y) >= 1e-12
    assert tiny.layout.yaxis.range[0] < -12
    assert list(tiny.layout.yaxis.ticktext[:4]) == ["1", "0.1", "0.01", "0.001"]


def test_gaps_are_drawn_as_gaps_and_told() -> None:
    picture = statistics.p_value_curve(p_values([0.9, 0.8, 0.7, 0.5], [0.9, 0.8, 0.6, 0.3]), names=("A", "B"))
    assert (picture.figure.data[0].y[0], picture.figure.data[0].connectgaps) == (None, False)
    assert picture.finding.endswith("No test after 2 tasks: the two curves are equal so far.")
    nothing = statistics.p_value_curve(p_values(RISING, RISING), names=("A", "B"))
    assert nothing.is_empty
    assert nothing.finding == "A and B: no test after 2, 3, 4, 5 tasks: the two curves are equal so far."


MEMBERS = pd.DataFrame([
    (1.0, 0, 60.0, 50.0), (1.0, 1, 70.0, 54.0), (math.inf, 0, 90.0, 40.0), (math.inf, 1, 92.0, 44.0)
], columns=["epsilon", "seed", "member", "ensemble"])  # fmt: skip


def test_means_and_spread_of_members_and_ensemble_are_drawn_and_told() -> None:
    picture = statistics.members_and_ensemble(MEMBERS)
    alone, together = picture.figure.data
    assert list(alone.y) == pytest.approx([65.0, 91.0])
    assert list(together.y) == pytest.approx([52.0, 42.0])
    assert list(alone.error_y.array) == pytest.approx([5.0, 1.0])
    assert "26.0 points better than at ε = 1, the ensemble 10.0 points worse" in picture.finding
    assert "at ε = 1 60.0 and 50.0 %" in statistics.members_and_ensemble(MEMBERS[:1]).finding
    assert statistics.members_and_ensemble(MEMBERS[:0]).is_empty


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
    level = answer.lucky(chance, n)
    assert float(binom.sf(math.floor(level * n + 1e-9), n, chance)) <= answer.ALPHA
    if level < 1:
        assert level - chance <= math.sqrt(math.log(1 / answer.ALPHA) / (2 * n)), "never above Hoeffding's simpler bound"


def test_unequal_weights_are_covered_by_the_number_of_the_largest() -> None:
    """Two tasks of 2 and 10 examples, each half of the mean: 1/w = 4. Exact tail over all outcomes, for several p."""
    for chance in (0.1, 0.25, 0.5):
        level = answer.lucky(chance, 4.0)
        outcomes = [
            (a / 4 + b / 20, binom.pmf(a, 2, chance) * binom.pmf(b, 10, chance)) for a in range(3) for b in range(11)
        ]  # fmt: skip
        assert sum(p for mean, p in outcomes if mean > level + 1e-12) <= answer.ALPHA


def test_ends_of_the_scale() -> None:
    assert (answer.lucky(0.0, 10), answer.lucky(1.0, 10)) == (0, 1)
    assert answer.lucky(0.5, 2) == 1, "two right answers of two show nothing"
    assert answer.lucky(0.1, 450) == pytest.approx(0.1 + math.sqrt(2 * 0.1 * 0.9 * math.log(100) / 450), abs=0.005)


def test_from_three_seeds_on_their_spread_counts_as_in_a_one_sided_t_test() -> None:
    draw = np.random.default_rng(1)
    told = []
    for centre in np.linspace(0.12, 0.4, 40):
        values = (centre + 0.05 * draw.standard_normal(3)).tolist()
        expected = ttest_1samp(values, 0.1, alternative="greater").pvalue < answer.ALPHA
        expected = bool(expected and np.mean(values) > answer.lucky(0.1, 450))
        assert answer.is_told_from_chance(values, KNOWN) is expected
        told.append(expected)
    assert any(told)
    assert not all(told)


def test_models_that_are_right_by_luck_on_whole_classes_seldom_pass() -> None:
    """Ten classes whose examples all get one random label, as after noise alone; 4,000 runs of five seeds.

    At a rate of 1 % it would be 40 of them: more than 40 and six standard deviations has a probability below 1e-6.
    """
    right = np.random.default_rng(2).binomial(10, 0.1, size=(4000, 5)) / 10
    assert sum(answer.is_told_from_chance(values.tolist(), KNOWN) is True for values in right) <= 40 + 6 * math.sqrt(40)


def test_entity_f1_is_judged_over_seeds_alone() -> None:
    f1 = References(0.0, 0.0, n_tested=None, ceiling=None)
    assert answer.is_told_from_chance([0.5, 0.6], f1) is None
    assert answer.is_told_from_chance([0.5, 0.55, 0.6], f1) is True
    assert answer.is_told_from_chance([0.0, 0.0, 0.01], f1) is False
    assert answer.warning({1.0: [0.0]}, f1) == ""


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
    assert answer.sentence(1.0, values, known).startswith(f"At ε = 1 {ENDS} {100 * fmean(values):.1f} %")
    assert answer.sentence(1.0, values, known).endswith(expected)


def test_the_warning_names_budgets_rule_and_rate() -> None:
    finals = {0.1: [0.11, 0.1, 0.12], 0.5: [0.12, 0.1, 0.11], 8.0: [0.7, 0.72, 0.71], math.inf: [0.9, 0.9, 0.91]}
    said = answer.warning(finals, KNOWN)
    includes(said, "at ε = 0.1 (11.0 %) and at ε = 0.5 (11.0 %)", "10.0 % accuracy", "450 test", "3 seeds", "in 100 times")
    assert answer.warning({8.0: finals[8.0]}, KNOWN) == ""
