"""Records matched client lists for visualisation, and matches recorded ones again.

Simulation on public data only; the server never sees any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.events import AnchorScores, Event, Signatures
from dpcl_core.explorers import matching, projection_maps
from dpcl_core.methods.common.method import LearnerEvent, Observation, PublicContext
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.client_release import ListsObserved, NoiseStd, Replay
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings, PublicView, Rule
from dpcl_core.methods.federated.params import ListParams
from dpcl_core.spec import Cell, Params, RunSpec

T = TypeVar("T")
_MEAN, _SECOND = "mean on public axes", "second moment, were it released"
_WHOLE_MEAN, _WHOLE_SECOND = "mean", "second moment"


@dataclass(frozen=True, slots=True, eq=False)
class _Space:
    """The matcher, signature and maps of a run, from public data only.

    `has_full_lists`: whether full lists go into the log. They do not if labels are compared, which anchors and noise do not
    change, or if matching needs a full public covariance matrix.
    """

    public: PublicEmbeddings
    compared: EntryMatcher
    signature: Signature
    maps: projection_maps.ProjectionMaps
    has_full_lists: bool

    @classmethod
    def of(cls, params: ListParams, public: PublicEmbeddings) -> _Space:
        shown = public.anchors if len(public.anchors) > 1 else public.others
        kind, norm = params.signature_covariance, params.signature_norm
        signature = Signature(shown, kind, norm, public.view.covariance)
        needs_matrix = kind in ("shared-full", "own-shrunk")
        has_full_lists = len(public.anchors) > 1 and params.matcher != "target" and not needs_matrix
        compared, maps = EntryMatcher.of(params, public), projection_maps.ProjectionMaps.of(public.others, signature)
        return cls(public, compared, signature, maps, has_full_lists)


class MatchingLog:
    """Turns observed lists into events: matched groups of entries, their places on maps, and the matchers' agreement.

    Entries are matched to the groups of all tasks so far without their labels, as a server with only the lists
    would have to; a method that has the label does better. Data that no page shows are left out: the user's own, and
    texts of distress. Keeps the lists of earlier tasks to draw them, which no client or server of the method does.
    """

    KEPT, kept_records = ("_lists", "_kept"), (Lists,)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        assert isinstance(spec.params, ListParams)
        dataset = datasets.CARDS.get(spec.data.dataset)  # a person's own data are not among them
        self._is_shown = dataset is not None and dataset.may_show
        self._params, self._cells, self._names = spec.params, tuple(cells), context.classes
        self._space: _Space | None = None
        self._lists: list[Lists] = []
        self._measured_lists: Lists | None = None  # the task's lists that were measured last
        self._measurements: dict[str, Any] = {}  # fields of the event
        self._kept: set[int] = set()  # tasks whose lists are in the log in full
        self._n_tasks, self._is_first_budget = context.n_tasks, self._cells[0].epsilon == spec.privacy.epsilons[0]
        self._has_homes = context.recurrence == "once"  # each client belongs to one task
        self._is_first_seed = self._cells[0].seed == spec.seeds[0]
        # Slow measurements are made once per run: for the first seed, after the last task.
        self._last = context.n_tasks - 1 if self._is_first_seed else -1

    def events(self, observed: ListsObserved) -> Iterator[Signatures]:
        """One event per budget: the observed lists with those of earlier tasks, and the budget's releases so far."""
        if not self._is_shown:
            return
        space = self._space = self._space or _Space.of(self._params, observed.public)
        lists, task = observed.lists(), observed.task
        self._lists[task:] = [lists]
        if self._has_homes:
            joined, clients = Lists.of_homes(self._lists)
        else:
            joined = Lists.of_tasks(self._lists)
            clients = np.arange(len(joined))
        if not len(clients):
            return
        features, modes = matchers.list_features(joined, space.compared.features), _modes(joined)
        if self._measured_lists is not lists:  # a task's lists are observed twice, and measured once
            self._measured_lists = lists
            self._measurements = self._measured(space, joined, clients, modes, is_last=task == self._last)
        for cell, parts, std in zip(self._cells, observed.parts, observed.stds, strict=True):
            targets = np.concatenate([part.targets for part in parts])
            matched = projection_maps.matched_by(
                space.compared, joined, features, np.concatenate([part.means for part in parts]), targets,
                clients=clients, modes=modes, names=self._group_names(targets), mode_names=self._names,
                noise_std=std.mean, noise_axes=space.public.view.axes,
            )  # fmt: skip
            event = replace(
                projection_maps.signatures(cell, task, observed.round, matched, space.maps),
                demanded={"central": std.mean, "local": std.local},
                signal=_signal(lists, space.public, std),
                noise=_noise(space.public, std),
                **self._measurements,
            )
            yield self._with_full_lists(event, space, lists, parts)

    def _with_full_lists(self, event: Signatures, space: _Space, lists: Lists, parts: Sequence[Replay]) -> Signatures:
        """The event with inputs to match again: each task's lists of the first seed, in the first budget's first event."""
        is_matrix = lists.covariances.ndim != 3 and space.signature.covariance == "own"
        if not self._is_first_seed or not space.has_full_lists or is_matrix:
            return event
        means = matching.quantized(np.concatenate([replay.means for replay in parts]))
        event = replace(event, prototypes=replace(event.prototypes, full=means))
        if event.task in self._kept or not self._is_first_budget:
            return event
        clients = matching.encoded_clients(lists, self._n_tasks, has_homes=self._has_homes)
        public = matching.public_part(space.public, space.maps) if not self._kept else None
        self._kept.add(event.task)
        entries = matching.full_lists(lists, _modes(lists), clients, has_homes=self._has_homes)
        return replace(event, lists=entries, public=public)

    def _group_names(self, targets: NDArray[np.float64]) -> tuple[str, ...]:
        labels = targets.argmax(axis=1).tolist()
        counts = [labels[:place].count(label) for place, label in enumerate(labels)]
        names = [self._names[label] if label < len(self._names) else str(label) for label in labels]
        several = {label for label in labels if labels.count(label) > 1}
        named = zip(names, counts, labels, strict=True)
        return tuple(f"{name} {nth + 1}" if label in several else name for name, nth, label in named)

    def _measured(
        self, space: _Space, compared: Lists, clients: NDArray[np.int64], modes: NDArray[np.int64], *, is_last: bool
    ) -> dict[str, Any]:
        """Agreement of the matchers' groups of these lists with the labels, by field of the event; empty for one label.

        Long lists are subsampled, since all entries would take minutes: only clients whose full lists are logged, and
        nothing where covariances are matrices. Optimal transport is left out: it takes thirty times as long as any other.
        """
        n_entries, n_compared = int((modes >= 0).sum()), None
        if is_long(modes):
            if compared.covariances.ndim != 3:
                return {}
            # Clients whose lists are encoded in all tasks, or in the one that a client belongs to.
            encoded = [matching.encoded_clients(one, self._n_tasks, has_homes=self._has_homes) for one in self._lists]
            first = np.isin(clients, np.concatenate(encoded) if self._has_homes else min(encoded, key=len))
            compared, modes = subsample(compared.take(np.flatnonzero(first)), modes[first])
            n_compared = int((modes >= 0).sum())
        if len(set(modes[modes >= 0].tolist())) < 2:
            return {}
        view, anchors = space.public.view, space.signature.anchors
        rule = _quick_rule(self._params)
        usual = matching.usual(view, anchors, rule)
        quick = _without_transport(usual, space.compared)
        measured = {"agreement": matching.agreement(compared, modes, quick, view, 0), "n_compared": n_compared}
        if not is_last or compared.covariances.ndim != 3:
            return measured
        return {
            **measured,
            "noise_levels": matching.LEVELS,
            "agreement_at": matching.under_noise(compared, modes, usual, view, [0]),
            "anchors": matching.anchor_scores(compared, modes, anchors, view, rule, 0, n_entries),
        }


def _quick_rule(params: ListParams) -> Rule:
    """The run's rule of assignment; another one for optimal transport, which takes thirty times as long."""
    return "nearest" if params.rule == "ot" else params.rule


def _without_transport(usual: Mapping[str, EntryMatcher], own: EntryMatcher) -> dict[str, EntryMatcher]:
    """The usual matchers and the run's own, last; those by optimal transport left out."""
    return {name: matcher for name, matcher in {**usual, own.name: own}.items() if matcher.rule != "ot"}


def _modes(lists: Lists) -> NDArray[np.int64]:
    """The entries' labels [N, entries]; -1 for entries without rows."""
    return np.where(lists.weights > 0, lists.targets.argmax(axis=2), -1)


def _signal(lists: Lists, public: PublicEmbeddings, std: NoiseStd) -> dict[str, float]:
    """Mean distance of the labels' clean means from the public centre; for second moments, the public sentences' norm."""
    view, modes = public.view, _modes(lists)
    of_labels = [lists.weights * (modes == label) for label in np.unique(modes[modes >= 0])]
    of_label_means = [(weights[..., None] * lists.means).sum(axis=(0, 1)) / weights.sum() for weights in of_labels]
    means = np.array(of_label_means or [view.centre])
    if std.released == "axes":
        residual = float(np.linalg.norm(view.residuals(means), axis=-1).mean())
        return {_MEAN: residual, _SECOND: float(np.linalg.norm(view.covariance))}
    second = view.covariance + np.outer(view.centre, view.centre)
    length = np.linalg.norm(second if std.released == "full" else np.diag(second))
    return {_WHOLE_MEAN: float(np.linalg.norm(means - view.centre, axis=-1).mean()), _WHOLE_SECOND: float(length)}


def _noise(public: PublicEmbeddings, std: NoiseStd) -> dict[str, float]:
    """Expected norms of the noise: on a mean's released values, and on d or d² values of a second moment."""
    d, n_axes = public.view.axes.shape
    if std.released == "axes":
        return {_MEAN: std.mean * n_axes**0.5, _SECOND: std.second * d}
    return {_WHOLE_MEAN: std.mean * d**0.5, _WHOLE_SECOND: std.second * (d if std.released == "full" else d**0.5)}


class Observer:
    """Passes on one learner's events, with observed lists replaced by a log's events."""

    KEPT: ClassVar[tuple[str, ...]] = ("_log",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._spec, self._cells, self._context = spec, cells, context
        self._log: MatchingLog | None = None  # made for the first observation: other methods have none

    def reopen(self) -> None:
        """Makes the log."""
        self._log = MatchingLog(self._spec, self._cells, self._context)

    def events(self, learner_events: Iterable[LearnerEvent]) -> Iterator[Event]:
        """The events of a task. Raises TypeError for an observation of any other kind."""
        for event in learner_events:
            if isinstance(event, ListsObserved):
                self._log = self._log or MatchingLog(self._spec, self._cells, self._context)
                yield from self._log.events(event)
            elif isinstance(event, Observation):
                raise TypeError(f"no explorer handles {type(event).__name__}")
            else:
                yield event


# Position-based subsample of long lists on which matchers are compared: by position only, so that it favours none.


LONGEST = 80  # most entries of a list compared in full: an assignment costs their number cubed
SUBSAMPLE_SIZE = 32  # entries kept of a longer list


def is_long(modes: NDArray[np.int64]) -> bool:
    """Whether lists with these modes [n, L] are too long to be compared in full."""
    return bool(modes.shape[1] > LONGEST)


def subsample(lists: Lists, modes: NDArray[np.int64]) -> tuple[Lists, NDArray[np.int64]]:
    """Long lists, of diagonal covariances, cut to at most `SUBSAMPLE_SIZE` entries each, and their modes int64.

    Keeps entries of known mode: the first entry of every mode before the second of any, in their original order. Shorter
    results are padded with entries of weight zero and mode -1.
    """
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
    nth = np.tril(modes[candidates][:, None] == modes[candidates], -1).sum(axis=1)
    return np.sort(candidates[np.argsort(nth, kind="stable")[:SUBSAMPLE_SIZE]])


# What-if: a run's recorded lists matched again with fewer anchors or added noise. Not a release.
#
# Everything is computed from the run's recorded lists of public or simulated data, rounded as recorded: nothing is trained,
# no ledger is charged, and no result of the run changes.


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
        view = PublicView(np.array(recorded.centre), axes, recorded.variance * np.eye(d), 1.0)
        public = PublicEmbeddings(anchors, anchors, view)
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

    def nearest_anchors(self, n_public: int, k: int = 3) -> NDArray[np.int64]:
        """Of each group the k anchors nearest to its released prototype, where its signature is highest: int64 [K, k].

        They are places among the `n_public` public examples that anchors are drawn from. No list is read.
        """
        away = np.linalg.norm(self.prototypes[:, None] - self.public.anchors, axis=-1)
        return matchers.anchor_places(self.now.cell.seed, n_public)[np.argsort(away, axis=1)[:, :k]]

    def event(self, m: int, noise: float) -> Signatures:
        """The round as matched by the first m anchors, with this noise on every coordinate of every entry.

        Prototypes and the ellipses around them stay as released by the run. Agreement, sweep and anchors' scores are left
        empty: they take longer, and have methods of their own.
        """
        lists, compared, now = matching.moved(self.lists, noise), self._compared(m), self.now
        features, targets = matchers.list_features(lists, compared.features), np.zeros((len(self.prototypes), 1))
        matched = projection_maps.matched_by(
            compared, lists, features, self.prototypes, targets,
            clients=self.clients, modes=self.modes, names=now.prototypes.name, mode_names=now.mode_names,
            noise_std=now.demanded.get("central", 0.0), noise_axes=self.public.view.axes,
        )  # fmt: skip
        signal, noises = dict(now.signal), dict(now.noise)
        if noise:
            away = np.linalg.norm(self.lists.means - self.public.view.centre, axis=-1)
            signal[ENTRY] = float(away[self.lists.weights > 0].mean())
            noises[ENTRY] = noise * self.prototypes.shape[1] ** 0.5
        n_compared = int((self._compared_part[1] >= 0).sum()) if is_long(self.modes) else None
        event = projection_maps.signatures(now.cell, now.task, now.round, matched, self._maps(m))
        return replace(event, demanded=now.demanded, signal=signal, noise=noises, n_compared=n_compared)

    def agreement(self, m: int, noise: float) -> dict[str, float]:
        """Agreement of every matcher's groups with the true modes on these lists; anchor matchers use the first m anchors.

        Without noise the lists are the run's: its own measurements on the same entries are reused. Long lists are
        subsampled, as in a run.
        """
        if not self.has_truth:
            return {}
        matchers, recorded = self._matchers(m), self._recorded(self.now.agreement) if not noise else {}
        remaining = {name: matcher for name, matcher in matchers.items() if name not in recorded}
        lists, modes = self._compared_part
        moved = matching.moved(lists, noise)
        computed = matching.agreement(moved, modes, remaining, self.public.view, 0, most_starts=_STARTS)
        return {name: {**recorded, **computed}[name] for name in matchers}

    def sweep(self, m: int) -> dict[str, tuple[float, ...]]:
        """`agreement` at every level of noise."""
        if not self.has_truth:
            return {}
        matchers, recorded = self._matchers(m), self._recorded(self.now.agreement_at)
        names = [name for name in matching.SWEPT if name in matchers]
        remaining, view = [name for name in names if name not in recorded], self.public.view
        computed = matching.under_noise(*self._compared_part, matchers, view, [0], remaining, most_starts=_STARTS)
        return {name: {**recorded, **computed}[name] for name in names}

    def scores(self, noise: float) -> AnchorScores | None:
        """Separation and agreement by number of anchors, on lists with this noise."""
        if not self.has_truth:
            return None
        lists, modes = self._compared_part
        return matching.anchor_scores(
            matching.moved(lists, noise), modes, self.public.anchors, self.public.view, _quick_rule(self.params), 0,
            int((self.modes >= 0).sum()),
        )  # fmt: skip

    @property
    def is_part(self) -> bool:
        """Whether only the first clients' full lists were recorded."""
        return not set(self.now.entries.client) <= set(self.clients.tolist())

    @cached_property
    def _compared_part(self) -> tuple[Lists, NDArray[np.int64]]:
        """The lists on which matchers are compared, and their modes."""
        return subsample(self.lists, self.modes) if is_long(self.modes) else (self.lists, self.modes)

    def _recorded(self, by_matcher: Mapping[str, T]) -> Mapping[str, T]:
        """What the run measured of matchers without anchors, where it compared the same entries.

        Both take the first ones, so equal counts mean equal entries.
        """
        in_run = self.now.n_compared
        n_entries = in_run if in_run is not None else sum(mode >= 0 for mode in self.now.entries.mode)
        if int((self._compared_part[1] >= 0).sum()) != n_entries:
            return {}
        by_anchors = {name for name in by_matcher if name in _BY_ANCHORS or name.startswith("signature")}
        return {name: value for name, value in by_matcher.items() if name not in by_anchors}

    @property
    def has_truth(self) -> bool:
        """Whether there are at least two true modes."""
        return len(set(self.modes[self.modes >= 0].tolist())) > 1

    def _matchers(self, m: int) -> dict[str, EntryMatcher]:
        """The matchers that a run compares, the run's own last."""
        usual = matching.usual(self.public.view, self.public.anchors[:m], _quick_rule(self.params))
        quick = _without_transport(usual, self._compared(m))
        return {name: one for name, one in quick.items() if self.has_variances or name not in _BY_ANCHORS[:2]}

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
        axes = fresh.signature_axes @ left @ right
        return replace(fresh, mean_centre=self.run_maps.mean_centre, mean_axes=self.run_maps.mean_axes, signature_axes=axes)
