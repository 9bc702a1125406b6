"""Records matched client lists for visualisation (simulation on public data only; the server never sees them)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.events import Event, Signatures
from dpcl_core.explorers import matching, projection_maps, rematching
from dpcl_core.methods.common.learner import LearnerEvent, Observation, PublicContext
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Lists, Signature
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings
from dpcl_core.methods.federated.params import ListParams
from dpcl_core.methods.federated.slot_assignment import ListsObserved, NoiseStd, Replay
from dpcl_core.spec import Cell, RunSpec

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
        self._measurements = projection_maps.Measured()
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
        joined, clients = self._all_lists()
        if not len(clients):
            return
        features = matchers.list_features(joined, space.compared.features)
        modes = _modes(joined)
        if self._measured_lists is not lists:  # a task's lists are observed twice, and measured once
            is_last = task == self._last
            self._measured_lists = lists
            self._measurements = self._measured(space, joined, clients, modes, is_last=is_last)
        for cell, parts, std in zip(self._cells, observed.parts, observed.stds, strict=True):
            matched = self._matched(space, joined, clients, features, modes, parts, std)
            measured = replace(
                self._measurements,
                demanded={"central": std.mean, "local": std.local},
                signal=_signal(lists, space.public, std),
                noise=_noise(space.public, std),
            )
            event = projection_maps.signatures(cell, task, observed.round, matched, space.maps, measured)
            yield self._with_full_lists(event, space, lists, parts)

    def _all_lists(self) -> tuple[Lists, NDArray[np.int64]]:
        """The lists of all tasks so far, and their clients."""
        if self._has_homes:
            return Lists.of_homes(self._lists)
        joined = Lists.of_tasks(self._lists)
        return joined, np.arange(len(joined))

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

    def _matched(
        self,
        space: _Space,
        joined: Lists,
        clients: NDArray[np.int64],
        features: NDArray[np.float64],
        modes: NDArray[np.int64],
        parts: Sequence[Replay],
        std: NoiseStd,
    ) -> projection_maps.Matched:
        means = np.concatenate([part.means for part in parts])
        targets = np.concatenate([part.targets for part in parts])
        groups = space.compared.of_means(means, np.full(means.shape[1], 1 / means.shape[1]), targets)
        return projection_maps.Matched(
            lists=joined,
            clients=clients,
            ids=space.compared.assigned(features, joined.weights, groups),
            features=features,
            prototype_features=groups,
            prototypes=means,
            names=self._group_names(targets),
            mode_names=self._names,
            modes=modes,
            matcher=space.compared.name,
            is_one_to_one=space.compared.rule == "hungarian" and 2 <= joined.weights.shape[1] <= len(groups),
            noise_std=std.mean,
            noise_axes=space.public.view.axes,
        )

    def _group_names(self, targets: NDArray[np.float64]) -> tuple[str, ...]:
        labels = targets.argmax(axis=1).tolist()
        counts = [labels[:place].count(label) for place, label in enumerate(labels)]
        names = [self._names[label] if label < len(self._names) else str(label) for label in labels]
        several = {label for label in labels if labels.count(label) > 1}
        return tuple(
            f"{name} {nth + 1}" if label in several else name for name, nth, label in zip(names, counts, labels, strict=True)
        )

    def _measured(
        self, space: _Space, compared: Lists, clients: NDArray[np.int64], modes: NDArray[np.int64], *, is_last: bool
    ) -> projection_maps.Measured:
        """Agreement of the matchers' groups of these lists with the labels; empty where there is only one label.

        Long lists are subsampled, since all entries would take minutes: only clients whose full lists are logged, and
        nothing where covariances are matrices. Optimal transport is left out: it takes thirty times as long as any other.
        """
        n_entries, n_compared = int((modes >= 0).sum()), None
        if rematching.is_long(modes):
            if compared.covariances.ndim != 3:
                return projection_maps.Measured()
            encoded = matching.encoded_clients_of_all(self._lists, self._n_tasks, has_homes=self._has_homes)
            first = np.isin(clients, encoded)
            compared, modes = rematching.subsample(compared.take(np.flatnonzero(first)), modes[first])
            n_compared = int((modes >= 0).sum())
        if len(set(modes[modes >= 0].tolist())) < 2:
            return projection_maps.Measured()
        view, anchors = space.public.view, space.signature.anchors
        rule = "nearest" if self._params.rule == "ot" else self._params.rule
        usual = matching.usual(view, anchors, rule)
        run_matcher = {space.compared.name: matching.Matcher(space.compared.features, space.compared.rule)}
        quick = {name: matcher for name, matcher in {**usual, **run_matcher}.items() if matcher.rule != "ot"}
        measured = projection_maps.Measured(
            agreement=matching.agreement(compared, modes, quick, view, 0), n_compared=n_compared
        )
        if not is_last or compared.covariances.ndim != 3:
            return measured
        return replace(
            measured,
            noise_levels=matching.LEVELS,
            agreement_at=matching.under_noise(compared, modes, usual, view, [0]),
            anchors=matching.anchor_scores(compared, modes, anchors, view, rule, 0, n_entries),
        )


def _modes(lists: Lists) -> NDArray[np.int64]:
    """The entries' labels [N, entries]; -1 for entries without rows."""
    modes: NDArray[np.int64] = np.where(lists.weights > 0, lists.targets.argmax(axis=2), -1)
    return modes


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


# Chooses the explorer that turns a learner's observations into events.


class Observer:
    """Passes on one learner's events, with observations replaced by an explorer's events."""

    KEPT: ClassVar[tuple[str, ...]] = ("_log",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._spec, self._cells, self._context = spec, cells, context
        self._log: MatchingLog | None = None  # made for the first observation: other methods have none

    def reopen(self) -> None:
        """Makes the log."""
        self._log = MatchingLog(self._spec, self._cells, self._context)

    def events(self, learner_events: Iterable[LearnerEvent]) -> Iterator[Event]:
        """The events of a task. Raises TypeError for an observation that no explorer handles."""
        for event in learner_events:
            if isinstance(event, ListsObserved):
                self._log = self._log or MatchingLog(self._spec, self._cells, self._context)
                yield from self._log.events(event)
            elif isinstance(event, Observation):
                raise TypeError(f"no explorer handles {type(event).__name__}")
            else:
                yield event
