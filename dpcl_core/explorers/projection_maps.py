"""The simulator's view of matched lists: the event `Signatures`, from lists and their true modes.

The server never sees any of it, and it may be computed only from public or simulated data. Nothing here feeds a release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import ListEntries, Prototypes, Signatures
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.spec import Cell

_N_DRAWS = 256  # draws of a prototype's noise, for its spread on the signatures' map
_AT_ONCE = 32  # prototypes whose noise is drawn in one pass: memory grows with their number


@dataclass(frozen=True, slots=True, eq=False)
class ProjectionMaps:
    """Maps of means and of signatures: two principal axes of public points each, the same in every round.

    `mean_centre` [d], `mean_axes` [d, 2]; `signature_centre` [m], `signature_axes` [m, 2] of the points' signatures.
    """

    signature: Signature
    mean_centre: NDArray[np.float64]
    mean_axes: NDArray[np.float64]
    signature_centre: NDArray[np.float64]
    signature_axes: NDArray[np.float64]

    @classmethod
    def of(cls, public: NDArray[np.floating], signature: Signature) -> ProjectionMaps:
        """From public embeddings or released prototypes [p, d], at least three; uses at most the first 500."""
        points = np.asarray(public[:500], dtype=np.float64)
        same = np.broadcast_to(np.maximum(points.var(axis=0), 1e-6), points.shape)
        return cls(signature, *_principal(points), *_principal(signature.of(points, same)))

    def means(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means [..., d] on their map, [..., 2]."""
        return (means - self.mean_centre) @ self.mean_axes

    def signatures(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Signatures of means [..., d] with covariances [..., d] or [..., d, d] on their map, [..., 2]."""
        return (self.signature.of(means, covariances) - self.signature_centre) @ self.signature_axes

    def shown(self, lists: Lists) -> tuple[float, float]:
        """Share of the variance of the lists' means, and of their signatures, along the two axes, each in [0, 1]."""
        signatures = self.signature.of(lists.means, lists.covariances)
        return _explained(lists.means, self.mean_axes), _explained(signatures, self.signature_axes)


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """One round's lists and their matched groups.

    `clients` int64 [n]: the lists' clients; `ids` int64 [n, L]: groups; `features` [n, L, f] and `prototype_features` [K,
    f]: compared by the matcher; `prototypes`: the groups' means [K, d]; `noise_std`: of the privacy noise on each coordinate
    of a prototype along the orthonormal `noise_axes` [d, r] (None: all coordinates), 0 for none; `names`: of the groups;
    `modes` int64 [n, L]: the true modes, -1 if unknown; `mode_names`: by number.
    """

    lists: Lists
    clients: NDArray[np.int64]
    ids: NDArray[np.int64]
    features: NDArray[np.float64]
    prototype_features: NDArray[np.float64]
    prototypes: NDArray[np.float64]
    names: tuple[str, ...]
    modes: NDArray[np.int64]
    matcher: str
    is_one_to_one: bool
    noise_std: float = 0.0
    noise_axes: NDArray[np.float64] | None = None
    mode_names: tuple[str, ...] = ()


def matched_by(
    compared: matchers.EntryMatcher, lists: Lists, features: NDArray[np.float64], prototypes: NDArray[np.float64],
    targets: NDArray[np.float64], **shown: Any,
) -> Matched:  # fmt: skip
    """The lists, whose `features` the matcher compares, matched to released prototypes [K, d]. `shown`: all other fields."""
    groups = compared.of_means(prototypes, np.full(prototypes.shape[1], 1 / prototypes.shape[1]), targets)
    return Matched(
        lists=lists, ids=compared.assigned(features, lists.weights, groups), features=features, prototype_features=groups,
        prototypes=prototypes, matcher=compared.name,
        is_one_to_one=compared.rule == "hungarian" and 2 <= lists.weights.shape[1] <= len(groups), **shown,
    )  # fmt: skip


def signatures(cell: Cell, task: int, round: int, matched: Matched, maps: ProjectionMaps) -> Signatures:
    """The event of one round, without measurements. Entries without rows are left out."""
    lists = matched.lists
    exists = lists.weights > 0
    means = maps.means(lists.means)[exists]
    points = maps.signatures(lists.means, lists.covariances)[exists]
    regrets: list[float | None] = [None] * int(exists.sum())
    if matched.is_one_to_one and len(matched.prototype_features) >= 2:
        # The extra cost of a list when an entry is barred from its group, relative to the list's current cost.
        groups = matched.prototype_features
        costs = np.stack([matchers.squared_distances(features, groups) for features in matched.features])
        current = np.take_along_axis(costs, np.maximum(matched.ids, 0)[:, :, None], axis=2)[..., 0].sum(axis=1)
        extra = np.stack([matchers.regrets(features, groups) for features in matched.features])
        regrets = [round_to(value) for value in (extra / np.maximum(current, 1e-12)[:, None])[exists]]
    clients = np.broadcast_to(matched.clients[:, None], exists.shape)
    # The prototypes on both maps, with the spread of their noise; their covariance is the average entry's.
    average = matched.lists.covariances.mean(axis=(0, 1))
    covariances = np.broadcast_to(average, (len(matched.prototypes), *average.shape))
    mean_spread, signature_spread = _spreads(matched, maps, covariances)
    return Signatures(
        cell=cell,
        task=task,
        round=round,
        entries=ListEntries(
            client=tuple(clients[exists].tolist()),
            weight=tuple(map(round_to, lists.weights[exists])),
            mean=_pairs(means),
            signature=_pairs(points),
            group=tuple(matched.ids[exists].tolist()),
            margin=tuple(map(round_to, matchers.margins(matched.features, matched.prototype_features)[exists])),
            regret=tuple(regrets),
            mode=tuple(matched.modes[exists].tolist()),
        ),
        prototypes=Prototypes(
            name=matched.names,
            mean=_pairs(maps.means(matched.prototypes)),
            signature=_pairs(maps.signatures(matched.prototypes, covariances)),
            mean_spread=mean_spread,
            signature_spread=signature_spread,
        ),
        shown=maps.shown(lists),
        matcher=matched.matcher,
        agreement={},
        noise_levels=(),
        agreement_at={},
        demanded={},
        signal={},
        noise={},
        mode_names=matched.mode_names,
    )


def round_to(value: float, digits: int = 4) -> float:
    """A number to this many significant digits: events are stored and sent often, and a figure shows no more."""
    return float(f"{value:.{digits}g}")


Spread = tuple[tuple[float, float, float], ...]


def _spreads(matched: Matched, maps: ProjectionMaps, covariances: NDArray[np.float64]) -> tuple[Spread, Spread]:
    """Covariance (xx, xy, yy) of the prototypes' noise on the two maps. Not a release.

    On a linear map all prototypes have the same covariance, computed from the noise along each axis; otherwise it is
    estimated from draws.
    """
    n_groups, n_inputs = matched.prototypes.shape
    if not matched.noise_std:
        return (((0.0,) * 3,) * n_groups,) * 2
    axes = matched.noise_axes if matched.noise_axes is not None else np.eye(n_inputs)
    along = matched.noise_std * axes.T
    on_means = (_spread(maps.mean_axes.T @ (along.T @ along) @ maps.mean_axes),) * n_groups
    if maps.signature.is_linear:
        prototype, repeated = matched.prototypes[:1], np.broadcast_to(covariances[0], (len(along), *covariances.shape[1:]))
        steps = maps.signatures(prototype + along, repeated) - maps.signatures(prototype, covariances[:1])
        return on_means, (_spread(steps.T @ steps),) * n_groups
    drawn = np.random.default_rng(0).standard_normal((_N_DRAWS, n_groups, axes.shape[1]))
    on_signatures = np.empty((_N_DRAWS, n_groups, 2))
    for first in range(0, n_groups, _AT_ONCE):
        block = slice(first, first + _AT_ONCE)
        moved = matched.prototypes[block] + drawn[:, block] @ along
        repeated = np.broadcast_to(covariances[block], (_N_DRAWS, *covariances[block].shape))
        on_signatures[:, block] = maps.signatures(moved, repeated)
    return on_means, tuple(_spread(np.cov(on_signatures[:, group].T)) for group in range(n_groups))


def _spread(covariance: NDArray[np.float64]) -> tuple[float, float, float]:
    """The entries xx, xy, yy of a covariance [2, 2]."""
    return round_to(covariance[0, 0]), round_to(covariance[0, 1]), round_to(covariance[1, 1])


def _principal(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean [f] and the two principal axes [f, 2] of points [p, f], each axis with its largest component positive."""
    centre = points.mean(axis=0)
    _, _, axes = np.linalg.svd(points - centre, full_matrices=False)
    first = axes[:2]
    largest = np.take_along_axis(first, np.abs(first).argmax(axis=1)[:, None], axis=1)
    return centre, (first * np.sign(largest)).T


def _explained(points: NDArray[np.float64], axes: NDArray[np.float64]) -> float:
    """Share of the variance of points [..., f] along these orthonormal axes [f, 2]."""
    rows = points.reshape(-1, points.shape[-1])
    away = rows - rows.mean(axis=0)
    total = float((away**2).sum())
    return round_to(float(((away @ axes) ** 2).sum()) / total) if total > 0 else 1.0


def _pairs(points: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    return tuple((round_to(x), round_to(y)) for x, y in points.tolist())
