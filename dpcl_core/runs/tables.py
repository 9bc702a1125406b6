"""The store's tables. A change here is a new layout (`database.LAYOUT`)."""

import base64
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import CellFinished, Classifier, Event, JsonValue, Note, from_json, to_json

ACTIVE = ("starting", "running", "stopping")
OPEN = ("queued", *ACTIVE)

metadata = sa.MetaData()


def _table(name: str, *parts: Any, **options: Any) -> sa.Table:
    return sa.Table(name, metadata, *parts, **options)


def _columns(names: str, kind: Any, *, nullable: bool = False, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable, **options) for name in names.split()]


def _key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _of(name: str, to: str, *, is_key: bool = False, **options: Any) -> sa.Column[Any]:
    """A column that refers to another table's."""
    kind = sa.String(6 if to == "rooms.code" else 12)
    return sa.Column(name, kind, sa.ForeignKey(to, **options), primary_key=is_key, nullable=False, index=not is_key)


def _room(*, is_key: bool = False) -> sa.Column[Any]:
    return _of("room", "rooms.code", is_key=is_key, ondelete="CASCADE")


def _number() -> sa.Column[int]:
    return sa.Column("number", sa.Integer, primary_key=True, autoincrement=True)


runs = _table(
    "runs",
    _number(),  # the order of the queues
    sa.Column("id", sa.String(12), nullable=False, unique=True),
    *_columns("name spec", sa.Text),  # the spec in JSON, exactly as its digest was taken
    sa.Column("digest", sa.String(16), nullable=False),
    sa.Column("workload", sa.String(16), nullable=False, index=True),  # those of one take about as long per cell
    sa.Column("n_cells", sa.Integer, nullable=False),
    sa.Column("device", sa.String(20).with_variant(sa.String(60), "postgresql"), nullable=False),  # that it asks for
    sa.Column("status", sa.String(10), nullable=False),
    sa.Column("created", sa.Double, nullable=False),  # times are seconds since 1970
    *_columns("started finished heartbeat deleted", sa.Double, nullable=True),
    sa.Column("machine", sa.Text),  # the process that carries the run out, or waits to
    sa.Column("pid", sa.Integer),
    sa.Column("ticks", sa.BigInteger),
    sa.Column("error_kind", sa.String(20)),
    *_columns("error error_log", sa.Text, nullable=True),
    sa.Column("owner", sa.String(64)),  # digest of a visitor's token; none where the server is not shared or from a terminal
    sa.Column("runs_on", sa.String(60)),  # the device that it was given when claimed, MACHINE/cpu; none for one that waits
    sa.Column("emptied", sa.Double),  # its results are deleted for good; the row stays, since a look at data stays a look
    sa.Column("seconds", sa.Double),  # that its processes took by the last heartbeat; none before the first
    sa.Column("attended", sa.Boolean),  # it ends with its process, a command in a terminal or a script; none: no
)

# The database itself limits a device to one run, also when two processes claim at once.
busy = runs.c.status.in_(ACTIVE)
one_busy = sa.Index("one_run_per_device", runs.c.runs_on, unique=True, sqlite_where=busy)
sa.Index("runs_by_status", runs.c.status)

events = _table(
    "events",
    _of("run_id", "runs.id", is_key=True),
    _key("seq", sa.Integer),  # 1, 2, ... within its run
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sqlite_with_rowid=False,
)

cells = _table(
    "cells",
    _of("run_id", "runs.id", is_key=True), _key("epsilon", sa.Double), _key("seed", sa.BigInteger),
    *_columns("metrics guarantee", sa.JSON), *_columns("seconds", sa.Double),
)  # fmt: skip

# What each model had released by the end of a task; a run's are at most `methods.common.classifier.LARGEST` bytes.
classifiers = _table(
    "classifiers",
    _of("run_id", "runs.id", is_key=True, ondelete="CASCADE"),
    _key("epsilon", sa.Double), _key("seed", sa.BigInteger), _key("task", sa.Integer),
    sa.Column("about", sa.JSON, nullable=False),  # the event without its arrays
    sa.Column("arrays", sa.LargeBinary, nullable=False),  # a safetensors file
)  # fmt: skip

# What a run needs to go on after its process has died; deleted when the run ends. Only a learner's newest row has a state.
checkpoints = _table(
    "checkpoints",
    _of("run_id", "runs.id", is_key=True, ondelete="CASCADE"),
    _key("learner", sa.Integer),  # place of its group of cells in the run
    _key("task", sa.Integer),
    sa.Column("events", sa.JSON, nullable=False),  # that leave after this task
    sa.Column("document", sa.Text),
    sa.Column("arrays", sa.LargeBinary),  # a safetensors file
    sa.Column("digest", sa.String(64)),  # of the events, then of the state (`resumption`)
)

# How often a run was resumed by itself since a person resumed it; of a part of a run, since it last had a new checkpoint.
resumptions = _table(
    "resumptions",
    _of("run_id", "runs.id", is_key=True, ondelete="CASCADE"),
    *_columns("n_checkpoints n_times", sa.Integer),
)

# A run that is carried out in parts, by several processes and machines: at most so many, and what starts them.
splits = _table(
    "splits",
    _of("run_id", "runs.id", is_key=True),
    sa.Column("n_shards", sa.Integer, nullable=False),
    sa.Column("executor", sa.String(10), nullable=False),
    sa.Column("device", sa.String(60), nullable=False),  # that its parts ask for
)

# A part of such a run is a run in the queue, too. Its checkpoints are kept under the whole run's id.
shards = _table(
    "shards",
    _of("id", "runs.id", is_key=True), _of("run_id", "runs.id"),
    sa.Column("groups", sa.JSON, nullable=False),  # places of its groups of cells in the whole run
)  # fmt: skip

# The machines that look after the queue of a store on a server, and when each did last, by the database's clock.
machines = _table(
    "machines",
    sa.Column("name", sa.String(48), primary_key=True),
    sa.Column("devices", sa.JSON, nullable=False),  # list of str, such as cpu and cuda:0
    sa.Column("seen", sa.Double, nullable=False),
)

# A tuning is a run in the queue each time it is started or resumed; its id is that of its first run.
studies = _table(
    "studies",
    _of("id", "runs.id", is_key=True),
    sa.Column("settings", sa.JSON, nullable=False),
    sa.Column("sizes", sa.JSON),  # numbers of examples; empty until the data are first opened
)

turns = _table("turns", _of("run_id", "runs.id", is_key=True), _of("study_id", "studies.id"))

trials = _table(
    "trials",
    _of("study_id", "studies.id", is_key=True),
    _key("number", sa.Integer),  # 0, 1, ... within its study
    sa.Column("payload", sa.JSON, nullable=False),
)

# An audit of a stored run is a run in the queue, too; its id is that of this run.
audits = _table(
    "audits",
    _of("id", "runs.id", is_key=True), _of("run_id", "runs.id"),
    sa.Column("results", sa.JSON, nullable=False),  # one per budget, in the order computed
)  # fmt: skip

# The runs of a preset that were started together: one entry in the queue.
sets = _table(
    "sets",
    _of("id", "runs.id", is_key=True),  # that of its first run
    sa.Column("preset", sa.Text, nullable=False, index=True),
)

set_runs = _table(
    "set_runs", _of("run_id", "runs.id", is_key=True), _of("set_id", "sets.id"), *_columns("label", sa.Text)
)  # fmt: skip

# A class: visitors who joined with its code. All of it is deleted when the room ends.
rooms = _table(
    "rooms",
    sa.Column("code", sa.String(6), primary_key=True),
    sa.Column("owner", sa.String(64), nullable=False),  # digest of the teacher's token
    *_columns("title", sa.Text), *_columns("created ends", sa.Double),
    sa.Column("poll", sa.JSON),  # the question that is open, or none
    sa.Column("shown_run", sa.String(12)),  # the run that everybody is looking at
)  # fmt: skip

members = _table(
    "members",
    _room(is_key=True),
    sa.Column("token", sa.String(64), primary_key=True),  # digest of the visitor's token
    sa.Column("name", sa.String(40), nullable=False),
    sa.UniqueConstraint("room", "name", name="one_name_per_room"),
)

votes = _table(
    "votes",
    _room(is_key=True), _key("poll", sa.String(12)), _key("token", sa.String(64)),
    sa.Column("choice", sa.Integer, nullable=False),  # index of the answer
)  # fmt: skip

room_runs = _table("room_runs", _of("run_id", "runs.id", is_key=True), _room(), *_columns("name", sa.String(40)))

# What deleted data had been used for, known again by `marks` (`data.own`): neither their name nor their owner is kept.
kept_looks = _table(
    "kept_looks",
    _number(),
    sa.Column("marks", sa.JSON, nullable=False),  # list of str
    *_columns("runs models tuned audits", sa.Integer), *_columns("epsilon delta", sa.Double),
    sa.Column("unit", sa.Text),  # who may be left out of them (`charges.unit_of`); none: not known
)  # fmt: skip

# What an owner declared for all runs on the same rows, known again by `marks`; by the name where data have none.
budgets = _table(
    "budgets",
    _number(),
    sa.Column("dataset", sa.Text),
    sa.Column("marks", sa.JSON, nullable=False),  # list of str
    sa.Column("unit", sa.Text, nullable=False),  # the column of people; empty: rows
    *_columns("epsilon delta", sa.Double),
)

# When runs were started that were deleted with their data, for as long as that counts in the queue (`queue`).
kept_turns = _table("kept_turns", _number(), sa.Column("owner", sa.String(64)), *_columns("started", sa.Double))

# For whom the visitors of a shared server count who were there within a day (`visitors`).
visitors = _table(
    "visitors",
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("address", sa.String(32)),  # keyed digest; none for an account
    sa.Column("pool", sa.String(80), nullable=False, index=True),
    *_columns("since seen", sa.Double),
)


# The runs in the queue that are not runs of their own: of tunings and audits, and parts of runs.
of_others = sa.select(turns.c.run_id).union_all(sa.select(audits.c.id), sa.select(shards.c.id))


class _Readable(FunctionElement[str]):
    """Settings as text; in SQLite, where one damaged row would fail a query of all, those that are no sa.JSON as empty."""

    type = sa.Text()
    inherit_cache = True


@compiles(_Readable)
def _as_written(element: _Readable, compiler: SQLCompiler, **_: object) -> str:
    return compiler.process(element.clauses)


@compiles(_Readable, "sqlite")
def _if_json(element: _Readable, compiler: SQLCompiler, **_: object) -> str:
    text = compiler.process(element.clauses)
    return f"CASE WHEN json_valid({text}) THEN {text} ELSE '{{}}' END"


# What a run's settings name, if anything; PostgreSQL reads sa.JSON only as such, SQLite from any text.
_SETTINGS = sa.JSON().with_variant(sa.Text(), "sqlite")
_spec = sa.cast(_Readable(runs.c.spec), _SETTINGS)
dataset: sa.ColumnElement[str] = _spec["data", "dataset"].as_string()
method: sa.ColumnElement[str] = _spec["method"].as_string()
scenario: sa.ColumnElement[str] = _spec["scenario", "kind"].as_string()


# Events as rows of the store: numbered, each once; finished cells and classifiers in tables of their own.


def last_number(run_id: str) -> sa.Select[int]:
    """The number of a run's last event; none if it has no event."""
    return sa.select(sa.func.max(events.c.seq)).where(events.c.run_id == run_id)


def append(connection: sa.Connection, run_id: str, new_events: Sequence[Event], first: int | None) -> None:
    """Adds events, those that the store has already left out; see `Store.append`."""
    now = time.time()
    connection.execute(sa.select(runs.c.id).where(runs.c.id == run_id).with_for_update())  # one writer of a run at a time
    last = connection.scalar(last_number(run_id)) or 0
    place = (classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
    there = set[tuple[Any, ...]]()
    if first is not None and any(isinstance(event, Classifier) for event in new_events):
        there = {tuple(row) for row in connection.execute(sa.select(*place).where(classifiers.c.run_id == run_id))}
    rows: dict[sa.Table, list[dict[str, Any]]] = {events: [], classifiers: [], cells: []}
    seq = last if first is None else first - 1
    for event in new_events:
        document = cast(dict[str, Any], to_json(event))
        if isinstance(event, Classifier):
            where = {"epsilon": event.cell.epsilon, "seed": event.cell.seed, "task": event.task}
            if tuple(where.values()) not in there:
                arrays = base64.b64decode(document.pop("content"))
                rows[classifiers].append({"run_id": run_id, **where, "about": document, "arrays": arrays})
            continue
        seq += 1
        if seq > last:
            rows[events].append({"run_id": run_id, "seq": seq, "kind": document["event"], "at": now, "payload": document})
            if isinstance(event, CellFinished):
                said = {name: document[name] for name in ("metrics", "guarantee", "seconds")}
                rows[cells].append({"run_id": run_id, "epsilon": event.cell.epsilon, "seed": event.cell.seed, **said})
    wrong = BadInput("run", run_id, "must be a run of this store, each of its cells finishing once")
    with instead_of(IntegrityError, say=wrong):
        for table, of_table in rows.items():
            if of_table:
                connection.execute(sa.insert(table), of_table)


def read_event(document: Mapping[str, JsonValue]) -> Event:
    """The event of a stored document; a warning in place of one that cannot be read."""
    with suppress(KeyError, TypeError, ValueError):
        return from_json(document)
    return Note("warning", "One entry of this run can no longer be read by this version of the program.")


# What only one transaction may do at a time: PostgreSQL has many writers at once, where SQLite has one.


# Names of locks; any numbers that no other program on the same database uses.
LAYOUT = 5_180_371  # making and migrating the tables
QUEUE = 5_180_372  # adding to the queues: runs added together follow one another, limits are counted before they are used


def take(connection: sa.Connection, lock: int) -> None:
    """Waits until no other transaction holds the lock, and holds it to the end of this one."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))
