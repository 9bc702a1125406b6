"""Which entry of a list belongs to which slot: feature maps, assignment rules, and the reference rule for pooled lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.cslr.lists import Element

Rule = Literal["random", "nearest", "hungarian", "ot"]
FeatureMap = Callable[[Sequence[Element]], NDArray[np.float64]]  # elements -> [L, f]; `signatures.Signature` is one, too
POOLED_WARNING = (
    "Lists were clustered together, so removing one client can move the entries of others to other slots: "
    "how much one client changes the sum has no proven bound, and no epsilon follows."
)


def mean_features(elements: Sequence[Element]) -> NDArray[np.float64]:
    """The means themselves, [L, d] (NearestMean, Hungarian)."""
    raise NotImplementedError


def target_features(elements: Sequence[Element]) -> NDArray[np.float64]:
    """The targets, [L, C] (target matching)."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class PcaMean:
    """Means on public principal axes: [L, d'] coordinates of mean - `centre` [d] along `axes` [d, d']."""

    centre: NDArray[np.float64]
    axes: NDArray[np.float64]

    def __call__(self, elements: Sequence[Element]) -> NDArray[np.float64]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and covariance in one vector, so that squared distances are Eq 22's ||mu - mu'||² + tau ||S - S'||_F²."""

    tau: float = 1.0

    def __call__(self, elements: Sequence[Element]) -> NDArray[np.float64]:
        raise NotImplementedError


def assign(
    rule: Rule,
    features: NDArray[np.float64],
    prototypes: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    prototype_weights: NDArray[np.float64] | None = None,
    generator: np.random.Generator | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Slots int64 [L] and margins [L] of a list's features [L, f] against prototypes [K, f].

    "random": a random permutation (needs `generator`); "nearest": many to one; "hungarian": one to one at least total squared
    distance, or at most ceil(L/K) to one where the list is longer; "ot": the largest entry of each row of the coupling of
    Eq 22 under `weights` [L] and `prototype_weights` [K] (None: equal). Ties go to the lower slot.
    """
    raise NotImplementedError


def margins(features: NDArray[np.float64], prototypes: NDArray[np.float64]) -> NDArray[np.float64]:
    """(d2 - d1) / (d2 + d1) in [0, 1] of the distances to the best and second prototype: [..., L] of [..., L, f], [K, f].

    Below 0.1 is called ambiguous; 1 where there is one prototype, 0 where both distances are zero.
    """
    raise NotImplementedError


def regrets(features: NDArray[np.float64], prototypes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Extra total cost of the best one-to-one assignment when an element is barred from its slot there: [L], K >= 2."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Groups of pooled lists: `ids` int64 [n, L], `prototypes` [K, f], `margins` [n, L] and total squared distance `cost`."""

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
) -> Pooled:
    """Clusters the lists of all clients: the reference rule for the paper's "deterministic stable rule".

    From each client's list as start, assigns and averages in turn, at most 15 times, and keeps the lowest total cost. Groups are
    named by matching to the `previous` prototypes [K, f], the first time by ascending mean of `coordinates` [n, L] (each
    element's first public principal coordinate). The order of clients and of elements changes nothing.
    What a group averages depends on every client's list: see POOLED_WARNING.

    Args: features [n, L, f]; weights [n, L].
    """
    raise NotImplementedError
