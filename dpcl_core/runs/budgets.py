"""The budget that the owner of data declares for all runs on the same rows: declared, shown, withdrawn.

It belongs to the rows, known again by marks of their public test part (`data.marks`): another copy, another schema and a part
of them count against the same one, and it outlives the data. It is public, and nobody but the owner sees or changes it here.
`charges` says what counts against it, and refuses what would exceed it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import delete, insert

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.data import marks, own
from dpcl_core.errors import BadInput
from dpcl_core.events import plain_number
from dpcl_core.privacy.allowed import check_accounted, check_budget
from dpcl_core.privacy.statement import shown
from dpcl_core.runs import charges, locks, tables
from dpcl_core.runs.charges import Bound, Budget
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec

_RULE = "Runs compose in sequence; models that have finished count by their ledgers, all others by what they ask for."


@dataclass(frozen=True, slots=True)
class Account:
    """A budget that holds for a dataset, with what was spent of it: a proved bound, infinite where none is known."""

    dataset: str
    budget: Budget
    spent: Bound

    @property
    def sentence(self) -> str:
        """The account in words, with the rule by which it adds up."""
        budget, (epsilon, delta) = self.budget, self.budget.left(self.spent)
        one = f"one person (column {budget.unit})" if budget.unit else "one row"
        no_bound = "no bound is known, as something was released that has none"
        spent = f"epsilon {shown(self.spent[0])}, delta {self.spent[1]:.3g}" if math.isfinite(self.spent[0]) else no_bound
        return (
            f"Budget of {self.dataset} for all runs on these rows: epsilon {shown(budget.epsilon)}, delta {budget.delta:g}, "
            f"for {one} left out. Spent: {spent}. Left: epsilon {epsilon:g}, delta {delta:g}. {_RULE}"
        )

    def document(self) -> dict[str, object]:
        """As JSON."""
        whole, left = (self.budget.epsilon, self.budget.delta), self.budget.left(self.spent)
        numbers = {"declared": whole, "spent": self.spent, "left": left}
        said = {name: {"epsilon": plain_number(one[0]), "delta": one[1]} for name, one in numbers.items()}
        return {"dataset": self.dataset, "unit": self.budget.unit or None, **said}


def of(store: Store, dataset: str) -> list[Account]:
    """The budgets that hold for own:NAME: none, one, or those of several datasets whose rows it joins.

    Raises BadInput for data that are not here, and for a visitor of a shared server who did not bring them.
    """
    _check_owner(store, dataset)
    with store.reading() as connection:
        found = charges.declared(connection, dataset)
        return [Account(dataset, one, charges.spent(one, charges.charges(connection, one))) for one in found]


def declare(store: Store, dataset: str, epsilon: float, delta: float | None = None) -> None:
    """Declares a budget in place of those that hold. `delta`: None for the largest power of ten below 1/n, which is public.

    Raises BadInput as `of` does, and for numbers that promise nothing.
    """
    _check_owner(store, dataset)
    check_budget(epsilon)
    n_train = datasets.facts(dataset).n_train
    chosen = float(f"{10 * checks.default_delta(n_train):.3g}") if delta is None else delta
    check_accounted(chosen)
    if chosen >= 1 / n_train:
        allowed = f"must be below 1/{n_train}, one over the number of training examples: else one could be published in full"
        raise BadInput("delta", chosen, allowed)
    known = marks.kept(dataset)
    with store.writing() as connection:
        locks.take(connection, locks.QUEUE)
        before = charges.declared(connection, dataset)
        connection.execute(delete(tables.budgets).where(tables.budgets.c.number.in_([one.number for one in before])))
        values = {
            "dataset": None if known else dataset, "marks": sorted(known.union(*(one.marks for one in before))),
            "unit": charges.people(dataset) or "", "epsilon": epsilon, "delta": chosen,
        }  # fmt: skip
        connection.execute(insert(tables.budgets).values(values))


def withdraw(store: Store, dataset: str) -> None:
    """Removes the budgets that hold for own:NAME; what was spent stays counted. Raises BadInput as `of` does."""
    _check_owner(store, dataset)
    with store.writing() as connection:
        numbers = [one.number for one in charges.declared(connection, dataset)]
        connection.execute(delete(tables.budgets).where(tables.budgets.c.number.in_(numbers)))


def check(store: Store, spec: RunSpec) -> None:
    """Raises BadInput for a run that would exceed a budget if it were started now."""
    with store.reading() as connection:
        charges.check(connection, spec)


def refuse_uncounted(store: Store, spec: RunSpec) -> None:
    """Raises BadInput where a budget holds, for what releases something that no store counts."""
    with store.reading() as connection:
        if charges.declared(connection, spec.data.dataset):
            allowed = "has a declared budget, and what is released here is in no store that counts it: start a run instead"
            raise BadInput("data.dataset", spec.data.dataset, allowed)


def _check_owner(store: Store, dataset: str) -> None:
    owner = own.owner(dataset) if dataset.startswith(charges.OWN) else None
    if owner is None:
        raise BadInput("data", dataset, "must be data of your own on this computer, as own:NAME")
    if store.visitor is not None and owner != store.visitor.owner:
        raise BadInput("data", dataset, "was not brought by you: only who did can see or set its budget")
