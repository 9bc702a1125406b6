"""Rounds of federated training: local updates and averaging."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.adam import Adam
from dpcl_core.methods.federated.head import Head, Params, cycled
from dpcl_core.scenarios.stream import generator


def client_draws(chosen: Iterable[int], seed: int | None, purpose: str) -> list[np.random.Generator]:
    """An independent generator for each chosen client: removing another client changes none of them.

    `seed` None: seeded by the operating system, as a release needs, so that draws cannot be predicted. Otherwise derived
    from seed, purpose and client number.
    """
    return [np.random.default_rng() if seed is None else generator(seed, f"{purpose}, client {client}") for client in chosen]


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """A client's training in a round: `n_steps` of Adam, each on `batch_size` local rows and as many replayed ones.

    The replayed rows' mean loss has weight `replay_weight` (lambda of Eq 3). All of this is public; a client's number of
    rows is not, and a client with too few uses them repeatedly.
    """

    n_steps: int
    batch_size: int = 32
    learning_rate: float = 3e-4
    replay_weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Private rows of a task's clients: inputs float32 [n, d], targets float32 [n, C], and each client's row indices."""

    z: NDArray[np.float32]
    targets: NDArray[np.float32]
    places: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, z: NDArray[np.floating], targets: NDArray[np.floating], users: NDArray[np.int64], n_users: int) -> Clients:
        """From a task's rows and their clients, users int64 [n] in 0 ... n_users - 1."""
        if not len(z):  # one dummy row, for clients without rows to index
            z, targets = np.zeros((1, z.shape[1])), np.zeros((1, targets.shape[1]))
            return cls(z.astype(np.float32), targets.astype(np.float32), (users,) * n_users)
        order = np.argsort(users, kind="stable")
        ends = np.cumsum(np.bincount(users, minlength=n_users))[:-1]
        return cls(z.astype(np.float32, copy=False), targets.astype(np.float32), tuple(np.split(order, ends)))


def local_updates(
    head: Head,
    start: Params,
    clients: Clients,
    chosen: NDArray[np.int64],
    plan: LocalPlan,
    draws: Sequence[np.random.Generator],
    replayed: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
) -> Params:
    """Weight updates [n, P] of the chosen clients, trained from the model `start` [P].

    `draws`: a generator for each chosen client, which orders its local rows first and the replayed rows next. `replayed`:
    the server's sampled embeddings [r, d] and targets [r, C]. A client without rows trains on replay alone, or returns zero.
    No noise is added here. A client's update depends only on its own rows and draws. Private: only a mechanism, or a mode
    that says "not private", may pass it on. A client whose training diverges, which one huge value can cause, raises no
    error and changes no other client: its update is clipped, or counts as zero where it is not finite.
    """
    n = len(chosen)
    if n == 0:
        return np.zeros((0, len(start)), dtype=np.float32)
    batch, n_rows = plan.batch_size, plan.n_steps * plan.batch_size
    rows, shares = _rows(clients, chosen, n_rows, batch, draws)
    orders = None if replayed is None else np.stack([cycled(len(replayed[0]), n_rows, draw) for draw in draws])
    if orders is not None:
        shares = np.concatenate([shares, np.full((n, batch), plan.replay_weight / batch, dtype=np.float32)], axis=1)
    params = np.repeat(start[None], n, axis=0)
    adam = Adam(params, plan.learning_rate)
    for step in range(plan.n_steps):
        now = slice(step * batch, (step + 1) * batch)
        z, targets = clients.z[rows[:, now]], clients.targets[rows[:, now]]
        if replayed is not None and orders is not None:
            z = np.concatenate([z, replayed[0][orders[:, now]]], axis=1)
            targets = np.concatenate([targets, replayed[1][orders[:, now]]], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            adam.step(params, head.gradients(params, z, targets, shares))
    return params - start


def _rows(
    clients: Clients, chosen: NDArray[np.int64], count: int, batch: int, draws: Sequence[np.random.Generator]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`count` local rows of every chosen client [n, count], and their weights in a step [n, batch]: zero without rows."""
    rows = np.zeros((len(chosen), count), dtype=np.int64)
    shares = np.zeros((len(chosen), batch), dtype=np.float32)
    for place, client in enumerate(chosen):
        places = clients.places[client]
        if len(places):
            rows[place] = places[cycled(len(places), count, draws[place])]
            shares[place] = 1 / batch
    return rows, shares


def averaged(start: Params, updates: Params) -> Params:
    """FedAvg without privacy: `start` [P] plus the mean of `updates` [n, P]; unchanged in an empty round."""
    return start + updates.mean(axis=0) if len(updates) else start


def moved(start: Params, noisy_sum: NDArray[np.floating], expected_clients: float) -> Params:
    """DP-FedAvg's step: `start` [P] plus a noisy sum [P] divided by the expected number of clients, a constant."""
    return (start + noisy_sum / expected_clients).astype(np.float32)
