"""A store that was restored from a backup draws no noise again for results that have left this computer."""

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Row, delete, insert, select

from dpcl_core import paths
from dpcl_core.cli import main
from dpcl_core.data.files import hold_file
from dpcl_core.errors import StoreTrouble, StoreUnusable
from dpcl_core.events import Event, Note, TaskLearned
from dpcl_core.runs import process, resumption, worker
from dpcl_core.runs.executor import Supervisor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import Failure, Split
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import metadata, runs
from dpcl_core.spec import RunSpec
from tests.runs.test_resumption import lost_after, n_saved, said_by, seeded
from tests.support import replay
from tests.support.asserting import raising, refusal_of, refuses
from tests.support.postgres import both, both_if_slow
from tests.support.waiting import NEVER_SECONDS, until
from tests.test_durable_runs import results

pytestmark = both

OTHER = replace(process.me(), ticks=1)  # a process that has this one's id at another time
AGAIN = "noise must not be drawn twice; Retry starts a new run"
Backup = Mapping[str, Sequence[Row[tuple[object, ...]]]]


def backed_up(store: Store) -> Backup:
    """All rows of the store."""
    return {table.name: store.rows(select(table)) for table in metadata.sorted_tables}


def restored(store: Store, backup: Backup) -> None:
    with store.writing() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
        for table in metadata.sorted_tables:
            if backup[table.name]:
                connection.execute(insert(table), [dict(row._mapping) for row in backup[table.name]])


def learned(events: Sequence[Event]) -> int:
    return sum(isinstance(event, TaskLearned) for event in events)


@pytest.mark.parametrize("n_tasks", [0, 2])
def test_what_has_left_is_not_resumed_from_a_backup(store, n_tasks):
    run_id = lost_after(store, seeded(), n_tasks)
    backup = backed_up(store)
    resumption.resume(store, run_id)
    assert worker.run_here(store, run_id).status == "finished"
    restored(store, backup)
    assert AGAIN in (resumption.why_not(store, run_id) or "")
    refuses("cannot be resumed: results of it have left this computer", resumption.resume, store, run_id)


@pytest.mark.parametrize("n_tasks", [0, 2])
def test_what_has_left_is_not_carried_out_again_where_a_backup_has_it_waiting(store, n_tasks):
    run_id = lost_after(store, seeded(), n_tasks)
    resumption.resume(store, run_id)
    backup = backed_up(store)
    assert worker.run_here(store, run_id).status == "finished"
    restored(store, backup)
    before = learned(store.events(run_id))
    ended = worker.run_here(store, run_id)
    assert (ended.status, ended.error_kind, AGAIN in (ended.error or "")) == ("failed", "store", True)
    assert learned(store.events(run_id)) == before, "nothing was learned"
    assert AGAIN in (resumption.why_not(store, run_id) or "")


def test_what_has_left_does_not_go_on_by_itself_where_a_backup_has_it_under_way(store):
    run_id = lost_after(store, seeded(), 2)
    resumption.resume(store, run_id)
    assert store.claim(run_id, OTHER)
    backup = backed_up(store)
    resumption.record(run_id, 0, 3)  # its process, then alive, has gone on
    restored(store, backup)
    Supervisor(store).check()
    assert store.status(run_id) == "lost"


def test_a_run_that_was_silent_for_long_is_left_to_a_person(store):
    """The record may be restored with the store, as with a whole computer."""
    run_id = lost_after(store, seeded(), 1)
    resumption.resume(store, run_id)
    assert store.claim(run_id, OTHER)
    replay.alter(store, run_id, heartbeat=runs.c.heartbeat - resumption.FRESH_SECONDS - 1)
    Supervisor(store).check()
    run = store.get(run_id)
    assert run.status == "lost"
    assert "if a backup was restored since, take Retry, else Resume" in (run.error or "")
    resumption.resume(store, run_id)
    assert worker.run_here(store, run_id).status == "finished"


def test_nothing_leaves_before_it_is_written_down(store):
    spec = seeded()
    run_id = replay.claim(store, spec)
    for event in worker.real_engine(spec, "cpu", resumption.Stored(store, run_id)):
        if isinstance(event, TaskLearned):
            assert resumption.n_tasks(run_id) == {0: event.task + 1}


def test_nothing_leaves_that_cannot_be_written_down_and_the_run_goes_on_later(store, monkeypatch):
    spec = seeded()
    run_id = replay.claim(store, spec)
    left = list[Event]()

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", raising(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(StoreTrouble, match=r"what has left a run cannot be written .*: No space left"):
            left.extend(worker.real_engine(spec, "cpu", resumption.Stored(store, run_id, Patience(give_up=0.0))))
    assert (n_saved(store, run_id), learned(left)) == (1, 0)
    said, classifiers = said_by(spec)
    again = results(list(worker.real_engine(spec, "cpu", resumption.Stored(store, run_id))))
    assert [event for event in again if event["event"] != "Classifier"] == said
    assert [event for event in again if event["event"] == "Classifier"] == classifiers
    assert resumption.n_tasks(run_id) == {0: spec.scenario.tasks}, "also what had been saved before"


def test_only_its_owner_reads_what_has_left(home):
    before = os.umask(0o022)
    try:
        resumption.record("0123456789ab", 0, 1)
    finally:
        os.umask(before)
    path = home / "released" / "0123456789ab.txt"
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)] == [0o700, 0o600]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux names open files here")
def test_what_root_has_made_belongs_to_whom_the_home_does(home, monkeypatch):
    """As after one `sudo dpcl run`, which would stop every later run of the user."""
    given = dict[str, tuple[int, int]]()
    for name, named in {"fchown": lambda handle: os.readlink(f"/proc/self/fd/{handle}"), "lchown": str}.items():
        monkeypatch.setattr(os, name, lambda what, *owner, named=named: given.update({Path(named(what)).name: owner}))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with hold_file(home / "data.lock"):
        resumption.record("0123456789ab", 0, 1)
    whose = (home.stat().st_uid, home.stat().st_gid)
    assert given == dict.fromkeys(("data.lock", "released", "0123456789ab.txt"), whose)


def test_what_is_another_users_fails_at_once_and_names_no_path(home, monkeypatch):
    monkeypatch.setattr(paths, "open_file", raising(PermissionError(errno.EACCES, "Permission denied", str(home))))
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("nobody mends that while a run waits"))
    told = refusal_of(Patience().outlast, lambda: resumption.record("0123456789ab", 0, 1), error=StoreTrouble)
    assert str(told) == "what has left a run cannot be written in released/ of the home folder: Permission denied"


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize(("folder", "lock"), [(0o700, 0o600), (0o755, 0o600), (0o770, 0o660), (0o777, 0o666)])
def test_a_lock_is_for_whoever_may_write_its_folder(home, folder, lock):
    home.chmod(folder)
    with hold_file(home / "data.lock") as is_held:
        assert is_held
    assert stat.S_IMODE((home / "data.lock").stat().st_mode) == lock


def test_a_run_that_waits_for_its_parts_refuses_what_it_has_passed_on_already(store):
    run_id = store.create(replay.a_spec(epsilons=(1.0,), seeds=(0, 1), tasks=2), split=Split(2, "ray"))
    resumption.record(run_id, 1, 1)
    waiting = worker.shards.Waiting(store, run_id, Split(2, "ray"), Supervisor(store), Patience())
    refuses(AGAIN, waiting.begin, 2, 2, error=StoreUnusable)
    assert worker.shards.parts_of(store, run_id) == []


def test_a_line_that_a_power_cut_left_half_counts_for_nothing_and_spoils_no_later_one(home):
    run_id = "0123456789ab"
    resumption.record(run_id, 0, 1)
    with (home / "released" / f"{run_id}.txt").open("ab") as file:
        file.write(b"\n1 \0\0")
    assert resumption.n_tasks(run_id) == {0: 1}
    resumption.record(run_id, 1, 12)
    resumption.record(run_id, 1, 3)
    assert resumption.n_tasks(run_id) == {0: 1, 1: 12}


# A worker that was taken for dead, and lives: it leaves nothing in a run that is no longer its own, and says why.


TAKEN = "no longer carried out by this process"
GONE = Failure("worker-died", "gone", "")


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
    assert replace(store.get(run_id), silent_seconds=None) == replace(before, silent_seconds=None)
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
