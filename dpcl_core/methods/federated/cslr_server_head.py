"""CSLR with the head on the server: one noisy release per task, and a head trained on the releases.

The head is a function of the releases and of public numbers, so that the releases' epsilon covers it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.client_release import Question
from dpcl_core.methods.federated.pooling import ServerHeadLearner
from dpcl_core.methods.federated.slot_assignment import ListsObserved, TaskRows
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell


class CslrServerHead(ServerHeadLearner):
    """Clients match their lists themselves; the server receives one noisy sum of their vectors per task."""

    received = "releases"

    def _receive(self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger]) -> ListsObserved:
        lists = cache(partial(self._releases.lists, rows, index))
        self._releases.of_task(rows, index, ledgers, lists)
        return self._releases.observed(rows, lists, index, 0)

    def answers(self, task: Task, question: Question, clients: NDArray[np.int64]) -> NDArray[np.floating]:
        """The clients' lists, matched to the question's groups, as vectors of the task's release."""
        return self._releases.answers(self._seen.rows(task), question)[clients]

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last task's noisy sums, and the head trained on the releases of all tasks."""
        return {**self._releases.released(cell), **super().released(cell)}


make_learner = CslrServerHead
