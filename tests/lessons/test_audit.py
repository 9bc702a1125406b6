"""An honest run is not proven worse than it is, a faulty one is, and guesses are counted as in the engine's audits."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.lessons import noise
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.audit_bounds import Coins


def test_guesses_are_those_of_the_engines_audit() -> None:
    from dpcl_core.attacks import one_run

    random = np.random.default_rng(5)
    took_part = random.random(600) < 0.5
    released = took_part + gaussian.sigma(2.0, noise.AUDIT_DELTA) * random.standard_normal(600)
    coins = noise.guessed(released, took_part)
    theirs = one_run.judged(
        released[:, None], took_part, 2.0, 2.0, noise.AUDIT_DELTA, "", noise.CONFIDENCE, is_gaussian=False
    )  # fmt: skip
    assert (coins.guessed, coins.right) == (theirs.guessed, theirs.right)
    assert noise.audit_proven(coins)[0] == pytest.approx(theirs.lower_bound)


def test_an_honest_run_is_seldom_proven_worse_and_a_faulty_one_always_is() -> None:
    """A bound above the truth has probability 5 % at most; 8 of 60 and more by chance have 1 %, with it far less here."""
    assert noise.caught(1.0, 500, 1.0, 60) < 8 / 60
    assert noise.caught(1.0, 500, 0.1, 20) == 1
    assert noise.audit_proven(noise.played(1.0, 1000, 0.1))[0] > 2


def test_right_guesses_follow_the_noise() -> None:
    """Each share is of 4,000 guesses, with a standard error of 0.8 points."""
    runs = [[noise.played(epsilon, 1000) for _ in range(20)] for epsilon in (0.1, 1.0, 8.0)]
    share = [np.mean([one.right / one.guessed for one in same]) for same in runs]
    assert 0.47 < share[0] < share[1] < share[2]
    assert 0.55 < share[1] < 0.68


def test_so_many_right_guesses_are_needed() -> None:
    fewest = noise.needed(1000, 1.0)
    assert noise.audit_proven(Coins(1000, 200, fewest))[0] > 1 >= noise.audit_proven(Coins(1000, 200, fewest - 1))[0]
    assert noise.audit_proven(Coins(1000, 200, 100)) == (0, 0)
