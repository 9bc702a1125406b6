"""Lists as the paper sends them: the four statistics of every slot averaged under noise (Eq 2), and lists noised at home."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.cslr.lists import Lists
from dpcl_core.methods.cslr.projections import psd, simplex
from dpcl_core.methods.cslr.public import PublicView
from dpcl_core.methods.cslr.release import expected_clients, side_by_side, stds_of
from dpcl_core.methods.cslr.replay import Replay
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, clipped_rows, noisy_client_sums, noisy_client_vectors
from dpcl_core.privacy.noise import Noise

_SHARE_SCALE = 0.5  # of shares and of targets beside means in a noisy list


@dataclass(frozen=True, slots=True, eq=False)
class SlotSums:
    """Averages over clients as released: shares w [K], w mu [K, d], w M [K, d] or [K, d, d], and w y [K, C].

    They are kept, and averaged over rounds, before they are divided by shares: a slot without data then weighs nothing,
    where quotients of noise would stay.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    seconds: NDArray[np.float64]
    targets: NDArray[np.float64]

    def mixed(self, other: SlotSums, keep: float = 0.9) -> SlotSums:
        """The running average: `keep` of this one and the rest of the next round's `other`."""
        return SlotSums(
            keep * self.weights + (1 - keep) * other.weights,
            keep * self.means + (1 - keep) * other.means,
            keep * self.seconds + (1 - keep) * other.seconds,
            keep * self.targets + (1 - keep) * other.targets,
        )

    def replay(self, floor: float = 1e-3) -> Replay:
        """The mixture: sums over their shares (no less than 1 / (4 K)), brought to where clean statistics live.

        Covariances are M - mu muᵀ with eigenvalues of at least `floor`; targets come onto the simplex.
        """
        shares = np.maximum(self.weights, 1 / (4 * len(self.weights)))
        means, targets = self.means / shares[:, None], self.targets / shares[:, None]
        if self.seconds.ndim == 2:
            covariances = np.maximum(self.seconds / shares[:, None] - means**2, floor)[:, None, :]
        else:
            covariances = psd(self.seconds / shares[:, None, None] - means[:, :, None] * means[:, None, :], floor)
        return Replay(simplex(shares), means, covariances, simplex(targets))


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
    bound: float = 1.0,
) -> list[SlotSums]:
    """Eq 2 for each budget: four statistics of every slot summed over the round's clients, noise sigma times each bound.

    Every element's mu, M and y are clipped to `bound` (Table 5: 1 each) and weighted by its share: w, w mu, w M, w y. Shares
    are not negative and sum to at most 1, so that each statistic of a client, all slots side by side, is at most `bound`
    long, however many elements fall in one slot. Two deviations from the print repair it: there elements are added up
    unweighted, which shrinks a slot's mean by the share of clients without it and costs sqrt(K), and divided by the number
    of clients in the round, which is private; here by the expected one.

    The statistics of a round share the client sample, so they are one event of multiplier sigma / 2. That sensitivity is
    proven where each client finds its ids [n, L] alone. `pooled`: they came from clustering all lists together; the ledger
    then grants the printed sensitivity, which does not hold (see `pooling.pooled`), and says so in the entry.

    Raises BadInput for fewer than two clients.
    """
    expected = expected_clients(n_clients, sample_rate)
    shape = lists.covariances.shape[2:]
    belongs = (ids[:, None, :] == np.arange(n_slots)[:, None]) * lists.weights[:, None, :]
    flat = lists.second_moments.reshape(*lists.weights.shape, math.prod(shape))
    parts = [
        ClientVectors(REPLAY, side_by_side(values), bound, stds_of(sigmas, bound))
        for values in (
            belongs.sum(axis=2),
            belongs @ clipped_rows(lists.means, bound),
            belongs @ clipped_rows(flat, bound),
            belongs @ clipped_rows(lists.targets, bound),
        )
    ]
    granted = " (printed sensitivity granted, not proven)" if pooled else ""
    what = f"four statistics of {n_slots} slots{granted}"
    sums = noisy_client_sums(parts, noises, ledgers, task=task, what=what, sample_rate=sample_rate)
    weights, means, seconds, targets = (total / expected for total in sums)
    by_slot = (n_slots, -1)
    return [
        SlotSums(shares, own.reshape(by_slot), second.reshape(n_slots, *shape), target.reshape(by_slot))
        for shares, own, second, target in zip(weights, means, seconds, targets, strict=True)
    ]

def noisy_lists(
    lists: Lists,
    view: PublicView,
    multipliers: Sequence[float],
    noises: Sequence[Noise],
    ledgers: Sequence[Ledger],
    *,
    task: int,
) -> list[Lists]:
    """Local trust: every client clips and noises its own list before anyone sees it; one set of noisy lists a budget.

    A client sends [clip(residual means, B sqrt(L)) / (B sqrt(L)) ; a shares ; a targets / sqrt(L)] with a = 0.5. The first
    block is at most 1 long, shares sum to at most 1 and each target is clipped to 1: the sensitivity is sqrt(1 + 2 a²). The
    server reads means m0 + U r, shares and targets on the simplex; covariances are the public ones' diagonal.

    `multipliers`: noise over sensitivity, one a budget.
    """
    (n, length), n_classes = lists.weights.shape, lists.targets.shape[2]
    scale, root = view.radius * np.sqrt(length), np.sqrt(length)
    present = np.where(lists.weights[:, :, None] > 0, view.residuals(lists.means), 0.0)
    residuals = clipped_rows(side_by_side(present), scale) / scale
    targets = _SHARE_SCALE * side_by_side(clipped_rows(lists.targets, 1.0)) / root
    vectors = np.concatenate([residuals, _SHARE_SCALE * lists.weights, targets], axis=1)
    bound = float(np.sqrt(1 + 2 * _SHARE_SCALE**2))
    part = ClientVectors(REPLAY, vectors, bound, stds_of(multipliers, bound))
    sent = noisy_client_vectors(part, noises, ledgers, task=task, what=f"every client's list of {length}, noised at home")
    width = residuals.shape[1]
    variances = np.broadcast_to(np.diag(view.covariance), lists.means.shape)
    return [
        Lists(
            simplex(each[:, width : width + length] / _SHARE_SCALE),
            view.restored(scale * each[:, :width].reshape(n, length, -1)),
            variances,
            simplex(root / _SHARE_SCALE * each[:, width + length :].reshape(n, length, n_classes)),
        )
        for each in sent
    ]
