"""Stores of every earlier layout open, keep their runs, and end with the tables of a new store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import layout, tables
from dpcl_core.runs.store import Store
from tests.support import replay
from tests.support.together import together

# What the program of each layout wrote when it made a store: each made the tables of the one before, and some more.
STORES = Path(__file__).parent / "layouts"


def an_old_store(home: Path, number: int) -> str:
    """Writes a store of layout `number` with one finished run; returns the run's id."""
    run_id, spec = "0123456789ab", replay.a_spec()
    with sqlite3.connect(home / "store.sqlite") as connection:
        for earlier in range(1, number + 1):
            connection.executescript((STORES / f"{earlier}.sql").read_text(encoding="utf-8"))
        if number <= 4:
            connection.execute("INSERT INTO dpcl_layout (version) VALUES (?)", (number,))
        connection.execute(
            "INSERT INTO runs (id, name, spec, digest, workload, n_cells, device, status, created)"
            " VALUES (?, 'Old', ?, ?, 'w', 1, 'cpu', 'finished', 1.0)",
            (run_id, spec.model_dump_json(), spec.digest()),
        )
    return run_id


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_an_earlier_layout_is_migrated_and_its_runs_are_kept(home, number):
    run_id = an_old_store(home, number)
    store = Store()
    assert [(run.id, run.name) for run in store.list_runs()] == [(run_id, "Old")]
    assert store.create(replay.a_spec()) in {run.id for run in Store().list_runs()}
    assert _differences(home) == []


def test_a_new_store_has_the_tables_that_the_migrations_make(home):
    Store()
    assert _differences(home) == []


def test_several_that_open_an_old_store_at_once_migrate_it_once(home):
    run_id = an_old_store(home, 4)
    seen: list[list[str]] = []
    together(lambda _: seen.append([run.id for run in Store().list_runs()]), 4)
    assert seen == [[run_id]] * 4
    assert _differences(home) == []


def test_a_migration_that_fails_leaves_the_old_store_as_it_was(home):
    an_old_store(home, 4)
    with sqlite3.connect(home / "store.sqlite") as connection:
        connection.execute("CREATE TABLE kept_looks (x)")  # in the way of the last revision
        before = sorted(connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))
    with pytest.raises(StoreTrouble, match="kept_looks"):
        Store()
    with sqlite3.connect(home / "store.sqlite") as connection:
        assert sorted(connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")) == before


def _differences(home: Path) -> list[object]:
    """What Alembic would still change, the newest revision being recorded."""
    engine = create_engine(f"sqlite:///{home / 'store.sqlite'}")
    with engine.connect() as connection:
        assert connection.scalar(layout.version.select()) == layout.NEWEST
        return list(compare_metadata(MigrationContext.configure(connection), tables.metadata))
