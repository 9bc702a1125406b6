"""CSLR under local trust: every client noises its list before sending it, so the server never sees a clean sum.

The server clusters the noisy lists and trains the head on the result; both are post-processing here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.cards.local_list import LocalListParams
from dpcl_core.methods.federated.lists import Lists, simplex
from dpcl_core.methods.federated.matchers import EntryMatcher
from dpcl_core.methods.federated.pooling import ServerHeadLearner, pooled
from dpcl_core.methods.federated.published_release import noisy_lists
from dpcl_core.methods.federated.slot_assignment import ListsObserved, NoiseStd, Replay, TaskRows
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import generator
from dpcl_core.spec import Cell, RunSpec


class LocalList(ServerHeadLearner):
    """The server receives every client's noisy list, one per task and budget."""

    KEPT, kept_records = (*ServerHeadLearner.KEPT, "_noises", "_parts", "_received"), (Replay, Lists)
    received = "lists"

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        super().__init__(spec, cells, context)
        assert isinstance(spec.params, LocalListParams)
        self._modes_per_task = spec.params.modes_per_task
        self._matcher = EntryMatcher.of(spec.params, self._releases.public)
        self._noises = [noise_of(spec.privacy.noise, cell, "lists") for cell in cells]
        self._parts: list[list[Replay]] = [[] for _ in cells]
        self._received: list[Lists] = []  # the last task's noisy lists, by budget

    def _receive(self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger]) -> ListsObserved:
        public, multipliers = self._releases.public, self._releases.multipliers
        lists = self._releases.lists(rows, index)
        of_cells = [ledgers[cell] for cell in self._cells]
        self._received = noisy_lists(lists, public.view, multipliers, self._noises, of_cells, task=index)
        for parts, noisy in zip(self._parts, self._received, strict=True):
            parts.append(self._clustered(noisy, len(rows.space) * self._modes_per_task, index))
        local = [z * public.view.radius * math.sqrt(1.5 * lists.weights.shape[1]) for z in multipliers]  # noisy_lists' scale
        root = math.sqrt(max(1, len(lists)))
        stds = [NoiseStd(std / root, z, std) for std, z in zip(local, multipliers, strict=True)]
        return ListsObserved(lambda: lists, index, 0, self._parts, stds, public)

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last task's noisy lists as the server gets them: `weights` [clients, L], `means`, `targets`; and the head."""
        lists = self._received[self._cells.index(cell)]
        return {"weights": lists.weights, "means": lists.means, "targets": lists.targets, **super().released(cell)}

    def _clustered(self, noisy: Lists, n_groups: int, index: int) -> Replay:
        """Clusters the received lists: weighted averages of the groups, with the public covariance."""
        view = self._releases.public.view
        features = matchers.list_features(noisy, self._matcher.features)
        first = view.residuals(noisy.means)[..., 0]
        random = generator(self._seed, f"matching of task {index}")
        ids = pooled(features, n_groups, self._matcher.rule, first, None, noisy.weights, random).ids
        belongs = (ids.ravel()[None] == np.arange(n_groups)[:, None]) * noisy.weights.ravel()
        totals = belongs.sum(axis=1)
        shares = np.where(totals > 0, totals, 1.0)[:, None]
        means = belongs @ noisy.means.reshape(-1, noisy.means.shape[2]) / shares
        targets = belongs @ noisy.targets.reshape(-1, noisy.targets.shape[2]) / shares
        weights = np.maximum(totals / max(totals.sum(), 1e-12), 0)
        return Replay(simplex(weights), means, view.covariance, simplex(targets))


make_learner = LocalList
