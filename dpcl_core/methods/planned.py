"""What a run will do to private data, from settings and public sizes alone: a ledger for each budget.

A method's card names its plan in `planned`: a function that enters one budget's events for all tasks. A run enters no more
than that (`learning`), so that a bound for the plan holds for every run, however early it ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

import dp_accounting as dp

from dpcl_core.events import Planned
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy.joint_release import joint_release
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.written import written
from dpcl_core.spec import Cell, RunSpec


class Plan(Protocol):
    """Enters all that one model of this budget will do; `spec` has the budget of one row where a person has several."""

    def __call__(self, spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None: ...


def of_run(asked: RunSpec, spec: RunSpec, facts: PublicSizes, learners: Sequence[Sequence[Cell]], rows: int) -> Planned:
    """The plan of a run's models, by learner. `asked`: as it was asked for, `spec`: with the budget of one of `rows`."""
    names = dict(zip(spec.cells(), asked.cells(), strict=True))
    budgets = dict(zip(spec.privacy.epsilons, asked.privacy.epsilons, strict=True))
    books = {name: _ledger(asked, spec, facts, epsilon, rows) for epsilon, name in budgets.items()}
    cells = tuple(tuple(names[cell] for cell in learner) for learner in learners)
    total, delta = joint_release([{cell: books[cell.epsilon] for cell in learner} for learner in cells])
    n_people = facts.n_people // rows if facts.n_users is None else facts.n_users
    ledgers = tuple((epsilon, written(book)) for epsilon, book in books.items())
    return Planned(total, delta, n_people, facts.n_tasks, cells, ledgers)


def _ledger(asked: RunSpec, spec: RunSpec, facts: PublicSizes, epsilon: float, rows: int) -> Ledger:
    card = methods.card(spec.method)
    ledger = Ledger(asked.privacy.delta, spec.privacy.adjacency, facts.recurrence, rows_per_unit=rows)
    is_bounded = card.guarantee == "proved" and methods.standing(spec) == "bound" and math.isfinite(epsilon)
    if is_bounded and card.planned:
        module, _, name = card.planned.partition(":")
        cast(Plan, getattr(import_module(module), name))(spec, facts, epsilon, ledger)
    else:
        everyone = tuple(range(facts.n_tasks))
        ledger.spend(dp.NonPrivateDpEvent(), task=0, what="nothing bounds what such a model may reveal", people_of=everyone)
    return ledger
