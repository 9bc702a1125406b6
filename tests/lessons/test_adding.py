"""What many releases cost together, and what costs nothing: closed forms, the accountant, and attacks below them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.lessons import adding
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.statement import odds_bound


def test_n_releases_are_one_with_less_noise_and_the_ledger_agrees() -> None:
    sigma = gaussian.sigma(1.0, adding.DELTA)
    for n in (2, 10):
        assert adding.total(1.0, n) == pytest.approx(gaussian.epsilon(sigma / math.sqrt(n), adding.DELTA))
        assert adding.ledger(1.0, n, "every").epsilon() == pytest.approx(adding.total(1.0, n), rel=1e-3)
        assert adding.ledger(1.0, n, "once").epsilon() == pytest.approx(1.0, rel=1e-3)
        assert 1 < adding.total(1.0, n) < n


def test_an_averaging_attacker_is_as_good_as_can_be_and_no_better() -> None:
    """Five standard errors of 40,000 rounds: 6e-7."""
    for n in (1, 10, 100):
        best = adding.best_of_averages(1.0, n)
        found = adding.averaged(1.0, n, 20_000).share_right
        assert found == pytest.approx(best, abs=5 * math.sqrt(best * (1 - best) / 40_000))
        assert best <= odds_bound(adding.total(1.0, n), adding.DELTA)


def test_sampling_helps_more_the_fewer_are_drawn_and_not_at_all_with_everybody() -> None:
    totals = [adding.sampled(rate) for rate in (0.001, 0.01, 0.1, 1.0)]
    assert totals == sorted(totals)
    everybody = gaussian.epsilon(adding.SIGMA / math.sqrt(adding.N_STEPS), adding.DELTA)
    assert totals[-1] == pytest.approx(everybody) == adding.if_known(adding.N_STEPS)
    assert adding.sampled(0.01) < adding.if_known(adding.participations(0.01)[0])
    assert adding.if_known(0) == 0


def test_95_of_100_people_are_in_so_many_batches() -> None:
    low, high = adding.participations(0.01)
    drawn = np.random.default_rng(0).binomial(adding.N_STEPS, 0.01, 50_000)
    assert 0.94 < ((drawn >= low) & (drawn <= high)).mean() < 0.99


def test_no_work_on_a_release_helps_the_attacker() -> None:
    """20,000 rounds a side in the measured half: five standard errors of a share are 1.3 points."""
    for epsilon in (1.0, 4.0):
        found = adding.worked_on(epsilon, 40_000)
        best = adding.best_of_averages(epsilon, 1)
        assert max(found.values()) < best + 0.013
        assert found["as released"] == pytest.approx(best, abs=0.016)
        assert found["negative counts set to 0"] > 0.5


def test_mending_makes_counts_of_rare_entries_better() -> None:
    found = adding.errors(1.0, 500)
    sigma = gaussian.sigma(1.0, adding.DELTA)
    assert found["as released"] == pytest.approx(sigma, rel=5 / math.sqrt(2 * 500 * len(adding.COUNTS)))
    assert found["negative counts set to 0"] < 0.9 * found["as released"]
