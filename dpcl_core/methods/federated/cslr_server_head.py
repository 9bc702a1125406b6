"""CSLR with the head on the server: one noisy release per task, and a head trained on the releases.

The head is a function of the releases and of public numbers, so that the releases' epsilon covers it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.layers import Departure
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import Question
from dpcl_core.methods.federated.pooling import ServerHeadLearner
from dpcl_core.methods.federated.slot_assignment import ListsObserved, TaskRows
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell


@dataclass(frozen=True, kw_only=True)
class CslrServerHeadParams(federated.ListParams, federated.ReleaseParams, federated.ServerParams):
    """One release per task, and a head trained on the mixture of all releases."""


CARD = federated.card(
    name="cslr-server-head",
    title="CSLR, head on the server",
    summary="Every client matches its texts to public groups and sends one clipped vector per task. The sum gets noise once "
    "and becomes a mixture of Gaussians. The server trains the head on texts generated from these mixtures alone, for all "
    "tasks: the head costs nothing beyond the release.",
    source=f"{federated.SOURCE}, repaired: matched on the client, released once a task, head from the release",
    params=CslrServerHeadParams,
    matters=("anchors", "list_size", "matcher"),
    module=__name__,
    audit="dpcl_core.attacks.federated_games",
    planned="dpcl_core.methods.federated.release_schedule:releases",
    shares="epsilons",
    derived=lambda params, facts: f"{facts.n_tasks} releases in all, of every client each; the head costs nothing more.",
    needs_anchors=True,
    asks_clients=True,
    printed=federated.printed(
        federated.LISTS,
        federated.ONCE,
        federated.INVENTED,
        federated.HEAD,
        left_open={"params.steps": "In the paper clients train the head; the server's steps are ours."},
        always=(
            federated.MATCHED_AT_HOME,
            federated.ONE_VECTOR,
            Departure(
                "",
                "by clients, in rounds without noise",
                "the head is trained by the server, on invented embeddings alone",
                "Whatever is made from the release alone costs nothing more.",
            ),
        ),
        kind="repair",
    ),
    table_names=lambda spec: ("Repair: CSLR, head on the server", federated.axes(spec)),
    reference="CSLR",
)


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
