"""Rounds of federated training: who takes part, what clients send back, and how it is averaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.cslr.head import Head, Params
from dpcl_core.privacy.noise import Batches


@dataclass(frozen=True, slots=True)
class Participation:
    """Who takes part in a round: each of `n_clients` by a coin of its own with chance `rate`, or everyone at rate 1."""

    n_clients: int
    rate: float
    coins: Batches

    def draw(self) -> NDArray[np.int64]:
        """Clients of the next round, ascending; possibly none."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """What a client does in a round: `n_steps` of Adam, each on `batch_size` own rows and, where there is replay, as many
    replayed ones, whose loss counts `replay_weight` (the paper's lambda, Eq 3)."""

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
        """From a task's rows and whose they are."""
        raise NotImplementedError


def local_updates(
    head: Head,
    start: Params,
    clients: Clients,
    chosen: NDArray[np.int64],
    plan: LocalPlan,
    generator: np.random.Generator,
    replayed: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
) -> Params:
    """What the chosen clients' training changes: [E, n, P] from E models `start` [E, P].

    `replayed`: invented embeddings [E, r, d] and targets [E, r, C] of the server, one set a model. A client without rows trains
    on replay alone, or returns zero. Private: only a mechanism or a mode that says "not private" may hand it on.
    """
    raise NotImplementedError


def averaged(start: Params, updates: Params) -> Params:
    """FedAvg without privacy: `start` [E, P] plus the mean of `updates` [E, n, P]; unchanged in an empty round."""
    raise NotImplementedError


def moved(start: Params, noisy_sums: NDArray[np.floating], expected_clients: float) -> Params:
    """DP-FedAvg's step: `start` [E, P] plus noisy sums [E, P] over the expected number of clients, a constant."""
    raise NotImplementedError
