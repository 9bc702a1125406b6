"""A worker that was taken for dead, and lives: it leaves nothing in a run that is no longer its own, and says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from dpcl_core.cli import main
from dpcl_core.events import Event, Note
from dpcl_core.runs import process, resumption, worker
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.postgres import both, both_if_slow
from tests.support.waiting import NEVER_SECONDS, until

pytestmark = both

TAKEN = "no longer carried out by this process"
GONE = Failure("worker-died", "gone", "")
OTHER = replace(process.me(), ticks=1)  # a process that has this one's id at another time


def given_up(store: Store, run_id: str) -> None:
    until(lambda: store.mark_failed(store.get(run_id), GONE))  # not if a heartbeat has just come


def taken_over(store: Store, run_id: str) -> None:
    """Another process goes on with the run, as after a sleep of the computer that this one runs on."""
    given_up(store, run_id)
    resumption.resume(store, run_id)
    assert store.claim(run_id, OTHER)


@pytest.mark.parametrize("lose", [given_up, taken_over])
def test_nothing_of_a_worker_counts_once_its_run_was_taken_from_it(store, lose: Callable[[Store, str], None]):
    run_id, me = replay.claim(store), process.me()
    store.append(run_id, [Note("info", "mine")], by=me)
    lose(store, run_id)
    before = store.get(run_id)
    for act in (
        lambda: store.append(run_id, [Note("info", "late")], by=me),
        lambda: store.heartbeat(run_id, me),
        lambda: store.begin(run_id, by=me),
    ):
        refuses(TAKEN, act)
    for end in ("finished", "failed", "cancelled"):
        if lose is taken_over:
            refuses(TAKEN, store.end, run_id, end, GONE if end == "failed" else None, by=me)
        else:
            assert not store.end(run_id, end, GONE if end == "failed" else None, by=me)  # the first end counts
    after = store.get(run_id)
    assert replace(after, silent_seconds=None) == replace(before, silent_seconds=None)
    assert store.events(run_id) == (Note("info", "mine"),)


def test_two_workers_on_one_run_leave_each_event_once_and_the_late_one_says_why_it_ends(store, monkeypatch):
    """The first sleeps in the middle; the second, meanwhile, begins anew and is in the middle when the first wakes."""
    monkeypatch.setattr(worker, "GRACE_SECONDS", NEVER_SECONDS)  # a busy machine must not cut off this very process
    run_id, said = replay.claim(store), replay.recorded(replay.a_spec())

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:3]
        until(lambda: said[2] in store.events(run_id))
        taken_over(store, run_id)
        store.append(run_id, said[3:20], by=OTHER)
        yield from said[3:]

    refuses(f"run = {run_id}: is {TAKEN}", worker.carry_out, store, run_id, engine=engine)
    assert (store.get(run_id).process, store.status(run_id)) == (OTHER, "starting")
    store.append(run_id, said[20:], by=OTHER)
    assert store.end(run_id, "finished", by=OTHER)
    assert (list(store.events(run_id)), store.get(run_id).error) == (said, None)


def test_an_unknown_run_is_held_by_nobody(store):
    refuses("no such run in this store", store.heartbeat, "0123456789ab", process.me())


@both_if_slow
def test_resume_of_a_run_that_another_process_carries_out_follows_it_to_its_result(store, capsys):
    """And prints the document that the process which carries it out prints."""
    spec = replay.a_spec()
    run_id = store.create(spec)
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        other = process.process_of(sleeper.pid)
        assert store.claim(run_id, other)
        store.append(run_id, replay.recorded(spec)[:10], by=other)
        exits: list[int] = []
        attached = threading.Thread(target=lambda: exits.append(main(["resume", run_id, "--json"])))
        attached.start()
        store.append(run_id, replay.recorded(spec)[10:], by=other)
        assert store.end(run_id, "finished", by=other)
        attached.join()
        first = json.loads(capsys.readouterr().out)
        assert (exits, main(["resume", run_id, "--json"])) == ([0], 0)
        assert json.loads(capsys.readouterr().out) == first
        assert (first["run_id"], len(first["cells"])) == (run_id, 9)
        assert store.get(run_id).process == other
    finally:
        sleeper.communicate(os.linesep.encode())
