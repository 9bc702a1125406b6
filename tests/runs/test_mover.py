"""The queue moves while a server is up or `dpcl work` runs, outlasts a store that is away, and stops when asked."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, replace

import pytest
from sqlalchemy.exc import OperationalError

from dpcl_core import cli
from dpcl_core.errors import StoreTrouble, StoreUnusable
from dpcl_core.runs import administration, database, executor, process
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.store import Store
from pages.parts import state
from tests.support import replay, stand_in
from tests.support.asserting import printed
from tests.support.waiting import until


@dataclass
class Troubled:
    """An executor that fails in turns, then ends the test."""

    over: threading.Event
    errors: list[Exception | None]
    looks: int = 0

    def schedule(self) -> None:
        error = self.errors[self.looks]
        self.looks += 1
        if self.looks == len(self.errors):
            self.over.set()
        if error is not None:
            raise error


def test_a_store_that_is_away_and_an_unexpected_error_do_not_end_it(monkeypatch, capsys):
    monkeypatch.setattr(executor, "PAUSE_SECONDS", 0.001)
    over, heard, done = threading.Event(), [], []
    away = StoreTrouble("store x: locked")
    troubled = Troubled(over, [None, away, away, KeyError("no such part"), away, None, away])
    opened = iter([away, None])

    def opens() -> Troubled:
        if (error := next(opened)) is not None:
            raise error
        return troubled

    executor.move(
        opens, over, after_each=lambda: done.append(troubled.looks), on_trouble=heard.append, patience=Patience(0.001, 0.002)
    )
    assert (troubled.looks, done) == (7, [1, 6])
    assert heard == [away, away, away]  # once in each outage: before the store was open, and twice later
    assert "no such part" in capsys.readouterr().err


def test_a_server_moves_the_queue_without_a_page_and_stops_with_it(store, monkeypatch):
    monkeypatch.setattr(state, "_FIRST_PAGE_SECONDS", 0.0)
    monkeypatch.setattr(state, "executor", lambda: LocalExecutor(store, stand_in.command("replay:0.1")))
    run_id = store.create(replay.a_spec())

    async def served() -> None:
        async with state.moving(None):
            names = [thread.name for thread in threading.enumerate()]
            assert names.count("queue") == 1
            await asyncio.to_thread(until, lambda: store.status(run_id) == "finished")

    asyncio.run(served())
    assert "queue" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(("behaviour", "status", "end"), [("replay:0.1", 0, "finished"), ("broken", 1, "failed")])
def test_work_carries_out_what_waits(store, monkeypatch, capsys, behaviour, status, end):
    run_ids = [store.create(replay.a_spec(), name=f"number {number}") for number in (1, 2)]
    monkeypatch.setattr(LocalExecutor, "_start", _started_as(behaviour))
    assert cli.main(["work", "--once", "--json"]) == status
    out, err = capsys.readouterr()
    assert json.loads(out) == [{"run_id": run_id, "status": end} for run_id in run_ids]
    lines = [line for line in err.splitlines() if "number 1" in line]
    assert lines[0] == f"run {run_ids[0]} (number 1): started on {process.here('cpu')}"
    assert lines[1].startswith(f"run {run_ids[0]} (number 1): {end}")


def _started_as(behaviour: str):
    start = LocalExecutor._start

    def started(self: LocalExecutor, run: object) -> None:
        start(LocalExecutor(self.store, stand_in.command(behaviour)), run)

    return started


def test_work_ends_at_once_where_nothing_waits(store, capsys):
    assert printed(capsys, "work", "--once") == ""


def test_a_waiting_run_that_is_deleted_with_its_data_is_reported_once_and_work_goes_on(store, monkeypatch, capsys):
    spec = replay.a_spec()
    on_own = replace(spec, data=replace(spec.data, dataset="own:visits"))
    run_id = store.create(on_own, name="mine", device="elsewhere/cpu")
    looks = []

    def looked(_executor: LocalExecutor) -> None:
        looks.append("look")
        if len(looks) == 2:
            administration.purge(store, "own:visits")
        if len(looks) > 4:
            pytest.fail("it looks on for ever")

    monkeypatch.setattr(executor, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(LocalExecutor, "schedule", looked)
    assert cli.main(["work", "--once", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [{"run_id": run_id, "status": "deleted"}]
    assert err == f"run {run_id} (mine): deleted\n"


def test_work_says_at_once_what_no_waiting_mends(home, monkeypatch, capsys):
    monkeypatch.setattr(process.time, "sleep", lambda _: pytest.fail("it waited"))
    (home / "store.sqlite").write_bytes(b"no database at all" * 100)
    assert cli.main(["work"]) == 1
    said = capsys.readouterr().err
    assert "the file is damaged or no store" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("message", [
    'connection failed: FATAL:  password authentication failed for user "me"',
    'connection failed: FATAL:  database "runs" does not exist',
    'connection failed: FATAL:  no pg_hba.conf entry for host "x"',
])
def test_a_server_that_refuses_this_user_is_told_from_one_that_is_away(message):
    refused = OperationalError("SELECT 1", {}, Exception(message))
    away = OperationalError("SELECT 1", {}, Exception("connection failed: Connection refused"))
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/runs"
    assert isinstance(database.trouble(refused, url), StoreUnusable)
    assert not isinstance(database.trouble(away, url), StoreUnusable)


def test_work_says_once_that_it_waits_for_the_store(home, monkeypatch, capsys):
    locked = [StoreTrouble("store x: another program has kept it locked")] * 3
    opened = Store.__init__

    def init(self, url=None):
        if locked:
            raise locked.pop()
        opened(self, url)

    monkeypatch.setattr(Store, "__init__", init)
    monkeypatch.setattr(process.time, "sleep", lambda _: None)
    assert cli.main(["work", "--once"]) == 0
    assert capsys.readouterr().err == "waiting for the store: store x: another program has kept it locked\n"
