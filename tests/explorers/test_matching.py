"""Matchers compared on public digits, agreement with the truth, and CSLR's theorems in numbers."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import adjusted_rand_score

from dpcl_core.explorers import matching
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
    assert set(found) == set(matching.SWEPT)
    at = {name: dict(zip(matching.LEVELS, values, strict=True)) for name, values in found.items()}
    for name in (matching.CENTRED, matching.PROJECTION):
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
    same = np.zeros_like(long.modes)  # one mode leaves nothing to tell apart
    assert matching.anchor_scores(long.lists, same, long.anchors, long.view, long.rule, 0) is None


# Agreement with the truth: against scikit-learn, by hand, and whatever groups are called.


def test_the_index_is_scikit_learns_and_does_not_depend_on_names() -> None:
    generator = np.random.default_rng(0)
    for n in (1, 2, 7, 80):
        for _ in range(20):
            groups, modes = generator.integers(0, 4, size=(2, n))
            found = matching.adjusted_rand(groups, modes)
            assert found == pytest.approx(adjusted_rand_score(modes, groups), abs=1e-12)
            assert matching.adjusted_rand(3 - groups, modes) == pytest.approx(found, abs=1e-12)


def test_groups_stand_for_the_modes_that_make_most_entries_right() -> None:
    groups, modes = np.array([2, 2, 0, 0, 1, -1, 1]), np.array([0, 0, 1, 0, 2, 2, -1])
    assert matching.confusion(groups, modes, 3, 3).tolist() == [[1, 0, 2], [1, 0, 0], [0, 1, 0]]
    assert matching.group_modes(groups, modes, 3, 3).tolist() == [1, 2, 0]
    # The entry without a group and the one whose mode nobody knows are not right.
    assert matching.is_correct(groups, modes, 3, 3).tolist() == [True, True, True, False, True, False, False]
    groups, modes = np.array([0, 1, 1, 2]), np.array([0, 1, 1, 1])  # a group too many stands for nothing
    assert matching.group_modes(groups, modes, 3, 2).tolist() == [0, 1, -1]
    assert matching.is_correct(groups, modes, 3, 2).tolist() == [True, True, True, False]


# CSLR's theorems in numbers: Theorem 2 against simulation, what grows with anchors and what does not, Proposition 3.


def test_theorem_2_at_the_papers_sizes() -> None:
    assert [matching.anchors_needed(4800, 0.05, p) for p in (0.18, 0.43, 0.46)] == [111, 47, 44]


def test_with_as_many_anchors_as_theorem_2_asks_for_failures_are_rarer_than_eta() -> None:
    """60 pairs, each hit by an anchor with chance 0.3 on its own; 2,000 draws. False alarm below 1e-6."""
    generator, p, n_pairs, eta = np.random.default_rng(1), 0.3, 60, 0.5
    n_elements = math.ceil(math.sqrt(n_pairs))  # N^2 counts the pairs: no slack from them
    m = matching.anchors_needed(n_elements, eta, p)
    failures, few = (
        sum(bool((~(generator.random((n_pairs, n)) < p).any(axis=1)).any()) for _ in range(2000)) for n in (m, m // 3)
    )
    assert failures <= binom.ppf(1 - 1e-6, 2000, eta) < few, "a third of the anchors does not do"


def test_separation_is_what_a_loop_over_pairs_finds_and_its_margin_never_falls_on_nested_anchors() -> None:
    generator, modes, gamma = np.random.default_rng(0), np.arange(24) % 4, 0.8
    every = generator.standard_normal((4, 400))[modes] + 0.2 * generator.standard_normal((24, 400))
    margins = [matching.separation(every[:, :m], modes, 1.0)[2] for m in range(1, 60)]
    assert margins == sorted(margins)
    signatures = every[:, :30]
    pairs = [(i, j) for i in range(24) for j in range(i) if modes[i] != modes[j]]
    apart = [np.abs(signatures[i] - signatures[j]) for i, j in pairs]
    rates = [np.mean(one >= gamma) for one in apart]
    expected = (np.mean(rates), min(rates), min(one.max() for one in apart))
    assert matching.separation(signatures, modes, gamma) == pytest.approx(expected)
    assert all(map(math.isnan, matching.separation(signatures, np.zeros(24, np.int64), 1.0))), "no pairs"


@pytest.mark.parametrize("n_modes", [1, 2, 3, 4, 5])
def test_a_random_order_is_wrong_somewhere_and_in_most_slots(n_modes: int) -> None:
    orders = list(permutations(range(n_modes)))
    not_all = np.mean([order != tuple(range(n_modes)) for order in orders])
    wrong = np.mean([[slot != k for k, slot in enumerate(order)] for order in orders])
    assert matching.misaligned(n_modes) == pytest.approx((not_all, wrong))

