"""Matchers on lists of public digits: all right without noise, chance under much of it, and what anchors can and cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.explorers import matching
from dpcl_core.explorers.matching import CENTRED, LEVELS, PROJECTION, SWEPT
from dpcl_core.lessons import modes
from dpcl_core.lessons.modes import World


@pytest.fixture(scope="module")
def long() -> World:
    return modes.world("exact", modes.LONG, draw=1)


def test_without_noise_all_but_random_and_raw_are_right(long: World) -> None:
    found = matching.agreement(long.lists, long.modes, long.by_name(100), long.view, 0)
    chance = {name: found.pop(name) for name in ("random", "anchors, raw")}
    assert set(found.values()) == {1.0}
    # 80 entries in 4 groups by lot: the index has mean 0 and standard deviation 0.02, so 0.15 is above six of them
    assert abs(chance["random"]) < 0.15
    assert chance["anchors, raw"] < 0.9


def test_in_long_vectors_few_public_directions_win_and_under_much_noise_nothing_does(long: World) -> None:
    found = matching.under_noise(long.lists, long.modes, long.by_name(50), long.view, (1, 2))
    assert set(found) == set(SWEPT)
    at = {name: dict(zip(LEVELS, values, strict=True)) for name, values in found.items()}
    for name in (CENTRED, PROJECTION):
        assert at[name][0.1] > at["Hungarian"][0.1] + 0.2 > at["nearest mean"][0.1]
    assert all(of[0.0] == 1.0 for of in at.values())
    assert all(abs(of[0.8]) < 0.15 for of in at.values())


def test_noise_is_on_means_and_second_moments_and_a_level_of_zero_changes_nothing(long: World) -> None:
    same = matching.noised(long.lists, 0.0, np.random.default_rng(0))
    assert np.array_equal(same.means, long.lists.means)
    assert same.covariances == pytest.approx(np.maximum(long.lists.covariances, 1e-3), abs=1e-12)
    moved = matching.noised(long.lists, 0.1, np.random.default_rng(0))
    # 30,720 normal numbers: their standard deviation is off by 2.5 % with probability below 1e-9
    assert (moved.means - long.lists.means).std() == pytest.approx(0.1, rel=0.025)
    assert moved.covariances.min() >= 1e-3


def test_more_anchors_widen_the_least_gap_and_leave_the_rate_alone(long: World) -> None:
    found = matching.anchor_scores(long.lists, long.modes, long.anchors, long.view, long.rule, 0)
    assert found is not None
    assert found.m == matching.COUNTS
    assert (np.diff(found.least_gap) >= 0).all()  # the sets are nested
    assert abs(found.mean_rate[-1] - found.mean_rate[3]) < 0.1
    n = long.modes.size
    for p, asked in zip(found.least_rate, found.needed, strict=True):
        assert asked == (matching.anchors_needed(n, 0.05, p) if p else math.inf)
    wanted = matching.anchors_needed(4800, 0.05, found.least_rate[-1])
    many = matching.anchor_scores(long.lists, long.modes, long.anchors, long.view, long.rule, 0, n_lists=4800)
    assert many is not None
    assert many.needed[-1] == wanted > found.needed[-1]


def test_one_mode_leaves_nothing_to_tell_apart(long: World) -> None:
    same = np.zeros_like(long.modes)
    assert matching.anchor_scores(long.lists, same, long.anchors, long.view, long.rule, 0) is None
