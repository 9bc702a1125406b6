"""The paper's releases: four statistics of every slot, averaged under noise (Eq 2) or noised on each client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcl_core.methods.federated.client_release import Replay, expected_clients, side_by_side
from dpcl_core.methods.federated.lists import Floats, Ints, Lists, psd, simplex
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums, noisy_client_vectors
from dpcl_core.privacy.noise import Batches, Noise
from dpcl_core.privacy.sums import clipped_rows


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The rule by which a group's statistics become a mixture: Eq. 2 as printed, or repaired.

    `by_shares`: entries are weighted by their share of a client's rows, sums are divided by the expected number of clients,
    and a mean is its sum divided by the group's share. Otherwise each client's entries of a group count once, divided by the
    clients in the round (Eq. 2 as printed): a client without an entry then draws the group's mean to zero, and the divisor
    is private. `on_simplex`: whether targets are projected onto the simplex; the paper projects only weights.
    """

    by_shares: bool = True
    on_simplex: bool = True


REPAIRED = Aggregation()


class SlotSums(NamedTuple):
    """Averages over clients as released: weights [K], means [K, d], second moments [K, d] or [K, d, d] and targets [K, C].

    By shares all but the weights are still multiplied by the weights (w mu and so on) and are averaged over rounds in that
    form, before the division: a slot without data then has no weight, where a quotient of noise would persist.
    """

    weights: Floats
    means: Floats
    seconds: Floats
    targets: Floats

    def mixed(self, other: SlotSums, keep: float = 0.9) -> SlotSums:
        """The running average: `keep` times this plus 1 - `keep` times the next round's `other`."""
        return SlotSums(*(keep * old + (1 - keep) * new for old, new in zip(self, other, strict=True)))

    def replay(self, floor: float = 1e-3, rule: Aggregation = REPAIRED) -> Replay:
        """The mixture: by shares, sums divided by their shares (at least 1 / (4 K)); then projected to valid parameters.

        Covariances are M - mu muᵀ with eigenvalues of at least `floor`; weights are projected onto the simplex, targets only
        by a rule `on_simplex`.
        """
        shares = np.maximum(self.weights, 1 / (4 * len(self.weights))) if rule.by_shares else np.ones_like(self.weights)
        means, targets = self.means / shares[:, None], self.targets / shares[:, None]
        covariances = _covariances(means, self.seconds / shares.reshape(-1, *[1] * (self.seconds.ndim - 1)), floor)
        if covariances.ndim == 2:
            covariances = covariances[:, None, :]
        weights = simplex(shares if rule.by_shares else self.weights)
        return Replay(weights, means, covariances, simplex(targets) if rule.on_simplex else targets)


class Statistics(NamedTuple):
    """The four statistics of n clients' lists of L entries: weights [n, L], means, second moments and targets [n, L, ...].

    Private if computed from clean lists; released if the clients noised them (`noisy_statistics`).
    """

    weights: Floats
    means: Floats
    seconds: Floats
    targets: Floats

    @classmethod
    def of(cls, lists: Lists, bound: float = 1.0) -> Statistics:
        """Every entry's mean, second moment (Frobenius norm) and target clipped to `bound` (Table 5: 1 each)."""
        flat = lists.second_moments.reshape(*lists.weights.shape, math.prod(lists.covariances.shape[2:]))
        seconds = clipped_rows(flat, bound).reshape(*lists.weights.shape, *lists.covariances.shape[2:])
        return cls(lists.weights, clipped_rows(lists.means, bound), seconds, clipped_rows(lists.targets, bound))

    def lists(self, floor: float = 1e-3) -> Lists:
        """Lists for a matcher: weights on the simplex, covariances M - mu muᵀ with eigenvalues >= `floor`."""
        return Lists(simplex(self.weights), self.means, _covariances(self.means, self.seconds, floor), self.targets)

    def by_slot(self, ids: Ints, n_slots: int, rule: Aggregation) -> list[Floats]:
        """Each statistic of every client, slots concatenated to [n, D]: weights, means, second moments, targets.

        By shares, entries are weighted and summed. Otherwise a client's entries in one slot are averaged, so that it holds
        at most one clipped entry of a client. Weights are summed in both cases.
        """
        members = (ids[:, None, :] == np.arange(n_slots)[:, None]).astype(np.float64)
        weighted = members * self.weights[:, None, :]
        belongs = weighted if rule.by_shares else members / np.maximum(members.sum(axis=2, keepdims=True), 1)
        flat = self.seconds.reshape(*self.weights.shape, math.prod(self.seconds.shape[2:]))
        sums = (weighted.sum(axis=2), belongs @ self.means, belongs @ flat, belongs @ self.targets)
        return [side_by_side(values) for values in sums]


def noisy_slot_sums(
    lists: Lists, ids: Ints, n_slots: int, sigmas: Sequence[float], noises: Sequence[Noise], ledgers: Sequence[Ledger], *,
    task: int, batches: Batches | None = None, n_clients: int, pooled: bool, bound: float = 1.0, rule: Aggregation = REPAIRED
) -> list[SlotSums]:
    """Eq 2 for each budget: sums of four statistics of every slot over the round's clients, noise sigma times each bound.

    Every entry's mu, M and y are clipped to `bound` (Table 5: 1 each). By shares they are weighted to w, w mu, w M, w y:
    shares are nonnegative and sum to at most 1, so that each statistic of a client, all slots concatenated, has norm at most
    `bound`, for any number of entries in one slot. This repairs the printed form in two places: there entries are summed
    unweighted, which shrinks a slot's mean by the share of clients without it and costs sqrt(K), and divided by the number
    of clients in the round, which is private; here by the expected number. As printed (`rule`), means, second moments and
    targets of K slots have norm at most sqrt(K) times `bound`, which the ledger counts; it cannot count the divisor.

    The statistics of a round share the client sample, so they are one event: by shares, of multiplier sigma / 2. That
    sensitivity is proven where each client computes its ids [n, L] alone. `pooled`: the ids came from clustering all lists
    together; the ledger then records the printed sensitivity, which does not hold (see `matchers.pooled`), and the entry
    says so.

    Raises BadInput for fewer than two clients.
    """
    expected = expected_clients(n_clients, 1.0 if batches is None else batches.rate)
    statistics = Statistics.of(lists, bound)
    wide = bound if rule.by_shares else bound * math.sqrt(n_slots)
    parts = [
        ClientVectors(REPLAY, values, longest, [sigma * bound for sigma in sigmas])
        for values, longest in zip(statistics.by_slot(ids, n_slots, rule), (bound, wide, wide, wide), strict=True)
    ]
    granted = " (printed sensitivity granted, not proven)" if pooled else ""
    what = f"four statistics of {n_slots} slots{granted}"
    sums = noisy_client_sums(parts, noises, ledgers, task=task, what=what, batches=batches)
    return _slot_sums(sums, n_slots, statistics, expected if rule.by_shares else max(1, len(lists)))


def noisy_statistics(
    lists: Lists, sigmas: Sequence[float], noises: Sequence[Noise], ledgers: Sequence[Ledger], *, task: int
) -> list[Statistics]:
    """Algorithm 1, line 2: every client noises the four statistics of its list and sends them; one set per budget.

    After clipping, each entry's mean, second moment and target have norm at most 1, and shares sum to at most 1: a list of
    L entries has norm at most sqrt(1 + 3 L), and every number gets noise of sigma. The server sees which client sent a list,
    so that nothing is averaged and sampling does not amplify (`mechanisms.noisy_client_vectors`).
    """
    clean = Statistics.of(lists)
    shapes = [values.shape for values in clean]
    vectors = np.concatenate([side_by_side(values) for values in clean], axis=1)
    part = ClientVectors(REPLAY, vectors, math.sqrt(1 + 3 * shapes[0][1]), list(sigmas))
    what = f"every client's list of {shapes[0][1]}, its four statistics noised at home"
    ends = np.cumsum([math.prod(shape[1:]) for shape in shapes])[:-1]
    received = noisy_client_vectors(part, noises, ledgers, task=task, what=what)
    split = (zip(np.split(sums, ends, axis=1), shapes, strict=True) for sums in received)
    return [Statistics(*(values.reshape(shape) for values, shape in one)) for one in split]


def average_received(
    received: Statistics, ids: Ints, n_slots: int, sigma: float, noise: Noise, *, expected: float, rule: Aggregation
) -> SlotSums:
    """Eq 2 over lists noised on the client, with the printed noise added again: post-processing of the clients' lists."""
    totals = [values.sum(axis=0) for values in received.by_slot(ids, n_slots, rule)]
    sums = [(noise.added(total, sigma) if sigma > 0 else total)[None] for total in totals]
    return _slot_sums(sums, n_slots, received, expected if rule.by_shares else max(1, len(ids)))[0]


def _slot_sums(sums: Sequence[Floats], n_slots: int, statistics: Statistics, divisor: float) -> list[SlotSums]:
    """The four statistics' sums [E, D] divided by `divisor` and split into slots, one set per budget."""
    shape, by_slot = statistics.seconds.shape[2:], (n_slots, -1)
    weights, means, seconds, targets = (total / divisor for total in sums)
    return [
        SlotSums(shares, mean.reshape(by_slot), second.reshape(n_slots, *shape), target.reshape(by_slot))
        for shares, mean, second, target in zip(weights, means, seconds, targets, strict=True)
    ]


def _covariances(means: Floats, seconds: Floats, floor: float) -> Floats:
    """M - mu muᵀ of means [..., d], as diagonals [..., d] or matrices [..., d, d], eigenvalues at least `floor`."""
    if seconds.ndim == means.ndim:
        return np.maximum(seconds - means**2, floor)
    return psd(seconds - means[..., :, None] * means[..., None, :], floor)
