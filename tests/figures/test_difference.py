"""Differences paired by seed: only shared seeds and budgets, with a verdict that follows from the interval."""

from __future__ import annotations

import pytest

from dpcl_core.figures import difference
from dpcl_core.figures.curves import mean_so_far
from tests.figures.making import accuracy, by_rule


def _finals(**more: object) -> object:
    per_seed = mean_so_far(accuracy(**more))  # type: ignore[arg-type]
    return per_seed[per_seed["after_task"] == per_seed["after_task"].max()]


def test_pairing_removes_what_seeds_have_in_common() -> None:
    better = _finals(rule=lambda *at: by_rule(*at) + 0.03, seeds=(0, 1, 2, 3))
    verdicts = difference.paired(better, _finals(), ("A", "B"))  # type: ignore[arg-type]
    assert set(verdicts) == {0.5, 8.0, float("inf")}
    assert verdicts[8.0].interval.mean == pytest.approx(3.0)
    assert verdicts[8.0].interval.n == 3
    assert verdicts[8.0].is_clear


def test_figure_shows_zero_and_the_sentence_of_a_single_budget() -> None:
    better = _finals(rule=lambda *at: by_rule(*at) + 0.03, epsilons=(8.0,))
    picture = difference.paired_difference(better, _finals(), names=("A", "B"))  # type: ignore[arg-type]
    assert picture.finding.startswith("At ε = 8: A is better than B by 3.0 points")
    assert any(shape.x0 == 0 and shape.x1 == 0 for shape in picture.figure.layout.shapes)


def test_summary_over_budgets_claims_only_clear_ones() -> None:
    def mixed(epsilon: float, seed: int, k: int, i: int) -> float:
        return by_rule(epsilon, seed, k, i) + (0.05 if epsilon == 8.0 else 0.03 * (seed - 1))

    finding = difference.paired_difference(_finals(rule=mixed), _finals(), names=("A", "B")).finding  # type: ignore[arg-type]
    assert finding.startswith("A is better at ε = 8; cannot tell at ε = 0.5, without noise")


def test_nothing_shared_is_said() -> None:
    picture = difference.paired_difference(_finals(seeds=(7, 8, 9)), _finals(), names=("A", "B"))  # type: ignore[arg-type]
    assert "share no budget and seed" in picture.finding
    assert not picture.figure.data
