"""What a run tells of its clients' lists: the simulator's view, of public data alone, never visible to the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Signatures
from dpcl_core.methods.base import Known
from dpcl_core.methods.cards.cslr import ListParams
from dpcl_core.methods.cslr import comparison, in_full, part, views
from dpcl_core.methods.cslr.known import Compared, Public
from dpcl_core.methods.cslr.lists import Lists
from dpcl_core.methods.cslr.replay import Replay
from dpcl_core.methods.cslr.signatures import Signature
from dpcl_core.spec import Cell, RunSpec

_MEAN, _SECOND = "mean on public axes", "second moment, were it released"
_WHOLE_MEAN, _WHOLE_SECOND = "mean", "second moment"


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of one budget's release: standard deviation on a coordinate of a group's mean, of a second moment's were it
    released too, and on a coordinate of each client's own list were nobody trusted.

    `released`: means on the public axes alone, or whole ones and second moments, "diagonal" or "full"."""

    mean: float
    second: float
    local: float
    released: Literal["axes", "diagonal", "full"] = "axes"


class Telling:
    """Remembers what clients' lists of earlier tasks were, which no client or server of the method does, to draw them.

    Entries are matched to the groups of all tasks so far without their labels, as a server would have to who got lists
    alone; where the method itself knows the label, it does better. Of a person's own data nothing is told.
    """

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: Known, public: Public) -> None:
        assert isinstance(spec.params, ListParams)
        self._is_public = not spec.data.dataset.startswith("own:")
        self._params, self._cells, self._public, self._names = spec.params, tuple(cells), public, known.classes
        self._compared = Compared.of(spec.params, public)
        shown = public.anchors if len(public.anchors) > 1 else public.others
        kind, norm = spec.params.signature_covariance, spec.params.signature_norm
        self._signature = Signature(shown, kind, norm, public.view.covariance)
        self._maps = views.Maps.of(public.others, self._signature)
        self._lists: list[Lists] = []
        self._measured_of: Lists | None = None  # the task's lists that were measured last, beside those before
        self._found = views.Measured()
        self._told: set[int] = set()  # tasks whose lists are told in full
        self._n_tasks, self._is_first_budget = known.n_tasks, self._cells[0].epsilon == spec.privacy.epsilons[0]
        self._has_homes = known.recurrence == "once"  # each client belongs to one task
        # Not where labels are compared, which anchors and noise do not change, nor where a whole public matrix is needed.
        self._is_told_in_full = (
            self._cells[0].seed == spec.seeds[0]
            and len(public.anchors) > 1
            and spec.params.matcher != "target"
            and kind not in ("shared-full", "own-shrunk")
        )
        # What takes seconds is measured once a run: for the first seed, when the last task was learned.
        self._last = known.n_tasks - 1 if self._cells[0].seed == spec.seeds[0] else -1

    @property
    def is_wanted(self) -> bool:
        """Whether lists may be told of at all."""
        return self._is_public

    def told(
        self, lists: Lists, task: int, round: int, parts: Sequence[Sequence[Replay]], noises: Sequence[Noise]
    ) -> Iterator[Signatures]:
        """The lists [N, entries] of a task, without noise, beside those before, and what each budget has released so far."""
        if not self._is_public:
            return
        self._lists[task:] = [lists]
        every, clients = self._every()
        if not len(clients):
            return
        features = comparison.features(every, self._compared.features)
        modes = _modes(every)
        if self._measured_of is not lists:  # a task's lists are told of twice, and measured once
            self._measured_of, self._found = lists, self._measured(every, clients, modes, is_last=task == self._last)
        for cell, own, noise in zip(self._cells, parts, noises, strict=True):
            yield views.signatures(
                cell, task, round, self._matched(every, clients, features, modes, own, noise), self._maps,
                replace(
                    self._found,
                    demanded={"central": noise.mean, "local": noise.local},
                    signal=_signal(lists, self._public, noise),
                    noise=_noise(self._public, noise),
                ),
                self._in_full(lists, task, own),
            )  # fmt: skip

    def _every(self) -> tuple[Lists, NDArray[np.int64]]:
        """The clients' lists of all tasks so far, and whose they are."""
        if self._has_homes:
            return Lists.of_homes(self._lists)
        every = Lists.of_tasks(self._lists)
        return every, np.arange(len(every))

    def _in_full(self, lists: Lists, task: int, parts: Sequence[Replay]) -> views.InFull | None:
        """What a page needs to match anew: of the first seed, each task's lists once, with the first budget's first word."""
        if not self._is_told_in_full or (lists.covariances.ndim != 3 and self._signature.covariance == "own"):
            return None
        prototypes = in_full.coarse(np.concatenate([replay.means for replay in parts]))
        if task in self._told or not self._is_first_budget:
            return views.InFull(prototypes, None, None)
        clients = in_full.first(lists, self._n_tasks, has_homes=self._has_homes)
        public = in_full.public_part(self._public, self._maps) if not self._told else None
        self._told.add(task)
        told = in_full.told(lists, _modes(lists), clients, has_homes=self._has_homes)
        return views.InFull(prototypes, told, public)

    def _matched(
        self,
        every: Lists,
        clients: NDArray[np.int64],
        features: NDArray[np.float64],
        modes: NDArray[np.int64],
        parts: Sequence[Replay],
        noise: Noise,
    ) -> views.Matched:
        means = np.concatenate([part.means for part in parts])
        targets = np.concatenate([part.targets for part in parts])
        groups = self._compared.of_means(means, np.full(means.shape[1], 1 / means.shape[1]), targets)
        return views.Matched(
            lists=every,
            clients=clients,
            ids=self._compared.assigned(features, every.weights, groups),
            features=features,
            prototype_features=groups,
            prototypes=means,
            names=self._group_names(targets),
            mode_names=self._names,
            modes=modes,
            matcher=self._compared.name,
            is_one_to_one=self._compared.rule == "hungarian" and 2 <= every.weights.shape[1] <= len(groups),
            noise_std=noise.mean,
            noise_axes=self._public.view.axes,
        )

    def _group_names(self, targets: NDArray[np.float64]) -> tuple[str, ...]:
        labels = targets.argmax(axis=1).tolist()
        seen = [labels[:place].count(label) for place, label in enumerate(labels)]
        names = [self._names[label] if label < len(self._names) else str(label) for label in labels]
        several = {label for label in labels if labels.count(label) > 1}
        return tuple(
            f"{name} {nth + 1}" if label in several else name
            for name, nth, label in zip(names, seen, labels, strict=True)
        )

    def _measured(
        self, every: Lists, clients: NDArray[np.int64], modes: NDArray[np.int64], *, is_last: bool
    ) -> views.Measured:
        """How well the matchers' groups of these very lists agree with the labels; nothing where there is one label.

        Of long lists on a part alone, for all of them would take minutes: of the clients whose lists are told in full, and
        nothing where covariances are matrices. Transport is left out: it takes thirty times as long as any other.
        """
        n_entries, n_compared = int((modes >= 0).sum()), None
        if part.is_long(modes):
            if every.covariances.ndim != 3:
                return views.Measured()
            first = np.isin(clients, in_full.first_of_all(self._lists, self._n_tasks, has_homes=self._has_homes))
            every, modes = part.of_long(every.take(np.flatnonzero(first)), modes[first])
            n_compared = int((modes >= 0).sum())
        if len(set(modes[modes >= 0].tolist())) < 2:
            return views.Measured()
        view, anchors = self._public.view, self._signature.anchors
        rule = "nearest" if self._params.rule == "ot" else self._params.rule
        usual = comparison.usual(view, anchors, rule)
        own = {self._compared.name: comparison.Matcher(self._compared.features, self._compared.rule)}
        quick = {name: matcher for name, matcher in {**usual, **own}.items() if matcher.rule != "ot"}
        found = views.Measured(agreement=comparison.agreement(every, modes, quick, view, 0), n_compared=n_compared)
        if not is_last or every.covariances.ndim != 3:
            return found
        return replace(
            found,
            noise_levels=comparison.LEVELS,
            agreement_at=comparison.under_noise(every, modes, usual, view, [0]),
            anchors=comparison.anchor_scores(every, modes, anchors, view, rule, 0, n_entries),
        )


def _modes(lists: Lists) -> NDArray[np.int64]:
    """What the entries [N, entries] are of, -1 for those without rows."""
    found: NDArray[np.int64] = np.where(lists.weights > 0, lists.targets.argmax(axis=2), -1)
    return found


def _signal(lists: Lists, public: Public, noise: Noise) -> dict[str, float]:
    """Mean length of the labels' clean means from the public centre; of a second moment that of the public sentences."""
    view, modes = public.view, _modes(lists)
    of_labels = [lists.weights * (modes == label) for label in np.unique(modes[modes >= 0])]
    means = np.array([(own[..., None] * lists.means).sum(axis=(0, 1)) / own.sum() for own in of_labels] or [view.centre])
    if noise.released == "axes":
        residual = float(np.linalg.norm(view.residuals(means), axis=-1).mean())
        return {_MEAN: residual, _SECOND: float(np.linalg.norm(view.covariance))}
    second = view.covariance + np.outer(view.centre, view.centre)
    length = np.linalg.norm(second if noise.released == "full" else np.diag(second))
    return {_WHOLE_MEAN: float(np.linalg.norm(means - view.centre, axis=-1).mean()), _WHOLE_SECOND: float(length)}


def _noise(public: Public, noise: Noise) -> dict[str, float]:
    """Expected lengths of their noise: over the values of a mean that are released, d or d² of a second moment."""
    d, n_axes = public.view.axes.shape
    if noise.released == "axes":
        return {_MEAN: noise.mean * n_axes**0.5, _SECOND: noise.second * d}
    return {_WHOLE_MEAN: noise.mean * d**0.5, _WHOLE_SECOND: noise.second * (d if noise.released == "full" else d**0.5)}
