"""The queues: what is put at their end, and their order, fair between visitors, for each of them first come, first served.

Next is the oldest run of whoever had the fewest runs started within the last hour. Where nobody owns a run, as on one's own
computer, that is the oldest run of all. A part of a run takes its turn as its owner's run, though nobody owns it otherwise.
"""

from __future__ import annotations

import heapq
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, Row, delete, func, insert, select

from dpcl_core.errors import BadInput
from dpcl_core.runs import charges, database, devices, durations, locks, visitors
from dpcl_core.runs.process import Process
from dpcl_core.runs.run import Split
from dpcl_core.runs.tables import ACTIVE, kept_turns, runs, set_runs, shards, splits
from dpcl_core.runs.transitions import columns_of
from dpcl_core.runs.visitors import Visitor
from dpcl_core.spec import RunSpec

RECENT_SECONDS = 3600.0
_Waiting = Row[str, str, str | None, str | None]

_whole = runs.alias("whole")  # of a part
_with_wholes = runs.outerjoin(shards, shards.c.id == runs.c.id).outerjoin(_whole, _whole.c.id == shards.c.run_id)
_owner = func.coalesce(_whole.c.owner, runs.c.owner).label("owner")
_WAITING = (
    select(runs.c.id, runs.c.device, _owner, set_runs.c.set_id)
    .select_from(_with_wholes.outerjoin(set_runs, set_runs.c.run_id == runs.c.id))
    .where(runs.c.status == "queued").order_by(runs.c.number)
)  # fmt: skip


def in_order(connection: Connection) -> dict[str, list[_Waiting]]:
    """The waiting runs of each device, in the order in which they would start if nothing were added."""
    by_owner: dict[str, dict[str | None, list[_Waiting]]] = defaultdict(lambda: defaultdict(list))
    for row in connection.execute(_WAITING):
        by_owner[row.device][row.owner].append(row)
    has_several = any(len(of_device) > 1 for of_device in by_owner.values())
    n_recent = _n_recent(connection) if has_several else {}
    return {device: _merged(of_device, n_recent) for device, of_device in by_owner.items()}


def _n_recent(connection: Connection) -> dict[str | None, int]:
    """How many runs of each owner were started lately, those included that were deleted with their data."""
    since = time.time() - RECENT_SECONDS
    there = select(_owner).select_from(_with_wholes).where(runs.c.started > since)
    gone = select(kept_turns.c.owner).where(kept_turns.c.started > since)
    return Counter(connection.scalars(there.union_all(gone)))


def keep_turns(connection: Connection, ids: Sequence[str]) -> None:
    """Keeps the turns of runs that are about to be deleted for as long as they count, and forgets those that do no more."""
    since = time.time() - RECENT_SECONDS
    connection.execute(delete(kept_turns).where(kept_turns.c.started <= since))
    recent = select(_owner, runs.c.started).select_from(_with_wholes).where(runs.c.id.in_(ids), runs.c.started > since)
    connection.execute(insert(kept_turns).from_select(["owner", "started"], recent))


def _merged(by_owner: dict[str | None, list[_Waiting]], n_recent: dict[str | None, int]) -> list[_Waiting]:
    """One owner after another: each that gets a run has then one more."""
    turns = [(n_recent.get(owner, 0), place, owner, 0) for place, owner in enumerate(by_owner)]  # in the order they came
    heapq.heapify(turns)
    order = []
    while turns:
        n, place, owner, done = heapq.heappop(turns)
        order.append(by_owner[owner][done])
        if done + 1 < len(by_owner[owner]):
            heapq.heappush(turns, (n + 1, place, owner, done + 1))
    return order


def next_runs(connection: Connection, passed: Collection[str] = ()) -> frozenset[str]:
    """The run of each device whose turn is next, without those that are passed over."""
    fit = [[row.id for row in waiting if row.id not in passed] for waiting in in_order(connection).values()]
    return frozenset(of_device[0] for of_device in fit if of_device)


def ahead(connection: Connection, device: str, run_id: str | None = None) -> list[str]:
    """The ids of what is ahead of a waiting run (None: of a new one) on the device it asks for: under way, then waiting."""
    busy = select(runs.c.id).where(runs.c.status.in_(ACTIVE), runs.c.runs_on == devices.here(device))
    waiting = [row.id for row in in_order(connection).get(device, [])]
    return [*connection.scalars(busy), *waiting[: waiting.index(run_id) if run_id in waiting else None]]


def places(connection: Connection) -> dict[str, int]:
    """Place in its device's queue of every waiting run, from 1; the runs of a set share one.

    A set that is under way waits no more: its waiting runs have none.
    """
    active = select(set_runs.c.set_id).join(runs, runs.c.id == set_runs.c.run_id).where(runs.c.status.in_(ACTIVE))
    under_way = set(connection.scalars(active))
    found = {}
    for waiting in in_order(connection).values():
        entries: dict[str, int] = {}
        for row in waiting:
            if row.set_id is None or row.set_id not in under_way:
                found[row.id] = entries.setdefault(row.set_id or row.id, len(entries) + 1)
    return found


def enqueue(
    connection: Connection,
    spec: RunSpec,
    *,
    name: str,
    workload: str,
    n_cells: int,
    device: str,
    visitor: Visitor | None,
    split: Split | None = None,
    gives: charges.Gives = "models",
    attended_by: Process | None = None,
) -> str:
    """Puts a row at the end of its device's queue and gives its id. `attended_by`: the command or script that it ends with.

    Raises BadInput for a bad device, for settings with a null character (PostgreSQL could then look up no run's dataset),
    for what is above a limit of the visitor of a shared server, and for what exceeds a budget declared for own data.
    """
    document = spec.model_dump_json()
    if "\\u0000" in document:
        raise BadInput("settings", "a null character", "must be text that can be printed")
    devices.checked(device)
    locks.take(connection, locks.QUEUE)
    if visitor is not None:
        past = durations.past(connection, {workload}).get((workload, device), [])
        visitors.check(connection, visitor, n_cells, durations.estimate(past, n_cells))
    charges.check(connection, spec, gives)
    run_id = secrets.token_hex(6)
    connection.execute(
        insert(runs).values(
            id=run_id,
            name=name,
            spec=document,
            digest=spec.digest(),
            workload=workload,
            n_cells=n_cells,
            device=device,
            status="queued",
            created=time.time(),
            owner=None if visitor is None else visitor.owner,
            attended=attended_by is not None,
            heartbeat=None if attended_by is None else database.now(),
            **columns_of(attended_by),
        )
    )
    if split is not None:
        connection.execute(insert(splits).values(run_id=run_id, **asdict(split)))
    return run_id
