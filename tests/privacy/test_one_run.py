"""Audits in one run: exact chances of a wrong proof, the recursion against a linear program, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import Coins, counting_bound, epsilon_of, gaussian_one_run_bound, least_right
from tests.support.tiers import quick

DELTA = 1e-5


def alarm(n: int, guessed: int, bound_above: float, chance: float, delta: float = DELTA) -> float:
    """Exact chance that the counting bound passes `bound_above` where guesses are right with `chance`, one by one."""
    least = least_right(n, guessed, lambda coins: counting_bound(coins, delta) > bound_above)
    return float(binom.sf(least - 1, guessed, chance))


@pytest.mark.parametrize("epsilon", quick(1, [1.0, 0.1, 4.0]))
@pytest.mark.parametrize(("n", "guessed"), [(20, 20), (300, 300), (2000, 2000), (2000, 200)])
def test_randomised_response_is_wronged_as_rarely_as_is_said(epsilon: float, n: int, guessed: int) -> None:
    """Its coins are guessed with the largest chance that epsilon allows; no sampling, so that no tolerance is needed."""
    chance = 1 / (1 + math.exp(-epsilon))
    assert alarm(n, guessed, epsilon, chance, 0.0) <= 0.05
    assert alarm(n, guessed, epsilon, chance) <= 0.05
    if guessed >= 200 and epsilon >= 1:  # nor is it idle
        assert alarm(n, guessed, epsilon / 2, chance) > 0.9


@pytest.mark.parametrize("n", [20, 300])
def test_a_mechanism_that_tells_all_with_chance_delta(n: int) -> None:
    """(epsilon, delta)-DP, and at its worst for guesses: all right at once."""
    epsilon, delta = 1.0, 0.02
    chance = 1 / (1 + math.exp(-epsilon))
    least = least_right(n, n, lambda coins: counting_bound(coins, delta) > epsilon)
    told = delta if least <= n else 0.0
    assert told + (1 - delta) * binom.sf(least - 1, n, chance) <= 0.05


def test_without_delta_all_right_has_a_closed_form() -> None:
    rate = 0.05 ** (1 / 40)
    assert counting_bound(Coins(40, 40, 40), 0.0) == pytest.approx(math.log(rate / (1 - rate)), abs=1e-8)
    assert counting_bound(Coins(400, 40, 40), 0.0) == pytest.approx(math.log(rate / (1 - rate)), abs=1e-8)
    assert counting_bound(Coins(40, 40, 20), 0.0) == 0.0


@pytest.mark.parametrize("mu", quick(1, [0.27, 0.1, 1.0]))
@pytest.mark.parametrize("n", [20, 400])
def test_gaussians_are_wronged_as_rarely_as_is_said(mu: float, n: int) -> None:
    """Coins under one Gaussian each are guessed by its sign, with chance ndtr(mu / 2): exact again."""
    least = least_right(n, n, lambda coins: gaussian_one_run_bound(coins) > mu)
    assert binom.sf(least - 1, n, ndtr(mu / 2)) <= 0.05


def test_one_noise_for_all_coins_is_wronged_as_rarely_as_is_said() -> None:
    """Not independent: n coins' sum over sqrt(n) under one Gaussian, guessed all alike; still mu-Gaussian-DP for each."""
    n, mu = 100, 0.5
    least = least_right(n, n, lambda coins: gaussian_one_run_bound(coins) > mu)
    rng = np.random.default_rng(1)
    coins = rng.integers(0, 2, (4000, n))
    total = (coins - 0.5).sum(axis=1) * mu + rng.standard_normal(4000)  # each coin moves it by mu
    right = (coins == (total > 0)[:, None]).sum(axis=1)
    assert (right >= least).mean() <= 0.05


@pytest.mark.parametrize(
    ("n", "guessed", "right", "mu"), [(12, 12, 10, 0.3), (12, 12, 10, 1.0), (24, 24, 19, 0.6), (30, 10, 9, 0.3)]
)
def test_the_recursion_is_the_linear_program(n: int, guessed: int, right: int, mu: float) -> None:
    """The largest P[right ones >= c] under A_i <= fbar(B_(i-1)), fbar as the least of many tangents, found by a solver.

    The bound's parameter excludes exactly the levels above it: at confidence 1 - optimum, mu is the bound itself.
    """
    places = np.linspace(-5, 5, 401)  # fbar(x) = ndtr(ndtri(x) + mu): tangents at x = ndtr(place)
    slopes = np.exp(-((places + mu) ** 2 - places**2) / 2)
    offsets = ndtr(places + mu) - slopes * ndtr(places)
    j = np.arange(guessed + 1)
    rows, limits = [], []
    for level in range(1, guessed + 1):
        above, below = np.where(j >= level, j, 0) / n, np.where(j >= level - 1, guessed - j, 0) / n
        rows += [above - slope * below for slope in slopes]
        limits += list(offsets)
    found = linprog(-(j >= right).astype(float), np.array(rows), limits, np.ones((1, guessed + 1)), [1.0], bounds=(0, 1))
    optimum = -found.fun
    assert 0.005 < optimum < 0.995
    assert gaussian_one_run_bound(Coins(n, guessed, right), 1 - optimum) == pytest.approx(mu, rel=2e-3)


def test_power_on_ideal_gaussians() -> None:
    """Of 5,000 canaries under noise for epsilon 1 the thousand that stand out most prove 0.35 of it, nine times in ten.

    At noise for epsilon 1, never more than 1; at 0.4 of that noise, more. Fifty seeded runs each.
    """
    n, guessed, mu = 5000, 1000, 1 / gaussian.sigma(1.0, DELTA)
    rng = np.random.default_rng(2)

    def right_ones(factor: float) -> list[int]:
        found = []
        for _ in range(50):
            coins = rng.integers(0, 2, n)
            seen = (coins - 0.5) * mu / factor + rng.standard_normal(n)
            chosen = np.argsort(-np.abs(seen))[:guessed]
            found.append(int(((seen[chosen] > 0) == coins[chosen]).sum()))
        return sorted(found)

    def proved(right: int) -> float:
        return epsilon_of(gaussian_one_run_bound(Coins(n, guessed, right)), DELTA)

    usual = right_ones(1.0)
    assert proved(usual[5]) >= 0.35
    assert proved(usual[-1]) < 1.0
    assert proved(right_ones(0.4)[5]) > 1.0


def test_more_right_ones_prove_more() -> None:
    counted = [counting_bound(Coins(500, 100, right), DELTA) for right in range(0, 101, 10)]
    gaussians = [gaussian_one_run_bound(Coins(500, 100, right)) for right in range(0, 101, 10)]
    assert counted == sorted(counted)
    assert gaussians == sorted(gaussians)
    assert counted[5] == gaussians[5] == 0.0


def test_epsilon_of_mu_is_the_gaussian_mechanism() -> None:
    assert epsilon_of(0.0, DELTA) == 0.0
    assert epsilon_of(1 / gaussian.sigma(1.0, DELTA), DELTA) == pytest.approx(1.0, abs=1e-4)
    assert ndtri(ndtr(0.3)) == pytest.approx(0.3)


def test_guesses_that_cannot_be() -> None:
    for wrong in ((10, 11, 3), (10, 5, 6), (0, 0, 0), (10, 5, -1)):
        with pytest.raises(ValueError, match="no such guesses"):
            Coins(*wrong)
