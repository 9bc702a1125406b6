"""Remembered noise: factorisations, sensitivities by enumeration, exact sums, one charge, and the joint privacy loss."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.linalg import sqrtm, toeplitz

from dpcl_core.privacy import audit_bounds, continual, gaussian
from dpcl_core.privacy.continual import FITTED, FRESH, SQUARE_ROOT, Factorisation, Stream, choose, noisy_stream_sums, shrunk
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell
from tests.support.asserting import refuses
from tests.support.planned import charged


def matrices(of: Factorisation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C in full, made by another library."""
    zeros = np.zeros(of.n_tasks)
    return toeplitz(of.decay ** np.arange(of.n_tasks), zeros), toeplitz(of.decoder, zeros), toeplitz(of.column, zeros)


@pytest.mark.parametrize("decay", [1.0, 0.9, 0.5])
@pytest.mark.parametrize("n_tasks", [1, 2, 7, 40])
def test_every_factorisation_multiplies_to_the_running_sums(n_tasks: int, decay: float) -> None:
    for of in (continual.fresh(n_tasks, decay), continual.square_root(n_tasks, decay),
               continual.fitted(n_tasks, min(3, n_tasks), 1, decay)):  # fmt: skip
        a, b, c = matrices(of)
        np.testing.assert_allclose(b @ c, a, atol=1e-12)
        assert (of.column >= 0).all()
        assert (np.diff(of.column) <= 0).all()
        assert of.column[0] == 1
        assert (of.column * 2**14 == np.rint(of.column * 2**14)).all()
        np.testing.assert_allclose(of.prefix_noise, np.linalg.norm(b, axis=1), rtol=1e-12)
        np.testing.assert_array_equal(of.encoder(n_tasks - 1), c[-1])


@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_the_square_root_is_the_matrix_square_root_up_to_its_grid(decay: float) -> None:
    a, _, c = matrices(continual.square_root(12, decay))
    tolerance = 2.0**-15 + 1e-6  # half a step, and what sqrtm loses on a defective matrix
    np.testing.assert_allclose(c, sqrtm(a).real, atol=tolerance)


@pytest.mark.parametrize(
    ("n_tasks", "fresh", "root"), [(5, 2.24, 1.56), (10, 3.16, 1.79), (50, 7.07, 2.31), (100, 10, 2.53)]
)
def test_noise_of_the_last_running_sum(n_tasks: int, fresh: float, root: float) -> None:
    noise = choose(n_tasks).noise
    assert noise[FRESH] == pytest.approx(fresh, abs=0.005)
    assert noise[SQUARE_ROOT] == pytest.approx(root, abs=0.005)


@pytest.mark.parametrize("decay", [1.0, 0.8])
@pytest.mark.parametrize(
    ("n_tasks", "per_person", "gap"),
    [(12, 2, 1), (12, 3, 4), (11, 4, 3), (9, 3, 2), (9, 4, 1), (9, 9, 1), (8, 2, 7), (6, 1, 1), (9, 1, 1)],
)
def test_the_worst_tasks_of_a_person_are_found_by_enumeration(n_tasks: int, per_person: int, gap: int, decay: float) -> None:
    for of in (continual.fresh(n_tasks, decay), continual.square_root(n_tasks, decay),
               continual.fitted(n_tasks, per_person, gap, decay)):  # fmt: skip
        _, _, c = matrices(of)
        allowed = (
            tasks for k in range(1, per_person + 1) for tasks in combinations(range(n_tasks), k)
            if all(b - a >= gap for a, b in pairwise(tasks))
        )  # fmt: skip
        worst = max(float(np.linalg.norm(c[:, list(tasks)].sum(axis=1))) for tasks in allowed)
        assert worst <= of.sensitivity(per_person, gap) <= worst * (1 + 1e-8)


def test_the_choice_is_by_public_numbers_and_fresh_where_remembering_does_not_pay() -> None:
    assert choose(10, 10).factorisation.kind == FRESH
    assert choose(10, 10).least == choose(10, 10).noise[FRESH]
    assert choose(10, 2).factorisation.kind == FITTED
    assert choose(10, 2).noise[FITTED] <= choose(10, 2).noise[SQUARE_ROOT] == pytest.approx(3.23, abs=0.005)
    assert choose(10, 5).noise[SQUARE_ROOT] == pytest.approx(6.91, abs=0.005)
    assert choose(1).factorisation.kind == FRESH
    assert choose(100).least == pytest.approx(2.53, abs=0.005)
    for bad in ({"n_tasks": 0}, {"n_tasks": 5, "per_person": 6}, {"n_tasks": 5, "gap": 0}, {"n_tasks": 5, "decay": 0.0}):
        refuses("", choose, **bad)


def test_the_joint_privacy_loss_of_all_releases_is_that_of_one_gaussian() -> None:
    """The covariance of (y_1, ..., y_T) and the shift of a person's rows give mu, to 1e-6, and the charge is never below."""
    for of in (continual.square_root(9), continual.fitted(9, 3, 2), continual.square_root(9, 0.8)):
        _, b, c = matrices(of)
        std = 1.7 * of.sensitivity(3, 2)
        shift = c[:, [0, 2, 4]].sum(axis=1)
        estimates = b @ shift  # of the running sums: as much is seen in them as in the releases
        of_sums = np.sqrt(estimates @ np.linalg.solve(std**2 * b @ b.T, estimates))
        of_releases = np.linalg.norm(shift) / std
        assert of_sums == pytest.approx(of_releases, rel=1e-6)
        assert of_releases <= 1 / 1.7
        assert of_releases == pytest.approx(1 / 1.7, rel=1e-6)


def rows(seed: int, n: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return (scale * random.standard_normal((n, 6))).astype(np.float32), random.integers(0, 3, n)


def released(order: list[np.ndarray], *, std: float = 0.8) -> tuple[np.ndarray, Ledger]:
    ledger = Ledger(1e-5, "add-remove", "once")
    stream, noise, found = Stream(continual.square_root(4), 3, 6), SeededNoise(Cell(1.0, 0), "stream"), []
    for task, places in enumerate(order):
        features, labels = rows(task, 50, 1e3)
        stream.add(features[places], labels[places])
        found.append(noisy_stream_sums(stream, [std], [noise], [ledger], task=task)[0])
    return np.stack(found), ledger


def test_releases_are_the_same_in_every_order_of_rows_and_neighbours_differ_by_one_row_exactly() -> None:
    one, ledger = released([np.arange(50)] * 4)
    np.testing.assert_array_equal(one, released([np.arange(50)[::-1]] * 4)[0])
    stream, neighbour = Stream(continual.square_root(4), 3, 6), Stream(continual.square_root(4), 3, 6)
    features, labels = rows(1, 50, 1e3)
    moved = []
    for task in range(4):
        here, there = (features, labels), (features, labels)
        there = (features[1:], labels[1:]) if task == 0 else there
        stream.add(*here)
        neighbour.add(*there)
        moved.append(stream.encoded(stream.n_tasks - 1) - neighbour.encoded(neighbour.n_tasks - 1))
    length = float(np.linalg.norm(np.stack(moved)))
    assert length <= stream.factorisation.sensitivity()
    assert length == pytest.approx(stream.factorisation.sensitivity(), rel=1e-4)  # the row, shortened by its grid
    for task, difference in enumerate(moved):
        np.testing.assert_array_equal(difference, moved[0] * stream.factorisation.column[task])
    assert len(ledger.entries) == 1


def test_the_stream_is_charged_once_for_the_people_of_every_task() -> None:
    _, ledger = released([np.arange(50)] * 4)
    (entry,) = ledger.entries
    assert entry.people_of == (0, 1, 2, 3)
    alone = charged(entry.event)
    assert ledger.epsilon() == alone.epsilon() > 0
    assert set(ledger.by_people().values()) == {alone.epsilon()}


def test_a_task_is_released_once_and_in_order() -> None:
    stream, ledger = Stream(continual.square_root(1), 3, 6), Ledger(1e-5, "replace", "once")
    noise = SeededNoise(Cell(1.0, 0), "s")
    refuses("in order", noisy_stream_sums, stream, [1.0], [noise], [ledger], task=0, error=ValueError)
    stream.add(*rows(0, 5))
    noisy_stream_sums(stream, [1.0], [noise], [ledger], task=0)
    stream.add(*rows(1, 5))
    refuses("in order", noisy_stream_sums, stream, [1.0], [noise], [ledger], task=1, error=ValueError)


def test_extreme_rows_move_the_sums_by_no_more_than_others() -> None:
    for features in ([[np.inf, 0, 0, 0, 0, 0]], [[np.nan] * 6], [[1e308] * 6], [[1e-320, 0, 0, 0, 0, 0]], [[0.0] * 6]):
        stream = Stream(continual.square_root(2), 3, 6)
        stream.add(np.array(features), np.array([2]))
        assert np.linalg.norm(stream.encoded(stream.n_tasks - 1)) <= 1
        stream.add(np.empty((0, 6)), np.empty(0, dtype=np.int64))
        assert np.linalg.norm(stream.encoded(stream.n_tasks - 1)) <= stream.factorisation.column[1]


def test_noise_of_the_running_sums_is_that_of_theory() -> None:
    """Over 3 × 400 coordinates of 6 tasks: the deviation of an estimate of a standard deviation is 2 %, four of them 8 %."""
    of = continual.square_root(6)
    stream, ledger, noise = Stream(of, 3, 400), Ledger(1e-5, "add-remove", "once"), SeededNoise(Cell(2.0, 5), "sums")
    found: list[np.ndarray] = []
    for task in range(6):
        stream.add(np.empty((0, 400)), np.empty(0, dtype=np.int64))
        found.append(noisy_stream_sums(stream, [3.0], [noise], [ledger], task=task)[0])
        ratio = of.running_sums(found).std() / (3.0 * of.sensitivity() * of.prefix_noise[task])
        assert ratio == pytest.approx(1, abs=0.08)


def test_shrinking_leaves_signals_and_takes_noise_away() -> None:
    noise, signal = np.random.default_rng(0).standard_normal((200, 64)), np.full((1, 64), 5.0)
    assert (np.linalg.norm(shrunk(noise, 1.0), axis=1) / np.linalg.norm(noise, axis=1)).mean() < 0.15
    error = np.square(shrunk(noise + signal, 1.0) - signal).sum(axis=1).mean()
    assert error < np.square(noise).sum(axis=1).mean()  # James and Stein 1961: better wherever the mean is
    np.testing.assert_array_equal(shrunk(noise, 0.0), noise)
    assert not shrunk(np.zeros((2, 5)), 1.0).any()
    assert not np.isnan(shrunk(np.zeros((2, 5)), 0.0)).any()


# What attackers of a stream see: against densities written out with full matrices, and the specified numbers.


STD = gaussian.sigma(1.0, 1e-5)


def distance(of: continual.Factorisation, seen: np.ndarray, joined: int) -> float:
    """mu of who sees `seen` [rows, T] times the releases: by a general inverse, from full matrices."""
    encoder = toeplitz(of.column, np.zeros(of.n_tasks))
    moved, covariance = seen @ encoder[:, joined], (STD * max(np.linalg.norm(encoder, axis=0))) ** 2 * seen @ seen.T
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
        found = [audit_bounds.epsilon_of(continual.latecomer(of, STD, 4, 4 + d), 1e-5) for d in (0, 1, 2, 5, 10, 15)]
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
    last = {attack: value for attack, task, value in continual.race(10, STD, 1e-5) if task == 9}
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
