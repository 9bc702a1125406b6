"""How the state of a run changes: statements that change nothing unless the run is in the state that they start from."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Update, case, delete, func, select, update

from dpcl_core.runs import database
from dpcl_core.runs.process import Process
from dpcl_core.runs.run import COUNTED_SECONDS, RESUMABLE, End, Failure, Status, checked_id, no_such_run
from dpcl_core.runs.tables import ACTIVE, checkpoints, resumptions, runs, shards


def is_carried_out(connection: Connection, run_id: str, by: Process, *also: Status) -> bool:
    """Whether this process carries out a run, which is under way or in one of the states `also`; locks it to the end.

    Nobody does once it is deleted for good: its results must not come back. Raises BadInput for an unknown run.
    """
    columns = (runs.c.status, runs.c.emptied, runs.c.machine, runs.c.pid, runs.c.ticks)
    row = connection.execute(select(*columns).where(runs.c.id == checked_id(run_id)).with_for_update()).one_or_none()
    if row is None:
        raise no_such_run(run_id)
    if row.emptied is not None:
        return False
    return row.status in (*ACTIVE, *also) and Process(row.machine, row.pid, row.ticks) == by


def transition(run_id: str, before: Sequence[str]) -> Update:
    """An UPDATE of one run that changes nothing unless the run is in one of the states `before`."""
    return update(runs).where(runs.c.id == checked_id(run_id), runs.c.status.in_(before))


def stop(connection: Connection, which: ColumnElement[bool]) -> None:
    """Cancels those of these runs that wait, and requests those under way to stop; others stay as they are."""
    change = update(runs).where(which)
    queued = change.where(runs.c.status == "queued")
    connection.execute(queued.values(status="cancelled", finished=time.time()))
    connection.execute(change.where(runs.c.status.in_(("starting", "running"))).values(status="stopping"))


def stop_shards(connection: Connection, run_id: str) -> None:
    """Stops the parts of a run."""
    stop(connection, runs.c.id.in_(select(shards.c.id).where(shards.c.run_id == checked_id(run_id))))


def end_update(
    run_id: str, status: End, failure: Failure | None, before: Sequence[str] = ACTIVE, *, is_gone: bool = False
) -> Update:
    """The end of a run in one of the states `before`. `is_gone`: its process gave its last sign of life some time ago."""
    # A run that is stopping may have been told why (`Store.stop_overrun`).
    is_told = (runs.c.status == "stopping") & (status == "cancelled")
    why: dict[str, object] = {name: case((is_told, runs.c[name]), else_=None) for name in ("error_kind", "error")}
    log = None
    if failure is not None:
        why, log = {"error_kind": failure.kind, "error": _storable(failure.sentence)}, _storable(failure.log)
    before_that = func.coalesce(runs.c.seconds, 0.0)
    took = before_that if is_gone else case((runs.c.status.in_(ACTIVE), seconds_taken()), else_=before_that)
    return transition(run_id, before).values(status=status, error_log=log, finished=time.time(), seconds=took, **why)


def seconds_taken() -> ColumnElement[float]:
    """What the processes of a run under way have taken by now (see `Run.seconds_taken`), by the database's clock."""
    silent = database.now() - runs.c.heartbeat
    counted = case((silent > COUNTED_SECONDS, COUNTED_SECONDS), (silent > 0.0, silent), else_=0.0)
    return func.coalesce(runs.c.seconds, 0.0) + counted


def _storable(text: str) -> str:
    """The text without what PostgreSQL (null characters) or either database (halves of characters) refuses."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def ended(connection: Connection, run_id: str, change: Update, status: End, failure: Failure | None) -> bool:
    """Carries out the end of a run, and deletes its checkpoints where it cannot be resumed."""
    if not applied(connection, change):
        return False
    if status == "finished" or (failure is not None and failure.kind not in RESUMABLE):
        forget(connection, run_id)
    return True


def forget(connection: Connection, run_id: str) -> None:
    """Deletes the checkpoints of a run, which cannot be resumed from now on."""
    for table in (checkpoints, resumptions):
        connection.execute(delete(table).where(table.c.run_id == run_id))


def applied(connection: Connection, change: Update) -> bool:
    return connection.execute(change).rowcount == 1


def columns_of(process: Process | None) -> dict[str, str | int | None]:
    return {name: getattr(process, name, None) for name in ("machine", "pid", "ticks")}
