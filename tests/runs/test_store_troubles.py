"""What the store refuses, and what it keeps when the disk, a permission or another program is in the way."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from dpcl_core import cli
from dpcl_core.checkpoints import Checkpoint
from dpcl_core.errors import StoreTrouble, StoreUnknown
from dpcl_core.events import Note, Progress
from dpcl_core.runs import database, process, resumption
from dpcl_core.runs.store import Store
from tests.runs.test_outages import locked
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.full_disk import no_room
from tests.support.together import together


@pytest.mark.parametrize(("url", "says"), [
    ("mysql://host/name", "must be sqlite:///PATH or postgresql"),
    ("bogus://x", "must be sqlite:///PATH or postgresql"),
    ("sqlite://", "a store in memory is seen by one process alone"),
    ("sqlite:////dev/null/x/store.sqlite", "its folder cannot be made"),
    ("sqlite:////proc/store.sqlite", "cannot be opened"),
])
def test_an_impossible_store_is_refused_in_one_sentence(url, says):
    with pytest.raises(StoreTrouble, match=says) as caught:
        Store(url)
    assert str(caught.value).startswith(f"store {url}: ")
    assert "\n" not in str(caught.value)


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
    with pytest.raises(StoreTrouble) as caught:
        Store(url)
    assert "someone:***@127.0.0.1" in str(caught.value)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


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
    with pytest.raises(StoreUnknown) as caught:
        Store(url)
    assert str(caught.value) == (
        "store: the address, in DPCL_STORE or --store, must be sqlite:///PATH or postgresql://USER@HOST/NAME; "
        "it is not shown here, as it may hold a password"
    )
    assert url not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("DPCL_STORE", url)
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("it started"))
    for command in (["show", "0123456789ab"], ["app", "--no-browser"]):
        assert (cli.main(command), capsys.readouterr()) == (2, ("", f"{caught.value}\n"))


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
                with pytest.raises(StoreTrouble) as caught:
                    act()
                assert str(caught.value) == (
                    f"store sqlite:///{path}: is read-only, so nothing new can be kept; what is stored is untouched"
                )
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

    with no_room(200_000), pytest.raises(StoreTrouble) as caught:
        write_until_it_fails()
    assert "the disk is full or failing" in str(caught.value)
    assert str(caught.value).endswith("what was stored before is untouched")
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
