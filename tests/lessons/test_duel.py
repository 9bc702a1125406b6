"""The duel's three numbers: measured against the exact Gaussian curve, exact against the promise, counts against ε."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpcl_core.lessons import noise
from dpcl_core.lessons.noise import Duel
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import bound_of_counts
from tests.lessons import reference

DELTA = 1e-5
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def gaussian_duel(sigma: float, n: int, seed: int, shift: float = 1.0) -> Duel:
    """An attacker who knows that the release is N(0, sigma^2) without the person and N(shift, sigma^2) with."""
    generator = np.random.default_rng(seed)
    with_person, without = shift + sigma * generator.standard_normal(n), sigma * generator.standard_normal(n)
    return Duel(*((x - 0.5) / sigma**2 for x in (with_person, without)))


def test_a_perfect_game_proves_what_clopper_and_pearson_say() -> None:
    """2,000 of 2,000 against 0 of 2,000: each rate is beyond 0.025^(1/2000) at 97.5 % confidence."""
    rate = 0.025 ** (1 / 2000)
    found = bound_of_counts(2000, 2000, 0, 2000, DELTA)
    assert found == pytest.approx(math.log((rate - DELTA) / (1 - rate)))
    assert 6.29 <= found < 6.30


def test_counts_that_prove_nothing_give_zero() -> None:
    assert bound_of_counts(0, 100, 0, 100, DELTA) == 0
    assert bound_of_counts(50, 100, 50, 100, DELTA) == 0
    assert bound_of_counts(0, 100, 100, 100, DELTA) == 0  # always wrong: this rule proves nothing, its opposite would


def test_both_errors_count_alike() -> None:
    """Crying always at a person and at half the others is as telling as crying at half the persons and at nobody else."""
    assert bound_of_counts(100, 100, 50, 100, 0.0) == pytest.approx(bound_of_counts(50, 100, 0, 100, 0.0))


def test_the_proof_grows_without_end() -> None:
    """A perfect attack: ten times the rounds add ln 10, up to what the small δ changes."""
    sure = Duel(np.full(20_000, np.inf), np.full(20_000, -np.inf))
    bounds = noise.proven(sure, [20, 200, 2000, 20_000], DELTA)
    assert np.diff(bounds) == pytest.approx(math.log(10), abs=0.2)
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_curve_stays_under_the_promise_and_touches_it(epsilon: float) -> None:
    """Noise is calibrated to the promise: never above it, and as near as rounding up by 1e-6 allows at one place."""
    alarms = np.concatenate([np.logspace(-15, -2, 20_000), np.linspace(0.01, 1, 10_001)])
    gap = noise.promised_hits(alarms, epsilon, DELTA) - reference.exact_hits(alarms, gaussian.sigma(epsilon, DELTA))
    assert (gap >= 0).all()
    assert gap.min() < 1e-7


def test_noise_a_tenth_too_small_breaks_the_promise() -> None:
    alarms = np.logspace(-9, 0, 5000)
    exact = reference.exact_hits(alarms, 0.9 * gaussian.sigma(1.0, DELTA))
    assert (exact > noise.promised_hits(alarms, 1.0, DELTA)).any()


def test_the_curves_have_their_closed_forms() -> None:
    alarms = np.array([0.0, 0.01, 0.1, 0.5, 1.0])
    assert reference.exact_hits(alarms, 3.7306) == pytest.approx(norm.sf(norm.isf(alarms) - 1 / 3.7306))
    # The card's numbers for ε = 1 at false alarms of 0.5, 0.1 and 0.01.
    assert reference.exact_hits(alarms, 3.7306)[[3, 2, 1]] == pytest.approx([0.606, 0.155, 0.020], abs=5e-4)
    cross = 1 / (1 + math.e)  # where the two lines of the promise meet for δ = 0
    assert noise.promised_hits(np.array([cross]), 1.0, 0.0) == pytest.approx(math.e * cross)
    assert noise.promised_hits(alarms, math.inf, 0.0) == pytest.approx(1)


def test_the_curve_is_the_share_above_every_cut() -> None:
    played = Duel(np.array([0.0, 1.0, 1.0, np.inf]), np.array([-np.inf, 0.0, 1.0]))
    alarms, hits = reference.curve(played)
    cuts = (-np.inf, 0.0, 1.0, np.inf)
    expected = {((played.stayed_away > cut).mean(), (played.took_part > cut).mean()) for cut in cuts} | {(1.0, 1.0)}
    assert np.array(sorted(zip(alarms, hits, strict=True))) == pytest.approx(np.array(sorted(expected)))
    assert list(alarms) == sorted(alarms)


def test_counts_of_the_rule_fixed_beforehand() -> None:
    played = Duel(np.array([0.5, -0.5, np.inf]), np.array([0.1, -np.inf]))
    assert (played.hits, played.false_alarms, played.n_right, played.n_rounds) == (2, 1, 3, 5)
    assert played.share_right == 0.6
    twice = reference.both(played, played)
    assert (twice.hits, twice.n_rounds) == (4, 10)


def test_a_true_gaussian_attack_is_held_and_a_stronger_one_is_not() -> None:
    """Held attacks fail with probability at most 2e-6 each. Half the noise at ε = 1 is 0.09 above, three allowances."""
    sigma = gaussian.sigma(1.0, DELTA)
    assert all(reference.is_held(gaussian_duel(sigma, 2000, seed), sigma) for seed in range(40))
    assert not reference.is_held(gaussian_duel(sigma / 3, 20_000, 1), sigma)
    assert not reference.is_held(Duel(np.full(2000, np.inf), np.full(2000, -np.inf)), sigma)


def test_the_allowance_is_kept_at_its_rate() -> None:
    """With a false alarm rate of 0.1 a side, 400 held attacks: about 0.2 x 400 at most; 130 would be a 1-in-10^7 event."""
    sigma = gaussian.sigma(1.0, DELTA)
    failed = sum(not reference.is_held(gaussian_duel(sigma, 500, seed), sigma, 0.1) for seed in range(400))
    assert failed < 130
    assert reference.allowance(1000, 0.1) == pytest.approx(math.sqrt(math.log(20) / 2000))
