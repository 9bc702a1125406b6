"""The layout of the store's tables: a new database gets today's, an older one is migrated by Alembic."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, insert, inspect, select, text

from dpcl_core.errors import StoreUnusable
from dpcl_core.runs import locks
from dpcl_core.runs.tables import metadata

_REVISIONS = ("4", "5", "6", "7", "8", "9", "10", "11")  # in `migrations/versions`, in order
NEWEST = _REVISIONS[-1]
_BEFORE_ALEMBIC = "dpcl_layout"  # the table in which layouts 1 to 4 kept their number

version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


def bring_up_to_date(engine: Engine, name: str) -> None:
    """Creates the tables, or migrates them from an earlier layout; `name`: the store in messages, without its password.

    Raises StoreUnusable for another program's database and a layout that this program does not know; both are left alone.
    """
    with engine.connect() as connection:
        if _is_newest(connection):
            return
    with engine.execution_options(writes=True).begin() as connection:
        locks.take(connection, locks.LAYOUT)
        found = _found(connection, name)  # under the lock: another process may be migrating, or was faster
        if found is None:
            metadata.create_all(connection)
            version.create(connection)
            connection.execute(insert(version).values(version_num=NEWEST))
        elif found != NEWEST:
            _migrate(connection)


def _migrate(connection: Connection) -> None:
    """Carries out the revisions that the database lacks, in the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _is_newest(connection: Connection) -> bool:
    """Whether there is nothing to do; asks only for a table that no migration drops."""
    return inspect(connection).has_table(version.name) and connection.scalar(select(version.c.version_num)) == NEWEST


def _found(connection: Connection, name: str) -> str | None:
    """The revision of the database; "base" before there was Alembic, None where it is empty."""
    names = set(inspect(connection).get_table_names())
    if version.name in names:
        found = connection.scalar(select(version.c.version_num))
        known = found in _REVISIONS
    elif _BEFORE_ALEMBIC in names:
        found = str(connection.scalar(text(f"SELECT version FROM {_BEFORE_ALEMBIC}")))
        known = found in ("1", "2", "3", "4")
    elif names & set(metadata.tables):
        raise StoreUnusable(f"store {name}: is the database of another program; name one of its own")
    else:
        return None
    if not known:
        raise StoreUnusable(
            f"store {name}: was written in layout {found}, but this program reads layout {NEWEST}: "
            "use the version of the program that wrote it, or name another store"
        )
    return found
