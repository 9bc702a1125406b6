"""CSLR under local trust: every client noises its list before sending it, so the server never sees a clean sum.

The server clusters the noisy lists and trains the head on the result; both are post-processing here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.budget import Horizon
from dpcl_core.methods.federated.cards.local_list import LocalListParams
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.observations import ListsObserved, NoiseStd
from dpcl_core.methods.federated.pooling import pooled
from dpcl_core.methods.federated.projections import simplex
from dpcl_core.methods.federated.public_context import EntryMatcher, PublicEmbeddings
from dpcl_core.methods.federated.published_release import noisy_lists
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.methods.federated.replay import Replay
from dpcl_core.methods.federated.server_head import ServerHeads
from dpcl_core.methods.federated.task_rows import SeenLabels, features
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec


class LocalList:
    """The budgets of one seed: they share the clients' lists, never the noise."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        params = spec.params
        assert isinstance(params, LocalListParams)
        self._cells, self._seed, self._seen = tuple(cells), cells[0].seed, SeenLabels(spec, known)
        self._modes_per_task = params.modes_per_task
        self._public = PublicEmbeddings.of(known.anchors, self._seed, params.dimensions, params.radius, params.anchors)
        self._compared = EntryMatcher.of(params, self._public)
        horizon = Horizon.of(spec.privacy, known.n_tasks, known.recurrence)
        self._multipliers = [horizon.releases(c.epsilon) if math.isfinite(c.epsilon) else 0.0 for c in cells]
        self._noises = [noise_of(spec.privacy.noise, cell, "lists") for cell in cells]
        self._lists = ReleaseSchedule(spec, cells, known, self._public, self._multipliers)
        self._heads = ServerHeads(params, self._seed, known.n_inputs, known.n_classes, len(cells))
        self._parts: list[list[Replay]] = [[] for _ in cells]
        self._received: list[Lists] = []  # the last task's noisy lists, by budget

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task = tasks[self._seed]
        rows = self._seen.rows(task)
        yield Progress("training", 0, 2, task.index, f"lists of {task.name}")
        lists = self._lists.lists(rows, task.index)
        books = [ledgers[cell] for cell in self._cells]
        received = noisy_lists(lists, self._public.view, self._multipliers, self._noises, books, task=task.index)
        n_groups = len(rows.space) * self._modes_per_task
        self._received = received
        for parts, noisy in zip(self._parts, received, strict=True):
            parts.append(self._clustered(noisy, n_groups, task.index))
        length = lists.weights.shape[1]
        local = [z * self._public.view.radius * math.sqrt(1.5 * length) for z in self._multipliers]  # noisy_lists' scale
        shared = math.sqrt(max(1, len(lists)))
        stds = [NoiseStd(std / shared, z, std) for std, z in zip(local, self._multipliers, strict=True)]
        yield ListsObserved(lambda: lists, task.index, 0, self._parts, stds, self._public)
        yield Progress("training", 1, 2, task.index, f"head from the lists up to {task.name}")
        self._heads.learn(self._parts, task.index)
        yield Progress("training", 2, 2, task.index, f"{task.name} learned")

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The head's logits [epsilons, n, classes], the only prediction rule."""
        return {"argmax": self._seen.masked(self._heads.logits(features(task.test.inputs)), task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last task's noisy lists as the server gets them: `weights` [clients, L], `means`, `targets`; and the head."""
        place = self._cells.index(cell)
        lists = self._received[place]
        sent = {"weights": lists.weights, "means": lists.means, "targets": lists.targets}
        return {**sent, **self._heads.released(place)}

    def _clustered(self, noisy: Lists, n_groups: int, index: int) -> Replay:
        """Clusters the received lists: weighted averages of the groups, with the public covariance."""
        compared = matchers.list_features(noisy, self._compared.features)
        first = self._public.view.residuals(noisy.means)[..., 0]
        random = generator(self._seed, f"matching of task {index}")
        ids = pooled(compared, n_groups, self._compared.rule, first, None, noisy.weights, random).ids
        belongs = (ids.ravel()[None] == np.arange(n_groups)[:, None]) * noisy.weights.ravel()
        totals = belongs.sum(axis=1)
        shares = np.where(totals > 0, totals, 1.0)[:, None]
        means = belongs @ noisy.means.reshape(-1, noisy.means.shape[2]) / shares
        targets = belongs @ noisy.targets.reshape(-1, noisy.targets.shape[2]) / shares
        weights = np.maximum(totals / max(totals.sum(), 1e-12), 0)
        return Replay(simplex(weights), means, self._public.view.covariance, simplex(targets))


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> LocalList:
    """The learner of one seed's budgets."""
    return LocalList(spec, cells, known)
