"""A store that is locked, full or gone while a run goes on costs the run nothing that left, and nothing is written twice."""

import base64
import io
import math
import multiprocessing
import os
import re
import sqlite3
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, select
from sqlalchemy.dialects import postgresql

from dpcl_core import cli
from dpcl_core.errors import StoreGone, StoreTrouble, StoreUnknown
from dpcl_core.events import Classifier, Event, Note, Progress, TaskLearned
from dpcl_core.methods.common.state import Checkpoint
from dpcl_core.runs import database, process, resumption, worker
from dpcl_core.runs.administration import empty_trash, purge
from dpcl_core.runs.executor import LocalExecutor
from dpcl_core.runs.process import Patience, log_file
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell, RunSpec
from tests.data.making import put
from tests.support import replay
from tests.support.asserting import in_turn, raising, refusal_of, refuses
from tests.support.full_disk import no_room
from tests.support.postgres import both
from tests.support.together import together
from tests.support.waiting import until
from tests.support.watching import watched
from tests.test_durable_runs import results

QUICK = Patience(0.01, 0.05)
HURRIED = Patience(0.01, 0.02, 3.0)  # longer than this process's own threads hold the file against one another


@pytest.fixture
def hasty(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that waits for no lock."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0)
    return Store()


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Another program holds the database, so that nobody can write."""
    with closing(sqlite3.connect(home / "store.sqlite", isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def without_progress(events: Sequence[Event]) -> list[Event]:
    """Which lines of progress there are depends on when they are written."""
    return [event for event in events if not isinstance(event, Progress)]


def heard_of_failures(store: Store) -> list[str]:
    """What the store has refused to take of a run's events, from now on."""
    failed, append = list[str](), store.append

    def heard(*arguments: object, **named: object) -> None:
        try:
            append(*arguments, **named)
        except StoreTrouble as trouble:
            failed.append(str(trouble))
            raise

    store.append = heard
    return failed


def test_a_locked_store_costs_a_run_nothing(hasty, home):
    run_id, said = replay.claim(hasty), replay.recorded(replay.a_spec())
    seen, failed = list[bool](), heard_of_failures(hasty)

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id) and hasty.status(run_id) == "running")
        with locked(home):
            yield from said[10:30]
            until(lambda: len(failed) >= 2)
            seen.append(said[29] in hasty.events(run_id))
        yield said[30]
        until(lambda: said[30] in hasty.events(run_id))
        failed.clear()
        with locked(home):
            yield from said[31:]
            until(lambda: len(failed) >= 2)

    assert worker.carry_out(hasty, run_id, engine=engine, patience=QUICK) == "finished"
    assert seen == [False]
    assert without_progress(hasty.events(run_id)) == without_progress(said)
    assert [number for number, _ in hasty.events_after(run_id)] == list(range(1, len(hasty.events(run_id)) + 1))
    assert len(hasty.results([run_id])[run_id]) == 9


@pytest.mark.parametrize("is_log_full", [False, True])
def test_a_full_disk_that_is_freed_later_costs_a_run_nothing_and_is_said_meanwhile(hasty, monkeypatch, capsys, is_log_full):
    """Of a run that an app starts, standard error is a file, by default on the disk of the store."""
    run_id, said = replay.claim(hasty), replay.recorded(replay.a_spec())
    failed, told = heard_of_failures(hasty), list[str]()

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id))
        with open("/dev/full", "wb", buffering=0) as full, monkeypatch.context() as patch, no_room(100):
            if is_log_full:
                patch.setattr("sys.stderr", io.TextIOWrapper(full, write_through=True))
            yield from said[10:]
            until(lambda: len(failed) >= 3)
            told.append(capsys.readouterr().err)

    assert worker.carry_out(hasty, run_id, engine=engine, patience=QUICK) == "finished"
    if not is_log_full:
        assert told[0].count("the run goes on and waits for its store: store sqlite:///") == 1, "once, at the first failure"
        assert "the disk is full or failing" in told[0]
    assert all("the disk is full" in trouble for trouble in failed)
    assert without_progress(hasty.events(run_id)) == without_progress(said)


@both
def test_a_write_whose_answer_is_lost_is_not_written_twice(hasty, monkeypatch):
    """As when a database restarts between taking a transaction and saying so."""
    run_id, said = replay.claim(hasty), [*replay.recorded(replay.a_spec()), a_classifier(0)]
    lost = StoreTrouble("store x: the connection was closed")
    watched(monkeypatch, hasty, "append", in_turn([lost, None, lost], lambda *_: None))
    assert worker.carry_out(hasty, run_id, engine=lambda spec, device: iter(said), patience=QUICK) == "finished"
    assert without_progress(hasty.events(run_id)) == without_progress(said)[:-1]
    assert hasty.classifiers(run_id) == said[-1:]


@pytest.mark.parametrize("is_new_there", [False, True])
def test_a_run_whose_stores_file_is_taken_away_ends_and_says_so(hasty, home, is_new_there):
    """SQLite itself goes on in the file that nobody finds any more, as if all were well."""
    run_id, said = replay.claim(hasty), replay.recorded(replay.a_spec())
    (home / "away").mkdir()

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        yield from said[:10]
        until(lambda: said[9] in hasty.events(run_id) and hasty.status(run_id) == "running")
        for file in home.glob("store.sqlite*"):
            file.rename(home / "away" / file.name)
        if is_new_there:
            Store()
        yield from said[10:]

    assert str(refusal_of(worker.carry_out, hasty, run_id, engine=engine, error=StoreGone)) == (
        f"store sqlite:///{home}/store.sqlite: its file was deleted, moved or replaced while in use: put it back, or end "
        "all programs that use it and start anew"
    )
    for executor in (LocalExecutor(hasty), LocalExecutor(Store())):  # which have the file without a name, and a new one
        with suppress(StoreGone):
            executor.check()
    for file in (home / "away").iterdir():
        file.replace(home / file.name)
    again = Store()
    LocalExecutor(again).check()
    events = without_progress(again.events(run_id))
    assert events == without_progress(said)[: len(events)]


def test_a_run_whose_store_stays_away_goes_on_later_after_its_last_task_and_draws_nothing_twice(hasty, home):
    """Noise is the system's: what was drawn again would be another result. The process gives up and ends."""
    spec = replay.a_spec(epsilons=(1.0,), seeds=(0, 1), tasks=5)
    run_id, held, left = replay.claim(hasty, spec), locked(home), list[Event]()

    def heard(event: Event) -> None:
        left.append(event)
        if isinstance(event, TaskLearned) and (event.task, event.cell.seed) == (2, 0):
            held.__enter__()

    refuses("locked", worker.carry_out, hasty, run_id, on_event=heard, patience=HURRIED, error=StoreTrouble)
    assert hasty.status(run_id) in ("starting", "running")
    held.__exit__(None, None, None)
    replay.alter(hasty, run_id, ticks=1)  # a process that is dead
    LocalExecutor(hasty).check()
    assert hasty.status(run_id) == "queued", hasty.get(run_id).error
    assert worker.run_here(hasty, run_id).status == "finished"
    stored = results([*hasty.events(run_id), *hasty.classifiers(run_id)])
    seen = results(left)
    assert {event["task"] for event in seen if event["event"] == "TaskLearned"} == {0, 1, 2}
    assert all(event in stored for event in seen)
    assert sum(event["event"] == "TaskLearned" for event in stored) == 10


def test_what_is_deleted_for_good_leaves_no_file_behind(store):
    run_id = replay.claim(store)
    put(log_file(run_id), "a line of it")
    store.end(run_id, "lost")
    purge(store, "digits")
    assert not log_file(run_id).exists()


@both
def test_a_late_process_brings_no_results_back_that_were_deleted_for_good(store):
    """It was away while its run counted as lost."""
    run_id, said = replay.claim(store), replay.recorded(replay.a_spec())
    store.end(run_id, "lost", Failure("worker-died", "gone", ""))
    store.delete(run_id)
    assert empty_trash(store) == 1
    me = process.me()
    for act in (lambda: store.append(run_id, said, first=1, by=me), lambda: store.end(run_id, "finished", by=me)):
        refuses("no longer carried out by this process", act)
    assert (store.status(run_id), store.events(run_id), store.results([run_id])) == ("lost", (), {run_id: []})


def test_patience_grows_and_ends():
    patience = Patience(0.01, 0.03, 0.05)
    assert [patience.pause(failures) for failures in (1, 2, 3, 1000)] == [0.01, 0.02, 0.03, 0.03]
    away, unknown = StoreTrouble("store x: away"), StoreUnknown("store x: unknown")
    assert QUICK.outlast(in_turn([away, away], lambda: "here")) == "here"
    refuses("away", patience.outlast, raising(away), error=StoreTrouble)
    refuses("unknown", patience.outlast, in_turn([unknown, away], lambda: "here"), error=StoreUnknown)


@both
def test_heartbeats_are_by_the_clock_of_the_database(store, monkeypatch):
    run_id = replay.claim(store)
    before = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 0.0)  # of a machine whose clock is wrong
        store.heartbeat(run_id, process.me())
        silent = store.get(run_id).silent_seconds
    assert before - 0.002 <= store.get(run_id).heartbeat <= time.time() + 0.002  # what SQLite's clock rounds to
    assert 0 <= silent < time.time() - before + 0.002
    assert "extract(epoch FROM clock_timestamp())" in str(select(database.now()).compile(dialect=postgresql.dialect()))


def a_classifier(task: int) -> Classifier:
    """What a model released, of no meaning."""
    content = base64.b64encode(bytes(range(10))).decode()
    return Classifier(Cell(math.inf, 0), task, "nearest", ("a", "b"), ("a", "b"), (("a", "b"),), {}, False, content)


# What the store refuses, and what it keeps when the disk, a permission or another program is in the way.


@pytest.mark.parametrize(("url", "says"), [
    ("mysql://host/name", "must be sqlite:///PATH or postgresql"),
    ("bogus://x", "must be sqlite:///PATH or postgresql"),
    ("sqlite://", "a store in memory is seen by one process alone"),
    ("sqlite:////dev/null/x/store.sqlite", "its folder cannot be made"),
    ("sqlite:////proc/store.sqlite", "cannot be opened"),
])
def test_an_impossible_store_is_refused_in_one_sentence(url, says):
    refuses(f"^store {re.escape(url)}: .*{says}", Store, url, error=StoreTrouble)


@pytest.mark.parametrize("url", [
    "postgresql+psycopg://someone:secret@127.0.0.1:1/runs",
    "postgresql://someone:secret@127.0.0.1:1/runs",
    "postgresql://someone:se@cret/secret@127.0.0.1:54 32/runs",
    "gopher://someone:secret@127.0.0.1/runs",
    "gopher://someone:secret@127.0.0.1/runs?sslpassword=secret&user=x&Password=secret",
    "postgresql://someone:x@127.0.0.1:1/runs?sslpassword=secret",
])
def test_a_password_is_never_printed(url):
    """Nor with an address that cannot be read, whose own error repeats it: the whole chain of errors is looked at."""
    refused = refusal_of(Store, url, error=StoreTrouble)
    assert "someone:***@127.0.0.1" in str(refused)
    assert "secret" not in "".join(traceback.format_exception(refused))


@pytest.mark.parametrize("url", [
    "just/a/path",
    "host=db password=secret dbname=runs",
    "someone:secret@127.0.0.1/runs",
    "//someone:secret@127.0.0.1/runs",
    "postgresql:/someone:secret@127.0.0.1/runs",
    "postgresql://someone:secret",
    "postgresql://someone:secret@127.0.0.1:port/runs",
])
def test_an_address_that_cannot_be_read_is_not_repeated(url, monkeypatch, capsys):
    """By no command, nor by the page that a server would show to every visitor."""
    refused = refusal_of(Store, url, error=StoreUnknown)
    assert str(refused) == (
        "store: the address, in DPCL_STORE or --store, must be sqlite:///PATH or postgresql://USER@HOST/NAME; "
        "it is not shown here, as it may hold a password"
    )
    assert url not in "".join(traceback.format_exception(refused))
    monkeypatch.setenv("DPCL_STORE", url)
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("it started"))
    for command in (["show", "0123456789ab"], ["app", "--no-browser"]):
        assert (cli.main(command), capsys.readouterr()) == (2, ("", f"{refused}\n"))


def test_a_database_without_an_encoding_keeps_every_letter(server, home):
    """As on a server whose locale is C."""
    url = server.create("no_encoding", like="template0", encoding="SQL_ASCII")
    try:
        store = Store(url)
        run_id = store.create(replay.a_spec())
        store.rename(run_id, "ε = ∞, Ångström, 数字")
        again = Store(url)
        assert again.get(run_id).name == "ε = ∞, Ångström, 数字"
        for each in (store, again):
            each._reads.dispose()
    finally:
        server.drop("no_encoding")


@pytest.mark.parametrize("version", ["0", str(int(database.LAYOUT) + 1), "4a"])
def test_a_store_of_another_layout_is_refused_and_left_alone(store, home, version):
    run_id = store.create(replay.a_spec())
    _set_version(home, version)
    refuses(f"layout {version}, but this program reads layout {database.LAYOUT}", Store, error=StoreTrouble)
    _set_version(home, database.LAYOUT)
    assert Store().status(run_id) == "queued"


def _set_version(home: Path, version: str) -> None:
    with sqlite3.connect(home / "store.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (version,))


def test_the_database_of_another_program_is_left_alone(home):
    with sqlite3.connect(home / "store.sqlite") as connection:
        connection.execute("CREATE TABLE runs (x)")
    refuses("database of another program", Store, error=StoreTrouble)
    with sqlite3.connect(home / "store.sqlite") as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["runs"]


def test_a_damaged_file_is_named_and_kept(store, home):
    path = home / "store.sqlite"
    for _ in range(50):
        replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec())[:20])
    store._reads.dispose()
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + os.urandom(len(whole) - 8192))
    refuses("damaged", lambda: Store().list_runs(), error=StoreTrouble)
    path.write_bytes(b"this is a letter, not a database" * 300)
    refuses("the file is damaged or no store", Store, error=StoreTrouble)
    assert path.read_bytes().startswith(b"this is a letter")


def test_a_store_locked_by_another_program_is_told_from_a_broken_one(store, home, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    impatient = Store()
    with locked(home):
        assert impatient.list_runs() == []  # readers do not wait for a writer
        refuses(r"locked for 0\.2 seconds; try again", impatient.create, replay.a_spec(), error=StoreTrouble)
    assert impatient.status(impatient.create(replay.a_spec())) == "queued"


def test_a_read_only_store_is_read_and_not_written():
    with tempfile.TemporaryDirectory() as folder:  # below a folder that everyone may enter
        path = Path(folder) / "store.sqlite"
        store = Store(f"sqlite:///{path}")
        run_id = replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec()))
        store._reads.dispose()
        path.chmod(0o444)
        Path(folder).chmod(0o777)
        with _nobody():
            mine = Store(f"sqlite:///{path}")
            assert (mine.status(run_id), len(mine.events_after(run_id))) == ("finished", 63)
            for act in (lambda: mine.create(replay.a_spec()), lambda: mine.rename(run_id, "x")):
                said = f"^store sqlite:///{path}: is read-only, so nothing new can be kept; what is stored is untouched$"
                refuses(said, act, error=StoreTrouble)
            mine._reads.dispose()
        for leftover in Path(folder).glob("store.sqlite-*"):
            leftover.unlink()
        Path(folder).chmod(0o555)
        with _nobody(), pytest.raises(StoreTrouble, match="is read-only"):
            Store(f"sqlite:///{path}").list_runs()
        Path(folder).chmod(0o755)


def test_a_full_disk_loses_nothing_that_was_stored(store, home):
    said = replay.recorded(replay.a_spec())
    kept = replay.fill(store, replay.a_spec(), said)

    def write_until_it_fails() -> None:
        while True:
            replay.fill(store, replay.a_spec(), said)

    with no_room(200_000):
        full = "the disk is full or failing.*what was stored before is untouched$"
        refuses(full, write_until_it_fails, error=StoreTrouble)
    for opened in (store, Store()):
        assert [event for _, event in opened.events_after(kept)] == said
        opened.rename(kept, "there is room again")
        assert all(len(opened.events_after(run.id)) in (0, len(said)) for run in opened.list_runs())


def test_a_process_killed_in_the_middle_of_writing_loses_no_finished_write(store, home):
    said = replay.recorded(replay.a_spec())
    kept = replay.fill(store, replay.a_spec(), said)
    under_way = replay.fill(store, replay.a_spec(), [], status="running")

    def write_for_ever() -> None:
        own = Store()
        while True:
            own.append(under_way, [Note("info", "x" * 2000)] * 7)

    writer = multiprocessing.get_context("fork").Process(target=write_for_ever)
    writer.start()
    while len(store.events_after(under_way)) < 50:
        time.sleep(0.01)
    writer.kill()
    writer.join()
    again = Store()
    assert [event for _, event in again.events_after(kept)] == said
    assert len(again.events_after(under_way)) % 7 == 0
    with sqlite3.connect(home / "store.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_many_who_write_at_once_wait_their_turn(store):
    ids = [replay.fill(store, replay.a_spec(), [], status="running", device=f"cuda:{number}") for number in range(4)]
    failed: list[Exception] = []

    def write(number: int) -> None:
        try:
            for _ in range(50):
                store.append(ids[number], [Note("info", "x")] * 3)
                store.heartbeat(ids[number], process.me())
        except Exception as error:
            failed.append(error)

    together(write, 4)
    assert failed == []
    assert [len(store.events_after(run_id)) for run_id in ids] == [150] * 4


def test_what_a_power_cut_must_not_take_back_is_on_the_disk_when_it_is_said(store, home):
    """A checkpoint above all: its noise would be drawn again for what has left, and charged once."""
    run_id = replay.claim(store, replay.a_spec())
    said: list[object] = []

    @event.listens_for(store._reads, "commit")
    def committed(connection: Connection) -> None:
        said.append({1: "normal", 2: "full"}[connection.exec_driver_sql("PRAGMA synchronous").scalar_one()])

    resumption.Stored(store, run_id).save(Checkpoint(0, 0, (), None, None))
    store.heartbeat(run_id, process.me())
    store.append(run_id, [Progress("training", 1, 2, None, "training")])
    store.append(run_id, [Note("info", "x")])
    store.end(run_id, "finished", by=process.me())
    assert said == ["full", "normal", "normal", "full", "full"]


def test_a_commit_waits_for_the_disk_whatever_is_usual_on_the_server(server, home):
    url = server.create("hasty", like="empty_store")
    try:
        hasty = Store(url)
        with hasty.writing() as connection:
            connection.exec_driver_sql("ALTER DATABASE hasty SET synchronous_commit = off")
        again = Store(url)
        with again.reading() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        for each in (hasty, again):
            each._reads.dispose()
    finally:
        server.drop("hasty")


def test_the_store_writes_ahead_and_keeps_its_references(store, home):
    with store.reading() as connection:
        names = ("journal_mode", "foreign_keys", "busy_timeout")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
    assert found == ["wal", 1, 10_000]


@contextmanager
def _nobody() -> Iterator[None]:
    """The superuser, whom no permission stops, is somebody else in here."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)
