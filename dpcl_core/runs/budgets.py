"""The budget that the owner of data declares for all runs on the same rows: declared, shown, withdrawn.

It belongs to the rows, known again by marks of their public test part (`data.own`): another copy, another schema and a
part of them count against the same one, and it outlives the data. It is public; on a shared server nobody else sees or
changes it. `charges` says what counts against it, and refuses what would exceed it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import delete, insert

from dpcl_core import checks
from dpcl_core.data import catalog as datasets
from dpcl_core.data import own
from dpcl_core.errors import BadInput
from dpcl_core.privacy.loss_distributions import check_accounted, check_budget
from dpcl_core.runs import charges, tables
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec


def of(store: Store, dataset: str) -> list[charges.Budget]:
    """The budgets that hold for own:NAME: none, one, or those of several datasets whose rows it joins.

    Raises BadInput for data that are not here, and for a visitor of a shared server who did not bring them.
    """
    _check_owner(store, dataset)
    with store.reading() as connection:
        found = charges.declared(connection, dataset)
        return [replace(one, spent=charges.together(charges.charges(connection, one))) for one in found]


def declare(store: Store, dataset: str, epsilon: float | None, delta: float | None = None) -> None:
    """Declares a budget in place of those that hold; None: there is none from now on. What was spent stays counted.

    `delta`: None for the largest power of ten below 1/n, which is public. Raises BadInput as `of` does, and for numbers that
    promise nothing.
    """
    _check_owner(store, dataset)
    if epsilon is not None:
        check_budget(epsilon)
        n_train = datasets.facts(dataset).n_train
        delta = float(f"{10 * checks.default_delta(n_train):.3g}") if delta is None else delta
        check_accounted(delta)
        if delta >= 1 / n_train:
            allowed = f"must be below 1/{n_train}, one over the number of training examples: else one could be published"
            raise BadInput("delta", delta, allowed)
    known, unit = own.kept_marks(dataset), charges.people(dataset) or ""
    with store.writing() as connection:
        tables.take(connection, tables.QUEUE)
        before = charges.declared(connection, dataset)
        connection.execute(delete(tables.budgets).where(tables.budgets.c.number.in_([one.number for one in before])))
        if epsilon is not None:
            rows = {"dataset": None if known else dataset, "marks": sorted(known.union(*(one.marks for one in before)))}
            connection.execute(insert(tables.budgets).values(**rows, unit=unit, epsilon=epsilon, delta=delta))


def check(store: Store, spec: RunSpec, gives: charges.Gives = "models") -> None:
    """Raises BadInput for what would exceed a budget if it were started now."""
    with store.reading() as connection:
        charges.check(connection, spec, gives)


def _check_owner(store: Store, dataset: str) -> None:
    owner = own.owner(dataset) if dataset.startswith(charges.OWN) else None
    if owner is None:
        raise BadInput("data", dataset, "must be data of your own on this computer, as own:NAME")
    if store.visitor is not None and owner != store.visitor.owner:
        raise BadInput("data", dataset, "was not brought by you: only who did can see or set its budget")
