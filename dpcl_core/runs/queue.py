"""The queues: what is put at their end, and their order, fair between visitors, for each of them first come, first served.

Turns go round among pools (`visitors`): addresses, classes, and visitors who count for themselves. Next is the oldest run
of the pool that had the fewest runs started within the last hour, and in it of whoever had the fewest; but nobody who came
after a run was put there goes before it for having had fewer. Visitors of one address who came later wait for it in any
case: a new visitor costs nothing there. Where nobody owns a run, as on one's own computer, next is the oldest run of all. A
part of a run takes its turn as its owner's run, though nobody owns it otherwise.
"""

import hmac
import math
import os
import secrets
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

from sqlalchemy import Connection, Row, Select, Text, cast, delete, func, insert, literal, select, update

from dpcl_core import paths
from dpcl_core.data import own
from dpcl_core.errors import BadInput, unknown
from dpcl_core.metrics import grouped
from dpcl_core.runs import charges, database, process, run, tables
from dpcl_core.runs.tables import ACTIVE, OPEN, checkpoints, kept_turns, members, rooms, runs, set_runs, shards, turns
from dpcl_core.runs.tables import visitors as known
from dpcl_core.spec import RunSpec

# What each visitor of a shared server may use, all from one address, and all together: runs, seconds, storage, rooms.
#
# A server is shared where `DPCL_SHARED` says so (`dpcl app --shared`); elsewhere nothing is limited and nobody owns a run. A
# browser gets a new token whenever it asks for one, so that limits for each token alone hold back nobody. Visitors without
# an account therefore count for a pool: that of their address or, in a classroom, that of the address from which it was
# opened.


VARIABLE = "DPCL_SHARED"
USUAL = "usual"  # the value for limits as they are below
CLASS = "class:"  # begins the name of a pool that is a class
_REMEMBERED_SECONDS = 86_400.0
_IS_OPEN = runs.c.status.in_(OPEN)


@dataclass(frozen=True, slots=True)
class Limits:
    """For each visitor: `cells` and `seconds` of a run, as estimated and as taken; runs waiting or under way (`places`);
    `megabytes` kept.

    `address_`: for all visitors of one address together. `class_`: for the members of all rooms that were opened from one
    address, who do not count for their own. `all_`: for the whole server; `all_seconds`: of all that waits or is under way.
    """

    cells: int = 100
    seconds: int = 1800
    places: int = 10
    megabytes: int = 500
    address_places: int = 20
    address_megabytes: int = 2000
    address_rooms: int = 5
    class_places: int = 60
    all_places: int = 200
    all_seconds: int = 172_800
    all_megabytes: int = 20_000
    all_rooms: int = 100


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor of a shared server. `owner`: digest of the token in the visitor's browser, or of the account.

    `address`: see `address_of`; None for an account, which nobody makes at will.
    """

    owner: str
    limits: Limits
    address: str | None = None


def address_of(host: str) -> str:
    """What is kept of an address: a keyed digest; of IPv6 of the network, within which a computer chooses its address.

    Raises StoreTrouble where the key cannot be kept.
    """
    with suppress(ValueError):  # no address: such as the name that a proxy gave
        found = ip_address(host)
        if isinstance(found, IPv6Address):
            host = str(found.ipv4_mapped or int(found) >> 64)
    return hmac.new(paths.kept_key(paths.home() / "addresses.key", "addresses"), host.encode(), sha256).hexdigest()[:32]


def limits() -> Limits | None:
    """The limits of this server; None where it is not shared. Raises BadInput for a wrong `DPCL_SHARED`."""
    text = os.environ.get(VARIABLE)
    return None if text is None else read_limits(text)


def read_limits(text: str) -> Limits:
    """Limits as written: `usual`, or such as `cells=60,seconds=900`, the others being as usual.

    Raises BadInput for anything else, and for nothing: who names limits that turn out empty wants no open server.
    """
    found = dict[str, int]()
    for part in text.split(",") if text != USUAL else ():
        name, _, value = part.strip().partition("=")
        if name not in (names := [field.name for field in fields(Limits)]):
            raise unknown(VARIABLE, name, names, also=f", or {USUAL} alone")
        if not value.isdecimal() or not 1 <= int(value) <= 10**9:
            raise BadInput(f"{VARIABLE} {name}", value, "must be a whole number of at least 1")
        found[name] = int(value)
    return Limits(**found)


def check_limits(connection: Connection, visitor: Visitor, n_cells: int, seconds: float | None) -> None:
    """Raises BadInput, with what would mend it, for a run above a limit. `seconds`: its estimate, None if there is none."""
    most, pool = visitor.limits, pool_of(connection, visitor)
    if n_cells > most.cells:
        fewer = f"must be at most {most.cells} on this server: take fewer budgets or seeds"
        raise BadInput("budgets times seeds", n_cells, fewer)
    if seconds is not None and seconds > most.seconds:
        shorter = f"must be at most {most.seconds} on this server: take fewer examples, budgets or seeds"
        raise BadInput("estimated seconds", f"{seconds:.0f}", shorter)
    of_pool = runs.c.owner.in_(select(known.c.owner).where(known.c.pool == pool))
    shared = max(most.places, most.class_places if pool.startswith(CLASS) else most.address_places)
    wait = "waiting or under way on this server: wait for one to end"
    for field, whose, places, allowed in (
        ("your runs", runs.c.owner == visitor.owner, most.places, f"you may have {most.places} {wait}, or stop one"),
        ("runs of your class or address", of_pool, shared, f"all of you together may have {shared} {wait}"),
        ("runs of all visitors", runs.c.owner.is_not(None), most.all_places, f"there may be {most.all_places} {wait}"),
    ):
        n_open = connection.scalar(select(func.count()).where(whose, _IS_OPEN)) or 0
        if n_open >= max(places, most.places):
            raise BadInput(field, n_open, allowed)
    found = connection.execute(select(*run.WORK).where(runs.c.owner.is_not(None), _IS_OPEN)).all()
    # Of which nothing is known takes all that it may.
    ahead = sum(most.seconds if one is None else one for one in (*run.estimates(connection, found), seconds))
    if ahead > max(most.all_seconds, most.seconds):
        later = f"must be at most {most.all_seconds} for all that waits on this server: try again later"
        raise BadInput("estimated seconds of all runs", f"{ahead:.0f}", later)
    check_kept(connection, visitor)


def check_kept(connection: Connection, visitor: Visitor, more: int = 0) -> None:
    """Raises BadInput, with what would mend it, for a visitor who keeps too much, alone or with others of one address, and
    where all do. `more`: bytes about to be added.
    """
    mend = "delete runs on Runs and empty the trash there, or delete data on Your data"
    for field, kept, most in kept_by(connection, visitor):
        if kept + more > most * 1e6:
            raise BadInput(field, f"{(kept + more) / 1e6:.1f}", f"must be at most {most} on this server: {mend}")


def kept_by(connection: Connection, visitor: Visitor) -> list[tuple[str, int, int]]:
    """What is kept by a visitor, by those who count together, and by all: name, bytes, and megabytes that may be kept."""
    most, pool = visitor.limits, pool_of(connection, visitor)
    of_pool = {visitor.owner, *connection.scalars(select(known.c.owner).where(known.c.pool == pool))}
    whose: tuple[tuple[str, Collection[str] | None, int], ...] = (
        ("megabytes you keep", {visitor.owner}, most.megabytes),
        ("megabytes kept by your class or address", of_pool, most.address_megabytes),
        ("megabytes kept by all visitors", None, most.all_megabytes),
    )
    return [(name, stored_bytes(connection, of), max(limit, most.megabytes)) for name, of, limit in whose]


def check_rooms(connection: Connection, visitor: Visitor) -> None:
    """Raises BadInput where this visitor's address, or all together, have as many rooms as they may."""
    most, here = visitor.limits, select(known.c.owner).where(known.c.address == visitor.address)
    mine = (rooms.c.owner == visitor.owner) | rooms.c.owner.in_(here)
    every = rooms.c.owner.is_not(None)
    for field, whose, n_most in (("your rooms", mine, most.address_rooms), ("rooms", every, most.all_rooms)):
        n_open = connection.scalar(select(func.count()).select_from(rooms).where(whose, rooms.c.ends > time.time())) or 0
        if n_open >= n_most:
            raise BadInput(field, n_open, f"must be fewer than {n_most}: close one first; a room ends after a day")


def pool_of(connection: Connection, visitor: Visitor) -> str:
    """For whom a visitor counts: a class, an address, or nobody else."""
    mine = select(rooms.c.owner).join(members).where(members.c.token == visitor.owner, rooms.c.ends > time.time())
    teacher = connection.scalar(mine.order_by(rooms.c.created.desc()))
    if teacher is not None:
        return CLASS + str(connection.scalar(select(known.c.address).where(known.c.owner == teacher)) or teacher)
    return visitor.address or visitor.owner


def note(connection: Connection, visitor: Visitor) -> None:
    """Keeps for whom a visitor counts, and forgets those who have had nothing open for a day."""
    now = time.time()
    is_idle = known.c.owner.not_in(select(runs.c.owner).where(runs.c.owner.is_not(None), _IS_OPEN))
    teaches = known.c.owner.in_(select(rooms.c.owner).where(rooms.c.ends > now))
    connection.execute(delete(known).where(known.c.seen < now - _REMEMBERED_SECONDS, is_idle, ~teaches))
    said = {"address": visitor.address, "pool": pool_of(connection, visitor), "seen": now}
    if not connection.execute(update(known).where(known.c.owner == visitor.owner).values(**said)).rowcount:
        connection.execute(insert(known).values(owner=visitor.owner, since=now, **said))


def seconds_of_other_turns(run_id: str) -> Select[float]:
    """What the other turns of a run's tuning took, each a run of its own in the queue."""
    mine, other = turns.alias("mine"), turns.alias("other")
    of_tuning = select(other.c.run_id).join(mine, mine.c.study_id == other.c.study_id).where(mine.c.run_id == run_id)
    return select(func.sum(runs.c.seconds)).where(runs.c.id.in_(of_tuning), runs.c.id != run_id)


def stored_bytes(connection: Connection, owners: Collection[str] | None) -> int:
    """How much visitors (None: all) keep: runs, those in the trash and checkpoints of stopped ones included, and data."""
    ids = select(runs.c.id).where(runs.c.owner.is_not(None) if owners is None else runs.c.owner.in_(owners))
    in_all = 0
    for table, columns in (
        (tables.events, (cast(tables.events.c.payload, Text),)),
        (tables.classifiers, (tables.classifiers.c.arrays,)),
        (checkpoints, (cast(checkpoints.c.events, Text), checkpoints.c.document, checkpoints.c.arrays)),
    ):
        size = sum((func.coalesce(func.length(column), 0) for column in columns), start=literal(0))
        in_all += int(connection.scalar(select(func.sum(size)).where(table.c.run_id.in_(ids))) or 0)
    return in_all + own.stored_bytes(owners)


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
    of_pools = grouped((pool_of.get(owner, owner), at) for owner, times in starts.items() for at in times)
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
    return grouped((getattr(row, what) or "", row) for row in waiting)


def _starts(connection: Connection) -> dict[str, list[float]]:
    """When runs of each owner (nobody: empty) were started lately, those included that were deleted with their data."""
    since = time.time() - RECENT_SECONDS
    there = select(_owner, runs.c.started).select_from(_with_wholes).where(runs.c.started > since)
    gone = select(kept_turns.c.owner, kept_turns.c.started).where(kept_turns.c.started > since)
    return grouped((owner or "", started) for owner, started in connection.execute(there.union_all(gone)))


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
    busy = select(runs.c.id).where(runs.c.status.in_(ACTIVE), runs.c.runs_on == process.here(device))
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
    connection: Connection, spec: RunSpec, *, name: str, device: str, visitor: Visitor | None, workload: str | None = None,
    n_cells: int | None = None, split: run.Split | None = None, gives: charges.Gives = "models",
    attended_by: process.Process | None = None,
) -> str:  # fmt: skip
    """Puts a row at the end of its device's queue and gives its id. `attended_by`: the command or script that it ends with.

    `workload`, `n_cells`: what its duration follows from; None for those of the settings. Raises BadInput for a bad device,
    for settings with a null character (PostgreSQL could then look up no run's dataset), for what is above a limit of the
    visitor of a shared server, and for what exceeds a budget declared for own data.
    """
    document = spec.to_json()
    workload, n_cells = workload or run.workload_of(spec), spec.n_cells if n_cells is None else n_cells
    if "\\u0000" in document:
        raise BadInput("settings", "a null character", "must be text that can be printed")
    process.checked(device)
    tables.take(connection, tables.QUEUE)
    if visitor is not None:
        note(connection, visitor)
        check_limits(connection, visitor, n_cells, *run.estimates(connection, [(workload, device, n_cells)]))
    charges.check_spend(connection, spec, gives)
    run_id = secrets.token_hex(6)
    row = {
        "id": run_id, "name": name, "spec": document, "digest": spec.digest(), "workload": workload, "n_cells": n_cells,
        "device": device, "status": "queued", "created": time.time(), "owner": None if visitor is None else visitor.owner,
        "attended": attended_by is not None, "heartbeat": None if attended_by is None else database.now(),
        **run.columns_of(attended_by),
    }  # fmt: skip
    connection.execute(insert(runs).values(row))
    if split is not None:
        connection.execute(insert(tables.splits).values(run_id=run_id, **asdict(split)))
    return run_id
