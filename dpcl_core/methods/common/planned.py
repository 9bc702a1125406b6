"""Parts of methods' plans (`methods.planned`)."""

from __future__ import annotations

from collections.abc import Sequence

import dp_accounting as dp

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy import partition
from dpcl_core.privacy.budget import list_budget
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.spec import RunSpec


def each_task(ledger: Ledger, facts: PublicSizes, *events: dp.DpEvent) -> None:
    """Enters these events for the people of every task."""
    for task in range(facts.n_tasks):
        for event in events:
            ledger.spend(event, task=task, what="planned")


def learned_list(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger, tasks: Sequence[int]) -> None:
    """Enters the list of labels that is learned of these tasks' people, where lists are learned."""
    if spec.labels == "dp-learned":
        rows = len(tasks) if ledger.recurrence == "every" else 1
        event = partition.event(*list_budget(spec.privacy, epsilon, facts.n_tasks, rows), ledger.adjacency)
        ledger.spend(event, task=tasks[-1], what="planned list of labels", people_of=tuple(tasks))
