"""Stores of every earlier layout open, keep their runs, and end with the tables of a new store."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, create_engine, text

from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import database, tables
from dpcl_core.runs.store import Store
from tests.support import replay
from tests.support.postgres import both
from tests.support.together import together

# What the program of each layout wrote when it made a store: each made the tables of the one before, and some more.
STORES = Path(__file__).parent / "layouts"


# The same tables as those programs made them on PostgreSQL, whose words for their types differ.
IN_POSTGRESQL = (
    ("DOUBLE", "DOUBLE PRECISION"),
    ("BLOB", "BYTEA"),
    (" WITHOUT ROWID", ""),
    ("number INTEGER NOT NULL,\n    id", "number SERIAL NOT NULL,\n    id"),  # of runs; those of trials are given
    ("DROP INDEX", "ALTER TABLE runs ALTER COLUMN device TYPE VARCHAR(60); DROP INDEX"),  # SQLite has no limit there
)


def an_old_store(home: Path, number: int) -> str:
    """Writes a store of layout `number` with one finished run, where the default store is; returns the run's id."""
    run_id, spec = "0123456789ab", replay.a_spec()
    engine = _opened(home)
    on_server = engine.dialect.name == "postgresql"
    with engine.begin() as connection:
        if on_server:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        for earlier in range(1, number + 1):
            script = (STORES / f"{earlier}.sql").read_text(encoding="utf-8")
            for ours, theirs in IN_POSTGRESQL if on_server else ():
                script = script.replace(ours, theirs)
            for statement in filter(str.strip, script.split(";")):
                connection.exec_driver_sql(statement)
        if number <= 4:
            connection.execute(text("INSERT INTO dpcl_layout (version) VALUES (:number)"), {"number": number})
        connection.execute(
            text(
                "INSERT INTO runs (id, name, spec, digest, workload, n_cells, device, status, created, started, finished)"
                " VALUES (:id, 'Old', :spec, :digest, 'w', 1, 'cpu', 'finished', 1.0, 2.0, 5.0)"
            ),
            {"id": run_id, "spec": spec.model_dump_json(), "digest": spec.digest()},
        )
        if number >= 8:
            connection.execute(text("UPDATE runs SET seconds = 3.0"))
    engine.dispose()
    return run_id


@both
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_an_earlier_layout_is_migrated_and_its_runs_are_kept(home, number):
    run_id = an_old_store(home, number)
    store = Store()
    assert [(run.id, run.name, run.seconds) for run in store.list_runs()] == [(run_id, "Old", 3.0)]
    assert store.create(replay.a_spec()) in {run.id for run in Store().list_runs()}
    assert _differences(home) == []


@both
def test_a_new_store_has_the_tables_that_the_migrations_make(home):
    Store()
    assert _differences(home) == []


@both
def test_several_that_open_an_old_store_at_once_migrate_it_once(home):
    run_id = an_old_store(home, 4)
    seen: list[list[str]] = []
    together(lambda _: seen.append([run.id for run in Store().list_runs()]), 4)
    assert seen == [[run_id]] * 4
    assert _differences(home) == []


def test_a_store_that_another_program_writes_just_now_is_waited_for_when_it_is_first_opened(home):
    run_id = an_old_store(home, 4)
    writer = sqlite3.connect(home / "store.sqlite", isolation_level=None, check_same_thread=False)
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    writer.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, writer.execute, ("ROLLBACK",))
    release.start()
    assert [run.id for run in Store().list_runs()] == [run_id]
    release.join()
    writer.close()


def test_a_migration_that_fails_leaves_the_old_store_as_it_was(home):
    an_old_store(home, 4)
    with sqlite3.connect(home / "store.sqlite") as connection:
        connection.execute("CREATE TABLE visitors (x)")  # in the way of the last revision
        before = sorted(connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
    with pytest.raises(StoreTrouble, match="visitors"):
        Store()
    with sqlite3.connect(home / "store.sqlite") as connection:
        assert sorted(connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")) == before


def _opened(home: Path) -> Engine:
    return create_engine(os.environ.get("DPCL_STORE") or f"sqlite:///{home / 'store.sqlite'}")


def _differences(home: Path) -> list[object]:
    """What Alembic would still change, the newest revision being recorded."""
    engine = _opened(home)
    with engine.connect() as connection:
        assert connection.scalar(database.version.select()) == database.NEWEST
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return list(compare_metadata(context, tables.metadata))
