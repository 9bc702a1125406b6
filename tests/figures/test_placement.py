"""Where a run ended, and the rule that tells it from chance with its false-alarm rate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp

from dpcl_core.events import References
from dpcl_core.figures.answer import ALPHA, is_told_from_chance, lucky, sentence, warning

KNOWN = References(0.1, None, n_tested=450.0, ceiling=0.9)


@pytest.mark.parametrize("n", [5, 40, 450, 10_000])
@pytest.mark.parametrize("chance", [0.01, 0.1, 0.25, 0.5, 0.9])
def test_guessing_exceeds_the_level_with_the_named_probability_at_most(chance: float, n: int) -> None:
    """The exact tail of the binomial distribution: at most alpha, and not so rarely that the rule would find nothing."""
    level = lucky(chance, n)
    tail = float(binom.sf(math.floor(level * n + 1e-9), n, chance))
    assert tail <= ALPHA
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
    assert lucky(0.0, 10) == 0
    assert lucky(1.0, 10) == 1
    assert lucky(0.5, 2) == 1, "two right answers of two show nothing"
    assert lucky(0.1, 450) == pytest.approx(0.1 + math.sqrt(2 * 0.1 * 0.9 * math.log(100) / 450), abs=0.005)


def test_a_single_seed_is_judged_by_its_test_examples() -> None:
    level = lucky(0.1, 450)
    assert is_told_from_chance([level + 1e-6], KNOWN) is True
    assert is_told_from_chance([level - 1e-6], KNOWN) is False
    assert is_told_from_chance([0.05], KNOWN) is False


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
    draw = np.random.default_rng(2)
    right = draw.binomial(10, 0.1, size=(4000, 5)) / 10
    passed = sum(is_told_from_chance(values.tolist(), KNOWN) is True for values in right)
    assert passed <= 40 + 6 * math.sqrt(40)


def test_entity_f1_is_judged_over_seeds_alone() -> None:
    f1 = References(0.0, 0.0, n_tested=None, ceiling=None)
    assert is_told_from_chance([0.5, 0.6], f1) is None
    assert is_told_from_chance([0.5, 0.55, 0.6], f1) is True
    assert is_told_from_chance([0.0, 0.0, 0.01], f1) is False
    assert warning({1.0: [0.0]}, f1) == ""


GUESS, ENDS = "guessing gives", "the run ends at"
CEILING, SHARE = "all at once without noise", "of the way to the ceiling."


@pytest.mark.parametrize(
    ("values", "known", "expected"),
    [
        ([0.5], References(0.1, None, n_tested=450.0, ceiling=0.9),
         f"At ε = 1 {ENDS} 50.0 % accuracy (1 seed): {GUESS} 10.0 % and {CEILING} 90.0 %, so it covers 50 % {SHARE}"),
        ([0.5, 0.6, 0.7], References(0.1, 0.1, n_tested=450.0, ceiling=None),
         f"At ε = 1 {ENDS} 60.0 % accuracy: guessing, which is all that the untrained network can do, gives 10.0 %."),
        ([0.6] * 3, References(0.25, 0.4, n_tested=450.0, ceiling=0.8),
         f"At ε = 1 {ENDS} 60.0 % accuracy: {GUESS} 25.0 %, the untrained network 40.0 % and {CEILING} 80.0 %, so it covers "
         f"50 % {SHARE}"),
        ([0.3] * 3, References(0.25, 0.4, n_tested=450.0, ceiling=0.8),
         f"At ε = 1 {ENDS} 30.0 % accuracy: {GUESS} 25.0 %, the untrained network 40.0 % and {CEILING} 80.0 %, so it ends "
         "below the untrained network."),
        ([0.85] * 3, References(0.25, None, n_tested=450.0, ceiling=0.8),
         f"At ε = 1 {ENDS} 85.0 % accuracy: {GUESS} 25.0 % and {CEILING} 80.0 %, so it reaches the ceiling."),
        ([0.2] * 3, References(0.25, None, n_tested=450.0, ceiling=0.8),
         f"At ε = 1 {ENDS} 20.0 % accuracy: {GUESS} 25.0 % and {CEILING} 80.0 %, so it covers 0 % {SHARE}"),
    ],
)  # fmt: skip
def test_one_sentence_says_where_the_run_ended(values: list[float], known: References, expected: str) -> None:
    assert sentence(1.0, values, known) == expected


def test_the_warning_names_budgets_rule_and_rate() -> None:
    finals = {0.1: [0.11, 0.1, 0.12], 0.5: [0.12, 0.1, 0.11], 8.0: [0.7, 0.72, 0.71], math.inf: [0.9, 0.9, 0.91]}
    assert warning(finals, KNOWN) == (
        "Cannot be told from guessing, which gives 10.0 % accuracy: at ε = 0.1 (11.0 %) and at ε = 0.5 (11.0 %). The rule "
        "counts 450 test examples and 3 seeds; a run that only guesses passes it at most once in 100 times."
    )
    assert warning({8.0: finals[8.0]}, KNOWN) == ""
