"""The best attack on a ledger: closed forms of Gaussians and lists, and nothing where there is no bound."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpcl_core.privacy import gaussian, labels, statement, tradeoff
from dpcl_core.privacy.accounting import LabelListDpEvent, subsampled_gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import Adjacency

DELTA = 1e-5


def gaussian_best(mu: float) -> tuple[float, float]:
    """Advantage 2 Phi(mu / 2) - 1 and hits Phi(Phi^-1(a) + mu), for a mean that is mu standard deviations away."""
    return 2 * float(ndtr(mu / 2)) - 1, float(ndtr(ndtri(tradeoff.RARE) + mu))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 40.0])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_gaussian_is_its_closed_form_from_above(epsilon: float, adjacency: Adjacency) -> None:
    sigma = gaussian.sigma(epsilon, DELTA)
    found = tradeoff.of_events([dp.GaussianDpEvent(sigma)], DELTA, adjacency)
    advantage, hits = gaussian_best(gaussian.SENSITIVITY[adjacency] / sigma)
    assert advantage - 1e-12 <= found.advantage <= advantage * 1.001
    assert hits - 1e-12 <= found.hits <= hits * 1.003


def test_releases_add_up() -> None:
    found = tradeoff.of_events([dp.GaussianDpEvent(4.0)] * 4, DELTA, "add-remove")
    assert found.advantage == pytest.approx(gaussian_best(0.5)[0], rel=1e-3)
    assert found.hits == pytest.approx(gaussian_best(0.5)[1], rel=3e-3)


def test_one_choice_is_as_good_as_the_worst_case() -> None:
    """Advantage of an (epsilon, delta) choice by hand: delta + (1 - delta) (e^eps - 1) / (e^eps + 1)."""
    found = tradeoff.of_events([LabelListDpEvent(1.0, 1e-6)], DELTA, "add-remove")
    assert found.advantage == pytest.approx(1e-6 + (1 - 1e-6) * math.tanh(0.5), rel=1e-6)
    by_hand = math.e * tradeoff.RARE + 1e-6
    assert by_hand * (1 - 1e-6) <= found.hits <= by_hand * 1.004
    assert statement.odds_bound(1.0, 0.0) == pytest.approx((1 + found.advantage) / 2, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_of_a_learned_list_the_best_possible_guess_stays_below_what_is_said(epsilon: float) -> None:
    """The best guess by one label's count, at whatever count it is best, against the ledger's bound."""
    chances = np.array(labels.chances(epsilon, 1e-3, 400)) / labels.ONE
    assert chances[-1] == 1
    bound = tradeoff.of_events([LabelListDpEvent(epsilon, 1e-3)], DELTA, "add-remove").advantage
    assert 0.8 * bound < np.diff(chances).max() < 0.99 * bound


def test_sampled_steps_are_played_as_well_as_that_and_no_better() -> None:
    """The likelihood ratio of 100 steps, in 40,000 games a side: its advantage has a standard error below 0.0036.

    Six of them are a false alarm of 2e-9; the worst case of the same epsilon lies further away.
    """
    rate, n, random = 0.05, 40_000, np.random.default_rng(1)
    ledger = Ledger(DELTA, "add-remove", "once")
    ledger.spend(subsampled_gaussian(1.0, rate, 100), task=0, what="steps")
    best = tradeoff.of_ledger(ledger)
    assert best is not None
    shares = []
    for is_in in (True, False):
        evidence = np.zeros(n)
        for _ in range(100):
            seen = random.standard_normal(n) + (random.random(n) < rate) * is_in
            evidence += np.log1p(rate * np.expm1(seen - 0.5))
        shares.append((evidence > 0).mean())
    assert abs(shares[0] - shares[1] - best.advantage) < 6 * 0.0036
    assert (1 + best.advantage) / 2 + 6 * 0.0036 < statement.odds_bound(ledger.epsilon(), DELTA)


def test_the_worst_off_people_count() -> None:
    ledger = Ledger(DELTA, "add-remove", "once")
    for task, sigma in enumerate((8.0, 2.0, 4.0)):
        ledger.spend(dp.GaussianDpEvent(sigma), task=task, what="sums")
    assert tradeoff.of_ledger(ledger) == tradeoff.of_events([dp.GaussianDpEvent(2.0)], DELTA, "add-remove")
    ledger.spend(dp.NonPrivateDpEvent(), task=2, what="labels")
    assert tradeoff.of_ledger(ledger) is None


def test_nothing_spent_tells_nothing() -> None:
    assert tradeoff.of_ledger(Ledger(DELTA, "add-remove", "once")) == tradeoff.TradeOff(0.0, tradeoff.RARE)


def test_the_sentence_rounds_up_and_is_empty_where_nothing_is_known() -> None:
    assert statement.exact_odds(None, None) == ""
    assert statement.exact_odds(0.10641, 0.0024012) == (
        " With exactly this ledger no guess is right more than 55.33 % of the time; at 0.1 % false alarms none finds more "
        "than 0.25 % of those who took part."
    )
