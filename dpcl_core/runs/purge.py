"""Deletes runs for good: those of a dataset that its owner deletes, with the data, and those in the trash."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import Connection, delete, or_, select, update

from dpcl_core import unforeseen
from dpcl_core.data import intake, own
from dpcl_core.errors import BadInput
from dpcl_core.runs import journal, looks, queue, tables
from dpcl_core.runs.store import Store
from dpcl_core.runs.subprocess_start import log_file
from dpcl_core.runs.tables import ACTIVE, audits, cells, classifiers, events, metadata, runs


def runs_on(store: Store, dataset: str) -> list[str]:
    """The ids of all runs on a dataset, those of tunings and audits and deleted ones included, oldest first."""
    with store.reading() as connection:
        return _on(connection, dataset)


def purge(store: Store, dataset: str) -> int:
    """Deletes every run on a dataset with all that is stored of it, and data that were taken in; gives the number of runs.

    How many looks and turns they were is kept (`looks.keep`, `queue.keep_turns`). Raises BadInput while one is under way,
    for data that cannot be deleted, and for a visitor of a shared server who did not bring them: others may have runs there.
    """
    if store.visitor is not None and own.owner(dataset) != store.visitor.owner:
        raise BadInput("data", dataset, "was not brought by you: only who did can delete it")
    with store.writing() as connection:
        ids = _on(connection, dataset)
        states = connection.execute(select(runs.c.id, runs.c.status).where(runs.c.id.in_(ids)).with_for_update())
        under_way = next((run_id for run_id, status in states if status in ACTIVE), None)
        if under_way is not None:
            raise BadInput("run", under_way, "is under way on these data: stop it first")
        looks.keep(connection, dataset)
        queue.keep_turns(connection, ids)
        for table in reversed(metadata.sorted_tables):
            # Ids of studies, audits and sets are ids of runs, so that whatever refers to one of these goes with it.
            of_run = [column for column in table.c if column.foreign_keys and column.name != "room"]
            if table is runs:
                of_run = [runs.c.id]
            if of_run:
                connection.execute(delete(table).where(or_(*(column.in_(ids) for column in of_run))))
    try:
        if intake.was_taken_in(dataset):
            intake.forget(dataset)
    finally:
        _forget_files(ids)
        unforeseen.forget()  # an error may quote the data
    return len(ids)


def empty_trash(store: Store) -> int:
    """Deletes for good the results of all runs in the trash, a visitor's own on a shared server; gives their number.

    What stays of a run is that it was: its settings are a look at the data.
    """
    seen = [run.id for run in store.trash() if run.is_over]
    with store.writing() as connection:
        # Asked for again and locked: a run restored in between keeps its results.
        still = select(runs.c.id).where(runs.c.id.in_(seen), runs.c.deleted.is_not(None), runs.c.emptied.is_(None))
        ids = connection.scalars(still.with_for_update()).all()
        for table in (events, cells, classifiers):
            connection.execute(delete(table).where(table.c.run_id.in_(ids)))
        connection.execute(update(audits).where(or_(audits.c.id.in_(ids), audits.c.run_id.in_(ids))).values(results=[]))
        gone = {"emptied": time.time(), "name": "deleted", "error": None, "error_log": None}
        connection.execute(update(runs).where(runs.c.id.in_(ids)).values(**gone))
    _forget_files(ids)
    return len(ids)


def _forget_files(ids: Sequence[str]) -> None:
    """Deletes what runs have written beside the store, but for what belongs to another user of this computer."""
    for run_id in ids:
        journal.forget(run_id)
        with suppress(OSError):
            log_file(run_id).unlink()


def _on(connection: Connection, dataset: str) -> list[str]:
    return list(connection.scalars(select(runs.c.id).where(tables.dataset == dataset).order_by(runs.c.number)))
