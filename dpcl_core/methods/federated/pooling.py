"""Clustering of all clients' lists on the server: our reference form of the paper's "deterministic stable rule"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dpcl_core.methods.federated.matchers import Rule, margins, slots, squared_distances

_ROUNDS = 15


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Groups of pooled lists: `ids` int64 [n, L], `prototypes` [K, f], `margins` [n, L], total squared distance `cost`."""

    ids: NDArray[np.int64]
    prototypes: NDArray[np.float64]
    margins: NDArray[np.float64]
    cost: float


def pooled(
    features: NDArray[np.float64],
    n_groups: int,
    rule: Rule,
    coordinates: NDArray[np.float64],
    previous: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    generator: np.random.Generator | None = None,
    n_starts: int | None = None,
) -> Pooled:
    """Alternates assignment and averaging, at most 15 times from each client's list, and keeps the lowest total cost.

    `n_starts`: use at most this many lists as starts, evenly spaced among the sorted ones (None: every list, the reference
    rule).

    Groups are numbered by matching to the `previous` prototypes [K, f]; the first time, by ascending mean of `coordinates`
    [n, L] (each element's first public principal coordinate). The order of clients and of elements has no effect: both are
    sorted by their values first. "random" assigns each list once.

    Removing one client can move other clients' elements to other groups: one client's influence on a sum over groups has no
    proven bound, so no epsilon follows.

    Args: features [n, L, f], n >= 1; weights [n, L], of elements in averages and costs (None: equal).
    """
    n, length, width = features.shape
    elements, clients = _order(features)
    sorted_features = np.take_along_axis(features, elements[:, :, None], axis=1)[clients]
    shares = np.ones((n, length)) if weights is None else weights
    shares = np.take_along_axis(shares, elements, axis=1)[clients]
    if rule == "random":
        starts = sorted_features.reshape(1, -1, width)[:, :1].repeat(n_groups, axis=1)
    else:
        chosen = sorted_features if n_starts is None else sorted_features[:: -(-n // n_starts)]
        starts = np.stack([_start(row, sorted_features.reshape(-1, width), n_groups) for row in chosen])
    ids, prototypes, cost = _alternated(sorted_features, shares, starts, rule, generator)
    place = np.take_along_axis(coordinates, elements, axis=1)[clients]
    renamed = _group_order(ids, prototypes, shares, place, previous)
    group_ids = np.empty((n, length), dtype=np.int64)
    np.put_along_axis(unsorted := np.empty_like(group_ids), elements[clients], renamed[ids], axis=1)
    group_ids[clients] = unsorted
    ordered = prototypes[np.argsort(renamed)]
    return Pooled(group_ids, ordered, margins(features, ordered), cost)


def _order(features: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorting permutations by value: [n, L] of each list's elements, and [n] of the lists."""
    elements = np.stack([_sorted(rows) for rows in features])
    lists = np.take_along_axis(features, elements[:, :, None], axis=1)
    return elements, _sorted(lists.reshape(len(lists), -1))


def _sorted(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Permutation [n] that sorts rows [n, w] lexicographically; equal rows keep their order."""
    order = np.argsort(rows[:, 0], kind="stable")
    before, after = rows[order[:-1]], rows[order[1:]]
    if (before != after)[before[:, 0] == after[:, 0]].any():  # rare, and a hundred times slower
        order = np.lexsort(rows.T[::-1])
    return order.astype(np.int64)


def _start(entries: NDArray[np.float64], pool: NDArray[np.float64], n_groups: int) -> NDArray[np.float64]:
    """Initial prototypes [K, f] from a client's list [L, f]: its most distant ones, or all and the pool's most distant."""
    if len(entries) == n_groups:
        return entries
    furthest = squared_distances(entries, entries.mean(axis=0)[None])[:, 0].argmax()
    chosen = entries if len(entries) < n_groups else entries[[furthest]]
    among = pool if len(entries) < n_groups else entries
    while len(chosen) < n_groups:
        chosen = np.concatenate([chosen, among[[squared_distances(among, chosen).min(axis=1).argmax()]]])
    return chosen


def _alternated(
    features: NDArray[np.float64],
    weights: NDArray[np.float64],
    prototypes: NDArray[np.float64],
    rule: Rule,
    generator: np.random.Generator | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Ids [n, L], prototypes [K, f] and cost from the cheapest of the starts [S, K, f]; ties go to the first."""
    (n, length, _), (n_starts, n_groups, _) = features.shape, prototypes.shape
    ids, prototypes = np.full((n_starts, n, length), -1), prototypes.copy()
    moving = np.arange(n_starts)  # starts whose assignment still changes; the others are final
    for _ in range(_ROUNDS):
        costs = squared_distances(features[None], prototypes[moving, None])
        repeated = np.broadcast_to(weights, (len(moving), n, length)).reshape(-1, length)
        assigned = slots(rule, costs.reshape(-1, length, n_groups), repeated, generator)
        assigned = assigned.reshape(len(moving), n, length)
        changed = (assigned != ids[moving]).any(axis=(1, 2))
        moving, assigned = moving[changed], assigned[changed]
        if not len(moving):
            break
        ids[moving] = assigned
        belongs = (assigned[..., None] == np.arange(n_groups)) * weights[None, :, :, None]
        totals = belongs.sum(axis=(1, 2))
        sums = belongs.reshape(len(moving), -1, n_groups).transpose(0, 2, 1) @ features.reshape(n * length, -1)
        stayed = prototypes[moving]  # a group without weight keeps its prototype
        prototypes[moving] = np.divide(sums, totals[:, :, None], out=stayed, where=totals[:, :, None] > 0)
        if rule == "random":
            break
    costs = squared_distances(features[None], prototypes[:, None])
    total = (np.take_along_axis(costs, ids[..., None], axis=3)[..., 0] * weights).sum(axis=(1, 2))
    best = int(total.argmin())
    return ids[best], prototypes[best], float(total[best])


def _group_order(
    ids: NDArray[np.int64],
    prototypes: NDArray[np.float64],
    weights: NDArray[np.float64],
    coordinates: NDArray[np.float64],
    previous: NDArray[np.float64] | None,
) -> NDArray[np.int64]:
    """The canonical number of each group, [K]."""
    if previous is not None:
        matched: NDArray[np.int64] = linear_sum_assignment(squared_distances(prototypes, previous))[1]
        return matched
    belongs = (ids[..., None] == np.arange(len(prototypes))) * weights[..., None]
    totals = belongs.sum(axis=(0, 1))
    places = np.full(len(prototypes), np.inf)  # groups without weight come last
    np.divide((belongs * coordinates[..., None]).sum(axis=(0, 1)), totals, out=places, where=totals > 0)
    return np.argsort(np.argsort(places, kind="stable"), kind="stable")
