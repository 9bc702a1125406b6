"""A store of an earlier layout is refused and left alone; one command counts its looks, spend and budgets in a new one."""

import json
import math
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import inspect

from dpcl_core import cli
from dpcl_core.errors import StoreTrouble, StoreUnusable
from dpcl_core.runs import administration, charges, database, tables
from dpcl_core.runs.administration import carry_over
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.runs.test_budgets import asking, begun, taken_in
from tests.support.asserting import document_of, refuses
from tests.support.postgres import both
from tests.support.together import together

# What the program of each layout wrote when it made a store: each made the tables of the one before, and some more.
STORES = Path(__file__).parent / "layouts"
LAYOUTS = range(1, 11)
IDS = {name: f"{name:0>12}" for name in ("a", "b", "c", "d", "e")}


@pytest.fixture
def data(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("DPCL_DATA", raising=False)
    return taken_in(home / "visits.csv")


def n_runs(number: int) -> int:
    """Three, a tuning, which the second layout brought, and an audit, which the third did."""
    return min(number + 2, 5)


def an_old_store(home: Path, number: int, spec: RunSpec) -> Path:
    """A store of this layout: a run of the spec that is over, one under way, one that never started, and what else it had.

    A tuning on the private data with two trials, an audit, and of data deleted since three looks and a budget.
    """
    path = home / "old.sqlite"
    with sqlite3.connect(path) as connection:
        for earlier in range(1, number + 1):
            connection.executescript((STORES / f"{earlier}.sql").read_text(encoding="utf-8"))
        if number <= 4:
            connection.execute("INSERT INTO dpcl_layout (version) VALUES (?)", (number,))
        one_run = (
            "INSERT INTO runs (id, name, spec, digest, workload, n_cells, device, status, created, started)"
            " VALUES (?, 'Old', ?, ?, 'w', 1, 'cpu', ?, 1.0, ?)"
        )
        states = [("finished", 2.0), ("running", 3.0), ("queued", None), ("finished", 2.0), ("finished", 2.0)]
        for run_id, (status, started) in zip(IDS.values(), states[: n_runs(number)], strict=False):
            connection.execute(one_run, (run_id, spec.to_json(), spec.digest(), status, started))
        if number >= 2:
            settings = {"on": "private", "base": spec.jsonable()}
            connection.execute("INSERT INTO studies VALUES (?, ?, NULL)", (IDS["d"], json.dumps(settings)))
            connection.execute("INSERT INTO turns VALUES (?, ?)", (IDS["d"], IDS["d"]))
            connection.executemany("INSERT INTO trials VALUES (?, ?, '{}')", [(IDS["d"], 0), (IDS["d"], 1)])
        if number >= 3:
            connection.execute("INSERT INTO audits VALUES (?, ?, '[]')", (IDS["e"], IDS["a"]))
        if number >= 6:
            columns = "marks, runs, models, tuned, audits, epsilon, delta"
            looks = f"INSERT INTO kept_looks ({columns}) VALUES (?, 3, 3, 0, 0, 2.5, 0.0)"
            connection.execute(looks, (json.dumps(["gone"]),))
        if number >= 10:
            kept = "INSERT INTO budgets (dataset, marks, unit, epsilon, delta) VALUES (NULL, ?, '', 4.0, 1e-5)"
            connection.execute(kept, (json.dumps(["gone"]),))
    return path


@pytest.mark.parametrize("number", LAYOUTS)
def test_an_earlier_layout_is_refused_and_left_alone_with_the_command_that_counts_its_looks(home, number):
    path = an_old_store(home, number, asking("own:mine"))
    before = contents(path)
    with pytest.raises(StoreUnusable, match=f"layout {number}, .* layout {database.LAYOUT}: .*dpcl data --carry-over"):
        Store(f"sqlite:///{path}")
    assert contents(path) == before


@both
@pytest.mark.parametrize("number", LAYOUTS)
def test_looks_spend_and_budgets_of_every_earlier_layout_count_in_a_new_store(home, data, number):
    """Of the run that was over and the one that was under way; the one that never started was none."""
    old, store = an_old_store(home, number, asking(data, (1.0, 2.0))), Store()
    before = contents(old)
    assert carry_over(store, str(old)) == n_runs(number)
    looks = administration.looks_at(store, data)
    assert (looks.runs, looks.models, looks.tuned, looks.audits) == (2, 4, 2 * (number >= 2), number >= 3)
    assert looks.epsilon == (6.0 if number == 1 else math.inf), "of a tuning no bound is known"
    assert administration.marks_kept(store) == ({"gone"} if number >= 6 else set())
    assert (store.list_runs(), store.trash(), store.unfinished()) == ([], [], []), "they are there to be counted alone"
    administration.declare_budget(store, data, 100.0)
    (budget,) = administration.budgets_of(store, data)
    assert budget.spent[0] == (6.0 if number == 1 else math.inf)
    assert contents(old) == before
    refuses("counts already", carry_over, store, str(old))
    with store.reading() as connection:
        declared = connection.execute(tables.budgets.select().order_by(tables.budgets.c.number))
        kept = [(one.epsilon, one.unit) for one in declared]
        of_deleted = charges.charges(connection, charges.Budget(0, "x", ["gone"], "", 9.0, 0.1))
    assert kept == [(4.0, "")] * (number >= 10) + [(100.0, "")]
    assert [one.bound[0] for one in of_deleted] == [math.inf] * (number >= 6), "nobody knows whom they protected"


def test_a_run_that_had_entered_its_plan_is_charged_by_it(home, data):
    """Which is less than it had asked for."""
    store, other = Store(), Store(f"sqlite:///{home}/other.sqlite")
    begun(other, asking(data), noise=2.0)
    administration.declare_budget(other, data, 1.0)
    carry_over(store, f"{home}/other.sqlite")
    ((there,), (here,)) = administration.budgets_of(other, data), administration.budgets_of(store, data)
    assert here.spent == there.spent
    assert 0.0 < here.spent[0] < 0.6
    assert here.epsilon == there.epsilon


@pytest.mark.parametrize("damage", [
    "UPDATE runs SET spec = 'x'",
    "UPDATE runs SET spec = '{}'",
    """UPDATE runs SET spec = '{"data": {"dataset": 3}}'""",
    "UPDATE kept_looks SET marks = 'x'",
    "DROP TABLE kept_looks",
    "DROP TABLE audits",
    "ALTER TABLE runs DROP COLUMN started",
])
def test_looks_that_cannot_be_read_are_refused_and_never_counted_as_none(home, data, damage):
    store, old = Store(), an_old_store(home, 9, asking(data))
    with sqlite3.connect(old) as connection:
        connection.execute(damage)
    with pytest.raises(StoreTrouble):
        carry_over(store, str(old))
    looks = administration.looks_at(store, data)
    assert (looks.runs, looks.audits, looks.tuned) == (0, 0, 0)


@pytest.mark.parametrize("version", ["0", str(int(database.LAYOUT) + 1), "4a"])
def test_a_store_of_a_later_version_is_not_carried_over(home, data, version):
    store, old = Store(), an_old_store(home, 9, asking(data))
    with sqlite3.connect(old) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
    refuses("OLD_STORE", carry_over, store, str(old))


@pytest.mark.parametrize("number", [4, 9])
def test_the_command_says_how_many_runs_count(home, data, number, capsys):
    assert document_of(capsys, "data", "carry-over", str(an_old_store(home, number, asking(data)))) == {"runs": 5}
    assert administration.looks_at(Store(), data).runs == 2
    assert cli.main(["data", "carry-over", str(home / "none.sqlite")]) != 0


@both
def test_several_that_open_a_new_store_at_once_make_its_tables_once(home):
    seen: list[list[str]] = []
    together(lambda _: seen.append([run.id for run in Store().list_runs()]), 4)
    assert seen == [[]] * 4
    with Store().reading() as connection:
        assert set(inspect(connection).get_table_names()) == {*tables.metadata.tables, database.version.name}


def test_a_store_that_another_program_writes_just_now_is_waited_for_when_it_is_first_opened(home):
    writer = sqlite3.connect(home / "store.sqlite", isolation_level=None, check_same_thread=False)
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    writer.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.5, writer.execute, ("ROLLBACK",))
    release.start()
    assert Store().list_runs() == []
    release.join()
    writer.close()


def contents(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return list(connection.iterdump())
