"""The duel's picture keeps its order, and the proof is read against what was promised."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.figures import attack
from dpcl_core.lessons.duel import Duel, exact_hits
from dpcl_core.privacy import gaussian

SIGMA = gaussian.sigma(1.0, 1e-5)


def played(shift: float, n: int = 2000) -> Duel:
    generator = np.random.default_rng(7)
    sides = (where + SIGMA * generator.standard_normal(n) for where in (shift, 0.0))
    return Duel(*((side - shift / 2) for side in sides))


def test_promise_exact_attack_and_coin_are_drawn() -> None:
    picture = attack.duel(played(1.0), sigma=SIGMA, epsilon=1.0, delta=1e-5)
    promise, exact, dots, coin = picture.figure.data
    assert promise.fill == "toself"
    alarms = np.asarray(exact.x) / 100
    assert np.asarray(exact.y) == pytest.approx(100 * exact_hits(alarms, SIGMA))
    assert (np.asarray(promise.y)[: len(alarms)] >= np.asarray(exact.y)).all()
    assert dots.mode == "markers"
    assert 20 <= len(dots.x) <= 50
    assert list(coin.y) == [0, 100]
    assert "the best possible against this noise is 55.3 %" in picture.finding
    assert "No cut of it beats the best possible by more than chance does." in picture.finding


def test_an_attack_that_breaks_through_is_said_to() -> None:
    picture = attack.duel(played(4.0), sigma=SIGMA, epsilon=1.0, delta=1e-5)
    assert "It breaks through" in picture.finding
    sure = Duel(np.full(10, np.inf), np.full(10, -np.inf))
    assert "right in 100.0 % of 20 rounds" in attack.duel(sure, sigma=SIGMA, epsilon=1.0, delta=1e-5).finding


def test_the_proof_is_compared_with_the_promise() -> None:
    bounds = {"list read from the data": [0.8, 6.29], "public list": [0.0, 0.12]}
    picture = attack.proven_epsilon(bounds, [10, 2000], advertised=1.0)
    assert picture.finding == (
        "List read from the data: after 2,000 rounds a side ε is at least 6.29, more than was promised. "
        "Public list: after 2,000 rounds a side ε is at least 0.12, no more than was promised."
    )
    assert [list(trace.y) for trace in picture.figure.data] == list(bounds.values())
    assert picture.figure.layout.shapes[0].y0 == 1.0
    assert picture.figure.layout.annotations[0].text == "promised: ε = 1"
