"""The coin's answers follow their closed forms, and clipping trades what it cuts off against noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.lessons import label
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.statement import odds_bound


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_answers_are_kept_as_often_as_epsilon_says(epsilon: float) -> None:
    """Five standard errors of 200,000 answers: 6e-7."""
    truth = np.arange(200_000, dtype=np.int64) % 2
    kept = (label.answers(truth, epsilon) == truth).mean()
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert label.keeps(epsilon) == pytest.approx(p, rel=1e-11)
    assert label.keeps(epsilon) == pytest.approx(odds_bound(epsilon, 0.0), rel=1e-11)
    assert kept == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / len(truth)))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_crowds_estimate_is_unbiased_with_the_error_that_is_shown(epsilon: float) -> None:
    """400 surveys: five standard errors of their mean; of their spread, 5 / sqrt(2 x 400) = 18 %."""
    truth = label.truths(2000)
    estimates = np.array([label.estimate(label.answers(truth, epsilon), epsilon) for _ in range(400)])
    std = label.estimate_std(2000, epsilon)
    assert estimates.mean() == pytest.approx(label.SHARE, abs=5 * std / 20)
    assert estimates.std() == pytest.approx(std, rel=0.18)
    p = label.keeps(epsilon)
    assert std == pytest.approx(math.sqrt(p * (1 - p) / 2000) / (2 * p - 1))


def test_a_yes_is_more_likely_true_by_the_odds_of_epsilon_exactly() -> None:
    before, after = label.SHARE / (1 - label.SHARE), label.posterior(1.0) / (1 - label.posterior(1.0))
    assert after / before == pytest.approx(math.e)


def test_noise_once_has_the_spread_of_laplace() -> None:
    assert label.clerk_std(1000, 0.5) * 1000 == pytest.approx(math.sqrt(2) / 0.5)


def test_only_a_person_larger_than_the_noise_was_made_for_breaks_the_promise() -> None:
    for epsilon in (0.25, 1.0, 4.0):
        allowed = odds_bound(epsilon, label.DELTA)
        assert label.found(3000, epsilon) < label.found(label.LARGEST, epsilon) < allowed < label.found(1e6, epsilon)


def test_clipping_loses_what_is_above_the_clip_and_noise_is_in_proportion_to_it() -> None:
    lost, noise = label.lost_and_noise(5000, 1.0)
    assert lost == pytest.approx(sum(max(0.0, one - 5000) for one in label.incomes().tolist()))
    assert noise == pytest.approx(5000 * gaussian.sigma(1.0, label.DELTA))
    assert label.lost_and_noise(label.LARGEST, 1.0)[0] == 0
    assert label.incomes().max() <= label.LARGEST
