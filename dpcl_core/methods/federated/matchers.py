"""Matchers of list entries to slots: feature maps, and rules that compare features with prototypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.federated.lists import Element, Floats, Ints, Lists, Reals, Signature
from dpcl_core.methods.federated.params import ListParams
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import generator

Rule = Literal["random", "nearest", "hungarian", "ot"]
FeatureMap = Callable[[Sequence[Element]], Floats]  # elements -> [L, f]; `lists.Signature` is another
_SMOOTHING, _SINKHORN_STEPS = 0.05, 100
_SETTLED = 1e-9  # relative change of a list's factors at which its steps end
_TIED = 1 - 1e-9  # entries of a coupling this close to the largest differ only by rounding


def mean_features(elements: Sequence[Element]) -> Floats:
    """The entries' means, [L, d] (NearestMean, Hungarian)."""
    return np.array([element.mean for element in elements])


def target_features(elements: Sequence[Element]) -> Floats:
    """The entries' targets, [L, C] (target matching)."""
    return np.array([element.target for element in elements])


@dataclass(frozen=True, slots=True, eq=False)
class PcaMean:
    """Means on public principal axes: [L, d'] coordinates of mean - `centre` [d] along `axes` [d, d']."""

    centre: Floats
    axes: Floats

    def __call__(self, elements: Sequence[Element]) -> Floats:
        return np.asarray((mean_features(elements) - self.centre) @ self.axes)


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and covariance as one vector, so that squared distances are Eq 22's ||mu - mu'||² + tau ||S - S'||_F²."""

    tau: float = 1.0

    def __call__(self, elements: Sequence[Element]) -> Floats:
        spreads = np.array([element.covariance for element in elements]).reshape(len(elements), -1)
        return np.concatenate([mean_features(elements), np.sqrt(self.tau) * spreads], axis=1)


def list_features(lists: Lists, of: FeatureMap) -> Floats:
    """Features [n, L, f] of the entries of n lists."""
    return np.stack([of(lists.elements(client)) for client in range(len(lists))])


Draw = np.random.Generator | None


def assign(rule: Rule, features: Floats, prototypes: Floats, weights: Floats | None = None, generator: Draw = None) -> Ints:
    """Slots int64 [L] of a list's features [L, f] against prototypes [K, f], as in `slots`; `weights` [L]."""
    costs = squared_distances(features, prototypes)
    return np.asarray(slots(rule, costs[None], None if weights is None else weights[None], generator)[0])


def slots(rule: Rule, costs: Floats, weights: Floats | None = None, generator: Draw = None) -> Ints:
    """Slots int64 [n, L] of many lists from costs [n, L, K], the squared distances of entries to prototypes.

    "random": a random permutation (needs `generator`); "nearest": many to one; "hungarian": one to one at minimum total
    squared distance, or at most ceil(L/K) to one where the list is longer; "ot": the largest entry of each row of the
    coupling of Eq 22 under `weights` [n, L] (None: equal). Ties go to the lower slot.
    """
    n, length, n_slots = costs.shape
    repeats = -(-length // n_slots)  # above 1 where a list has more entries than there are slots, spread evenly
    if rule == "nearest":
        return np.asarray(costs.argmin(axis=2))
    if rule == "random":
        assert generator is not None
        return np.asarray(np.stack([generator.permutation(n_slots * repeats)[:length] for _ in range(n)]) % n_slots)
    if rule == "hungarian":
        wide = np.tile(costs, (1, 1, repeats))
        return np.asarray(np.stack([_assigned(cost_matrix) for cost_matrix in wide]) % n_slots)
    plans = coupling(costs, weights)
    return np.asarray((plans >= plans.max(axis=2, keepdims=True) * _TIED).argmax(axis=2))


def _assigned(costs: Floats) -> Ints:
    """The cheapest one-to-one assignment of rows to columns: the column of each row."""
    from scipy.optimize import linear_sum_assignment  # takes long to load, and other methods' runs load this module, too

    return np.asarray(linear_sum_assignment(costs)[1])


def squared_distances(features: Floats, prototypes: Floats) -> Floats:
    """Squared distances [..., L, K] of features [..., L, f] to prototypes [K, f] or [..., K, f]."""
    squares = (features**2).sum(axis=-1)[..., :, None] + (prototypes**2).sum(axis=-1)[..., None, :]
    return np.asarray(np.maximum(squares - 2 * features @ np.swapaxes(prototypes, -1, -2), 0))


def coupling(
    costs: Floats, weights: Floats | None = None, smoothing: float = _SMOOTHING, n_steps: int = _SINKHORN_STEPS
) -> Floats:
    """The couplings P [n, L, K] that minimise sum P c + smoothing * sum P log P (Eq 22), by Sinkhorn's steps.

    Each list's costs [L, K] are first divided by their largest. Marginals are weights [n, L], normalised to sum 1 (None:
    equal; zero counts as 1e-12, so that its row of the coupling is still defined), and equal shares of the K prototypes.
    A list's steps end by its own change, so its coupling is a function of this list alone. `smoothing` is at least 0.002:
    below, exp(-1 / smoothing) leaves the range of float64.
    """
    if costs.size == 0:  # no list, or none with an element
        return np.zeros_like(costs)
    largest = costs.max(axis=(1, 2), keepdims=True)
    kernels = np.exp(np.divide(costs, largest, out=np.zeros_like(costs), where=largest > 0) / -smoothing)
    weights = np.ones(costs.shape[:2]) if weights is None else np.maximum(weights, 1e-12)
    rows = weights / weights.sum(axis=1, keepdims=True)
    down, across = np.empty(costs.shape[:2]), np.ones((costs.shape[0], costs.shape[2]))
    moving = np.arange(len(costs))
    for _ in range(n_steps):
        kernel, before = kernels[moving], across[moving]
        down[moving] = rows[moving] / np.einsum("nlk,nk->nl", kernel, before)
        across[moving] = 1 / costs.shape[2] / np.einsum("nlk,nl->nk", kernel, down[moving])
        moving = moving[np.abs(across[moving] / before - 1).max(axis=1) >= _SETTLED]
        if not moving.size:
            break
    return np.asarray(down[:, :, None] * kernels * across[:, None, :])


def margins(features: Floats, prototypes: Floats) -> Floats:
    """(d2 - d1) / (d2 + d1) in [0, 1] of the distances to the nearest two prototypes: [..., L] of [..., L, f], [K, f].

    A margin below 0.1 counts as ambiguous. 1 if there is one prototype, 0 if both distances are zero.
    """
    distances = np.sort(np.sqrt(squared_distances(features, prototypes)), axis=-1)
    if distances.shape[-1] == 1:
        return np.ones(distances.shape[:-1])
    best, second = distances[..., 0], distances[..., 1]
    return np.asarray(np.divide(second - best, second + best, out=np.zeros_like(best), where=second > 0))


def regrets(features: Floats, prototypes: Floats) -> Floats:
    """Extra cost of the best one-to-one assignment when one element may not take its slot: [..., L] of lists of features
    [..., L, f]; L <= K, K >= 2.

    The barred element takes a free slot, or another element's slot, which moves on in turn, until a slot is free or the
    barred element's own slot is taken; if its own slot is left free, others may move up into it. The cheapest such chains
    are computed for all elements at once (Floyd-Warshall) instead of by one assignment each. No closed chain gains anything,
    except by rounding, which Floyd-Warshall would double at every step: potentials (Bellman-Ford) make all single moves
    nonnegative first.
    """
    lists = squared_distances(features.reshape(-1, *features.shape[-2:]), prototypes)
    n, length, _ = lists.shape
    taken = np.stack([_assigned(costs) for costs in lists])
    others = np.broadcast_to(taken[:, None], (n, length, length))
    current = np.take_along_axis(lists, taken[:, :, None], axis=2)
    step = np.take_along_axis(lists, others, axis=2) - current  # [n, i, j]: i goes to j's slot
    free = lists - current
    np.put_along_axis(free, others, np.inf, axis=2)
    gained = np.zeros((n, length))
    for _ in range(length):
        gained = np.minimum(gained, (gained[:, :, None] + step).min(axis=1))
    lift = gained[:, :, None] - gained[:, None, :]
    chain = np.maximum(step + lift, 0)
    for k in range(length):
        np.minimum(chain, chain[:, :, k, None] + chain[:, None, k, :], out=chain)
    chain -= lift  # cheapest chain from i to j's slot, through any others
    away = (chain + free.min(axis=2)[:, None, :]).min(axis=2)  # [n, i]: the chain ends in a free slot
    step[:, np.arange(length), np.arange(length)] = np.inf
    extra: Floats = np.minimum((step + chain.swapaxes(1, 2)).min(axis=2), away + chain.min(axis=1))
    return np.maximum(extra, 0).reshape(features.shape[:-1])


# Centre, axes, covariance and clipping radius, computed from public sentences before any private text is read.


AxesOf = Literal["sentences", "topics"]
_ROWS_OF_A_TOPIC, _MOST_TOPICS = 20, 50
_REST = 1e-6  # what sentences count beside topics: they decide about axes on which no topics differ
_SHRINK = 1e-3  # share of a spherical covariance, so that few sentences in many dimensions still give an invertible one


@dataclass(frozen=True, slots=True, eq=False)
class PublicView:
    """Centre m0 [d], axes U [d, d'] (orthonormal columns), covariance S_pub [d, d] of public embeddings, clipping radius B.

    Residual means U^T(mu - m0) longer than `radius` are clipped.
    """

    centre: Floats
    axes: Floats
    covariance: Floats
    radius: float

    @classmethod
    def of(cls, features: Reals, n_axes: int, radius: float | None = None, axes_of: AxesOf = "sentences") -> PublicView:
        """From public features [p, d]; `radius` None: the 0.9 quantile of public topic means' residual lengths.

        Topics are clusters of the public sentences (k-means, about 20 sentences each). Axes are principal axes of the
        sentences, or of the topics' means, each with a positive sign on its largest entry. What tells labels apart is more
        like what tells topics apart: fewer axes then hold it, and each axis takes noise.
        Raises BadInput unless there are more public sentences than axes and at least as many dimensions as axes.
        """
        rows = np.asarray(features, dtype=np.float64)
        most = min(len(rows) - 1, rows.shape[1])
        if not 1 <= n_axes <= most:
            raise BadInput("axes", n_axes, f"must lie between 1 and {most}, with {len(rows)} public sentences")
        centre = rows.mean(axis=0)
        covariance = np.cov(rows, rowvar=False).reshape(rows.shape[1], rows.shape[1])
        topics = rows
        if radius is None or axes_of == "topics":
            topics = public_modes(rows, min(_MOST_TOPICS, max(2, len(rows) // _ROWS_OF_A_TOPIC)))
        spread = covariance if axes_of == "sentences" else np.cov(topics, rowvar=False) + _REST * covariance
        axes = np.linalg.eigh(spread)[1][:, ::-1][:, :n_axes]
        axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(n_axes)])
        if radius is None:
            radius = float(np.quantile(np.linalg.norm((topics - centre) @ axes, axis=1), 0.9))
        spherical = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        return cls(centre, axes, (1 - _SHRINK) * covariance + _SHRINK * spherical, radius)

    def residuals(self, means: Reals) -> Floats:
        """U^T(mu - m0), [..., d'] of means [..., d]; not clipped."""
        return np.asarray((means - self.centre) @ self.axes)

    def restored(self, residuals: Reals) -> Floats:
        """m0 + U r, [..., d] of residuals [..., d']."""
        return np.asarray(self.centre + residuals @ self.axes.T)


def public_modes(features: Reals, n_modes: int) -> Floats:
    """Initial prototypes: k-means centres [K, d] of public features [p, d], ordered along the first principal axis.

    Deterministic: the starts come from a fixed seed. Raises BadInput where there are fewer public sentences than modes.
    """
    if not 1 <= n_modes <= len(features):
        raise BadInput("modes", n_modes, f"must lie between 1 and the number of public sentences, {len(features)}")
    from sklearn.cluster import KMeans  # takes more than a second: pages that do not cluster should not wait for it

    rows = np.asarray(features, dtype=np.float64)
    centres = KMeans(n_modes, n_init=3, random_state=0).fit(rows).cluster_centers_
    axis = np.linalg.eigh(np.cov(rows, rowvar=False).reshape(rows.shape[1], -1))[1][:, -1]
    return np.asarray(centres[np.argsort(centres @ axis * np.sign(axis[np.abs(axis).argmax()]))])


# Public inputs of CSLR, fixed before any private text is read: anchors, the public view, and the entry matcher.


_LEAST = 4  # public sentences that must remain for the view


def anchor_places(seed: int, n: int) -> Ints:
    """The places of n public examples in the order in which a seed takes them as anchors, int64 [n]."""
    return generator(seed, "anchors").permutation(n)


@dataclass(frozen=True, slots=True, eq=False)
class PublicEmbeddings:
    """Public embeddings of one seed, unit length: anchors [m, d] drawn from them, the others [p - m, d], and their view."""

    anchors: Floats
    others: Floats
    view: PublicView

    @classmethod
    def of(
        cls, features: NDArray[np.generic] | None, seed: int, n_axes: int, radius: float | None = None, n_anchors: int = 0,
        axes_of: AxesOf = "sentences"
    ) -> PublicEmbeddings:
        """From all public features [p, d]: the anchors' order depends on the seed alone; the other sentences make the view.

        Features of fewer numbers than axes, such as a small table's, have an axis for each number. Raises BadInput for more
        anchors or axes than there are public sentences.
        """
        rows = unit_rows(features if features is not None else np.zeros((0, 1)))
        n_axes = min(n_axes, rows.shape[1])
        if n_anchors > len(rows) - _LEAST:
            allowed = f"must be at most {max(0, len(rows) - _LEAST)}: there are {len(rows)} public sentences"
            raise BadInput("params.anchors", n_anchors, allowed)
        if n_axes > (most := min(rows.shape[1], len(rows) - n_anchors - 1)):
            raise BadInput("params.dimensions", n_axes, f"must be at most {most}: public sentences span no more axes")
        order = anchor_places(seed, len(rows))
        others = rows[np.sort(order[n_anchors:])]
        return cls(rows[order[:n_anchors]], others, PublicView.of(others, n_axes, radius, axes_of))


@dataclass(frozen=True, slots=True, eq=False)
class EntryMatcher:
    """A matcher's feature map and assignment rule."""

    features: FeatureMap
    rule: Rule
    name: str = ""

    @classmethod
    def of(cls, params: ListParams, public: PublicEmbeddings) -> EntryMatcher:
        """The matcher that the settings choose."""
        if params.matcher == "random":
            return cls(mean_features, "random", "random")
        kind, norm = params.signature_covariance, params.signature_norm
        maps: dict[str, Callable[[], FeatureMap]] = {
            "target": lambda: target_features,
            "pca-mean": lambda: PcaMean(public.view.centre, public.view.axes),
            "mean": lambda: Moments() if params.rule == "ot" else mean_features,  # Eq 22 also compares covariances
            "signature": lambda: Signature(public.anchors, kind, norm, public.view.covariance),
        }
        return cls(maps[params.matcher](), params.rule, f"{params.matcher}, {params.rule}")

    def assigned(self, features: Floats, weights: Floats, groups: Floats) -> Ints:
        """Groups int64 [n, L] of lists' features [n, L, f] among prototypes [K, f]; -1 for entries of weight [n, L] zero."""
        ids = np.full(weights.shape, -1, dtype=np.int64)
        random = np.random.default_rng(0)  # only rule "random" uses it, and no figure depends on its draw
        for client in range(len(weights)):
            exist = np.flatnonzero(weights[client] > 0)
            ids[client, exist] = assign(self.rule, features[client, exist], groups, generator=random)
        return ids

    def of_means(self, means: Floats, variances: Floats, targets: Floats) -> Floats:
        """Features [K, f] of prototypes with these means [K, d], diagonal covariance [d] and targets [K, C]."""
        share = 1 / max(1, len(means))
        return self.features([Element(share, mean, variances, target) for mean, target in zip(means, targets, strict=True)])


# Clustering of all clients' lists on the server: our reference form of the paper's "deterministic stable rule".


_ROUNDS = 15


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Groups of pooled lists: `ids` int64 [n, L], `prototypes` [K, f], total squared distance `cost`."""

    ids: Ints
    prototypes: Floats
    cost: float


def pooled(
    features: Floats, n_groups: int, rule: Rule, coordinates: Floats, previous: Floats | None = None,
    weights: Floats | None = None, generator: Draw = None, n_starts: int | None = None
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
    elements = np.stack([_sorted(rows) for rows in features])
    sorted_features = np.take_along_axis(features, elements[:, :, None], axis=1)
    clients = _sorted(sorted_features.reshape(n, -1))
    sorted_features = sorted_features[clients]
    shares = np.ones((n, length)) if weights is None else weights
    shares = np.take_along_axis(shares, elements, axis=1)[clients]
    if rule == "random":
        starts = sorted_features.reshape(1, -1, width)[:, :1].repeat(n_groups, axis=1)
    else:
        chosen = sorted_features if n_starts is None else sorted_features[:: -(-n // n_starts)]
        starts = np.stack([_start(row, sorted_features.reshape(-1, width), n_groups) for row in chosen])
    ids, prototypes, cost = _alternated(sorted_features, shares, starts, rule, generator)
    place = np.take_along_axis(coordinates, elements, axis=1)[clients]
    if previous is not None:
        renamed = _assigned(squared_distances(prototypes, previous))
    else:
        belongs = (ids[..., None] == np.arange(n_groups)) * shares[..., None]
        totals, means = belongs.sum(axis=(0, 1)), np.full(n_groups, np.inf)  # groups without weight come last
        np.divide((belongs * place[..., None]).sum(axis=(0, 1)), totals, out=means, where=totals > 0)
        renamed = np.argsort(np.argsort(means, kind="stable"), kind="stable")
    group_ids = np.empty((n, length), dtype=np.int64)
    np.put_along_axis(unsorted := np.empty_like(group_ids), elements[clients], renamed[ids], axis=1)
    group_ids[clients] = unsorted
    return Pooled(group_ids, prototypes[np.argsort(renamed)], cost)


def _sorted(rows: Floats) -> Ints:
    """Permutation [n] that sorts rows [n, w] lexicographically; equal rows keep their order."""
    order = np.argsort(rows[:, 0], kind="stable")
    before, after = rows[order[:-1]], rows[order[1:]]
    if (before != after)[before[:, 0] == after[:, 0]].any():  # rare, and a hundred times slower
        order = np.lexsort(rows.T[::-1])
    return order.astype(np.int64)


def _start(entries: Floats, pool: Floats, n_groups: int) -> Floats:
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
    features: Floats, weights: Floats, prototypes: Floats, rule: Rule, generator: Draw
) -> tuple[Ints, Floats, float]:
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
