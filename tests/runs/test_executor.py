"""Runs in processes of their own: they survive the app, stop when asked, and are missed when they die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace

import pytest
from safetensors import numpy as safetensors
from sqlalchemy import insert

from dpcl_core.errors import StoreTrouble
from dpcl_core.events import CellFinished, TaskLearned
from dpcl_core.runs import database, executor, process, resumption, tables
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.run import columns_of
from dpcl_core.runs.store import Store
from scripts.record_outages import Starts, race
from tests.runs.test_outages import locked
from tests.support import replay, stand_in
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
    worker = process.process_of(stranger.pid)
    if machine == "elsewhere":
        worker = replace(worker, machine=machine)
    run_id = _under_way(store, worker, "running", silent=0)
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
    worker = process.process_of(stranger.pid)
    run_id = _under_way(store, worker if machine == "here" else replace(worker, machine=machine), status, silent=3600)
    LocalExecutor(store).schedule()
    assert store.status(run_id) == status
    assert stranger.answers()


@pytest.mark.parametrize("machine", ["here", "elsewhere"])
def test_silence_counts_only_while_the_store_takes_writes(store, home, stranger, monkeypatch, machine):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    monkeypatch.setattr(executor, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(executor, "STUCK_SECONDS", 0.2)
    its = process.process_of(stranger.pid) if machine == "here" else process.Process("elsewhere", 1, 1)
    run_id = _under_way(store, its, "running", silent=3600)
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


def _under_way(store: Store, worker: process.Process, status: str, *, silent: float) -> str:
    run_id = replay.fill(store, replay.a_spec(), [], status=status)
    replay.alter(store, run_id, heartbeat=time.time() - silent, **columns_of(worker))
    return run_id
