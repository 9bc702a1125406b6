"""The simulator's view of matched lists: what the event `Signatures` says, from lists and the truth about them.

The server never sees any of it: only of public or simulated data may this be said. Nothing here feeds a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import AnchorScores, FullLists, ListEntries, Prototypes, PublicPart, QuantizedRows, Signatures
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.signatures import Signature
from dpcl_core.spec import Cell

_N_FITTED = 500  # public points that the axes of a map are fitted on
_N_DRAWS = 256  # of noise on a prototype, to see how far it spreads on the signatures' map
_AT_ONCE = 32  # prototypes whose noise is drawn at once: what that needs of memory grows with them


@dataclass(frozen=True, slots=True, eq=False)
class ProjectionMaps:
    """Where means and signatures are shown: two axes each, the principal ones of public points, the same in every round.

    `mean_centre` [d], `mean_axes` [d, 2]; `signature_centre` [m], `signature_axes` [m, 2] of the points' signatures.
    """

    signature: Signature
    mean_centre: NDArray[np.float64]
    mean_axes: NDArray[np.float64]
    signature_centre: NDArray[np.float64]
    signature_axes: NDArray[np.float64]

    @classmethod
    def of(cls, public: NDArray[np.floating], signature: Signature) -> ProjectionMaps:
        """From public embeddings or released prototypes [p, d], at least three; as many as are needed are used."""
        points = np.asarray(public[:_N_FITTED], dtype=np.float64)
        same = np.broadcast_to(np.maximum(points.var(axis=0), 1e-6), points.shape)
        return cls(signature, *_principal(points), *_principal(signature.of(points, same)))

    def means(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Means [..., d] on their map, [..., 2]."""
        found: NDArray[np.float64] = (means - self.mean_centre) @ self.mean_axes
        return found

    def signatures(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Signatures of means [..., d] with covariances [..., d] or [..., d, d] on theirs, [..., 2]."""
        found: NDArray[np.float64] = (self.signature.of(means, covariances) - self.signature_centre) @ self.signature_axes
        return found

    def shown(self, lists: Lists) -> tuple[float, float]:
        """Share of the variance of the lists' means, and of their signatures, that the two axes hold, each in [0, 1]."""
        signatures = self.signature.of(lists.means, lists.covariances)
        return _held(lists.means, self.mean_axes), _held(signatures, self.signature_axes)


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """One round's lists and what became of them.

    `clients` int64 [n]: whose they are; `ids` int64 [n, L]: groups; `features` [n, L, f] and `prototype_features` [K, f]:
    what the matcher compared; `prototypes`: the groups' means [K, d]; `noise_std`: of the privacy noise on each coordinate
    of a prototype along the orthonormal `noise_axes` [d, r] (None: all coordinates), 0 where there is none; `names`: of the
    groups; `modes` int64 [n, L]: the truth, -1 where nobody knows, and `mode_names` by number.
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


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured beside the matching itself; see `events.Signatures`. Empty parts are not shown."""

    agreement: Mapping[str, float] = field(default_factory=dict)
    noise_levels: tuple[float, ...] = ()
    agreement_at: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    demanded: Mapping[str, float] = field(default_factory=dict)
    signal: Mapping[str, float] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    anchors: AnchorScores | None = None
    n_compared: int | None = None


@dataclass(frozen=True, slots=True)
class InFull:
    """What of a round is told in full, too; see `events.Signatures`."""

    prototypes: QuantizedRows
    lists: FullLists | None
    public: PublicPart | None


def signatures(
    cell: Cell,
    task: int,
    round: int,
    matched: Matched,
    maps: ProjectionMaps,
    measured: Measured | None = None,
    in_full: InFull | None = None,
) -> Signatures:
    """The event of one round. Entries without rows are left out: they stand for nothing."""
    lists, measured = matched.lists, measured if measured is not None else Measured()
    exists = lists.weights > 0
    means = maps.means(lists.means)[exists]
    points = maps.signatures(lists.means, lists.covariances)[exists]
    regrets: list[float | None] = [None] * int(exists.sum())
    if matched.is_one_to_one and len(matched.prototype_features) >= 2:
        regrets = [round_to(value) for value in _regrets(matched)[exists]]
    clients = np.broadcast_to(matched.clients[:, None], exists.shape)
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
        prototypes=replace(_prototypes(matched, maps), full=in_full.prototypes if in_full is not None else None),
        shown=maps.shown(lists),
        matcher=matched.matcher,
        agreement=dict(measured.agreement),
        noise_levels=measured.noise_levels,
        agreement_at=dict(measured.agreement_at),
        demanded=dict(measured.demanded),
        signal=dict(measured.signal),
        noise=dict(measured.noise),
        anchors=measured.anchors,
        mode_names=matched.mode_names,
        lists=in_full.lists if in_full is not None else None,
        public=in_full.public if in_full is not None else None,
        n_compared=measured.n_compared,
    )


def round_to(value: float, digits: int = 4) -> float:
    """A number to so many significant digits: an event is kept and sent often, and a picture shows no more."""
    return float(f"{value:.{digits}g}")


def _regrets(matched: Matched) -> NDArray[np.float64]:
    """Extra cost [n, L] of a list when an entry is barred from its group, over the list's cost as it is."""
    groups = matched.prototype_features
    costs = np.stack([matchers.squared_distances(of, groups) for of in matched.features])
    own = np.take_along_axis(costs, np.maximum(matched.ids, 0)[:, :, None], axis=2)[..., 0].sum(axis=1)
    extra = np.stack([matchers.regrets(of, groups) for of in matched.features])
    found: NDArray[np.float64] = extra / np.maximum(own, 1e-12)[:, None]
    return found


def _prototypes(matched: Matched, maps: ProjectionMaps) -> Prototypes:
    """The prototypes on both maps, with the spread of their noise there; their covariance is the average entry's."""
    middle = matched.lists.covariances.mean(axis=(0, 1))
    covariances = np.broadcast_to(middle, (len(matched.prototypes), *middle.shape))
    mean_spread, signature_spread = _spreads(matched, maps, covariances)
    return Prototypes(
        name=matched.names,
        mean=_pairs(maps.means(matched.prototypes)),
        signature=_pairs(maps.signatures(matched.prototypes, covariances)),
        mean_spread=mean_spread,
        signature_spread=signature_spread,
    )


Spread = tuple[tuple[float, float, float], ...]


def _spreads(matched: Matched, maps: ProjectionMaps, covariances: NDArray[np.float64]) -> tuple[Spread, Spread]:
    """Covariance (xx, xy, yy) of the prototypes' noise on the two maps: nothing is released.

    Where a map is linear all prototypes' noise is as wide, and follows from the noise along each axis; else it is drawn.
    """
    n_groups, n_inputs = matched.prototypes.shape
    if not matched.noise_std:
        return (((0.0,) * 3,) * n_groups,) * 2
    axes = matched.noise_axes if matched.noise_axes is not None else np.eye(n_inputs)
    along = matched.noise_std * axes.T
    on_means = (_spread(maps.mean_axes.T @ (along.T @ along) @ maps.mean_axes),) * n_groups
    if maps.signature.is_linear:
        here, wide = matched.prototypes[:1], np.broadcast_to(covariances[0], (len(along), *covariances.shape[1:]))
        steps = maps.signatures(here + along, wide) - maps.signatures(here, covariances[:1])
        return on_means, (_spread(steps.T @ steps),) * n_groups
    drawn = np.random.default_rng(0).standard_normal((_N_DRAWS, n_groups, axes.shape[1]))
    on_signatures = np.empty((_N_DRAWS, n_groups, 2))
    for first in range(0, n_groups, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        moved = matched.prototypes[some] + drawn[:, some] @ along
        wide = np.broadcast_to(covariances[some], (_N_DRAWS, *covariances[some].shape))
        on_signatures[:, some] = maps.signatures(moved, wide)
    return on_means, tuple(_spread(np.cov(on_signatures[:, group].T)) for group in range(n_groups))


def _spread(covariance: NDArray[np.float64]) -> tuple[float, float, float]:
    """What of a covariance [2, 2] is told."""
    return round_to(covariance[0, 0]), round_to(covariance[0, 1]), round_to(covariance[1, 1])


def _principal(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle [f] and the two principal axes [f, 2] of points [p, f], each axis with its largest part positive."""
    centre = points.mean(axis=0)
    _, _, axes = np.linalg.svd(points - centre, full_matrices=False)
    first = axes[:2]
    largest = np.take_along_axis(first, np.abs(first).argmax(axis=1)[:, None], axis=1)
    return centre, (first * np.sign(largest)).T


def _held(points: NDArray[np.float64], axes: NDArray[np.float64]) -> float:
    """Share of the variance of points [..., f] along these orthonormal axes [f, 2]."""
    rows = points.reshape(-1, points.shape[-1])
    away = rows - rows.mean(axis=0)
    total = float((away**2).sum())
    return round_to(float(((away @ axes) ** 2).sum()) / total) if total > 0 else 1.0


def _pairs(points: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    return tuple((round_to(x), round_to(y)) for x, y in points.tolist())
