"""Rounds: what a client's training changes, and averages with and without noise."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from dpcl_core.methods.federated.client_training import (
    Clients,
    Head,
    LocalPlan,
    averaged,
    client_draws,
    local_updates,
    moved,
)
from dpcl_core.privacy.sums import clipped_rows

D, C, N = 4, 3, 5
HEAD = Head(D, C, 3)


def clients(seed: int = 0) -> Clients:
    """Five clients; the third has no rows, the fourth a single one, the fifth one class alone."""
    random = np.random.default_rng(seed)
    users = np.concatenate([random.integers(0, 2, 30), np.repeat([3, 4, 4, 4], 1)])
    random.shuffle(users)
    labels = np.where(users == 4, 1, random.integers(0, C, len(users)))
    return Clients.of(random.standard_normal((len(users), D)), np.eye(C)[labels], users, N)


def start() -> np.ndarray:
    return HEAD.initial(np.random.default_rng(0))


def replayed(n: int = 9) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(7)
    z = random.standard_normal((n, D)).astype(np.float32)
    return z, random.dirichlet(np.ones(C), n).astype(np.float32)


def draws(chosen: Iterable[int]) -> list[np.random.Generator]:
    return client_draws(chosen, 0, "a round")


def test_clients_know_their_own_rows() -> None:
    users = np.array([2, 0, 2, 4, 0])
    of = Clients.of(np.arange(10.0).reshape(5, 2), np.eye(5), users, N)
    assert [places.tolist() for places in of.places] == [[1, 4], [], [0, 2], [], [3]]
    assert of.z.dtype == of.targets.dtype == np.float32


def adam_once(gradient: np.ndarray, rate: float) -> np.ndarray:
    """How Adam's first step moves weights."""
    return -rate * gradient / (np.abs(gradient) + 1e-8)


@pytest.mark.parametrize("with_replay", [False, True])
def test_one_step_on_all_rows_is_adam_on_the_mean_loss_of_both(with_replay: bool) -> None:
    """Against each client's own gradient, one at a time; the order of rows cannot matter."""
    of, first = clients(), start()
    sizes = [len(places) for places in of.places]
    for client in (0, 1, 3, 4):
        size = sizes[client]
        again = replayed(n=size)
        plan = LocalPlan(1, size, 0.01, replay_weight=0.5)
        found = local_updates(HEAD, first, of, np.array([client]), plan, draws([client]), again if with_replay else None)
        own = of.places[client]
        parts = [(of.z[own], of.targets[own], 1.0)]
        if with_replay:
            parts.append((*again, 0.5))
        shares = np.full(size, 1 / size, dtype=np.float32)
        gradient = sum(weight * HEAD.gradients(first, z, y, shares) for z, y, weight in parts)
        large = np.abs(gradient) > 1e-4  # elsewhere rounding decides on the sign
        assert found[0][large] == pytest.approx(adam_once(gradient, 0.01)[large], abs=1e-5)


def test_clients_side_by_side_change_as_alone() -> None:
    """One row a client and one replayed row: no order is left to draw, so each may be trained alone."""
    random = np.random.default_rng(2)
    of = Clients.of(random.standard_normal((N, D)), np.eye(C)[random.integers(0, C, N)], np.arange(N), N)
    plan, again = LocalPlan(4, 3, 0.01), replayed(n=1)
    together = local_updates(HEAD, start(), of, np.array([0, 3, 4]), plan, draws([0, 3, 4]), again)
    assert together.shape == (3, len(start()))
    for place, client in enumerate([0, 3, 4]):
        alone = local_updates(HEAD, start(), of, np.array([client]), plan, draws([client]), again)
        assert together[place] == pytest.approx(alone[0], abs=1e-5)


def test_a_client_without_rows_changes_nothing_or_learns_from_replay_alone() -> None:
    of, plan = clients(), LocalPlan(3, 4, 0.01)
    chosen = np.array([1, 2])
    without = local_updates(HEAD, start(), of, chosen, plan, draws(chosen))
    assert without[0].any()
    assert not without[1].any()
    assert local_updates(HEAD, start(), of, chosen, plan, draws(chosen), replayed())[1].any()


@pytest.mark.parametrize("value", [2e19, 3e38, np.inf, np.nan])
def test_one_client_s_strange_numbers_stop_nobody_and_move_nobody(value: float) -> None:
    """What a client alone makes of its rows is private: no message tells of it, and its clipped change is finite."""
    usual = clients()
    z = usual.z.copy()
    z[usual.places[1]] = value
    strange = Clients(z, usual.targets, usual.places)
    plan, everyone = LocalPlan(5, 4), np.arange(N)
    found, before = (local_updates(HEAD, start(), one, everyone, plan, draws(everyone)) for one in (strange, usual))
    np.testing.assert_array_equal(np.delete(found, 1, axis=0), np.delete(before, 1, axis=0))
    lengths = np.linalg.norm(clipped_rows(found, 0.5), axis=1)
    assert (lengths <= 0.5 * (1 + 1e-12)).all()


def test_a_client_that_leaves_changes_nothing_of_the_others() -> None:
    """Its rows go, and its place in the round too: the others draw the same orders of own and of replayed rows."""
    of, plan, everyone = clients(), LocalPlan(3, 2), np.arange(N)
    before = local_updates(HEAD, start(), of, everyone, plan, draws(everyone), replayed())
    gone = Clients(of.z, of.targets, tuple(of.places[one][:0] if one == 1 else of.places[one] for one in everyone))
    after = local_updates(HEAD, start(), gone, everyone, plan, draws(everyone), replayed())
    np.testing.assert_array_equal(np.delete(after, 1, axis=0), np.delete(before, 1, axis=0))
    assert not np.array_equal(after[1], before[1])
    fewer = np.delete(everyone, 1)
    np.testing.assert_array_equal(
        local_updates(HEAD, start(), of, fewer, plan, draws(fewer), replayed()), np.delete(before, 1, axis=0)
    )


def test_an_empty_round_and_its_averages() -> None:
    nobody = local_updates(HEAD, start(), clients(), np.zeros(0, dtype=np.int64), LocalPlan(2), [])
    assert nobody.shape == (0, len(start()))
    assert (averaged(start(), nobody) == start()).all()


def test_averages_are_means_of_those_who_came_and_noisy_sums_over_those_expected() -> None:
    updates = np.random.default_rng(8).standard_normal((3, len(start()))).astype(np.float32)
    assert averaged(start(), updates) == pytest.approx(start() + updates.sum(axis=0) / 3, abs=1e-6)
    sums = updates.sum(axis=0, dtype=np.float64)
    assert moved(start(), sums, 6.0) == pytest.approx(start() + sums / 6, abs=1e-6)
    assert moved(start(), sums, 6.0).dtype == np.float32

