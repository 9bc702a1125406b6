"""Runs in processes of their own: they survive the app, stop when asked, and are missed when they die."""

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from safetensors import numpy as safetensors
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError

from dpcl_core import cli
from dpcl_core.errors import StoreTrouble, StoreUnusable
from dpcl_core.events import CellFinished, Progress, Started, TaskLearned, of_kind
from dpcl_core.runs import administration, database, executor, frames, process, resumption, tables, worker
from dpcl_core.runs.executor import WORKER, LocalExecutor
from dpcl_core.runs.process import Patience, WarmWorker, log_file
from dpcl_core.runs.run import Run, columns_of, work_of
from dpcl_core.runs.store import Store
from pages.parts import state
from scripts.record_outages import Starts, race
from tests.runs.test_outages import locked
from tests.support import replay, stand_in
from tests.support.asserting import in_turn, printed
from tests.support.postgres import both, both_if_slow
from tests.support.tiers import quick
from tests.support.waiting import until


def runner(store: Store, behaviour: str) -> LocalExecutor:
    return LocalExecutor(store, stand_in.command(behaviour))


@both_if_slow
def test_a_run_goes_on_when_the_app_ends_and_the_next_in_the_queue_follows_by_itself(store):
    """Two apps start one run each at once, then both end: both runs finish, one after the other."""
    spec = replay.a_spec()
    ids = [store.create(spec) for _ in range(2)]

    def app(run_id: str) -> None:
        os.setpgid(0, 0)
        runner(Store(), "replay:1.0").submit(run_id)
        os.killpg(0, signal.SIGKILL)  # as a closed terminal does to all that belongs to it

    apps = [multiprocessing.get_context("fork").Process(target=app, args=(run_id,)) for run_id in ids]
    for one in apps:
        one.start()
    for one in apps:
        one.join()
    assert [store.status(run_id) for run_id in ids] == ["starting", "queued"]
    until(lambda: 0 < len(store.events_after(ids[0])) < 60)  # live: some, not yet all
    until(lambda: store.status(ids[0]) == "finished")
    until(lambda: store.status(ids[1]) == "finished")
    first, second = (store.get(run_id) for run_id in ids)
    assert first.finished <= second.started
    for run_id in ids:
        kept = [event for _, event in store.events_after(run_id) if isinstance(event, (TaskLearned, CellFinished))]
        assert kept == [e for e in replay.recorded(spec) if isinstance(e, (TaskLearned, CellFinished))]


@pytest.mark.parametrize("behaviour", quick(1, ["stubborn", "asleep"]))
def test_a_stop_takes_effect_in_a_step_that_never_ends(store, behaviour):
    """Asleep: other threads of the worker go on. Stubborn: none does, so the app has to end it."""
    app = runner(store, behaviour)
    run_id = replay.submit(app)
    until(lambda: len([e for _, e in store.events_after(run_id) if isinstance(e, TaskLearned)]) == 5)  # that step is next
    until(lambda: store.status(run_id) == "running")
    worker = store.get(run_id).process
    app.stop(run_id)
    assert store.status(run_id) == "stopping"
    app.stop(run_id)  # the second time nothing else happens
    until(lambda: app.schedule() or store.status(run_id) == "cancelled")
    until(lambda: not process.is_alive(worker))
    assert store.get(run_id).error is None
    assert len([e for _, e in store.events_after(run_id) if isinstance(e, TaskLearned)]) == 5


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_worker_told_to_end_by_the_system_leaves_its_run_to_the_next_one_unless_a_user_stopped_it(store, is_stopped):
    """As a system does that shuts down: the user has asked for nothing, and the run goes on after its checkpoint."""
    app = runner(store, "asleep")
    run_id = replay.submit(app)
    until(lambda: store.status(run_id) == "running")
    worker = store.get(run_id).process
    with store.writing() as connection:
        state = {"document": "{}", "arrays": safetensors.save({})}
        digest = resumption._digest(0, 0, []) + resumption._digest(*state.values())
        saved = {"run_id": run_id, "learner": 0, "task": 0, "events": [], **state, "digest": digest}
        connection.execute(insert(tables.checkpoints).values(saved))
    if is_stopped:
        store.request_stop(run_id)
    os.kill(worker.pid, signal.SIGTERM)
    until(lambda: not process.is_alive(worker))
    app.check()
    assert store.status(run_id) == ("cancelled" if is_stopped else "queued")


@both_if_slow
def test_a_killed_worker_is_missed_and_others_go_on(store):
    app = runner(store, "killed")
    doomed, other = store.create(replay.a_spec()), store.create(replay.a_spec())
    app.submit(doomed)
    until(lambda: app.schedule() or store.status(doomed) == "lost")
    assert store.get(other).status == "starting"  # the same call has started it
    run = store.get(doomed)
    assert run.error_kind == "worker-died"
    assert run.error.startswith("The computer stopped this run at ")
    until(lambda: app.schedule() or store.status(other) == "lost")
    assert store.status(store.retry(doomed)) == "queued"


def test_a_queue_left_by_an_app_that_died_is_taken_up_by_the_next_one(store):
    waiting = store.create(replay.a_spec())
    again = Store(store.url)
    runner(again, "replay:0.1").schedule()
    until(lambda: again.status(waiting) == "finished")


def test_a_worker_that_cannot_be_started_fails_its_run(store):
    run = store.get(replay.submit(LocalExecutor(store, ("/no/such/program",))))
    assert (run.status, run.error) == ("failed", "The process of this run could not be started: No such file or directory.")


def test_a_worker_that_ends_before_it_begins_is_missed_with_its_last_words(store, monkeypatch):
    monkeypatch.setattr(executor, "SILENT_SECONDS", 0.5)
    app = LocalExecutor(store, (sys.executable, "-c", "raise SystemExit('no such part')"))
    run_id = replay.submit(app)
    until(lambda: app.schedule() or store.status(run_id) == "lost")
    assert "no such part" in store.get(run_id).error_log


@pytest.mark.parametrize("status", ["running", "stopping"])
def test_a_stranger_with_the_number_of_a_dead_worker_is_left_alone(store, stranger, status):
    run_id = _under_way(store, replace(process.process_of(stranger.pid), ticks=7), status, silent=30)
    LocalExecutor(store).schedule()
    assert store.status(run_id) == ("lost" if status == "running" else "cancelled")
    assert stranger.answers()


@pytest.mark.parametrize(("limit", "machine", "ends_as"), [
    ("SILENT_SECONDS", "here", None),  # it is seen to live
    ("STUCK_SECONDS", "here", "lost"),  # it lives but is stuck: it is ended, too
    ("SILENT_SECONDS", "elsewhere", "lost"),  # nobody can look: silence must do
    ("STUCK_SECONDS", "elsewhere", None),
])
def test_a_process_that_gives_no_sign_for_too_long_is_lost(store, stranger, monkeypatch, limit, machine, ends_as):
    monkeypatch.setattr(executor, limit, 0.2)
    run_id = _under_way(store, _worker_of(stranger, machine), "running", silent=0)
    app, begun = LocalExecutor(store), time.monotonic()
    until(lambda: app.schedule() or store.status(run_id) == "lost" or time.monotonic() > begun + 0.6)
    assert store.status(run_id) == (ends_as or "running")
    if (machine, ends_as) == ("here", "lost"):
        until(lambda: stranger.poll() is not None)
    else:
        assert stranger.answers()


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
@pytest.mark.parametrize("status", ["running", "stopping"])
def test_a_heartbeat_that_is_old_at_first_sight_proves_nothing(store, stranger, machine, status):
    """After an outage of the store, a computer's sleep, or where a second app has just been started."""
    run_id = _under_way(store, _worker_of(stranger, machine), status, silent=3600)
    LocalExecutor(store).schedule()
    assert store.status(run_id) == status
    assert stranger.answers()


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_silence_counts_only_while_the_store_takes_writes(store, home, stranger, monkeypatch, machine):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    monkeypatch.setattr(executor, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(executor, "STUCK_SECONDS", 0.2)
    run_id = _under_way(store, _worker_of(stranger, machine), "running", silent=3600)
    app = LocalExecutor(Store())
    app.check()
    with locked(home), pytest.raises(StoreTrouble, match="locked"):
        app.check()  # waits for longer than a run may be silent
    app.check()
    assert store.status(run_id) == "running"
    until(lambda: app.check() is None or store.status(run_id) == "lost")


@both
def test_a_claim_whose_process_was_never_started_is_given_back(store, monkeypatch):
    monkeypatch.setattr(executor, "SILENT_SECONDS", 0.2)
    run_id = store.create(replay.a_spec())
    assert store.claim(run_id)  # by an app that dies now
    app = LocalExecutor(store)
    until(lambda: app.check() is None or store.status(run_id) == "queued")
    runner(store, "replay:0.1").schedule()
    until(lambda: store.status(run_id) == "finished")


def test_a_run_that_a_living_terminal_waits_for_is_left_to_it_and_ends_with_it(store, stranger, monkeypatch):
    started: list[str] = []
    monkeypatch.setattr(LocalExecutor, "_start", lambda self, run: started.append(run.id))
    mine, later = store.create(replay.a_spec()), store.create(replay.a_spec())
    store.wait(mine, process.process_of(stranger.pid))
    LocalExecutor(store).schedule()
    assert (started, store.status(mine), store.status(later)) == ([], "queued", "queued")
    stranger.kill()
    stranger.wait()
    LocalExecutor(store).schedule()
    LocalExecutor(store).schedule()
    assert (started, store.status(mine)) == ([later], "lost")
    assert f"dpcl resume {mine} goes on with it" in store.get(mine).error
    resumption.resume(store, mine)  # a person's word: from now on it is like any other
    assert not store.get(mine).attended


@both
@pytest.mark.parametrize("races", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_of_two_apps_that_see_a_run_at_once_one_starts_it(home, races):
    """And they never leave it to each other."""
    assert race(races) == Starts(races, twice=0, never=0)


def _worker_of(stranger, machine: str) -> process.Process:
    its = process.process_of(stranger.pid)
    return its if machine == "here" else replace(its, machine=machine)


def _under_way(store: Store, worker: process.Process, status: str, *, silent: float) -> str:
    run_id = replay.fill(store, replay.a_spec(), [], status=status)
    replay.alter(store, run_id, heartbeat=time.time() - silent, **columns_of(worker))
    return run_id


# The real engine in a real worker process, on the bundled digits.


@pytest.mark.parametrize("is_warm", [False, True], ids=["fresh", "warm"])
def test_a_true_run_says_in_its_process_what_the_engine_says_here_and_plays_back_the_same(
    store, is_warm, monkeypatch, tmp_path
):
    monkeypatch.setattr(process, "PROGRAM", tmp_path)  # so that nobody who edits the program meanwhile is noticed
    spec = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0, 1), tasks=2)
    seeded = replace(spec, privacy=replace(spec.privacy, noise="seeded"))
    app = LocalExecutor(store, warm=WarmWorker(WORKER))
    if is_warm:
        app.warm.expect(store.url, "dpcl_core.methods.features.cosine")
        app.warm.keep(store.url, is_idle=True)
        ready = app.warm.waiting.process.pid
        until(lambda: app.warm.waiting.here.is_set())
    run_id = store.create(seeded)
    app.submit(run_id)
    assert not is_warm or store.get(run_id).process.pid == ready
    until(lambda: store.get(run_id).is_over)
    run = store.get(run_id)
    assert run.status == "finished", (run.error, run.error_log, log_file(run_id).read_text())
    kept = [event for _, event in store.events_after(run_id)]
    here = list(worker.real_engine(seeded, "cpu"))
    said = (Started, TaskLearned)
    assert [event for event in kept if isinstance(event, said)] == [event for event in here if isinstance(event, said)]
    told = [[event.guarantee for event in of_kind(of, CellFinished)] for of in (kept, here)]
    assert told[0] == told[1]
    assert any(isinstance(event, Progress) for event in kept)
    again = [event for _, event in store.events_after(replay.fill(store, seeded, kept))]
    for table in (frames.accuracy, frames.metrics, frames.spent):
        assert table(again).equals(table(kept))
        assert len(table(kept)) > 0
    assert store.estimates([work_of(seeded)])[0] is not None


# The queue moves while a server is up or `dpcl work` runs, outlasts a store that is away, and stops when asked.


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
    looked, patience = lambda: done.append(troubled.looks), Patience(0.001, 0.002)
    opens = in_turn([away, None, StopIteration()], lambda: troubled)
    executor.move(opens, over, after_each=looked, on_trouble=heard.append, patience=patience)
    assert (troubled.looks, done) == (7, [1, 6])
    assert heard == [away, away, away]  # once in each outage: before the store was open, and twice later
    assert "no such part" in capsys.readouterr().err


def test_a_server_moves_the_queue_without_a_page_and_stops_with_it(store, monkeypatch):
    monkeypatch.setattr(state, "_FIRST_PAGE_SECONDS", 0.0)
    monkeypatch.setattr(state, "executor", lambda: LocalExecutor(store, stand_in.command("replay:0.1")))
    run_id = store.create(replay.a_spec())

    async def served() -> None:
        async with state.moving(None):
            assert [thread.name for thread in threading.enumerate()].count("queue") == 1
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


def _started_as(behaviour: str) -> Callable[[LocalExecutor, Run], None]:
    start = LocalExecutor._start
    return lambda self, run: start(LocalExecutor(self.store, stand_in.command(behaviour)), run)


def test_work_ends_at_once_where_nothing_waits(store, capsys):
    assert printed(capsys, "work", "--once") == ""


def test_a_waiting_run_that_is_deleted_with_its_data_is_reported_once_and_work_goes_on(store, monkeypatch, capsys):
    run_id = store.create(replay.a_spec(dataset="own:visits"), name="mine", device="elsewhere/cpu")
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
    monkeypatch.setattr(Store, "__init__", in_turn(locked, Store.__init__))
    monkeypatch.setattr(process.time, "sleep", lambda _: None)
    assert cli.main(["work", "--once"]) == 0
    assert capsys.readouterr().err == "waiting for the store: store x: another program has kept it locked\n"
