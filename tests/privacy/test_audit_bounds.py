"""Bounds of audits by guesses: exact chances of a wrong proof, the recursion against a linear program, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import (
    Coins,
    GuessCounts,
    bound_of_guesses,
    counting_bound,
    epsilon_of,
    gaussian_one_run_bound,
    least_right,
)
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


# Guesses of random secrets: exact chances of a wrong proof against mechanisms with a known epsilon, and closed forms.


TEN_THOUSAND = 10_000


def answered(epsilon: float, n_values: int, allowed: int = 1) -> float:
    """Chance that the answer of randomised response and `allowed` - 1 other values hold the secret: the most there is.

    Its likelihood of the true answer is e^epsilon times that of any other.
    """
    odds = math.exp(epsilon)
    return (odds + allowed - 1) / (odds + n_values - 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("n_values", quick(1, [2, 10, TEN_THOUSAND]))
@pytest.mark.parametrize("n", [1, 15, 200])
def test_the_bound_is_wrong_as_rarely_as_it_says(epsilon: float, n_values: int, n: int) -> None:
    """Every number of right guesses on randomised response, weighted by its exact chance: no sampling."""
    chance = answered(epsilon, n_values)
    wrong = sum(
        binom.pmf(right, n, chance)
        for right in range(n + 1)
        if bound_of_guesses((GuessCounts(n, right, 1, n_values),), 0.0, "replace") > epsilon
    )
    assert wrong <= 0.05
    # And it finds that much of it: with 200 guesses half of the time more than a third, where chance finds a few.
    if n == 200 and epsilon >= 1 and n * chance > 5:
        median = int(binom.median(n, chance))
        assert bound_of_guesses((GuessCounts(n, median, 1, n_values),), 0.0, "replace") > epsilon / 3


def test_longer_lists_are_paid_for() -> None:
    """A list of r holds the secret with chance e^eps r / (e^eps r + N - r) at most; randomised response keeps to it."""
    for allowed in (1, 2, 50):
        assert answered(2.0, 100, allowed) <= math.exp(2) * allowed / (math.exp(2) * allowed + 100 - allowed) + 1e-12
    found = bound_of_guesses((GuessCounts(40, 40, 10, 100),), 0.0, "replace")
    rate = 0.05 ** (1 / 40)
    assert found == pytest.approx(math.log(rate / (1 - rate) * 90 / 10), abs=1e-9)


def test_closed_form_of_all_right() -> None:
    """All of n right: the rate is at least 0.05^(1/n) (Clopper and Pearson, one side)."""
    rate = 0.05 ** (1 / 15)
    exact = math.log(rate / (1 - rate) * (TEN_THOUSAND - 1))
    game = GuessCounts(15, 15, 1, TEN_THOUSAND)
    assert bound_of_guesses((game,), 0.0, "replace") == pytest.approx(exact, abs=1e-9)
    assert bound_of_guesses((game,), 0.0, "add-remove") == pytest.approx(exact / 2, abs=1e-9)
    some = GuessCounts(15, 7, 1, TEN_THOUSAND)
    low = beta.ppf(0.05, 7, 9)
    assert bound_of_guesses((some,), 0.0, "replace") == pytest.approx(
        math.log(low / (1 - low) * (TEN_THOUSAND - 1)), abs=1e-9
    )


def test_a_secret_in_many_examples_says_less_of_one() -> None:
    one, many = (GuessCounts(15, 15, 1, TEN_THOUSAND, group) for group in (1, 16))
    exact = bound_of_guesses((one,), 0.0, "replace")
    assert bound_of_guesses((many,), 0.0, "replace") == pytest.approx(exact / 16, abs=1e-9)


def test_delta_is_counted_for_every_secret_and_every_step() -> None:
    game = GuessCounts(15, 15, 1, TEN_THOUSAND)
    exact = bound_of_guesses((game,), 0.0, "replace")
    assert bound_of_guesses((game,), 1e-5, "replace") < exact
    assert bound_of_guesses((game,), 1e-5, "replace") > exact - 0.01
    assert bound_of_guesses((game,), 0.051 / 15, "replace") == 0  # delta alone explains it
    # Two steps of epsilon each cost delta (1 + e^epsilon): the bound is where all chances add up to the 5 %.
    for group, adjacency in ((1, "add-remove"), (2, "replace")):
        epsilon = bound_of_guesses((GuessCounts(15, 15, 1, TEN_THOUSAND, group),), 1e-5, adjacency)  # type: ignore[arg-type]
        rate = math.exp(2 * epsilon) / (math.exp(2 * epsilon) + TEN_THOUSAND - 1)
        assert rate**15 + 15 * 1e-5 * (1 + math.exp(epsilon)) == pytest.approx(0.05, abs=1e-9)


def test_several_games_share_the_error() -> None:
    good, bad = GuessCounts(15, 15, 1, TEN_THOUSAND), GuessCounts(15, 0, 1, TEN_THOUSAND)
    rate = 0.025 ** (1 / 15)
    assert bound_of_guesses((good, bad), 0.0, "replace") == pytest.approx(math.log(rate / (1 - rate) * 9999), abs=1e-9)


def test_guessing_as_often_as_chance_does_proves_nothing() -> None:
    assert bound_of_guesses((), 1e-5, "replace") == 0
    assert bound_of_guesses((GuessCounts(15, 0, 1, 100),), 0.0, "replace") == 0
    assert bound_of_guesses((GuessCounts(100, 10, 10, 100),), 0.0, "replace") == 0
    assert bound_of_guesses((GuessCounts(0, 0, 1, 100),), 0.0, "replace") == 0


@pytest.mark.parametrize(
    "game", [GuessCounts(1, 2, 1, 10), GuessCounts(1, 1, 10, 10), GuessCounts(1, 1, 0, 10), GuessCounts(1, 1, 1, 10, 0)]
)
def test_impossible_games_are_refused(game: GuessCounts) -> None:
    with pytest.raises(ValueError, match="no such game"):
        bound_of_guesses((game,), 0.0, "replace")
