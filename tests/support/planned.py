"""The plan of models whose ledgers are known, for cards and statements that are made without a run."""

from collections.abc import Mapping
from dataclasses import replace

from dpcl_core.events import Planned
from dpcl_core.privacy.ledger import Ledger, joint_release, ledger_entries
from dpcl_core.spec import Cell


def plan_of(*learners: Mapping[Cell, Ledger], n_people: int = 900, n_tasks: int = 2) -> Planned:
    """The plan of models that do just what these ledgers hold, by learner."""
    books = {}
    for cell, ledger in (pair for learner in learners for pair in learner.items()):
        books[cell.epsilon] = ledger_entries(
            replace(ledger, entries=[replace(entry, channels={}) for entry in ledger.entries])
        )
    return Planned(*joint_release(learners), n_people, n_tasks, tuple(map(tuple, learners)), tuple(books.items()))
