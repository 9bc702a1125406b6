"""Remembered noise: factorisations, sensitivities by enumeration, exact sums, one charge, and the joint privacy loss."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.linalg import sqrtm, toeplitz

from dpcl_core.errors import BadInput
from dpcl_core.privacy import continual
from dpcl_core.privacy.continual import FITTED, FRESH, SQUARE_ROOT, Factorisation, Stream, choose, noisy_stream_sums, shrunk
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell


def matrices(of: Factorisation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C in full, made by another library."""
    zeros = np.zeros(of.n_tasks)
    first = of.decay ** np.arange(of.n_tasks)
    return toeplitz(first, zeros), toeplitz(of.decoder, zeros), toeplitz(of.column, zeros)


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


def test_the_square_root_is_the_matrix_square_root_up_to_its_grid() -> None:
    of = continual.square_root(12)
    a, _, c = matrices(of)
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
    ("n_tasks", "per_person", "gap"), [(12, 2, 1), (12, 3, 4), (11, 4, 3), (9, 9, 1), (8, 2, 7), (6, 1, 1)]
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
        with pytest.raises(BadInput):
            choose(**bad)  # type: ignore[arg-type]


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
    plain = [np.arange(50)] * 4
    one, ledger = released(plain)
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
    alone = Ledger(1e-5, "add-remove", "once")
    alone.spend(entry.event, task=0, what="one release")
    assert ledger.epsilon() == alone.epsilon() > 0
    assert set(ledger.by_people().values()) == {alone.epsilon()}


def test_a_task_is_released_once_and_in_order() -> None:
    stream, ledger = Stream(continual.square_root(1), 3, 6), Ledger(1e-5, "replace", "once")
    noise = SeededNoise(Cell(1.0, 0), "s")
    with pytest.raises(ValueError, match="in order"):
        noisy_stream_sums(stream, [1.0], [noise], [ledger], task=0)
    stream.add(*rows(0, 5))
    noisy_stream_sums(stream, [1.0], [noise], [ledger], task=0)
    stream.add(*rows(1, 5))
    with pytest.raises(ValueError, match="in order"):
        noisy_stream_sums(stream, [1.0], [noise], [ledger], task=1)


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
    random = np.random.default_rng(0)
    noise, signal = random.standard_normal((200, 64)), np.full((1, 64), 5.0)
    kept = np.linalg.norm(shrunk(noise, 1.0), axis=1) / np.linalg.norm(noise, axis=1)
    assert kept.mean() < 0.15
    error = np.square(shrunk(noise + signal, 1.0) - signal).sum(axis=1).mean()
    assert error < np.square(noise).sum(axis=1).mean()  # James and Stein 1961: better wherever the mean is
    np.testing.assert_array_equal(shrunk(noise, 0.0), noise)
    assert not shrunk(np.zeros((2, 5)), 1.0).any()
    assert not np.isnan(shrunk(np.zeros((2, 5)), 0.0)).any()
