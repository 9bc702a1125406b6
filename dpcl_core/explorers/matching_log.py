"""Events of a run's matched client lists, for pages: the simulator's view of public data, which no server ever has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.events import Signatures
from dpcl_core.explorers import list_encoding, list_subsample, matcher_comparison, projection_maps
from dpcl_core.methods.common.learner import Observation, PublicContext
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.cards.federated_params import ListParams
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.observations import ListsObserved, NoiseStd
from dpcl_core.methods.federated.public_context import EntryMatcher, PublicEmbeddings
from dpcl_core.methods.federated.replay import Replay
from dpcl_core.methods.federated.signatures import Signature
from dpcl_core.spec import Cell, RunSpec

_MEAN, _SECOND = "mean on public axes", "second moment, were it released"
_WHOLE_MEAN, _WHOLE_SECOND = "mean", "second moment"


@dataclass(frozen=True, slots=True, eq=False)
class _Space:
    """What entries are compared and drawn in, from public data alone.

    `has_full_lists`: whether lists go into the log in full; not where labels are compared, which anchors and noise do not
    change, nor where a whole public matrix is needed.
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
    """Makes events of observed lists: which entry is matched to which group, on maps, and how well matchers agree.

    Entries are matched to the groups of all tasks so far without their labels, as a server would have to who got lists
    alone; where the method itself knows the label, it does better. Nothing is said of data that no page shows: a person's
    own, and texts of distress. Keeps the lists of earlier tasks to draw them, which no client or server of the method does.
    """

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        assert isinstance(spec.params, ListParams)
        dataset = datasets.CARDS.get(spec.data.dataset)  # a person's own data are not among them
        self._is_shown = dataset is not None and dataset.may_show
        self._params, self._cells, self._names = spec.params, tuple(cells), known.classes
        self._space: _Space | None = None
        self._lists: list[Lists] = []
        self._measured_of: Lists | None = None  # the task's lists that were measured last, beside those before
        self._found = projection_maps.Measured()
        self._kept: set[int] = set()  # tasks whose lists are in the log in full
        self._n_tasks, self._is_first_budget = known.n_tasks, self._cells[0].epsilon == spec.privacy.epsilons[0]
        self._has_homes = known.recurrence == "once"  # each client belongs to one task
        self._is_first_seed = self._cells[0].seed == spec.seeds[0]
        # What takes seconds is measured once a run: for the first seed, when the last task was learned.
        self._last = known.n_tasks - 1 if self._is_first_seed else -1

    def events(self, observed: Observation) -> Iterator[Signatures]:
        """One event a budget: the observed lists beside those of earlier tasks, and what the budget has released so far."""
        assert isinstance(observed, ListsObserved)
        if not self._is_shown:
            return
        space = self._space = self._space or _Space.of(self._params, observed.public)
        lists, task = observed.lists(), observed.task
        self._lists[task:] = [lists]
        every, clients = self._every()
        if not len(clients):
            return
        features = matchers.list_features(every, space.compared.features)
        modes = _modes(every)
        if self._measured_of is not lists:  # a task's lists are observed twice, and measured once
            is_last = task == self._last
            self._measured_of, self._found = lists, self._measured(space, every, clients, modes, is_last=is_last)
        for cell, own, std in zip(self._cells, observed.parts, observed.stds, strict=True):
            yield projection_maps.signatures(
                cell, task, observed.round, self._matched(space, every, clients, features, modes, own, std), space.maps,
                replace(
                    self._found,
                    demanded={"central": std.mean, "local": std.local},
                    signal=_signal(lists, space.public, std),
                    noise=_noise(space.public, std),
                ),
                self._in_full(space, lists, task, own),
            )  # fmt: skip

    def _every(self) -> tuple[Lists, NDArray[np.int64]]:
        """The clients' lists of all tasks so far, and whose they are."""
        if self._has_homes:
            return Lists.of_homes(self._lists)
        every = Lists.of_tasks(self._lists)
        return every, np.arange(len(every))

    def _in_full(self, space: _Space, lists: Lists, task: int, parts: Sequence[Replay]) -> projection_maps.InFull | None:
        """What a page needs to match again: each task's lists of the first seed once, in the first budget's first event."""
        is_matrix = lists.covariances.ndim != 3 and space.signature.covariance == "own"
        if not self._is_first_seed or not space.has_full_lists or is_matrix:
            return None
        prototypes = list_encoding.coarse(np.concatenate([replay.means for replay in parts]))
        if task in self._kept or not self._is_first_budget:
            return projection_maps.InFull(prototypes, None, None)
        clients = list_encoding.first(lists, self._n_tasks, has_homes=self._has_homes)
        public = list_encoding.public_part(space.public, space.maps) if not self._kept else None
        self._kept.add(task)
        entries = list_encoding.told(lists, _modes(lists), clients, has_homes=self._has_homes)
        return projection_maps.InFull(prototypes, entries, public)

    def _matched(
        self,
        space: _Space,
        every: Lists,
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
            lists=every,
            clients=clients,
            ids=space.compared.assigned(features, every.weights, groups),
            features=features,
            prototype_features=groups,
            prototypes=means,
            names=self._group_names(targets),
            mode_names=self._names,
            modes=modes,
            matcher=space.compared.name,
            is_one_to_one=space.compared.rule == "hungarian" and 2 <= every.weights.shape[1] <= len(groups),
            noise_std=std.mean,
            noise_axes=space.public.view.axes,
        )

    def _group_names(self, targets: NDArray[np.float64]) -> tuple[str, ...]:
        labels = targets.argmax(axis=1).tolist()
        seen = [labels[:place].count(label) for place, label in enumerate(labels)]
        names = [self._names[label] if label < len(self._names) else str(label) for label in labels]
        several = {label for label in labels if labels.count(label) > 1}
        return tuple(
            f"{name} {nth + 1}" if label in several else name for name, nth, label in zip(names, seen, labels, strict=True)
        )

    def _measured(
        self, space: _Space, every: Lists, clients: NDArray[np.int64], modes: NDArray[np.int64], *, is_last: bool
    ) -> projection_maps.Measured:
        """How well the matchers' groups of these very lists agree with the labels; nothing where there is one label.

        Of long lists on a part alone, for all of them would take minutes: of the clients whose lists are told in full, and
        nothing where covariances are matrices. Transport is left out: it takes thirty times as long as any other.
        """
        n_entries, n_compared = int((modes >= 0).sum()), None
        if list_subsample.is_long(modes):
            if every.covariances.ndim != 3:
                return projection_maps.Measured()
            first = np.isin(clients, list_encoding.first_of_all(self._lists, self._n_tasks, has_homes=self._has_homes))
            every, modes = list_subsample.of_long(every.take(np.flatnonzero(first)), modes[first])
            n_compared = int((modes >= 0).sum())
        if len(set(modes[modes >= 0].tolist())) < 2:
            return projection_maps.Measured()
        view, anchors = space.public.view, space.signature.anchors
        rule = "nearest" if self._params.rule == "ot" else self._params.rule
        usual = matcher_comparison.usual(view, anchors, rule)
        own = {space.compared.name: matcher_comparison.Matcher(space.compared.features, space.compared.rule)}
        quick = {name: matcher for name, matcher in {**usual, **own}.items() if matcher.rule != "ot"}
        found = projection_maps.Measured(
            agreement=matcher_comparison.agreement(every, modes, quick, view, 0), n_compared=n_compared
        )
        if not is_last or every.covariances.ndim != 3:
            return found
        return replace(
            found,
            noise_levels=matcher_comparison.LEVELS,
            agreement_at=matcher_comparison.under_noise(every, modes, usual, view, [0]),
            anchors=matcher_comparison.anchor_scores(every, modes, anchors, view, rule, 0, n_entries),
        )


def _modes(lists: Lists) -> NDArray[np.int64]:
    """What the entries [N, entries] are of, -1 for those without rows."""
    found: NDArray[np.int64] = np.where(lists.weights > 0, lists.targets.argmax(axis=2), -1)
    return found


def _signal(lists: Lists, public: PublicEmbeddings, std: NoiseStd) -> dict[str, float]:
    """Mean length of the labels' clean means from the public centre; of a second moment that of the public sentences."""
    view, modes = public.view, _modes(lists)
    of_labels = [lists.weights * (modes == label) for label in np.unique(modes[modes >= 0])]
    means = np.array([(own[..., None] * lists.means).sum(axis=(0, 1)) / own.sum() for own in of_labels] or [view.centre])
    if std.released == "axes":
        residual = float(np.linalg.norm(view.residuals(means), axis=-1).mean())
        return {_MEAN: residual, _SECOND: float(np.linalg.norm(view.covariance))}
    second = view.covariance + np.outer(view.centre, view.centre)
    length = np.linalg.norm(second if std.released == "full" else np.diag(second))
    return {_WHOLE_MEAN: float(np.linalg.norm(means - view.centre, axis=-1).mean()), _WHOLE_SECOND: float(length)}


def _noise(public: PublicEmbeddings, std: NoiseStd) -> dict[str, float]:
    """Expected lengths of their noise: over the values of a mean that are released, d or d² of a second moment."""
    d, n_axes = public.view.axes.shape
    if std.released == "axes":
        return {_MEAN: std.mean * n_axes**0.5, _SECOND: std.second * d}
    return {_WHOLE_MEAN: std.mean * d**0.5, _WHOLE_SECOND: std.second * (d if std.released == "full" else d**0.5)}
