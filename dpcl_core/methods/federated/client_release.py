"""Client-level release of a mixture: one clipped vector per client, one Gaussian on the sum, and its decoding.

Only `released` and `by_…` read private data; everything after the mechanism is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.projections import simplex
from dpcl_core.methods.federated.public_view import PublicView
from dpcl_core.methods.federated.replay import Replay
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import clipped_rows, row_blocks

_STDS_OF_NOISE = 2  # a share below this many standard deviations of its noise carries no information
_LEAST_SHARE = 1e-9  # avoids 0/0 without noise, for a label that no client has


@dataclass(frozen=True, slots=True, eq=False)
class Slotted:
    """n clients' shares of rows in K slots, [n, K] (each client's sum to 1, to 0 without data), and means [n, K, d].

    A client's mean of a slot is not read where its share is 0.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]


def by_label(
    z: NDArray[np.floating], labels: NDArray[np.int64], users: NDArray[np.int64], n_users: int, space: Sequence[int]
) -> Slotted:
    """Every client's share and mean of each label in `space`, which are the slots. Other rows are left out.

    Args: z [n, d]; labels, users int64 [n], users in 0 ... n_users - 1.
    """
    slots = np.full(max(int(labels.max(initial=0)), *space) + 1, -1)
    slots[list(space)] = np.arange(len(space))
    rows = np.flatnonzero(slots[labels] >= 0)
    places = users[rows] * len(space) + slots[labels[rows]]
    rows, places = rows[order := np.argsort(places, kind="stable")], places[order]
    sums = np.zeros((n_users * len(space), z.shape[1]))
    for part in row_blocks(len(rows), z.shape[1]):
        cells, first = np.unique(places[part], return_index=True)
        sums[cells] += np.add.reduceat(z[rows[part]], first, axis=0, dtype=np.float64)
    counts = np.bincount(places, minlength=len(sums))
    means = (sums / np.maximum(counts, 1)[:, None]).reshape(n_users, len(space), -1)
    return Slotted(_shares(counts.reshape(n_users, -1).astype(np.float64)), means)


def by_matching(lists: Lists, ids: NDArray[np.int64], n_slots: int) -> Slotted:
    """Shares and means by a matcher's slot ids [n, L]; a client's entries in one slot are averaged by weight."""
    belongs = (ids[:, None, :] == np.arange(n_slots)[:, None]) * lists.weights[:, None, :]
    weights = belongs.sum(axis=2)
    means = belongs @ lists.means / np.where(weights > 0, weights, 1)[:, :, None]
    return Slotted(_shares(weights), means)


@dataclass(frozen=True, slots=True, eq=False)
class EvenSlots:
    """Layout for clients that hold every slot: residual means U^T(mu_k - m0) side by side, no shares.

    A slot in which a client has no rows is zero, so the mean is drawn towards m0 by the share of clients without it. The
    whole vector is clipped to B sqrt(K), which is the sensitivity.
    """

    view: PublicView
    n_slots: int = 1

    @property
    def sensitivity(self) -> float:
        """Largest norm of a client's vector: how far the sum moves when a client's contribution becomes zero."""
        return float(self.view.radius * np.sqrt(self.n_slots))

    @property
    def width(self) -> int:
        """Numbers in a client's vector."""
        return self.n_slots * int(self.view.axes.shape[1])

    def vectors(self, slotted: Slotted) -> NDArray[np.float64]:
        """Client vectors [n, D], each of norm at most `sensitivity`."""
        residuals = np.where(slotted.weights[:, :, None] > 0, self.view.residuals(slotted.means), 0.0)
        return clipped_rows(side_by_side(residuals), self.sensitivity)

    def decoded(
        self, totals: NDArray[np.float64], expected: float, stds: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights [E, K] and means [E, K, d] from noisy sums [E, D], divided by the public expected number of clients.

        `stds` [E]: public standard deviation of the noise on a coordinate of each sum.
        """
        residuals = totals.reshape(len(totals), self.n_slots, -1) / expected
        return np.full(residuals.shape[:2], 1 / self.n_slots), self.view.restored(residuals)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSlots:
    """Layout for clients that may lack slots: block k is [a w_k ; w_k clip(U^T(mu_k - m0), B) / B], w_k the share of rows.

    A block's squared norm is at most w_k² (a² + 1). Shares are nonnegative and sum to at most 1, and so do their squares:
    the sensitivity is sqrt(1 + a²) for every K. Decoding divides by the noisy shares and caps residuals at B. Shares are
    raised to at least 1 / (4 K), or to two standard deviations of their noise where that is less, so that with little noise
    a rare label's mean is not drawn towards the centre.
    """

    view: PublicView
    n_slots: int
    share_scale: float = 0.5

    @property
    def sensitivity(self) -> float:
        return float(np.hypot(1.0, self.share_scale))

    @property
    def width(self) -> int:
        return self.n_slots * (1 + int(self.view.axes.shape[1]))

    def vectors(self, slotted: Slotted) -> NDArray[np.float64]:
        shares = slotted.weights[:, :, None]
        residuals = clipped_rows(self.view.residuals(slotted.means), self.view.radius) / self.view.radius
        blocks = np.concatenate([self.share_scale * shares, np.where(shares > 0, shares * residuals, 0.0)], axis=2)
        return clipped_rows(side_by_side(blocks), self.sensitivity)

    def decoded(
        self, totals: NDArray[np.float64], expected: float, stds: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        blocks = totals.reshape(len(totals), self.n_slots, -1) / expected
        noise_floor = _STDS_OF_NOISE * stds / expected / self.share_scale
        least = np.clip(noise_floor, _LEAST_SHARE, 1 / (4 * self.n_slots))
        shares = np.maximum(blocks[:, :, 0] / self.share_scale, least[:, None])
        residuals = clipped_rows(self.view.radius * blocks[:, :, 1:] / shares[:, :, None], self.view.radius)
        return simplex(shares), self.view.restored(residuals)


Layout = EvenSlots | WeightedSlots  # encodes a client's slots as a vector of bounded norm, and decodes a noisy sum


def released(
    vectors: NDArray[np.floating],
    layout: Layout,
    targets: NDArray[np.float64],
    multipliers: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
    n_clients: int,
) -> list[Replay]:
    """One release of the clients' vectors [n, D], a mixture for each budget: one Gaussian on the sum, division by constants.

    A client's vector is the layout's; whatever else arrives in its place is clipped to the same length by the mechanism.
    `multipliers`: noise over sensitivity, one per budget (0: none; the ledger records it). Targets [K, C] are public: slots
    are labels or parts of one. `n_clients`: the public number of clients, all of whom are in the sum, and which divides it.
    Components get the public covariance.

    Sensitivity: the layout's, provided a client's vector depends only on its own data, public facts and earlier releases.
    Raises BadInput for fewer than two clients.
    """
    stds = [multiplier * layout.sensitivity for multiplier in multipliers]
    part = ClientVectors(REPLAY, vectors, layout.sensitivity, stds)
    what = f"sum of clients' vectors of {layout.n_slots} slots"
    totals = noisy_client_sums([part], noises, ledgers, task=task, what=what)
    return decoded(totals[0], layout, targets, expected_clients(n_clients), stds)


def decoded(
    totals: NDArray[np.float64], layout: Layout, targets: NDArray[np.float64], expected: float, stds: Sequence[float]
) -> list[Replay]:
    """The mixtures decoded from noisy sums [E, D], with noise of `stds` on each coordinate: post-processing of the sums."""
    weights, means = layout.decoded(totals, expected, np.array(stds))
    mixtures = zip(weights, means, totals, strict=True)
    return [Replay(shares, centres, layout.view.covariance, targets, sums) for shares, centres, sums in mixtures]


def side_by_side(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clients' values [n, ...] flattened to [n, D]; n may be 0."""
    return values.reshape(len(values), math.prod(values.shape[1:]))


def expected_clients(n_clients: int, sample_rate: float = 1.0) -> float:
    """The divisor of sums: the expected number of clients in a sample.

    Raises BadInput for fewer than two clients: a sum over one client hides it among no others.
    """
    if n_clients < 2:
        raise BadInput("scenario.clients", n_clients, "must be at least 2: one client has no others to hide among")
    return sample_rate * n_clients


def _shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    totals = weights.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    return shares
