"""From clients to a replayed mixture: one clipped vector a client, one Gaussian, and what the server reads from the sum.

Only `noisy_client_sums` sees clients; whatever comes after works on its output alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.cslr.lists import Form, Lists
from dpcl_core.methods.cslr.public import PublicView
from dpcl_core.methods.cslr.replay import Replay
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise


@dataclass(frozen=True, slots=True, eq=False)
class Slotted:
    """What n clients say about K slots: shares of rows [n, K] (rows sum to 1, or to 0 without data) and means [n, K, d].

    The mean of a slot in which a client has nothing is never read.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]


def by_label(z: NDArray[np.floating], labels: NDArray[np.int64], users: NDArray[np.int64], n_users: int,
             space: Sequence[int]) -> Slotted:
    """Slots are the labels of `space`: every client's share and mean of each. z [n, d], labels and users int64 [n]."""
    raise NotImplementedError


def by_matching(lists: Lists, ids: NDArray[np.int64], n_slots: int) -> Slotted:
    """Slots by a matcher's ids [n, L]; elements of one client in one slot are averaged by weight."""
    raise NotImplementedError


class Layout(Protocol):
    """How a client's slots become one vector of bounded length, and a noisy sum becomes weights and means again."""

    n_slots: int

    @property
    def sensitivity(self) -> float:
        """Largest length of a client's vector: how far the sum moves when a client's contribution becomes zero."""
        ...

    def vectors(self, slotted: Slotted) -> NDArray[np.float64]:
        """Client vectors [n, D], each at most `sensitivity` long."""
        ...

    def decoded(self, totals: NDArray[np.float64], n_clients: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights [E, K] and means [E, K, d] of noisy sums [E, D], divided by the public number of clients."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class EvenSlots:
    """Every client holds every slot: clipped residual means, no counts; with one slot the release of section 8's table.

    Block k is U^T(mu_k - m0) (zero where the client has nothing), the whole clipped to B sqrt(K): the sensitivity.
    """

    view: PublicView
    n_slots: int = 1

    @property
    def sensitivity(self) -> float:
        raise NotImplementedError

    def vectors(self, slotted: Slotted) -> NDArray[np.float64]:
        raise NotImplementedError

    def decoded(self, totals: NDArray[np.float64], n_clients: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSlots:
    """Clients may lack some slots: block k is [a w_k ; w_k clip(U^T(mu_k - m0), B)/B].

    The squared length is sum w_k² (a² + 1) at most, and the shares sum to 1: the sensitivity is sqrt(1 + a²) whatever K.
    """

    view: PublicView
    n_slots: int
    share_scale: float = 0.5

    @property
    def sensitivity(self) -> float:
        raise NotImplementedError

    def vectors(self, slotted: Slotted) -> NDArray[np.float64]:
        raise NotImplementedError

    def decoded(self, totals: NDArray[np.float64], n_clients: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        raise NotImplementedError


def released(
    slotted: Slotted,
    layout: Layout,
    targets: NDArray[np.float64],
    multipliers: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
    sample_rate: float = 1.0,
    n_clients: int | None = None,
) -> list[Replay]:
    """One release of all clients' slots, a mixture for each budget: joint vector, one Gaussian, division by constants.

    `multipliers`: noise over sensitivity, one a budget (0: none, and the ledger says so). Targets [K, C] are public, the slots
    being labels. With `sample_rate` < 1 `slotted` holds the sampled clients alone and `n_clients` the public number of all; sums
    are divided by rate times that number. Raises BadInput for fewer than two clients.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Bounds:
    """Clipping norms of the published four statistics (Table 5), one each: share, mean, second moment, target."""

    weight: float = 1.0
    mean: float = 1.0
    second: float = 1.0
    target: float = 1.0


def published(
    lists: Lists,
    ids: NDArray[np.int64],
    n_slots: int,
    sigmas: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
    sample_rate: float,
    n_clients: int,
    pooled: bool,
    bounds: Bounds = Bounds(),
    form: Form = "diagonal",
    floor: float = 1e-3,
) -> list[Replay]:
    """The paper's Eq 2: four statistics of every slot averaged over the round's clients, each under noise sigma times its bound.

    The statistics of one round share the client sample, so they are one event. `pooled`: ids came from clustering the lists
    together, which leaves the sensitivity unbounded (`matchers.POOLED_WARNING`) and goes into the ledger as that.
    """
    raise NotImplementedError


def noisy_lists(
    lists: Lists,
    view: PublicView,
    multipliers: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
) -> list[Lists]:
    """Local trust: every client clips and noises its own list before anyone sees it; one noisy set of lists a budget."""
    raise NotImplementedError
