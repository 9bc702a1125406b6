"""The store's tables. A change here is a new layout (`database.LAYOUT`)."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from typing import cast

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    insert,
    select,
)
from sqlalchemy import cast as sqlalchemy_cast
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from dpcl_core.errors import BadInput
from dpcl_core.events import Classifier, Event, JsonValue, Note, from_json, to_json

ACTIVE = ("starting", "running", "stopping")

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),  # the order of the queues
    Column("id", String(12), nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("spec", Text, nullable=False),  # JSON, exactly as its digest was taken
    Column("digest", String(16), nullable=False),
    Column("workload", String(16), nullable=False, index=True),  # runs of one workload take about as many seconds per cell
    Column("n_cells", Integer, nullable=False),
    Column("device", String(20).with_variant(String(60), "postgresql"), nullable=False),  # that it asks for (`devices`)
    Column("status", String(10), nullable=False),
    Column("created", Double, nullable=False),  # times are seconds since 1970
    Column("started", Double),
    Column("finished", Double),
    Column("heartbeat", Double),
    Column("deleted", Double),
    Column("machine", Text),  # the process that carries the run out, or waits to
    Column("pid", Integer),
    Column("ticks", BigInteger),
    Column("error_kind", String(20)),
    Column("error", Text),
    Column("error_log", Text),
    Column("owner", String(64)),  # digest of a visitor's token; none where the server is not shared, and from a terminal
    Column("runs_on", String(60)),  # the device that it was given when it was claimed, MACHINE/cpu; none for one that waits
    Column("emptied", Double),  # its results are deleted for good; the row stays, since a look at data stays a look
    Column("seconds", Double),  # that its processes took by the last heartbeat; none before the first
    Column("attended", Boolean),  # it ends with its process, a command in a terminal or a script; none: no
)

# The database itself limits a device to one run, also when two processes claim at once.
busy = runs.c.status.in_(ACTIVE)
one_busy = Index("one_run_per_device", runs.c.runs_on, unique=True, sqlite_where=busy)
Index("runs_by_status", runs.c.status)

events = Table(
    "events",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),  # 1, 2, ... within its run
    Column("kind", String(20), nullable=False),
    Column("at", Double, nullable=False),
    Column("payload", JSON, nullable=False),
    sqlite_with_rowid=False,
)

cells = Table(
    "cells",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("epsilon", Double, primary_key=True),
    Column("seed", BigInteger, primary_key=True),
    Column("metrics", JSON, nullable=False),
    Column("guarantee", JSON, nullable=False),
    Column("seconds", Double, nullable=False),
)

# What each model had released by the end of a task; a run's are at most `methods.common.classifier.LARGEST` bytes.
classifiers = Table(
    "classifiers",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("epsilon", Double, primary_key=True),
    Column("seed", BigInteger, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("about", JSON, nullable=False),  # the event without its arrays
    Column("arrays", LargeBinary, nullable=False),  # a safetensors file
)

# What a run needs to go on after its process has died; deleted when the run ends. Only a learner's newest row has a state.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("learner", Integer, primary_key=True, autoincrement=False),  # place of the learner's group of cells in the run
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("events", JSON, nullable=False),  # that leave after this task
    Column("document", Text),
    Column("arrays", LargeBinary),  # a safetensors file
    Column("digest", String(64)),  # of the events, then of the state (`resumption`)
)

# How often a run was resumed by itself since a person resumed it; of a part of a run, since it last had a new checkpoint.
resumptions = Table(
    "resumptions",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("n_checkpoints", Integer, nullable=False),
    Column("n_times", Integer, nullable=False),
)

# A run that is carried out in parts, by several processes and machines: at most so many, and what starts them.
splits = Table(
    "splits",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("n_shards", Integer, nullable=False),
    Column("executor", String(10), nullable=False),
    Column("device", String(60), nullable=False),  # that its parts ask for
)

# A part of such a run is a run in the queue, too. Its checkpoints are kept under the whole run's id.
shards = Table(
    "shards",
    metadata,
    Column("id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("run_id", String(12), ForeignKey("runs.id"), nullable=False, index=True),
    Column("groups", JSON, nullable=False),  # places of its groups of cells in the whole run
)

# The machines that look after the queue of a store on a server, and when each did last, by the database's clock.
machines = Table(
    "machines",
    metadata,
    Column("name", String(48), primary_key=True),
    Column("devices", JSON, nullable=False),  # list of str, such as cpu and cuda:0
    Column("seen", Double, nullable=False),
)

# A tuning is a run in the queue each time it is started or resumed; its id is that of its first run.
studies = Table(
    "studies",
    metadata,
    Column("id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("settings", JSON, nullable=False),
    Column("sizes", JSON),  # numbers of examples; empty until the data are first opened
)

turns = Table(
    "turns",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("study_id", String(12), ForeignKey("studies.id"), nullable=False, index=True),
)

trials = Table(
    "trials",
    metadata,
    Column("study_id", String(12), ForeignKey("studies.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # 0, 1, ... within its study
    Column("payload", JSON, nullable=False),
)

# An audit of a stored run is a run in the queue, too; its id is that of this run.
audits = Table(
    "audits",
    metadata,
    Column("id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("run_id", String(12), ForeignKey("runs.id"), nullable=False, index=True),
    Column("results", JSON, nullable=False),  # one per budget, in the order computed
)

# The runs of a preset that were started together: one entry in the queue.
sets = Table(
    "sets",
    metadata,
    Column("id", String(12), ForeignKey("runs.id"), primary_key=True),  # that of its first run
    Column("preset", Text, nullable=False, index=True),
)

set_runs = Table(
    "set_runs",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("set_id", String(12), ForeignKey("sets.id"), nullable=False, index=True),
    Column("label", Text, nullable=False),
)

# A class: visitors who joined with its code. All of it is deleted when the room ends.
rooms = Table(
    "rooms",
    metadata,
    Column("code", String(6), primary_key=True),
    Column("owner", String(64), nullable=False),  # digest of the teacher's token
    Column("title", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("ends", Double, nullable=False),
    Column("poll", JSON),  # the question that is open, or none
    Column("shown_run", String(12)),  # the run that everybody is looking at
)

members = Table(
    "members",
    metadata,
    Column("room", String(6), ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True),
    Column("token", String(64), primary_key=True),  # digest of the visitor's token
    Column("name", String(40), nullable=False),
    UniqueConstraint("room", "name", name="one_name_per_room"),
)

votes = Table(
    "votes",
    metadata,
    Column("room", String(6), ForeignKey("rooms.code", ondelete="CASCADE"), primary_key=True),
    Column("poll", String(12), primary_key=True),
    Column("token", String(64), primary_key=True),
    Column("choice", Integer, nullable=False),  # index of the answer
)

room_runs = Table(
    "room_runs",
    metadata,
    Column("run_id", String(12), ForeignKey("runs.id"), primary_key=True),
    Column("room", String(6), ForeignKey("rooms.code", ondelete="CASCADE"), nullable=False, index=True),
    Column("name", String(40), nullable=False),
)

# What deleted data had been used for, known again by `marks` (`data.marks`): neither their name nor their owner is kept.
kept_looks = Table(
    "kept_looks",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("marks", JSON, nullable=False),  # list of str
    Column("runs", Integer, nullable=False),
    Column("models", Integer, nullable=False),
    Column("tuned", Integer, nullable=False),
    Column("audits", Integer, nullable=False),
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
    Column("unit", Text),  # who may be left out of them (`charges.unit_of`); none: not known
)

# What an owner declared for all runs on the same rows, known again by `marks`; by the name where data have none.
budgets = Table(
    "budgets",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("dataset", Text),
    Column("marks", JSON, nullable=False),  # list of str
    Column("unit", Text, nullable=False),  # the column of people; empty: rows
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
)

# When runs were started that were deleted with their data, for as long as that counts in the queue (`queue`).
kept_turns = Table(
    "kept_turns",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("owner", String(64)),
    Column("started", Double, nullable=False),
)

# For whom the visitors of a shared server count who were there within a day (`visitors`).
visitors = Table(
    "visitors",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("address", String(32)),  # keyed digest; none for an account
    Column("pool", String(80), nullable=False, index=True),
    Column("since", Double, nullable=False),
    Column("seen", Double, nullable=False),
)


# The runs in the queue that are not runs of their own: of tunings and audits, and parts of runs.
of_others = select(turns.c.run_id).union_all(select(audits.c.id), select(shards.c.id))


class _Readable(FunctionElement[str]):
    """Settings as text; in SQLite, where one damaged row would fail a query of all, those that are no JSON as empty."""

    type = Text()
    inherit_cache = True


@compiles(_Readable)
def _as_written(element: _Readable, compiler: SQLCompiler, **_: object) -> str:
    return compiler.process(element.clauses)


@compiles(_Readable, "sqlite")
def _if_json(element: _Readable, compiler: SQLCompiler, **_: object) -> str:
    text = compiler.process(element.clauses)
    return f"CASE WHEN json_valid({text}) THEN {text} ELSE '{{}}' END"


# What a run's settings name, if anything; PostgreSQL reads JSON only as such, SQLite from any text.
_SETTINGS = JSON().with_variant(Text(), "sqlite")
_spec = sqlalchemy_cast(_Readable(runs.c.spec), _SETTINGS)
dataset: ColumnElement[str] = _spec["data", "dataset"].as_string()
method: ColumnElement[str] = _spec["method"].as_string()
scenario: ColumnElement[str] = _spec["scenario", "kind"].as_string()


# Events as rows of the store: numbered, each once; finished cells and classifiers in tables of their own.


def last_number(connection: Connection, run_id: str) -> int:
    """The number of a run's last event; 0 if it has none."""
    return connection.scalar(select(func.max(events.c.seq)).where(events.c.run_id == run_id)) or 0


def append(connection: Connection, run_id: str, new_events: Sequence[Event], first: int | None) -> None:
    """Adds events, those that the store has already left out; see `Store.append`."""
    now = time.time()
    connection.execute(select(runs.c.id).where(runs.c.id == run_id).with_for_update())  # one writer of a run at a time
    last = last_number(connection, run_id)
    documents = [to_json(event) for event in new_events if not isinstance(event, Classifier)]
    numbered = list(enumerate(documents, start=last + 1 if first is None else first))
    rows = [
        {"run_id": run_id, "seq": seq, "kind": document["event"], "at": now, "payload": document}
        for seq, document in numbered
        if seq > last
    ]
    done = [_cell_row(run_id, document) for seq, document in numbered if seq > last and document["event"] == "CellFinished"]
    kept = [_classifier_row(run_id, event) for event in new_events if isinstance(event, Classifier)]
    if first is not None and kept:
        place = (classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
        there = {tuple(row) for row in connection.execute(select(*place).where(classifiers.c.run_id == run_id))}
        kept = [row for row in kept if (row["epsilon"], row["seed"], row["task"]) not in there]
    try:
        if rows:
            connection.execute(insert(events), rows)
        if kept:
            connection.execute(insert(classifiers), kept)
        if done:
            connection.execute(insert(cells), done)
    except IntegrityError as error:
        raise BadInput("run", run_id, "must be a run of this store, each of its cells finishing once") from error


def _cell_row(run_id: str, document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    cell = cast(Mapping[str, float | str | int], document["cell"])
    return {
        "run_id": run_id,
        "epsilon": float(cell["epsilon"]),
        "seed": int(cell["seed"]),
        "metrics": document["metrics"],
        "guarantee": document["guarantee"],
        "seconds": document["seconds"],
    }


def _classifier_row(run_id: str, event: Classifier) -> dict[str, object]:
    place = {"run_id": run_id, "epsilon": event.cell.epsilon, "seed": event.cell.seed, "task": event.task}
    about = {name: value for name, value in to_json(event).items() if name != "content"}
    return {**place, "about": about, "arrays": base64.b64decode(event.content)}


def classifiers_of(connection: Connection, run_id: str) -> list[Classifier]:
    """What the models of a run had released by the end of each task, in order of budget, seed and task."""
    order = (classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
    query = select(classifiers.c.about, classifiers.c.arrays).where(classifiers.c.run_id == run_id)
    rows = connection.execute(query.order_by(*order)).all()
    found = [from_json({**row.about, "content": base64.b64encode(row.arrays).decode("ascii")}) for row in rows]
    return cast(list[Classifier], found)


def read(document: Mapping[str, JsonValue]) -> Event:
    """The event of a stored document; a warning in place of one that cannot be read."""
    try:
        return from_json(document)
    except (KeyError, TypeError, ValueError):
        return Note("warning", "One entry of this run can no longer be read by this version of the program.")


# What only one transaction may do at a time: PostgreSQL has many writers at once, where SQLite has one.


# Names of locks; any numbers that no other program on the same database uses.
LAYOUT = 5_180_371  # making and migrating the tables
QUEUE = 5_180_372  # adding to the queues: runs added together follow one another, limits are counted before they are used


def take(connection: Connection, lock: int) -> None:
    """Waits until no other transaction holds the lock, and holds it to the end of this one."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(lock)))
