"""Ledgers of known events and the plan of models that have them, for cards and statements that are made without a run."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dp_accounting as dp

from dpcl_core.events import Planned
from dpcl_core.privacy.ledger import Ledger, joint_release, ledger_entries
from dpcl_core.spec import Cell


def charged(
    *events: dp.DpEvent, task: int = 0, people_of: tuple[int, ...] | None = None, channels: Mapping[str, dp.DpEvent] = {},
    recurrence: str = "once", adjacency: str = "add-remove", delta: float = 1e-5, what: str = "made up", **kept: Any,
) -> Ledger:  # fmt: skip
    """A ledger with one of these events a task, from `task` on; `kept` is what else a ledger is made with."""
    made = Ledger(delta, adjacency, recurrence, **kept)  # type: ignore[arg-type]
    for place, event in enumerate(events):
        made.spend(event, task=task + place, what=what, people_of=people_of, channels=channels)
    return made


def plan_of(*learners: Mapping[Cell, Ledger], n_people: int = 900, n_tasks: int = 2) -> Planned:
    """The plan of models that do just what these ledgers hold, by learner."""
    books = {}
    for cell, ledger in (pair for learner in learners for pair in learner.items()):
        books[cell.epsilon] = ledger_entries(
            replace(ledger, entries=[replace(entry, channels={}) for entry in ledger.entries])
        )
    return Planned(*joint_release(learners), n_people, n_tasks, tuple(map(tuple, learners)), tuple(books.items()))
