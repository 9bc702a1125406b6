"""The store's tables, opening its database, and database errors as one sentence each."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from dpcl_core.errors import StoreTrouble, StoreUnknown

LAYOUT = 5  # raise it with every change of the tables below
_GROWN_FROM = (1, 2, 3, 4)  # layouts that only lack tables of this one
BUSY_SECONDS = 10

ACTIVE = ("starting", "running", "stopping")
_PASSWORD = re.compile(r"(://[^:/@]*:).*(?:@|%40)")  # up to the last @: a password may contain one

metadata = MetaData()

layout = Table("dpcl_layout", metadata, Column("version", Integer, primary_key=True))

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
    Column("device", String(20), nullable=False),
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
)

# The database itself limits a device to one run, also when two processes claim at once.
_busy = runs.c.status.in_(ACTIVE)
_one_busy = Index("one_run_per_device", runs.c.device, unique=True, sqlite_where=_busy)
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


def open_database(url: str) -> Engine:
    """Opens the database at a URL and creates its tables if there are none.

    Raises StoreTrouble for an unknown kind of URL, a folder that cannot be made, another program's database, and an unknown
    layout. Errors of the database itself are left to `trouble`.
    """
    where = _checked(url)
    sqlite = where.get_backend_name() == "sqlite"
    if sqlite:
        folder = Path(str(where.database)).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreTrouble(f"store {shown(url)}: its folder cannot be made: {error.strerror}") from error
    try:
        engine = create_engine(where)
    except ImportError as error:
        raise StoreTrouble(f"store {shown(url)}: needs the Python package {error.name}, which is not installed") from error
    if sqlite:
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:  # set here: naming PostgreSQL loads its part of SQLAlchemy, which would delay runs that use SQLite
        _one_busy.dialect_options["postgresql"]["where"] = _busy
    _check_layout(engine, url)
    return engine


def absolute(url: str) -> str:
    """The URL with an absolute path, so that it names the same store from any working folder."""
    where = _checked(url)
    if where.get_backend_name() == "sqlite":
        where = where.set(database=str(Path(str(where.database)).absolute()))
    return where.render_as_string(hide_password=False)


def trouble(error: Exception, url: str) -> StoreTrouble:
    """A database error as one sentence with a remedy."""
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    if password := make_url(url).password:
        message = message.replace(str(password), "***")
    text = message.lower()
    if "readonly" in text or "read-only" in text:
        fix = "is read-only, so nothing new can be kept; what is stored is untouched"
    elif "disk is full" in text or "disk i/o" in text or "no space" in text:
        fix = f"the disk is full or failing ({message}); what was stored before is untouched"
    elif "locked" in text or "busy" in text:
        fix = f"another program has kept it locked for {BUSY_SECONDS} seconds; try again"
    elif "not a database" in text or "malformed" in text:
        fix = f"the file is damaged or no store ({message}); move it away to start a new one"
    elif "unable to open" in text:
        fix = "cannot be opened: it must be a file in a folder that may be written"
    else:
        fix = message
    return StoreTrouble(f"store {shown(url)}: {fix}")


def shown(url: str) -> str:
    """The URL for printing: without its password, even where the URL cannot be parsed."""
    return _PASSWORD.sub(r"\1***@", url)


def _checked(url: str) -> URL:
    allowed = "must be sqlite:///PATH or postgresql://USER@HOST/NAME"
    try:
        where = make_url(url)
        where.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise StoreUnknown(f"store {shown(url)}: {allowed}") from None  # the cause contains the password
    except ImportError as error:
        raise StoreTrouble(f"store {shown(url)}: needs the Python package {error.name}, which is not installed") from error
    if where.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreUnknown(f"store {shown(url)}: {allowed}")
    if where.get_backend_name() == "sqlite" and where.database in (None, "", ":memory:"):
        raise StoreUnknown(f"store {url}: a store in memory is seen by one process alone; {allowed}")
    return where


def _prepare_sqlite(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, not the driver
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL a killed process loses nothing; only a power cut can
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its lock at once: a lock taken halfway through cannot wait and fails instead.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_layout(engine: Engine, url: str) -> None:
    with engine.connect() as connection:
        names = set(inspect(connection).get_table_names())
        version = connection.scalar(select(layout.c.version)) if layout.name in names else None
    if version is None:
        if names & set(metadata.tables) - {layout.name}:
            raise StoreTrouble(f"store {shown(url)}: is the database of another program; name one of its own")
        with engine.execution_options(writes=True).begin() as connection:
            metadata.create_all(connection)
            if connection.scalar(select(layout.c.version)) is None:
                connection.execute(insert(layout).values(version=LAYOUT))
    elif version in _GROWN_FROM:
        with engine.execution_options(writes=True).begin() as connection:
            metadata.create_all(connection)
            connection.execute(update(layout).values(version=LAYOUT))
    elif version != LAYOUT:
        raise StoreTrouble(
            f"store {shown(url)}: was written in layout {version}, but this program reads layout {LAYOUT}: "
            "use the version of the program that wrote it, or name another store"
        )
