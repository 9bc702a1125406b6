"""What only one transaction may do at a time: PostgreSQL has many writers at once, where SQLite has one."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

# Names of locks; any numbers that no other program on the same database uses.
LAYOUT = 5_180_371  # making and migrating the tables
QUEUE = 5_180_372  # adding to the queues: runs added together follow one another, limits are counted before they are used


def take(connection: Connection, lock: int) -> None:
    """Waits until no other transaction holds the lock, and holds it to the end of this one."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(lock)))
