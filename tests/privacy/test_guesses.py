"""Guesses of random secrets: exact chances of a wrong proof against mechanisms with a known epsilon, and closed forms."""

from __future__ import annotations

import math

import pytest
from scipy.stats import beta, binom

from dpcl_core.privacy.audit_bounds import GuessCounts, bound_of_guesses
from tests.support.tiers import quick

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
