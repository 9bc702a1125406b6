"""What-if: a run's recorded lists matched again with fewer anchors or added noise. Not a release.

Everything is computed from the run's recorded lists of public or simulated data, rounded as recorded: nothing is trained, no
ledger is charged, and no result of the run changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.explorers import matching, projection_maps
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings, PublicView, Rule
from dpcl_core.methods.federated.params import ListParams
from dpcl_core.spec import Params

# Position-based subsample of long lists on which matchers are compared: by position only, so that it favours none.


LONGEST = 80  # most entries of a list compared in full: an assignment costs their number cubed
SUBSAMPLE_SIZE = 32  # entries kept of a longer list


def is_long(modes: NDArray[np.int64]) -> bool:
    """Whether lists with these modes [n, L] are too long to be compared in full."""
    return bool(modes.shape[1] > LONGEST)


def subsample(lists: Lists, modes: NDArray[np.int64]) -> tuple[Lists, NDArray[np.int64]]:
    """Long lists, of diagonal covariances, cut to at most `SUBSAMPLE_SIZE` entries each, and their modes int64.

    Keeps entries of known mode: the first entry of every mode before the second of any, in their original order. Shorter
    results are padded with entries of weight zero and mode -1. Raises ValueError for full covariances.
    """
    if lists.covariances.ndim != 3:
        raise ValueError("subsample: full covariances")
    places = [_chosen(row) for row in modes]
    length, d = max(map(len, places), default=0), lists.means.shape[2]
    exists = np.arange(length) < np.array([len(row) for row in places])[:, None]
    at = np.zeros(exists.shape, dtype=np.int64)
    at[exists] = np.concatenate(places)
    weights, kept_modes = np.take_along_axis(lists.weights, at, axis=1), np.take_along_axis(modes, at, axis=1)
    means, covariances, targets = (
        np.take_along_axis(values, at[..., None], axis=1) for values in (lists.means, lists.covariances, lists.targets)
    )
    mask = exists[..., None]
    shortened = Lists(weights * exists, means * mask, np.where(mask, covariances, 1 / d), targets * mask)
    return shortened, np.where(exists, kept_modes, -1)


def _chosen(modes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending positions of the entries of one list that are kept, from its modes [L]."""
    candidates = np.flatnonzero(modes >= 0)
    same = modes[candidates][:, None] == modes[candidates]
    nth = np.tril(same, -1).sum(axis=1)
    return np.sort(candidates[np.argsort(nth, kind="stable")[:SUBSAMPLE_SIZE]])


ENTRY = "mean of one entry, under this noise"
_STARTS = 3  # starts of a clustering, for speed: a run uses up to twenty, and may differ in the second digit
_BY_ANCHORS = ("anchors, raw", "anchors, ranked", matching.CENTRED)


@dataclass(frozen=True, eq=False)
class Rematch:
    """One round of a run, and the inputs to match it again.

    `lists`: the recorded clients' clean lists, the tasks so far concatenated; `modes` int64 [n, L]; `clients` int64 [n]: the
    lists' clients; `has_homes`: whether each client belongs to one task and has a list of that task only; `prototypes`
    [K, d] as released; `has_variances`: whether entries' own covariances were recorded.
    """

    now: Signatures
    params: ListParams
    public: PublicEmbeddings
    run_maps: projection_maps.ProjectionMaps
    lists: Lists
    modes: NDArray[np.int64]
    clients: NDArray[np.int64]
    has_homes: bool
    prototypes: NDArray[np.float64]
    has_variances: bool

    @classmethod
    def of(cls, events: Sequence[Signatures], now: Signatures, params: Params) -> Rematch | None:
        """From all of a run's events; None where they do not hold this seed's full lists."""
        of_seed = [event for event in events if event.cell.seed == now.cell.seed]
        recorded = next((event.public for event in of_seed if event.public is not None), None)
        tasks = {event.task: event.lists for event in of_seed if event.lists is not None and event.task <= now.task}
        if recorded is None or now.prototypes.full is None or sorted(tasks) != list(range(now.task + 1)):
            return None
        assert isinstance(params, ListParams)  # only methods with lists record them
        in_order = [tasks[task] for task in sorted(tasks)]
        lists, modes, clients = matching.lists_of(in_order, recorded.variance)
        anchors, d = matching.rows_of(recorded.anchors), len(recorded.centre)
        axes = matching.rows_of(recorded.axes).T
        public = PublicEmbeddings(
            anchors, anchors, PublicView(np.array(recorded.centre), axes, recorded.variance * np.eye(d), 1.0)
        )
        signature = Signature(anchors, params.signature_covariance, params.signature_norm, public.view.covariance)
        mean_centre, *mean_axes = map(np.array, recorded.mean_map)
        signature_centre, *signature_axes = map(np.array, recorded.signature_map)
        maps = projection_maps.ProjectionMaps(
            signature, mean_centre, np.stack(mean_axes, axis=1), signature_centre, np.stack(signature_axes, axis=1)
        )
        return cls(
            now, params, public, maps, lists, modes, clients,
            has_homes=any(task.client for task in in_order),
            prototypes=matching.rows_of(now.prototypes.full),
            has_variances=all(task.log_variances is not None for task in in_order),
        )  # fmt: skip

    @property
    def n_anchors(self) -> int:
        """The run's number of anchors."""
        return len(self.public.anchors)

    def event(self, m: int, noise: float) -> Signatures:
        """The round as matched by the first m anchors, with this noise on every coordinate of every entry.

        Prototypes and the ellipses around them stay as released by the run. Agreement, sweep and anchors' scores are left
        empty: they take longer, and have methods of their own.
        """
        lists, compared, maps = _noised(self.lists, noise), self._compared(m), self._maps(m)
        features = matchers.list_features(lists, compared.features)
        d = self.prototypes.shape[1]
        groups = compared.of_means(self.prototypes, np.full(d, 1 / d), np.zeros((len(self.prototypes), 1)))
        length = lists.weights.shape[1]
        matched = projection_maps.Matched(
            lists=lists,
            clients=self.clients,
            ids=compared.assigned(features, lists.weights, groups),
            features=features,
            prototype_features=groups,
            prototypes=self.prototypes,
            names=self.now.prototypes.name,
            modes=self.modes,
            matcher=compared.name,
            is_one_to_one=compared.rule == "hungarian" and 2 <= length <= len(groups),
            noise_std=self.now.demanded.get("central", 0.0),
            noise_axes=self.public.view.axes,
            mode_names=self.now.mode_names,
        )
        signal, noises = dict(self.now.signal), dict(self.now.noise)
        if noise:
            away = np.linalg.norm(self.lists.means - self.public.view.centre, axis=-1)
            signal[ENTRY], noises[ENTRY] = float(away[self.lists.weights > 0].mean()), noise * d**0.5
        n_compared = int((self._compared_part[1] >= 0).sum()) if is_long(self.modes) else None
        measured = projection_maps.Measured(demanded=self.now.demanded, signal=signal, noise=noises, n_compared=n_compared)
        return projection_maps.signatures(self.now.cell, self.now.task, self.now.round, matched, maps, measured)

    def agreement(self, m: int, noise: float) -> dict[str, float]:
        """Agreement of every matcher's groups with the true modes on these lists; anchor matchers use the first m anchors.

        Without noise the lists are the run's: its own measurements on the same entries are reused. Long lists are
        subsampled, as in a run.
        """
        if not self.has_truth:
            return {}
        matchers = self._matchers(m)
        recorded = {
            name: value for name, value in self.now.agreement.items() if name in matchers and not self._reads_anchors(name)
        } if not noise and self._is_compared_alike else {}  # fmt: skip
        remaining = {name: matcher for name, matcher in matchers.items() if name not in recorded}
        lists, modes = self._compared_part
        noised = _noised(lists, noise)
        computed = matching.agreement(noised, modes, remaining, self.public.view, 0, most_starts=_STARTS)
        return {name: {**recorded, **computed}[name] for name in matchers}

    def sweep(self, m: int) -> dict[str, tuple[float, ...]]:
        """`agreement` at every level of noise."""
        if not self.has_truth:
            return {}
        matchers = self._matchers(m)
        recorded = {
            name: tuple(values) for name, values in self.now.agreement_at.items() if not self._reads_anchors(name)
        } if self._is_compared_alike else {}  # fmt: skip
        names = [name for name in matching.SWEPT if name in matchers]
        remaining, view = [name for name in names if name not in recorded], self.public.view
        computed = matching.under_noise(*self._compared_part, matchers, view, [0], remaining, most_starts=_STARTS)
        return {name: {**recorded, **computed}[name] for name in names}

    def scores(self, noise: float) -> AnchorScores | None:
        """Separation and agreement by number of anchors, on lists with this noise."""
        if not self.has_truth:
            return None
        lists, modes = self._compared_part
        n_entries = int((self.modes >= 0).sum())
        anchors, view = self.public.anchors, self.public.view
        return matching.anchor_scores(_noised(lists, noise), modes, anchors, view, self._rule, 0, n_entries)

    @property
    def is_part(self) -> bool:
        """Whether only the first clients' full lists were recorded."""
        return not set(self.now.entries.client) <= set(self.clients.tolist())

    @cached_property
    def _compared_part(self) -> tuple[Lists, NDArray[np.int64]]:
        """The lists on which matchers are compared, and their modes."""
        return subsample(self.lists, self.modes) if is_long(self.modes) else (self.lists, self.modes)

    @property
    def _is_compared_alike(self) -> bool:
        """Whether the run compared the same entries: both take the first ones, so equal counts mean equal entries."""
        in_run = self.now.n_compared
        n_entries = in_run if in_run is not None else sum(mode >= 0 for mode in self.now.entries.mode)
        return int((self._compared_part[1] >= 0).sum()) == n_entries

    @property
    def has_truth(self) -> bool:
        """Whether there are at least two true modes."""
        return len(set(self.modes[self.modes >= 0].tolist())) > 1

    @property
    def _rule(self) -> Rule:
        return "nearest" if self.params.rule == "ot" else self.params.rule  # optimal transport takes 30 times as long

    def _matchers(self, m: int) -> dict[str, matching.Matcher]:
        """The matchers that a run compares, the run's own last; without optimal transport."""
        usual = matching.usual(self.public.view, self.public.anchors[:m], self._rule)
        compared = self._compared(m)
        by_name = {**usual, compared.name: matching.Matcher(compared.features, compared.rule)}
        return {
            name: matcher
            for name, matcher in by_name.items()
            if matcher.rule != "ot" and (self.has_variances or name not in _BY_ANCHORS[:2])
        }

    def _reads_anchors(self, matcher: str) -> bool:
        return matcher in _BY_ANCHORS or matcher.startswith("signature")

    def _compared(self, m: int) -> EntryMatcher:
        return EntryMatcher.of(self.params, replace(self.public, anchors=self.public.anchors[:m]))

    def _maps(self, m: int) -> projection_maps.ProjectionMaps:
        """The run's maps; fewer anchors get their own axes, Procrustes-aligned to the run's map so that it does not flip."""
        if m == self.n_anchors:
            return self.run_maps
        points = self.public.anchors
        spread = np.broadcast_to(np.maximum(points.var(axis=0), 1e-6), points.shape)
        fresh = projection_maps.ProjectionMaps.of(points, replace(self.run_maps.signature, anchors=points[:m]))
        before, after = (maps.signatures(points, spread) for maps in (self.run_maps, fresh))
        left, _, right = np.linalg.svd(after.T @ (before - before.mean(axis=0)))
        turned = fresh.signature_axes @ left @ right
        return replace(
            fresh, mean_centre=self.run_maps.mean_centre, mean_axes=self.run_maps.mean_axes, signature_axes=turned
        )


def _noised(lists: Lists, noise: float) -> Lists:
    """The lists with noise of one draw for all levels, so that entries move along straight lines as noise grows."""
    return matching.noised(lists, noise, np.random.default_rng(0)) if noise else lists
