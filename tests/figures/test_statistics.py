"""Intervals and verdicts against printed tables, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.figures.statistics import interval, verdict


@pytest.mark.parametrize(("n", "t"), [(3, 4.303), (5, 2.776), (10, 2.262), (30, 2.045)])
def test_interval_uses_the_printed_t_table(n: int, t: float) -> None:
    values = np.arange(n, dtype=float)
    half = t * values.std(ddof=1) / math.sqrt(n)
    found = interval(list(values))
    assert found.low is not None
    assert found.mean - found.low == pytest.approx(half, rel=3e-4)
    assert found.high == pytest.approx(2 * found.mean - found.low)


def test_fewer_than_three_values_have_no_interval() -> None:
    assert interval([0.5]).low is None
    assert interval([0.5, 0.7]).high is None
    assert interval([0.5, 0.6, 0.7]).low is not None


def test_interval_covers_the_truth_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    hits = sum(
        found.low <= 3.0 <= found.high  # type: ignore[operator]
        for found in (interval(list(rng.normal(3.0, 2.0, 5))) for _ in range(4000))
    )
    assert abs(hits / 4000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_a_verdict_without_a_difference_is_wrong_in_five_of_100_cases() -> None:
    rng = np.random.default_rng(2)
    wrong = sum(verdict(list(rng.normal(0, 1, 6)), "A", "B").is_clear for _ in range(4000))
    assert abs(wrong / 4000 - 0.05) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_a_clear_difference_names_the_better_one_with_its_interval() -> None:
    found = verdict([2.0, 2.2, 1.8, 2.1, 1.9], "A", "B")
    assert found.is_clear
    assert found.sentence == "A is better than B by 2.0 points (1.8 to 2.2), 5 seeds."
    turned = verdict([-2.0, -2.2, -1.8, -2.1, -1.9], "A", "B")
    assert turned.sentence == "B is better than A by 2.0 points (1.8 to 2.2), 5 seeds."


def test_seeds_needed_are_the_fewest_that_would_do() -> None:
    differences = [1.0, -0.6, 0.9, -0.4, 1.1]
    found = verdict(differences, "A", "B")
    assert not found.is_clear
    needed = int(found.sentence.split("about ")[1].split()[0])
    spread, mean = np.std(differences, ddof=1), np.mean(differences)
    from scipy.stats import t

    def half(n: int) -> float:
        return float(t.ppf(0.975, n - 1) * spread / math.sqrt(n))

    assert half(needed) < mean <= half(needed - 1)


def test_too_few_seeds_claim_nothing() -> None:
    found = verdict([5.0, 5.0], "A", "B")
    assert not found.is_clear
    assert "Cannot tell from 2 seeds" in found.sentence


def test_no_difference_at_all_and_a_hopeless_one() -> None:
    assert "agree exactly" in verdict([0.0, 0.0, 0.0], "A", "B").sentence
    assert "more than 1,000 seeds" in verdict([10.0, -10.0, 0.001], "A", "B").sentence


def test_a_spread_of_zero_is_no_certainty() -> None:
    """The interval reaches what is printed to both sides, or a test example where their number is known."""
    assert verdict([1.0, 1.0, 1.0], "A", "B").sentence == "A is better than B by 1.0 points (0.9 to 1.1), 3 seeds."
    found = verdict([1.0, 1.0, 1.0], "A", "B", n_tested=200)
    assert found.sentence == "A is better than B by 1.0 points (0.5 to 1.5), 3 seeds."
    assert (found.interval.low, found.interval.high) == (0.5, 1.5)
    assert verdict([1.0, 1.0, 1.0], "A", "B", n_tested=1e6).interval.half_width == pytest.approx(0.1)


@pytest.mark.parametrize("differences", [[0.04, 0.04, 0.05], [-0.04, -0.04, -0.05], [0.1, 0.1, 0.1]])
def test_a_difference_that_prints_as_none_is_not_better(differences: list[float]) -> None:
    found = verdict(differences, "A", "B")
    assert not found.is_clear
    assert found.sentence.startswith("Cannot tell: the difference lies between ")
    assert found.sentence.endswith("; a difference of 0.1 points or less cannot be told with any number of seeds.")


def test_one_test_example_is_no_difference() -> None:
    found = verdict([100 / 450] * 5, "A", "B", n_tested=450)
    assert not found.is_clear
    assert found.sentence.endswith("a difference of 0.22 points or less cannot be told with any number of seeds.")


def test_an_interval_that_leaves_out_zero_does_not_print_it() -> None:
    half = interval([0.0, 1.0, 2.0]).half_width
    found = verdict([half - 0.98, half + 0.02, half + 1.02], "A", "B")
    assert found.is_clear
    assert f"({0.02:g} to " in found.sentence


def test_rounding_is_no_difference() -> None:
    assert "agree exactly" in verdict([1e-14, 0.0, -1e-14], "A", "B").sentence
