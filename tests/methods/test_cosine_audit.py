"""The audit stays below what is accounted, finds what leaks, and would notice noise that is too small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpcl_core import checks
from dpcl_core.methods import cosine_audit
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit import lower_bound


def spec(**changes: object) -> object:
    return checks.parse({"privacy": {"epsilons": [1.0, 4.0], **changes}})


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_attack_stays_below_the_accounted_epsilon(adjacency: str) -> None:
    for result in cosine_audit.audit(spec(adjacency=adjacency), 2000):  # type: ignore[arg-type]
        # 95 % confidence a bound: a failure here has at most that chance, and far less since the tests are not tight.
        assert 0 <= result.lower_bound <= result.accounted


def test_the_attack_has_power_where_there_is_something_to_find() -> None:
    weak = cosine_audit.audit(checks.parse({"privacy": {"epsilons": [8.0]}}), 2000)[0]
    assert weak.lower_bound > 0.8
    none = cosine_audit.audit(checks.parse({"privacy": {"epsilons": [math.inf]}}), 1000)[0]
    assert none.lower_bound > 4
    assert none.accounted == math.inf


def test_labels_from_the_data_are_caught_whatever_epsilon_is_claimed() -> None:
    for adjacency in ("add-remove", "replace"):
        raw = {"labels": "data", "privacy": {"epsilons": [1.0], "adjacency": adjacency}}
        result = cosine_audit.audit(checks.parse(raw), 2000)[0]
        assert result.claimed == 1.0
        assert result.accounted == math.inf
        assert result.lower_bound > 5


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_with_a_learned_list_the_attack_finds_something_and_stays_below(adjacency: str) -> None:
    raw = {"labels": "dp-learned", "privacy": {"epsilons": [8.0], "adjacency": adjacency}}
    result = cosine_audit.audit(checks.parse(raw), 2000)[0]
    assert 0.8 < result.lower_bound <= result.accounted <= 8.0


def test_the_bound_of_a_perfect_attack_is_that_of_clopper_and_pearson() -> None:
    """1,000 hits of 1,000 on both sides: both rates are at least 0.025^(1/1000) at 97.5 % confidence."""
    rate = 0.025 ** (1 / 1000)
    found = lower_bound(np.ones(2000), np.zeros(2000), 1e-5)
    assert found == pytest.approx(math.log((rate - 1e-5) / (1 - rate)))


def test_coin_flips_prove_nothing() -> None:
    generator = np.random.default_rng(3)
    assert lower_bound(generator.standard_normal(2000), generator.standard_normal(2000), 1e-5) < 0.3


def test_the_bound_covers_the_truth_at_its_confidence() -> None:
    """Gaussian releases of known epsilon, 400 audits: at most 5 % may exceed it; 40 would be a 1-in-10^5 event."""
    epsilon, generator = 1.0, np.random.default_rng(4)
    sigma = gaussian.sigma(epsilon, 1e-5)
    exceeded = sum(
        lower_bound(1 + sigma * generator.standard_normal(600), sigma * generator.standard_normal(600), 1e-5) > epsilon
        for _ in range(400)
    )
    assert exceeded <= 40


def test_ten_times_too_little_noise_is_found() -> None:
    generator, sigma = np.random.default_rng(5), gaussian.sigma(1.0, 1e-5) / 10
    found = lower_bound(1 + sigma * generator.standard_normal(4000), sigma * generator.standard_normal(4000), 1e-5)
    assert found > 1.5 > 1.0
    assert norm.cdf(1 / (2 * sigma)) > 0.9
