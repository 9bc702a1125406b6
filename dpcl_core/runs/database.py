"""Opening the store's database, and its errors as one sentence each."""

import os
import sqlite3
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from shlex import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from dpcl_core import paths
from dpcl_core.errors import StoreGone, StoreLocked, StoreTrouble, StoreUnknown, StoreUnusable, instead_of
from dpcl_core.runs import tables
from dpcl_core.unforeseen import MASK, is_secret, masked

LAYOUTS = tuple(map(str, range(1, 12)))  # no release was made of those before the last
LAYOUT = LAYOUTS[-1]  # of the store's tables, as one program writes and reads them
# Where a store keeps its layout: the name is Alembic's, which is to migrate stores from the first release on.
version = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))

BUSY_SECONDS = 10
# What SQLite and PostgreSQL say where the same address will never do.
_LASTING = (
    "not a database", "malformed", "unable to open", "authentication failed", "no password supplied", "no pg_hba.conf entry",
    "does not exist",
)  # fmt: skip


# What SQLite says, and what mends it.
_FIXES = (
    (("readonly", "read-only"), "is read-only, so nothing new can be kept; what is stored is untouched"),
    (("disk is full", "disk i/o", "no space"), "the disk is full or failing ({}); what was stored before is untouched"),
    (("not a database", "malformed"), "the file is damaged or no store ({}); move it away to start a new one"),
    (("unable to open",), "cannot be opened: it must be a file in a folder that may be written"),
)
_AWAY = "cannot be reached ({}); see whether PostgreSQL runs there, and check user, password and name"


class now(FunctionElement[float]):  # noqa: N801 (written like the function of the database that it stands for)
    """The database's clock, in seconds since 1970: the same for all machines that share a store."""

    type = sa.Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(_element: now, _compiler: SQLCompiler, **_: object) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(_element: now, _compiler: SQLCompiler, **_: object) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


def open_database(url: str) -> sa.Engine:
    """Opens the database at a URL and creates its tables if there are none.

    Raises what `connected` does, and StoreUnusable for another program's database and another layout, which are left alone.
    """
    engine, name = connected(url), masked(url)
    with engine.connect() as connection:
        if layout_of(connection, name) == LAYOUT:
            return engine
    with engine.execution_options(writes=True).begin() as connection:
        tables.take(connection, tables.LAYOUT)
        found = layout_of(connection, name)  # under the lock: another process may have been faster
        if found is None:
            tables.metadata.create_all(connection)
            version.create(connection)
            connection.execute(sa.insert(version).values(version_num=LAYOUT))
        elif found != LAYOUT:
            mend = "use the version of the program that wrote it, or name another store"
            if found in LAYOUTS:
                mend = "move it away; dpcl data --carry-over, with its new place, counts its looks and budgets anew"
            written = f"was written in layout {found}, but this program reads layout {LAYOUT}"
            raise StoreUnusable(f"store {name}: {written}: {mend}")
    return engine


def layout_of(connection: sa.Connection, name: str) -> str | None:
    """The layout that a database was written in; None where it has no store. `name`: of the store, in messages.

    Raises StoreUnusable for the database of another program.
    """
    names = set(sa.inspect(connection).get_table_names())
    for table, column in (("alembic_version", "version_num"), ("dpcl_layout", "version")):
        if table in names:
            return str(connection.scalar(sa.text(f"SELECT {column} FROM {table}")))
    if names & set(tables.metadata.tables):
        raise StoreUnusable(f"store {name}: is the database of another program; name one of its own")
    return None


def connected(url: str) -> sa.Engine:
    """The database at a URL, as it is.

    Raises StoreUnknown for an unknown kind of URL, StoreUnusable for a folder that cannot be made. Errors of the database
    itself are left to `trouble`.
    """
    where = _checked(url)
    sqlite = where.get_backend_name() == "sqlite"
    if sqlite:
        path = Path(str(where.database))
        if path.exists() and not path.is_file():  # of a device or a pipe SQLite says that the disk fails
            raise StoreUnknown(f"store {masked(url)}: must be a regular file, or the name of a new one")
        unmade = f"store {masked(url)}: its folder cannot be made"
        with instead_of(OSError, say=lambda error: StoreUnusable(f"{unmade}: {error.strerror}")):
            paths.make_folder(path.parent)
        with suppress(OSError):  # SQLite would let everybody read a new file; of one that it cannot make, it says why itself
            if path.exists() and path.stat().st_size == 0:
                path.chmod(0o600)
            os.close(paths.open_file(path, os.O_WRONLY | os.O_EXCL))
    with _with_its_package(url):
        engine = sa.create_engine(where, pool_pre_ping=not sqlite, connect_args={} if sqlite else _settings(where))
    if sqlite:
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:  # set here: naming PostgreSQL loads its part of SQLAlchemy, which would delay runs that use SQLite
        tables.one_busy.dialect_options["postgresql"]["where"] = tables.busy
    return engine


def _settings(where: sa.URL) -> dict[str, str | int]:
    """How text comes from PostgreSQL, and how long it is waited for, where the address does not say it.

    Text is UTF-8, also from a database without an encoding, as a server with locale C makes it: it would give bytes.
    A wait lasts as long as for a locked file, also where nothing answers any more. A process that sleeps in the middle of a
    transaction, as on a laptop that was shut, gives up its locks after a while. A commit waits for the server's disk,
    also where this role's or this database's usual setting is another one.
    """
    milliseconds = 1000 * BUSY_SECONDS
    limits = f"-c lock_timeout={milliseconds} -c idle_in_transaction_session_timeout={2 * milliseconds}"
    settings: dict[str, str | int] = {
        "client_encoding": "utf8", "connect_timeout": BUSY_SECONDS, "tcp_user_timeout": milliseconds,
        "options": f"{limits} -c synchronous_commit=on",
    }  # fmt: skip
    return {name: value for name, value in settings.items() if name not in where.query}


def absolute(url: str) -> str:
    """The URL with an absolute path, so that it names the same store from any working folder."""
    where = _checked(url)
    if where.get_backend_name() == "sqlite":
        where = where.set(database=str(Path(str(where.database)).absolute()))
    return where.render_as_string(hide_password=False)


def check_there(url: str | None) -> None:
    """Raises StoreUnknown for a path at which there is no store, nor an empty file that shall be one: it may be mistyped."""
    where = _checked(url) if url else None
    if where is not None and where.get_backend_name() == "sqlite" and not os.access(str(where.database), os.F_OK):
        make = f"to make one, begin with an empty file: touch {quote(str(where.database))}"
        raise StoreUnknown(f"store {masked(str(url))}: there is none; {make}")


def file_of(engine: sa.Engine) -> tuple[int, int] | None:
    """Device and number of the file to which a store's path leads now; None for a store on a server."""
    if engine.dialect.name != "sqlite":
        return None
    found = Path(str(engine.url.database)).stat()
    return found.st_dev, found.st_ino


def check_in_place(engine: sa.Engine, opened: tuple[int, int] | None) -> None:
    """Raises StoreGone where a store's path no longer leads to the file that was opened; SQLite writes on into that one."""
    try:
        is_in_place = file_of(engine) == opened
    except FileNotFoundError:
        is_in_place = False
    except OSError:
        return  # a folder that does not answer just now: nothing is known
    if not is_in_place:
        remedy = "put it back, or end all programs that use it and start anew"
        raise StoreGone(f"store {masked(str(engine.url))}: its file was deleted, moved or replaced while in use: {remedy}")


def trouble(error: Exception, url: str) -> StoreTrouble:
    """A database error as one sentence with a remedy."""
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    where = sa.make_url(url)
    hidden = [str(where.password or ""), *(str(value) for key, value in where.query.items() if is_secret(key))]
    for secret in filter(None, hidden):
        message = message.replace(secret, MASK)
    text, name = message.lower(), f"store {masked(url)}"
    if any(said in text for said in ("locked", "busy", "lock timeout")):
        return StoreLocked(f"{name}: another program has kept it locked for {BUSY_SECONDS} seconds; try again")
    is_away = isinstance(error, OperationalError) and (error.connection_invalidated or "connection" in text)
    fixes = (fix for words, fix in _FIXES if any(said in text for said in words))
    fix = next(fixes, _AWAY if is_away else "{}").format(message)
    return (StoreUnusable if any(said in text for said in _LASTING) else StoreTrouble)(f"{name}: {fix}")


def _checked(url: str) -> sa.URL:
    allowed = "must be sqlite:///PATH or postgresql://USER@HOST/NAME"
    try:
        is_path = "://" not in url and Path(url).suffix in (".db", ".sqlite")
        where = sa.URL.create("sqlite", database=url) if is_path else sa.make_url(url)
    except (ArgumentError, ValueError):  # nobody can say which part of it is a password
        unread = f"store: the address, in DPCL_STORE or --store, {allowed}; it is not shown here, as it may hold a password"
        raise StoreUnknown(unread) from None  # the cause contains it
    try:
        if where.drivername == "postgresql":
            where = where.set(drivername="postgresql+psycopg")  # the driver of the extra; SQLAlchemy would take an older one
        with _with_its_package(url):
            where.get_dialect()
    except (ArgumentError, NoSuchModuleError):
        raise StoreUnknown(f"store {masked(url)}: {allowed}") from None  # the cause contains the password
    if where.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreUnknown(f"store {masked(url)}: {allowed}")
    if where.get_backend_name() == "sqlite" and where.database in (None, "", ":memory:"):
        raise StoreUnknown(f"store {masked(url)}: a store in memory is seen by one process alone; {allowed}")
    return where


def _with_its_package(url: str) -> AbstractContextManager[None]:
    needs = f"store {masked(url)}: needs the Python package"
    return instead_of(ImportError, say=lambda error: StoreUnusable(f"{needs} {error.name}, which is not installed"))


def _prepare_sqlite(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, not the driver
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA fullfsync = ON")  # on macOS fsync alone leaves a power cut what the disk has not written yet
    end = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return  # a file system may refuse it, without an error
        except sqlite3.OperationalError as error:  # it reads first, and SQLite lets no reader wait to become a writer
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _begin_sqlite(connection: sa.Connection) -> None:
    # A writer takes its lock at once: a lock taken halfway through cannot wait and fails instead.
    options = connection.get_execution_options()
    if options.get("writes", False):
        # FULL: a commit waits until the disk has it, and all commits before it. NORMAL outlasts a killed process alone.
        connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get('durable', True) else 'NORMAL'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("BEGIN")
