"""What attackers of a stream see: against densities written out with full matrices, and the specified numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import toeplitz

from dpcl_core.privacy import continual, gaussian
from dpcl_core.privacy.audit_bounds import epsilon_of

STD = gaussian.sigma(1.0, 1e-5)


def distance(of: continual.Factorisation, seen: np.ndarray, joined: int) -> float:
    """mu of who sees `seen` [rows, T] times the releases: by a general inverse, from full matrices."""
    encoder = toeplitz(of.column, np.zeros(of.n_tasks))
    std = STD * max(np.linalg.norm(encoder, axis=0))
    moved, covariance = seen @ encoder[:, joined], std**2 * seen @ seen.T
    return math.sqrt(moved @ np.linalg.pinv(covariance) @ moved)


@pytest.mark.parametrize("decay", [1.0, 0.8])
@pytest.mark.parametrize("joined", [0, 2])
@pytest.mark.parametrize("make", [continual.fresh, continual.square_root])
def test_every_attack_is_that_of_the_joint_gaussian(make: type, decay: float, joined: int) -> None:
    of: continual.Factorisation = make(7, decay)
    decoder, every = toeplitz(of.decoder, np.zeros(7)), np.eye(7)
    expected = [distance(of, every[: t + 1], joined) for t in range(7)]
    np.testing.assert_allclose(continual.all_so_far(of, STD, joined), expected, rtol=1e-6, atol=1e-12)
    expected = [distance(of, decoder[t : t + 1], joined) for t in range(7)]
    np.testing.assert_allclose(continual.last_alone(of, STD, joined), expected, rtol=1e-6, atol=1e-12)
    for first in range(joined, 7):
        assert continual.latecomer(of, STD, joined, first) == pytest.approx(distance(of, decoder[first:], joined), rel=1e-6)


def test_all_releases_see_the_whole_promise_and_the_last_one_a_root_less() -> None:
    fresh = continual.fresh(10)
    np.testing.assert_allclose(continual.all_so_far(fresh, STD), 1 / STD, rtol=1e-6)
    np.testing.assert_allclose(continual.last_alone(fresh, STD), 1 / STD / np.sqrt(np.arange(1, 11)), rtol=1e-6)
    root = continual.square_root(10)
    assert continual.all_so_far(root, STD)[-1] == pytest.approx(1 / STD, rel=1e-6)
    assert continual.latecomer(root, STD, 0, 0) == pytest.approx(1 / STD, rel=1e-6)


def test_latecomers_see_more_through_remembered_noise() -> None:
    """Twenty tasks, total epsilon 1, a person of the fifth: the numbers specified beforehand."""
    told = {
        continual.choose(20).factorisation: [0.79, 0.77, 0.75, 0.69, 0.60, 0.46],
        continual.fresh(20): [0.42, 0.38, 0.35, 0.28, 0.23, 0.20],
    }
    for of, expected in told.items():
        found = [epsilon_of(continual.latecomer(of, STD, 4, 4 + d), 1e-5) for d in (0, 1, 2, 5, 10, 15)]
        assert found == pytest.approx(expected, abs=0.006)


def test_the_table_of_noise_is_the_choosers() -> None:
    rows = continual.noise_by_tasks(50, 2)
    by_way = {way: [value for name, _, value in rows if name == way] for way, _, _ in rows}
    assert by_way["fresh"][-1] == pytest.approx(10, rel=1e-6)  # a root of 2 x 50
    assert {name: values[-1] for name, values in by_way.items()} == {
        **continual.choose(50, 2).noise, continual.LIST_A_TASK: math.sqrt(2)
    }  # fmt: skip
    assert by_way[continual.LIST_A_TASK][0] == 1


def test_the_race_ends_at_the_promise() -> None:
    rows = continual.race(10, STD, 1e-5)
    last = {attack: value for attack, task, value in rows if task == 9}
    assert last["fresh: all releases so far"] == pytest.approx(1, rel=1e-4)
    assert last["remembered: all releases so far"] == pytest.approx(1, rel=1e-4)
    assert last["fresh: the last release alone"] < last["remembered: the last release alone"] < 0.7


# Spending over tasks whose number nobody knows.


@pytest.mark.parametrize("planned", [1, 5])
def test_no_rule_asks_for_more_than_everything_but_the_planned_one_that_is_wrong(planned: int) -> None:
    """FALLING sums to 1 in the limit, DOUBLING to 1 - 2^-b after b blocks of planned, 2 planned, 4 planned, ... tasks."""
    falling = continual.asked_shares(continual.FALLING, 10_000, planned)
    assert falling.sum() == pytest.approx(1 - 6 / math.pi**2 / 10_000, abs=1e-8)
    doubling = continual.asked_shares(continual.DOUBLING, 15 * planned, planned)
    ends = np.cumsum([planned, 2 * planned, 4 * planned, 8 * planned])
    assert np.cumsum(doubling)[ends - 1] == pytest.approx([0.5, 0.75, 0.875, 0.9375])
    assert continual.asked_shares(continual.EQUAL, 3, planned).sum() == pytest.approx(3 / planned)


@pytest.mark.parametrize("n_tasks", [3, 40])
def test_the_filter_keeps_every_rule_within_the_budget_and_says_who_starves(n_tasks: int) -> None:
    rows = continual.spending(1.0, 1e-5, n_tasks, 5)
    for rule in (continual.EQUAL, continual.FALLING, continual.DOUBLING):
        given = [epsilon for name, _, epsilon in rows if name == rule]
        power = math.sqrt(sum(gaussian.sigma(one, 1e-5) ** -2 for one in given if one > 0))
        assert gaussian.epsilon(1 / power, 1e-5) <= 1 + 1e-4
        assert [one == 0 for one in given] == [rule == continual.EQUAL and task >= 5 for task in range(n_tasks)]
    assert [epsilon for name, _, epsilon in rows if name == continual.ALONE] == [1.0] * n_tasks
