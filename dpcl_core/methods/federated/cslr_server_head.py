"""CSLR with the head on the server: one noisy release per task, and a head trained on the releases.

The head is a function of the releases and of public numbers, so that the releases' epsilon covers it, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.budget import Horizon
from dpcl_core.methods.federated.cards.cslr_server_head import CslrServerHeadParams
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.methods.federated.public_context import PublicEmbeddings
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.methods.federated.server_head import ServerHeads
from dpcl_core.methods.federated.task_rows import SeenLabels, features
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


class CslrServerHead:
    """The budgets of one seed: they share the clients' lists, never the noise."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        params = spec.params
        assert isinstance(params, CslrServerHeadParams)
        self._cells, self._seed = tuple(cells), cells[0].seed
        self._seen = SeenLabels(spec, known)
        public = PublicEmbeddings.of(known.anchors, self._seed, params.dimensions, params.radius, params.anchors)
        horizon = Horizon.of(spec.privacy, known.n_tasks, known.recurrence)
        multipliers = [horizon.releases(c.epsilon) if math.isfinite(c.epsilon) else 0.0 for c in cells]
        self._releases = ReleaseSchedule(spec, cells, known, public, multipliers)
        self._heads = ServerHeads(params, self._seed, known.n_inputs, known.n_classes, len(cells))
        self._public = public

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task = tasks[self._seed]
        rows = self._seen.rows(task)
        yield Progress("training", 0, 2, task.index, f"lists of {task.name}")
        lists = cache(partial(self._releases.lists, rows, task.index))
        self._releases.of_task(rows, task.index, ledgers, lists)
        yield ListsObserved(lists, task.index, 0, self._releases.parts, self._releases.stds(rows), self._public)
        yield Progress("training", 1, 2, task.index, f"head from the releases up to {task.name}")
        self._heads.learn(self._releases.parts, task.index)
        yield Progress("training", 2, 2, task.index, f"{task.name} learned")

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The head's logits [epsilons, n, classes], the only prediction rule."""
        return {"argmax": self._seen.masked(self._heads.logits(features(task.test.inputs)), task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last task's noisy sums, and the head trained on the releases of all tasks."""
        return {**self._releases.released(cell), **self._heads.released(self._cells.index(cell))}


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> CslrServerHead:
    """The learner of one seed's budgets."""
    return CslrServerHead(spec, cells, known)
