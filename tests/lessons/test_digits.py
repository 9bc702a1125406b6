"""Lesson 7: the naive sum is told by its digits and the attacker is never wrong; the rounded one tells him nothing."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.lessons import adding, noise


def test_her_vector_has_the_length_that_the_noise_is_made_for() -> None:
    assert np.linalg.norm(adding.person()) == pytest.approx(1.0, rel=1e-12)


def test_small_sums_with_her_lie_on_her_grid_always() -> None:
    released = adding.releases(True, 1.0, 200, "naive")
    assert not adding.cannot_be_hers(released).any()
    assert (np.abs(released) < np.abs(adding.person()) / 4).any()  # there were small ones to look at


def test_the_attack_proves_more_than_epsilon_allows() -> None:
    """A number is small with a chance of 0.0023 and then off her grid with one of at least 1/2: in 512 numbers half of all
    rounds have one, so 2,000 rounds have fewer than 300 with a chance below 1e-30."""
    played = adding.play(1.0, 2000, "naive")
    assert played.hits == 2000
    assert played.false_alarms < 1700
    assert noise.proven(played, [2000], adding.DELTA)[0] > 3


def test_the_same_attack_on_rounded_sums_proves_nothing() -> None:
    """All numbers are on the public grid, which is coarser than hers: there is no digit to see, in any round."""
    played = adding.play(1.0, 400, "rounded")
    assert played.hits == played.false_alarms == 400
    for is_in in (True, False):
        steps = adding.steps_of(adding.releases(is_in, 1.0, 5, "rounded"), 1.0)
        assert (steps == np.rint(steps)).all()


def test_the_smallest_numbers_are_shown() -> None:
    released = np.linspace(-3, 3, adding.N_NUMBERS)
    assert np.abs(released[adding.smallest(released, 4)]).max() <= np.sort(np.abs(released))[3]
