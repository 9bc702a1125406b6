"""The queues: what is put at their end, and their order, fair between visitors, for each of them first come, first served.

Turns go round among pools (`visitors`): addresses, classes, and visitors who count for themselves. Next is the oldest run
of the pool that had the fewest runs started within the last hour, and in it of whoever had the fewest; but nobody who came
after a run was put there goes before it for having had fewer. Visitors of one address who came later wait for it in any
case: a new visitor costs nothing there. Where nobody owns a run, as on one's own computer, next is the oldest run of all. A
part of a run takes its turn as its owner's run, though nobody owns it otherwise.
"""

from __future__ import annotations

import math
import secrets
import time
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, Row, delete, func, insert, select

from dpcl_core.errors import BadInput
from dpcl_core.runs import charges, database, devices, durations, locks, visitors
from dpcl_core.runs.process import Process
from dpcl_core.runs.run import Split
from dpcl_core.runs.tables import ACTIVE, kept_turns, runs, set_runs, shards, splits
from dpcl_core.runs.tables import visitors as known
from dpcl_core.runs.transitions import columns_of
from dpcl_core.runs.visitors import CLASS, Visitor
from dpcl_core.spec import RunSpec

RECENT_SECONDS = 3600.0
_Waiting = Row[str, str, str | None, str | None, str | None, float]

_whole = runs.alias("whole")  # of a part
_with_wholes = runs.outerjoin(shards, shards.c.id == runs.c.id).outerjoin(_whole, _whole.c.id == shards.c.run_id)
_owner = func.coalesce(_whole.c.owner, runs.c.owner).label("owner")
_pool = func.coalesce(known.c.pool, _owner).label("pool")
_WAITING = (
    select(runs.c.id, runs.c.device, _owner, _pool, set_runs.c.set_id, runs.c.created)
    .select_from(_with_wholes.outerjoin(set_runs, set_runs.c.run_id == runs.c.id).outerjoin(known, known.c.owner == _owner))
    .where(runs.c.status == "queued").order_by(runs.c.number)
)  # fmt: skip


def in_order(connection: Connection) -> dict[str, list[_Waiting]]:
    """The waiting runs of each device, in the order in which they would start if nothing were added."""
    by_device = _by(connection.execute(_WAITING).all(), "device")
    if all(len({row.owner for row in waiting}) == 1 for waiting in by_device.values()):
        return by_device
    starts, since, pool_of = _starts(connection), dict[str, float](), dict[str, str]()
    for row in connection.execute(select(known)):
        pool_of[row.owner] = row.pool
        since[row.owner] = row.since
        since[row.pool] = min(row.since, since.get(row.pool, row.since))
    of_pools: dict[str, list[float]] = defaultdict(list)
    for owner, times in starts.items():
        of_pools[pool_of.get(owner, owner)] += times
    order = {}
    for device, waiting in by_device.items():
        inside = {
            pool: _merged(_by(of_pool, "owner"), starts, since, is_strict=not pool.startswith(CLASS))
            for pool, of_pool in _by(waiting, "pool").items()
        }
        order[device] = _merged(inside, of_pools, since, is_strict=False)
    return order


def _by(waiting: Sequence[_Waiting], what: str) -> dict[str, list[_Waiting]]:
    """The waiting runs by device, pool or owner (nobody: empty), each in their order."""
    found: dict[str, list[_Waiting]] = defaultdict(list)
    for row in waiting:
        found[getattr(row, what) or ""].append(row)
    return found


def _starts(connection: Connection) -> dict[str, list[float]]:
    """When runs of each owner (nobody: empty) were started lately, those included that were deleted with their data."""
    since = time.time() - RECENT_SECONDS
    there = select(_owner, runs.c.started).select_from(_with_wholes).where(runs.c.started > since)
    gone = select(kept_turns.c.owner, kept_turns.c.started).where(kept_turns.c.started > since)
    found: dict[str, list[float]] = defaultdict(list)
    for owner, started in connection.execute(there.union_all(gone)):
        found[owner or ""].append(started)
    return found


def keep_turns(connection: Connection, ids: Sequence[str]) -> None:
    """Keeps the turns of runs that are about to be deleted for as long as they count, and forgets those that do no more."""
    since = time.time() - RECENT_SECONDS
    connection.execute(delete(kept_turns).where(kept_turns.c.started <= since))
    recent = select(_owner, runs.c.started).select_from(_with_wholes).where(runs.c.id.in_(ids), runs.c.started > since)
    connection.execute(insert(kept_turns).from_select(["owner", "started"], recent))


def _merged(
    by_party: dict[str, list[_Waiting]], starts: Mapping[str, list[float]], since: Mapping[str, float], *, is_strict: bool
) -> list[_Waiting]:
    """One party after another: each that gets a run has then one more. `since`: when each came first.

    A party that came after a run was put here counts as if it had had as many as that run's party had then; `is_strict`: and
    it waits for this run.
    """
    came = {party: since.get(party, 0.0) for party in by_party}
    oldest = {party: min(row.created for row in waiting) for party, waiting in by_party.items()}
    granted = dict[str, int]()

    def had(party: str, until: float = math.inf) -> int:
        return granted[party] + sum(started < until for started in starts.get(party, ()))

    for party in sorted(by_party, key=came.__getitem__):
        before = [other for other in granted if oldest[other] < came[party]]
        granted[party] = max((had(other, came[party]) for other in before), default=0)
    turns = {party: had(party) for party in by_party}
    order, left = list[_Waiting](), {party: deque(waiting) for party, waiting in by_party.items()}
    while left:
        first = min(waiting[0].created for waiting in left.values())
        chosen = min((party for party in left if not is_strict or came[party] <= first), key=turns.__getitem__)
        order.append(left[chosen].popleft())
        turns[chosen] += 1
        if not left[chosen]:
            del left[chosen]
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
        visitors.note(connection, visitor)
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
