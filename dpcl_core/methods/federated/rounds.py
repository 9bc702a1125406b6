"""Rounds of federated training: who takes part, what clients send back, and how it is averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.adam import Adam
from dpcl_core.methods.federated.head import Head, Params, cycled
from dpcl_core.privacy.noise import Batches
from dpcl_core.scenarios.stream import generator


@dataclass(frozen=True, slots=True)
class Participation:
    """Who takes part in a round: each of `n_clients` by a coin of its own; at sampling rate 1 everyone.

    `coins` come from the operating system where amplification is claimed, for nobody may foresee them.
    """

    n_clients: int
    coins: Batches

    def draw(self) -> NDArray[np.int64]:
        """Clients of the next round, ascending; possibly none."""
        return self.coins.draw(self.n_clients)


def own_draws(chosen: Iterable[int], seed: int | None, purpose: str) -> list[np.random.Generator]:
    """Random numbers of each chosen client's own: another client's leaving changes none of them.

    `seed` None: of the operating system, as a release needs them, for nobody may foresee them. Else they follow from seed,
    purpose and the client's number.
    """
    return [np.random.default_rng() if seed is None else generator(seed, f"{purpose}, client {one}") for one in chosen]


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """What a client does in a round: `n_steps` of Adam, each on `batch_size` own rows and on as many replayed ones.

    The replayed rows' mean loss counts `replay_weight` (lambda of Eq 3). All of it is public, the number of rows is not: a
    client with fewer goes over them again.
    """

    n_steps: int
    batch_size: int = 32
    learning_rate: float = 3e-4
    replay_weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Private rows of a task's clients: inputs float32 [n, d], targets float32 [n, C], and each client's places in them."""

    z: NDArray[np.float32]
    targets: NDArray[np.float32]
    places: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, z: NDArray[np.floating], targets: NDArray[np.floating], users: NDArray[np.int64], n_users: int) -> Clients:
        """From a task's rows and whose they are, users int64 [n] in 0 ... n_users - 1."""
        if not len(z):  # nobody's row, for clients without any to point at
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
    """What the chosen clients' training changes: [E, n, P] from E models `start` [E, P].

    `draws`: what each chosen client takes its orders of rows from, its own first. `replayed`: invented embeddings [E, r, d]
    and targets [E, r, C] of the server, one set a model. A client without rows trains on replay alone, or returns zero.
    Models share the order of rows, noise they have none here. What a client changes depends on its own rows and draws alone.
    Private: only a mechanism, or a mode that says "not private", may hand it on. A client whose training diverges, as one
    huge number can make it, stops nobody and is told to nobody: its change is clipped, or counts zero where it is no number
    any more.
    """
    (n_models, n_parameters), n = start.shape, len(chosen)
    if n == 0:
        return np.zeros((n_models, 0, n_parameters), dtype=np.float32)
    batch, n_own = plan.batch_size, plan.n_steps * plan.batch_size
    rows, shares = _rows(clients, chosen, n_own, batch, draws)
    again = None if replayed is None else np.stack([cycled(replayed[0].shape[1], n_own, draw) for draw in draws])
    if again is not None:
        shares = np.concatenate([shares, np.full((n, batch), plan.replay_weight / batch, dtype=np.float32)], axis=1)
    params = np.repeat(start[:, None], n, axis=1)
    adam = Adam(params, plan.learning_rate)
    for step in range(plan.n_steps):
        own = rows[:, step * batch : (step + 1) * batch]
        z, targets = clients.z[own][None], clients.targets[own][None]
        if replayed is not None and again is not None:
            drawn = again[:, step * batch : (step + 1) * batch]
            z, targets = _beside(z, replayed[0][:, drawn]), _beside(targets, replayed[1][:, drawn])
        with np.errstate(over="ignore", invalid="ignore"):
            adam.step(params, head.gradients(params, z, targets, shares[None]))
    return params - start[:, None]


def _rows(
    clients: Clients, chosen: NDArray[np.int64], count: int, batch: int, draws: Sequence[np.random.Generator]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """`count` own rows of every chosen client [n, count], and what one counts in a step [n, batch]: zero without rows."""
    rows = np.zeros((len(chosen), count), dtype=np.int64)
    shares = np.zeros((len(chosen), batch), dtype=np.float32)
    for place, client in enumerate(chosen):
        own = clients.places[client]
        if len(own):
            rows[place] = own[cycled(len(own), count, draws[place])]
            shares[place] = 1 / batch
    return rows, shares


def _beside(own: NDArray[np.float32], replayed: NDArray[np.float32]) -> NDArray[np.float32]:
    """Own rows [1, n, b, ...], the same for every model, and replayed ones [E, n, b, ...] in one batch [E, n, 2b, ...]."""
    return np.concatenate([np.broadcast_to(own, (len(replayed), *own.shape[1:])), replayed], axis=2)


def averaged(start: Params, updates: Params) -> Params:
    """FedAvg without privacy: `start` [E, P] plus the mean of `updates` [E, n, P]; unchanged in an empty round."""
    return start + updates.mean(axis=1) if updates.shape[1] else start


def moved(start: Params, noisy_sums: NDArray[np.floating], expected_clients: float) -> Params:
    """DP-FedAvg's step: `start` [E, P] plus noisy sums [E, P] over the expected number of clients, a constant."""
    return (start + noisy_sums / expected_clients).astype(np.float32)
