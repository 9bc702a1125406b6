"""A store that is locked, full or gone while a run goes on costs the run nothing, and nothing is written twice."""

from __future__ import annotations

import base64
import math
import multiprocessing
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.dialects import postgresql

from dpcl_core.errors import StoreGone, StoreTrouble, StoreUnknown
from dpcl_core.events import Classifier, Event, Progress
from dpcl_core.runs import database, journal, process, recorder, worker
from dpcl_core.runs.administration import empty_trash, purge
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.journal import Journal
from dpcl_core.runs.process import Patience, log_file
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import runs
from dpcl_core.spec import Cell, RunSpec
from tests.support import replay
from tests.support.full_disk import no_room
from tests.support.postgres import both
from tests.support.together import together
from tests.support.waiting import until

QUICK = Patience(0.01, 0.05)
HURRIED = Patience(0.01, 0.02, 0.05)


@pytest.fixture
def hasty(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that waits for no lock, and a recorder that soon writes into its journal."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0)
    monkeypatch.setattr(recorder, "JOURNAL_SECONDS", 0.0)
    return Store()


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another program holds the database, so that nobody can write."""
    with closing(sqlite3.connect(home / "store.sqlite", isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def claimed(store: Store) -> str:
    run_id = store.create(replay.a_spec())
    assert store.claim(run_id, process.me())
    return run_id


def without_progress(events: Sequence[Event]) -> list[Event]:
    """Which lines of progress there are depends on when they are written."""
    return [event for event in events if not isinstance(event, Progress)]


def test_a_locked_store_costs_a_run_nothing(hasty, home):
    run_id, said = claimed(hasty), replay.recorded(replay.a_spec())
    seen: list[bool] = []

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id) and hasty.status(run_id) == "running")
        with locked(home):
            yield from said[10:30]
            until(lambda: journal.needed_since(run_id))
            seen.append(said[29] in hasty.events(run_id))
        yield said[30]
        until(lambda: said[30] in hasty.events(run_id) and journal.needed_since(run_id) is None)
        with locked(home):
            yield from said[31:]
            until(lambda: journal.needed_since(run_id))

    assert worker.carry_out(hasty, run_id, engine=engine, patience=QUICK) == "finished"
    assert seen == [False]
    assert without_progress(hasty.events(run_id)) == without_progress(said)
    assert [number for number, _ in hasty.events_after(run_id)] == list(range(1, len(hasty.events(run_id)) + 1))
    assert len(hasty.results([run_id])[run_id]) == 9
    assert journal.last_beat(run_id) is None


def test_a_full_disk_that_is_freed_later_costs_a_run_nothing_and_is_said_meanwhile(hasty, home, capsys):
    """Nor has the journal any room meanwhile: memory is what keeps the events."""
    run_id, said = claimed(hasty), replay.recorded(replay.a_spec())
    failed, told = list[str](), list[str]()
    append = hasty.append

    def counted(*arguments: object, **named: object) -> None:
        try:
            append(*arguments, **named)
        except StoreTrouble as trouble:
            failed.append(str(trouble))
            raise

    hasty.append = counted

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id))
        with no_room(100):
            yield from said[10:]
            until(lambda: len(failed) >= 3)
            told.append(capsys.readouterr().err)
            assert journal.needed_since(run_id) is None

    assert worker.carry_out(hasty, run_id, engine=engine, patience=QUICK) == "finished"
    assert told[0].count("the run goes on and waits for its store: store sqlite:///") == 1, "once, after the first failure"
    assert "the disk is full or failing" in told[0]
    assert all("the disk is full" in trouble for trouble in failed)
    assert without_progress(hasty.events(run_id)) == without_progress(said)


@both
def test_a_write_whose_answer_is_lost_is_not_written_twice(hasty, monkeypatch):
    """As when a database restarts between taking a transaction and saying so."""
    run_id, said = claimed(hasty), [*replay.recorded(replay.a_spec()), a_classifier(0)]
    append, answers = hasty.append, iter((False, True, False))

    def unanswered(*arguments: object, **named: object) -> None:
        append(*arguments, **named)
        if not next(answers, True):
            raise StoreTrouble("store x: the connection was closed")

    monkeypatch.setattr(hasty, "append", unanswered)
    engine = lambda spec, device: iter(said)  # noqa: E731
    assert worker.carry_out(hasty, run_id, engine=engine, patience=QUICK) == "finished"
    assert without_progress(hasty.events(run_id)) == without_progress(said)[:-1]
    assert hasty.classifiers(run_id) == said[-1:]


@pytest.mark.parametrize("is_new_there", [False, True])
def test_a_run_whose_stores_file_is_taken_away_keeps_its_journal_and_says_so(hasty, home, is_new_there):
    """SQLite itself goes on in the file that nobody finds any more, as if all were well."""
    run_id, said = claimed(hasty), replay.recorded(replay.a_spec())
    (home / "away").mkdir()

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id) and hasty.status(run_id) == "running")
        for file in home.glob("store.sqlite*"):
            file.rename(home / "away" / file.name)
        if is_new_there:
            Store()
        yield from said[10:]

    with pytest.raises(StoreGone) as caught:
        worker.carry_out(hasty, run_id, engine=engine)
    assert str(caught.value) == (
        f"store sqlite:///{home}/store.sqlite: its file was deleted, moved or replaced while in use: put it back, or end "
        "all programs that use it and start anew; what it has not taken of this run is kept in "
        f"{home}/journals/{run_id}.jsonl and comes into the store when that is back"
    )
    for executor in (LocalExecutor(hasty), LocalExecutor(Store())):  # which have the file without a name, and a new one
        with suppress(StoreGone):
            executor.check()
    assert journal.needed_since(run_id) is not None
    for file in (home / "away").iterdir():
        file.replace(home / file.name)
    again = Store()
    LocalExecutor(again).check()
    assert again.status(run_id) == "finished"
    assert without_progress(again.events(run_id)) == without_progress(said)
    assert journal.needed_since(run_id) is None


def test_a_store_that_stays_away_gets_the_end_of_a_run_later(hasty, home):
    run_id, said = claimed(hasty), replay.recorded(replay.a_spec())

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id))
        held.__enter__()
        yield from said[10:]

    held = locked(home)
    with pytest.raises(StoreTrouble, match=r"is kept in .*journals.*and comes into the store when that is back"):
        worker.carry_out(hasty, run_id, engine=engine, patience=HURRIED)
    assert hasty.status(run_id) in ("starting", "running")
    held.__exit__(None, None, None)
    LocalExecutor(hasty).check()
    assert hasty.status(run_id) == "finished"
    assert without_progress(hasty.events(run_id)) == without_progress(said)
    assert journal.last_beat(run_id) is None


@pytest.mark.parametrize("end", [None, "finished"])
@both
def test_the_journal_of_a_dead_process_is_taken_in_once(store, end):
    """Many look at once, and again; the process died in the middle of a line."""
    run_id, said = store.create(replay.a_spec()), [*replay.recorded(replay.a_spec()), a_classifier(0)]
    store.claim(run_id)

    def dies() -> None:
        own = Store()
        own.attach(run_id, process.me())
        own.append(run_id, said[:20], first=1)
        mine = Journal(run_id)
        mine.begin()
        mine.keep(11, said[10:40])  # some of which the store has already
        mine.keep(41, said[40:])
        if end is not None:
            mine.keep_end(end, None)
        with mine.path.open("ab") as file:
            file.write(b'{"first": 99, "eve')
        os._exit(0)

    dead = multiprocessing.get_context("fork").Process(target=dies)
    dead.start()
    dead.join()
    for _ in range(2):
        together(lambda _: LocalExecutor(Store()).check(), 4)
        assert store.status(run_id) == (end or "lost")
        assert [event for _, event in store.events_after(run_id)] == said[:-1]
        assert store.classifiers(run_id) == said[-1:]
        assert len(store.results([run_id])[run_id]) == 9
        assert journal.last_beat(run_id) is None


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not tell which file a handle is of")
def test_the_disk_has_a_journal_and_its_name_when_it_says_so(store, monkeypatch):
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(os.readlink(f"/proc/self/fd/{handle}"))))
    mine = Journal(claimed(store))
    mine.begin()
    assert synced == [mine.path, mine.path.parent]
    assert mine.keep(1, replay.recorded(replay.a_spec())[:1])
    assert synced[2:] == [mine.path]


@both
def test_a_run_thought_lost_is_what_its_journal_says(store):
    """Where somebody who cannot see the journal looked first."""
    run_id = claimed(store)
    mine = Journal(run_id)
    mine.begin()
    mine.keep_end("finished", None)
    store.end(run_id, "lost", Failure("worker-died", "gone", ""))
    LocalExecutor(store).check()
    assert (store.status(run_id), store.get(run_id).error, store.get(run_id).error_kind) == ("finished", None, None)


def test_a_journal_counts_neither_for_a_later_process_nor_in_another_store(store, home):
    run_id = claimed(store)
    mine = Journal(run_id)
    mine.begin()
    mine.keep(1, replay.recorded(replay.a_spec()))
    mine.keep_end("finished", None)
    LocalExecutor(Store(f"sqlite:///{home}/other.sqlite")).check()
    assert journal.needed_since(run_id)
    store.end(run_id, "finished")
    with sqlite3.connect(home / "store.sqlite") as connection:
        connection.execute("UPDATE runs SET ticks = ticks + 1, status = 'running'")
    assert not journal.take_in(store, run_id)
    assert (store.status(run_id), store.events(run_id), journal.needed_since(run_id)) == ("running", (), None)


def test_a_journal_says_since_when_its_oldest_event_waits(store):
    mine = Journal(claimed(store))
    mine.begin()
    run_id = mine.path.stem
    assert journal.needed_since(run_id) is None
    before, said = time.time(), replay.recorded(replay.a_spec())
    mine.keep(1, said[:3])
    since = journal.needed_since(run_id)
    assert before <= since <= time.time()
    mine.keep(4, said[3:])
    assert journal.needed_since(run_id) == since
    mine.clear()
    assert journal.needed_since(run_id) is None


def test_what_is_deleted_for_good_leaves_no_file_behind(store):
    run_id = claimed(store)
    mine = Journal(run_id)
    mine.begin()
    mine.keep(1, replay.recorded(replay.a_spec()))
    log_file(run_id).parent.mkdir()
    log_file(run_id).write_text("a line of it")
    store.end(run_id, "lost")
    purge(store, "digits")
    assert journal.last_beat(run_id) is None
    assert not log_file(run_id).exists()


@both
def test_a_late_journal_brings_no_results_back_that_were_deleted_for_good(store):
    """The machine that holds it was away while its run counted as lost."""
    run_id = claimed(store)
    store.end(run_id, "lost", Failure("worker-died", "gone", ""))
    store.delete(run_id)
    assert empty_trash(store) == 1
    mine = Journal(run_id)
    mine.begin()
    assert mine.keep(1, replay.recorded(replay.a_spec()))
    assert mine.keep_end("finished", None)
    LocalExecutor(store).check()
    assert not journal.take_in(store, run_id)
    assert (store.status(run_id), store.events(run_id), store.results([run_id])) == ("lost", (), {run_id: []})
    assert journal.last_beat(run_id) is None, "nobody will want it"


def test_a_journal_that_finds_no_room_for_a_line_keeps_those_before(store):
    run_id, said = claimed(store), replay.recorded(replay.a_spec())
    mine = Journal(run_id)
    mine.begin()
    assert mine.keep(1, said[:5])
    with no_room(mine.path.stat().st_size + 50):
        assert not mine.keep(6, said[5:])
    assert mine.keep(6, said[5:7])
    store.end(run_id, "lost")
    assert journal.take_in(store, run_id)
    assert list(store.events(run_id)) == said[:7]


@pytest.mark.parametrize("content", [b"", b"\n", b"no json\n", b'{"machine": 1}\n', b"[]\n", b"\xff\n{}\n"])
def test_a_file_that_is_no_journal_harms_nobody(store, home, content):
    run_id = store.create(replay.a_spec())
    (home / "journals").mkdir()
    (home / "journals" / f"{run_id}.jsonl").write_bytes(content)
    (home / "journals" / "notes.jsonl").write_bytes(content)
    LocalExecutor(store).check()
    assert store.status(run_id) == "queued"


_BEGUN = '{"machine": "%s", "pid": 1, "ticks": 1}\n' % process.me().machine  # noqa: UP031 (braces)


@pytest.mark.parametrize("name", ["abc (conflicted copy).jsonl", ".jsonl", "notes.jsonl"])
def test_a_file_that_is_no_journal_of_a_run_is_set_aside(store, home, capsys, name):
    (home / "journals").mkdir()
    (home / "journals" / name).write_text(_BEGUN)
    for _ in range(2):
        LocalExecutor(store).check()
    assert [path.name for path in (home / "journals").iterdir()] == [f"{name}.damaged"]
    assert capsys.readouterr().err == f"journal '{name}': its name is none of a run; it is kept as '{name}.damaged'\n"


@pytest.mark.parametrize(
    "line",
    [
        '{"first": 1e400, "events": []}',
        '{"first": 99999999999999999999999, "events": [{"event": "Note", "level": "info", "text": "x"}]}',
        '{"first": "1", "events": []}',
        '{"first": 1, "events": [{"event": ["Note"]}]}',
        '{"end": ["finished"], "failure": null}',
        '{"end": "finishee", "failure": null}',
        '{"end": "failed", "failure": {"kind": "bad luck", "sentence": "x", "log": ""}}',
        '{"end": "failed", "failure": {"kind": "internal", "sentence": 3, "log": []}}',
        '{"end": "failed", "failure": "no"}',
        "[" * 200_000,
        "null",
    ],
)
@pytest.mark.parametrize("begun", [True, False])
def test_a_damaged_journal_is_set_aside_and_others_are_taken_in(store, home, line, begun):
    damaged, whole = claimed(store), store.create(replay.a_spec())
    kept = Journal(whole)
    with store.writing() as connection:  # a dead process had both
        dead = {"status": "running", "started": 1.0, "machine": process.me().machine, "pid": 1, "ticks": 1}
        for run_id, device in ((damaged, "here/cpu"), (whole, "here/cuda:0")):
            connection.execute(update(runs).where(runs.c.id == run_id).values(**dead, runs_on=device))
    kept.path.parent.mkdir()
    kept.path.write_text(_BEGUN + '{"end": "finished", "failure": null}\n')
    (home / "journals" / f"{damaged}.jsonl").write_text((_BEGUN if begun else "") + line + "\n")
    for _ in range(2):
        LocalExecutor(store).check()
    assert [store.status(run_id) for run_id in (damaged, whole)] == ["lost", "finished"]
    assert [path.name for path in (home / "journals").iterdir()] == [f"{damaged}.jsonl.damaged"]
    purge(store, "digits")
    assert list((home / "journals").iterdir()) == [], "what is deleted for good is so here, too"


def test_patience_grows_and_ends():
    patience = Patience(0.01, 0.03, 0.05)
    assert [patience.pause(failures) for failures in (1, 2, 3, 1000)] == [0.01, 0.02, 0.03, 0.03]
    calls: list[int] = []

    def away(n: int, error: type[StoreTrouble]) -> int:
        calls.append(n)
        if len(calls) < n:
            raise error("store x: away")
        return len(calls)

    assert QUICK.outlast(lambda: away(3, StoreTrouble)) == 3
    with pytest.raises(StoreTrouble, match="away"):
        patience.outlast(lambda: away(10**9, StoreTrouble))
    calls.clear()
    with pytest.raises(StoreUnknown):
        patience.outlast(lambda: away(2, StoreUnknown))
    assert len(calls) == 1


@both
def test_heartbeats_are_by_the_clock_of_the_database(store, monkeypatch):
    run_id = claimed(store)
    before = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 0.0)  # of a machine whose clock is wrong
        store.heartbeat(run_id, process.me())
        silent = store.get(run_id).silent_seconds
    run = store.get(run_id)
    assert before - 0.002 <= run.heartbeat <= time.time() + 0.002  # what SQLite's clock rounds to
    assert 0 <= silent < time.time() - before + 0.002
    assert "extract(epoch FROM clock_timestamp())" in str(select(database.now()).compile(dialect=postgresql.dialect()))


def a_classifier(task: int) -> Classifier:
    """What a model released, of no meaning."""
    content = base64.b64encode(bytes(range(10))).decode()
    return Classifier(Cell(math.inf, 0), task, "nearest", ("a", "b"), ("a", "b"), (("a", "b"),), {}, False, content)
