"""Races of apps for runs, and outages of the store during runs, counted: the figures of `docs/outages.md`.

`python -m scripts.record_outages` takes some minutes and writes that page.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from dpcl_core import machine, presets
from dpcl_core.events import TaskLearned, of_kind
from dpcl_core.runs import executor, process
from dpcl_core.runs.executor import STUCK_SECONDS, LocalExecutor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from tests.support import postgres

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "outages.md"
RACES = 1000
APPS, THREADS = 2, 4
RACED = f"one waiting run, seen at once by {THREADS} threads of each of {APPS} apps"
AWAY_SECONDS = STUCK_SECONDS + 5.0  # longer than an app waits for a sign of life
CRASH_SECONDS = 5.0  # between two crashes
PRESET = "digits-cosine"
SEEDS = range(60)  # so many that a run is still under way when its store goes away


@dataclass(frozen=True, slots=True)
class Starts:
    """How races ended: how many, and in how many a run was started twice or more, or by nobody."""

    races: int
    twice: int
    never: int

    def __str__(self) -> str:
        return f"{self.twice} runs started twice, {self.never} not started"


def _spec() -> RunSpec:
    return replace(presets.load(PRESET), seeds=tuple(SEEDS))


def race(races: int) -> Starts:
    """Lets the threads of two apps look at the queue at the same moment, with one run in it, again and again."""
    store = Store()
    context = multiprocessing.get_context("fork")
    starts: Queue[str] = context.Queue()
    gate = context.Barrier(APPS * THREADS + 1)
    apps = [context.Process(target=_app, args=(store.url, races, gate, starts)) for _ in range(APPS)]
    for app in apps:
        app.start()
    store = Store()
    counts = list[int]()
    for _ in range(races):
        run_id = store.create(_spec())
        gate.wait()  # all look now
        gate.wait()  # all have looked
        started = Counter(starts.get() for _ in range(APPS * THREADS))
        counts.append(started[run_id])
        store.request_stop(run_id)  # if nobody has started it
        store.end(run_id, "cancelled")
    for app in apps:
        app.join()
    return Starts(races, sum(count > 1 for count in counts), sum(count == 0 for count in counts))


@dataclass(frozen=True, slots=True)
class _Counting(LocalExecutor):
    """An executor that starts no process, and notes which runs it would have started."""

    starts: Callable[[str], None] = lambda run_id: None

    def _start(self, run: Run) -> None:
        self.starts(run.id)


def _app(url: str, races: int, gate: Barrier, starts: Queue[str]) -> None:
    def look() -> None:
        mine = list[str]()
        executor = _Counting(store, starts=mine.append)
        for _ in range(races):
            gate.wait()
            executor.schedule()
            starts.put(mine.pop() if mine else "")
            gate.wait()

    store = Store(url)
    threads = [threading.Thread(target=look) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass(frozen=True, slots=True)
class Harm:
    """What an outage did to runs: results that are missing, and events that are there twice."""

    lost: int
    twice: int

    def __str__(self) -> str:
        return f"{self.lost} lost, {self.twice} events twice"


Row = tuple[str, str, Starts | Harm]  # what happens, how often it was tried, what was found


def harm(store: Store, run_ids: Sequence[str]) -> Harm:
    """Counts both over runs that are over."""
    lost = twice = 0
    for run_id in run_ids:
        lost += store.get(run_id).spec.n_cells - len(store.results([run_id])[run_id])
        learned = Counter((one.cell, one.task) for one in of_kind(store.events(run_id), TaskLearned))
        twice += sum(count - 1 for count in learned.values())
    return Harm(lost, twice)


def outage(away: Callable[[Store], AbstractContextManager[None]], seconds: float, *, kill: bool) -> Harm:
    """Takes the store away during a run while two apps look on.

    `kill`: the worker is killed meanwhile.
    """
    store = Store()
    run_id = store.create(_spec())
    LocalExecutor(store).submit(run_id)
    # After its first checkpoint: a run that dies before is started again by a person alone.
    _until(lambda: any(of_kind(store.events(run_id), TaskLearned)))
    worker = store.get(run_id).process
    assert worker is not None
    with _looked_after():
        with away(store):
            time.sleep(seconds / 2)
            if kill:
                process.end(worker)
            time.sleep(seconds / 2)
        _until(lambda: store.get(run_id).is_over)
    return harm(store, [run_id])


def crashes(server: postgres.Server) -> tuple[int, Harm]:
    """Crashes and restarts the server again and again until a run is over; gives how often."""
    store, n_crashes = Store(), 0
    run_id = store.create(_spec())
    LocalExecutor(store).submit(run_id)
    with _looked_after():
        while not Patience().outlast(lambda: store.get(run_id)).is_over:
            server.restart()
            n_crashes += 1
            time.sleep(CRASH_SECONDS)
    return n_crashes, harm(store, [run_id])


def unattended(server: postgres.Server, seconds: float) -> Harm:
    """Stops the server under an app whose pages nobody has open, with one run under way and another waiting."""
    store = Store()
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = str(free.getsockname()[1])
    app = subprocess.Popen(
        [sys.executable, "-m", "dpcl_core", "app", "--no-browser", "--port", port],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        run_ids = [store.create(_spec()) for _ in range(2)]
        _until(lambda: store.status(run_ids[0]) == "running")
        with _stopped(server, store):
            time.sleep(seconds)
        _until(lambda: all(store.get(run_id).is_over for run_id in run_ids))
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.wait()
    return harm(store, run_ids)


@contextmanager
def _looked_after() -> Iterator[None]:
    over = threading.Event()

    def look() -> None:
        executor.move(lambda: LocalExecutor(Store()), over)

    apps = [threading.Thread(target=look) for _ in range(APPS)]
    for app in apps:
        app.start()
    yield
    over.set()
    for app in apps:
        app.join()


@contextmanager
def _locked(store: Store) -> Iterator[None]:
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def _stopped(server: postgres.Server, _store: Store) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


def _until(what: Callable[[], bool]) -> None:
    while not what():
        time.sleep(0.1)


@contextmanager
def _home(url: str | None = None) -> Iterator[None]:
    """An empty home; the default store is in it, or at this address."""
    os.environ["DPCL_HOME"] = tempfile.mkdtemp(prefix="dpcl-outages-")
    os.environ.pop("DPCL_STORE", None)
    if url is not None:
        os.environ["DPCL_STORE"] = url
    yield
    shutil.rmtree(os.environ["DPCL_HOME"], ignore_errors=True)


def main() -> int:
    """Measures everything and writes the page; status 1 if anything was lost or was there or started twice."""
    found = [("a file", *row) for row in _in_a_file()] + [("PostgreSQL", *row) for row in _on_a_server()]
    rows = [(where, what, tried, str(result)) for where, what, tried, result in found]
    lines = [
        "# Outages",
        "",
        "Runs wait while their store is locked, full or restarting, and then go on. One whose process dies meanwhile goes",
        "on after its last task that the store has. Several apps may look after one store. Written by",
        "`python -m scripts.record_outages`, on a store in a file and on a PostgreSQL server that the script starts.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}.",
        "",
        "| store | what happens | tried | found |",
        "| --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    DOCUMENT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(any(result not in (Harm(0, 0), Starts(RACES, 0, 0)) for *_, result in found))


def _in_a_file() -> Iterator[Row]:
    with _home():
        yield RACED, f"{RACES:,} races", race(RACES)
    yield from _outages(f"locked for {AWAY_SECONDS:.0f} seconds during a run", _locked, lambda: None)


def _on_a_server() -> Iterator[Row]:
    with postgres.server() as server:
        names = map("runs{}".format, count())

        def empty() -> str:
            return server.create(next(names))

        with _home(empty()):
            yield RACED, f"{RACES:,} races", race(RACES)
        yield from _outages(f"stopped for {AWAY_SECONDS:.0f} seconds during a run", partial(_stopped, server), empty)
        n_cells = _spec().n_cells
        with _home(empty()):
            what = "the same, with one run under way and one waiting, and an app whose pages nobody has open"
            yield what, f"{2 * n_cells} results", unattended(server, AWAY_SECONDS)
        with _home(empty()):
            n_crashes, harmed = crashes(server)
            yield "crashed and restarted, again and again during a run", f"{n_crashes} crashes, {n_cells} results", harmed


def _outages(
    what: str, away: Callable[[Store], AbstractContextManager[None]], empty: Callable[[], str | None]
) -> Iterator[Row]:
    """A run in each of two empty homes: where features are kept already, it would be over too soon."""
    tried = f"{_spec().n_cells} results"
    with _home(empty()):
        yield what, tried, outage(away, AWAY_SECONDS, kill=False)
    with _home(empty()):
        yield "the same, and the run's process is killed meanwhile", tried, outage(away, AWAY_SECONDS, kill=True)


if __name__ == "__main__":
    sys.exit(main())
