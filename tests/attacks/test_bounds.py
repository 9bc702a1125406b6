"""What scores prove about epsilon: bounds hold at their confidence, and are as sharp as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from dpcl_core.attacks.play import judged
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import Area, bound_of_counts, detectable, gaussian_bound, lower_bound, one_way_bound
from tests.support.tiers import quick

DELTA = 1e-5
MU = 1 / gaussian.sigma(1.0, DELTA)  # of the Gaussian mechanism that is exactly (1, delta)-DP
ALARMS = 18  # of 200: more have a chance of 0.6 % at a level of 5 %


def ideal(generator: np.random.Generator, n: int, mu: float = MU) -> tuple[np.ndarray, np.ndarray]:
    return generator.standard_normal(n) + mu, generator.standard_normal(n)


def test_the_area_is_the_share_of_pairs_won_and_its_error_is_delongs() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.integers(0, 9, 40) * 1.0, generator.integers(0, 7, 30) * 1.0
    wins = (one[:, None] > other) + 0.5 * (one[:, None] == other)
    found = Area.of(one, other)
    assert found.value == pytest.approx(wins.mean())
    expected = wins.mean(axis=1).var(ddof=1) / 40 + wins.mean(axis=0).var(ddof=1) / 30
    assert found.std == pytest.approx(math.sqrt(expected))
    assert found.n == 30


def test_the_area_of_two_gaussians_gives_back_how_far_apart_they_are() -> None:
    """Standard error 0.0046 at 100,000 a side: the tolerance is five of them."""
    found = Area.of(*ideal(np.random.default_rng(1), 100_000, 0.5))
    assert found.mu == pytest.approx(0.5, abs=0.025)
    assert found.value == pytest.approx(norm.cdf(0.5 / math.sqrt(2)), abs=5 * found.std)


def test_a_perfect_attack_proves_what_counting_does() -> None:
    """No pair lost of so many: 0.05^(1/n) of them at least are won, as of n independent ones."""
    found = gaussian_bound(np.ones(500), np.zeros(500), DELTA, 0.95)
    mu = math.sqrt(2) * norm.ppf(0.05 ** (1 / 500))
    assert found == pytest.approx(gaussian.epsilon(1 / mu, DELTA))


def test_scores_that_tell_nothing_prove_nothing() -> None:
    assert gaussian_bound(np.zeros(100), np.zeros(100), DELTA, 0.95) == 0.0
    assert gaussian_bound(np.zeros(100), np.ones(100), DELTA, 0.95) == 0.0


def test_counts_prove_what_two_exact_intervals_do_each_with_half_of_the_error() -> None:
    """Clopper and Pearson by hand; with all of the error on either rate the bound would hold less often than is said."""
    hits, alarms, n = 60, 10, 100
    often, rarely = beta.ppf(0.025, hits, n - hits + 1), beta.ppf(0.975, alarms + 1, n - alarms)
    loud, quiet = math.log((often - DELTA) / rarely), math.log((1 - rarely - DELTA) / (1 - often))
    assert one_way_bound(hits, n, alarms, n, DELTA) == pytest.approx(loud)
    assert bound_of_counts(hits, n, alarms, n, DELTA) == pytest.approx(loud)
    # The same with the answers turned round: here silence tells more.
    assert one_way_bound(n - alarms, n, n - hits, n, DELTA) == pytest.approx(quiet)
    assert bound_of_counts(n - alarms, n, n - hits, n, DELTA) == pytest.approx(loud)


def test_the_half_that_chooses_the_threshold_proves_nothing() -> None:
    apart, alike = np.ones(500), np.zeros(500)
    assert lower_bound(np.concatenate([apart, alike]), np.concatenate([alike, alike]), DELTA) == 0.0
    assert lower_bound(np.concatenate([apart, apart]), np.concatenate([alike, alike]), DELTA) > 4


RULES = {
    "counting, half for the threshold": lambda one, other: lower_bound(one, other, DELTA),
    "counting at a fixed threshold": lambda one, other: bound_of_counts(
        int((one > 0).sum()), len(one), int((other > 0).sum()), len(other), DELTA
    ),
    "area": lambda one, other: gaussian_bound(one, other, DELTA, 0.95),
    "audit": lambda one, other: judged(one[:, None], other[:, None], 1.0, 1.0, DELTA, "", "", is_gaussian=True).lower_bound,
}


@pytest.mark.parametrize(("seed", "n", "most"), quick(1, [(2, 200, ALARMS), (3, 5000, 325)]))
@pytest.mark.parametrize("rule", RULES)
def test_nulls_at_the_very_bound_keep_the_level(rule: str, seed: int, n: int, most: int) -> None:
    """Releases of a mechanism that is exactly (1, delta)-DP; seeds are fixed: the count is the same anywhere.

    6.5 % of 5,000 would be five standard errors above a level of 5 %.
    """
    assert binom.sf(ALARMS, 200, 0.05) < 0.007
    found = [RULES[rule](*ideal(np.random.default_rng([seed, k]), 600)) for k in range(n)]
    assert sum(one > 1.0 for one in found) <= most


def test_a_choice_among_statistics_costs_no_false_alarm() -> None:
    """Ten useless statistics beside the true one, and chosen among by a tenth of the releases only."""
    alarms = 0
    for k in range(200):
        generator = np.random.default_rng([4, k])
        one, other = generator.standard_normal((600, 11)), generator.standard_normal((600, 11))
        one[:, 0] += MU
        alarms += judged(one, other, 1.0, 1.0, DELTA, "", "", is_gaussian=True).exceeds
    assert alarms <= ALARMS


def test_the_fault_that_is_named_is_caught_nine_times_in_ten() -> None:
    """200 audits of the very fault, by fixed seeds: 160 or fewer caught, or 197 or more, would be 1-in-10^5 events."""
    n = 4000
    honest = Area(float(norm.cdf(MU / math.sqrt(2))), 0.0, n)
    factor = detectable(honest, 1.0, DELTA, 0.975)
    assert 0.6 < factor < 0.9
    faulty = (ideal(np.random.default_rng([5, k]), n, MU / factor) for k in range(200))
    assert 160 < sum(gaussian_bound(*sides, DELTA, 0.975) > 1.0 for sides in faulty) < 197


def test_where_nothing_could_be_caught_nothing_is_named() -> None:
    assert detectable(Area(0.5, 0.01, 1000), 1.0, DELTA, 0.95) is None
    assert detectable(Area(0.6, 0.01, 1000), math.inf, DELTA, 0.95) is None
    assert detectable(Area(0.6, 0.01, 3), 1.0, DELTA, 0.95) is None


def test_an_audit_that_proves_more_than_is_accounted_says_so_first() -> None:
    one, other = ideal(np.random.default_rng(6), 1000, 3.0)
    found = judged(one[:, None], other[:, None], 1.0, 1.0, DELTA, "an attack", "sees all", is_gaussian=True)
    assert found.exceeds
    assert found.sentence().startswith("ERROR, audited above accounted: claimed epsilon 1, accounted 1, audited at least ")
    document = found.document()
    assert document["exceeds_accounted"] is True
    assert (document["through"], document["bound"]) == ("learner", "gaussian")
    assert set(document["bounds"]) == {"counting", "gaussian"}  # type: ignore[call-overload]


def test_the_bound_of_a_perfect_attack_is_that_of_clopper_and_pearson() -> None:
    """1,000 hits of 1,000 on both sides: both rates are at least 0.025^(1/1000) at 97.5 % confidence."""
    rate = 0.025 ** (1 / 1000)
    found = lower_bound(np.ones(2000), np.zeros(2000), DELTA)
    assert found == pytest.approx(math.log((rate - DELTA) / (1 - rate)))


def test_coin_flips_prove_nothing() -> None:
    generator = np.random.default_rng(3)
    assert lower_bound(generator.standard_normal(2000), generator.standard_normal(2000), DELTA) < 0.3


def test_the_bound_covers_the_truth_at_its_confidence() -> None:
    """Gaussian releases of known epsilon, 400 audits: at most 5 % may exceed it; 40 would be a 1-in-10^5 event."""
    epsilon, generator = 1.0, np.random.default_rng(4)
    sigma = gaussian.sigma(epsilon, DELTA)
    exceeded = sum(
        lower_bound(1 + sigma * generator.standard_normal(600), sigma * generator.standard_normal(600), DELTA) > epsilon
        for _ in range(400)
    )
    assert exceeded <= 40


def test_ten_times_too_little_noise_is_found() -> None:
    generator, sigma = np.random.default_rng(5), gaussian.sigma(1.0, DELTA) / 10
    found = lower_bound(1 + sigma * generator.standard_normal(4000), sigma * generator.standard_normal(4000), DELTA)
    assert found > 1.5 > 1.0
    assert norm.cdf(1 / (2 * sigma)) > 0.9
