"""Differences paired by seed: only shared seeds and budgets, with a verdict that follows from the interval."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from dpcl_core.figures import statistics
from dpcl_core.figures.curves import mean_so_far
from dpcl_core.figures.statistics import step
from tests.figures.making import accuracy, by_rule


def _finals(**more: object) -> object:
    per_seed = mean_so_far(accuracy(**more))  # type: ignore[arg-type]
    return per_seed[per_seed["after_task"] == per_seed["after_task"].max()]


def test_pairing_removes_what_seeds_have_in_common() -> None:
    better = _finals(rule=lambda *at: by_rule(*at) + 0.03, seeds=(0, 1, 2, 3))
    verdicts = statistics.paired(better, _finals(), ("A", "B"))  # type: ignore[arg-type]
    assert set(verdicts) == {0.5, 8.0, float("inf")}
    assert verdicts[8.0].interval.mean == pytest.approx(3.0)
    assert verdicts[8.0].interval.n == 3
    assert verdicts[8.0].is_clear


def test_figure_shows_zero_and_the_sentence_of_a_single_budget() -> None:
    better = _finals(rule=lambda *at: by_rule(*at) + 0.03, epsilons=(8.0,))
    picture = statistics.paired_difference(better, _finals(), names=("A", "B"))  # type: ignore[arg-type]
    assert picture.finding.startswith("At ε = 8: A is better than B by 3.0 points")
    assert any(shape.x0 == 0 and shape.x1 == 0 for shape in picture.figure.layout.shapes)


def test_summary_over_budgets_claims_only_clear_ones() -> None:
    def mixed(epsilon: float, seed: int, k: int, i: int) -> float:
        return by_rule(epsilon, seed, k, i) + (0.05 if epsilon == 8.0 else 0.03 * (seed - 1))

    finding = statistics.paired_difference(_finals(rule=mixed), _finals(), names=("A", "B")).finding  # type: ignore[arg-type]
    assert finding.startswith("A is better at ε = 8; cannot tell at ε = 0.5, without noise")


def _of(points: float, *, seeds: tuple[int, ...] = (0,), epsilons: tuple[float, ...] = (8.0,)) -> pd.DataFrame:
    return pd.DataFrame([(e, seed, points / 100) for e in epsilons for seed in seeds], columns=["epsilon", "seed", "value"])


@pytest.mark.parametrize("n_tested", [None, 20.0])
def test_rounding_is_no_difference_and_the_axis_is_at_least_a_test_example_long(n_tested: float | None) -> None:
    one, other = _of(60.0, seeds=(0, 1)), _of(60.0, seeds=(0, 1))
    one.loc[0, "value"] -= 2**-52
    picture = statistics.paired_difference(one, other, names=("A", "B"), n_tested=n_tested)
    ticks, dot = picture.figure.data
    assert list(ticks.x) == [0.0, 0.0]
    assert list(dot.x) == [0.0]
    low, high = picture.figure.layout.xaxis.range
    assert low < 0 < high
    assert high - low >= step(n_tested)


def test_two_seeds_closer_together_than_a_test_example_are_not_drawn_far_apart() -> None:
    one, other = _of(60.0, seeds=(0, 1)), _of(60.0, seeds=(0, 1))
    one.loc[0, "value"] += 1e-5
    low, high = statistics.paired_difference(one, other, names=("A", "B"), n_tested=400.0).figure.layout.xaxis.range
    assert high - low >= step(400.0)


def test_with_too_few_seeds_no_interval_is_spoken_of() -> None:
    budgets = (1.0, 8.0, math.inf)
    picture = statistics.paired_difference(_of(65, epsilons=budgets), _of(60, epsilons=budgets), names=("A", "B"))
    needs = "at least 3 seeds that both runs share are needed."
    assert picture.finding == f"Cannot tell at ε = 1, at ε = 8, without noise from 1 seed: {needs}"
    assert not any("interval" in trace.name for trace in picture.figure.data)


def test_budgets_with_and_without_intervals_are_told_apart() -> None:
    many = pd.concat([_of(65, seeds=(0, 1, 2)), _of(65, epsilons=(1.0,))])
    few = pd.concat([_of(60, seeds=(0, 1, 2)), _of(60, epsilons=(1.0,))])
    finding = statistics.paired_difference(many, few, names=("A", "B")).finding
    assert finding.startswith("A is better at ε = 8 (95 % intervals, each budget on its own). Cannot tell at ε = 1 from 1 ")


def test_nothing_shared_is_said() -> None:
    picture = statistics.paired_difference(_finals(seeds=(7, 8, 9)), _finals(), names=("A", "B"))  # type: ignore[arg-type]
    assert "share no budget and seed" in picture.finding
    assert not picture.figure.data
