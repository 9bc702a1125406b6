"""Races of apps for runs, and outages of the store during runs, counted: the figures of `docs/outages.md`.

`python -m scripts.record_outages` takes some minutes and writes that page.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from dpcl_core import machine, presets
from dpcl_core.errors import StoreTrouble
from dpcl_core.runs import journal, process
from dpcl_core.runs.executor import STUCK_SECONDS, LocalExecutor
from dpcl_core.runs.run import Run
from dpcl_core.runs.store import Store

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "outages.md"
RACES = 1000
APPS, THREADS = 2, 4
LOCKED_SECONDS = STUCK_SECONDS + 15.0  # longer than an app waits for a sign of life


@dataclass(frozen=True, slots=True)
class Starts:
    """How races ended: how many, and in how many a run was started twice or more, or by nobody."""

    races: int
    twice: int
    never: int


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
        run_id = store.create(presets.load("digits-cosine"))
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


def outage(locked_seconds: float, *, kill: bool) -> int:
    """Locks the store during a run while two apps look on; gives how many of its results are missing afterwards.

    `kill`: the worker is killed when everything is in its journal.
    """
    store, spec = Store(), presets.load("digits-cosine")
    run_id = store.create(spec)
    LocalExecutor(store).submit(run_id)
    _until(lambda: journal.last_beat(run_id) is not None)  # its process has begun
    with _looked_after():
        with _locked(store):
            end = time.monotonic() + locked_seconds
            _until(lambda: journal.is_needed(run_id))
            if kill:
                _until(lambda: run_id in journal.abandoned())  # it has written down its end
                worker = store.get(run_id).process
                assert worker is not None
                process.end(worker)
            _until(lambda: time.monotonic() > end)
        _until(lambda: store.get(run_id).is_over)
    return spec.n_cells - len(store.results([run_id])[run_id])


@contextmanager
def _looked_after() -> Iterator[None]:
    over = threading.Event()

    def look() -> None:
        executor = LocalExecutor(Store())
        while not over.wait(0.5):
            with suppress(StoreTrouble):
                executor.schedule()

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


def _until(what: Callable[[], bool]) -> None:
    while not what():
        time.sleep(0.1)


def main() -> int:
    """Measures everything and writes the page; status 1 if anything was lost or started twice."""
    os.environ["DPCL_HOME"] = tempfile.mkdtemp(prefix="dpcl-outages-")
    os.environ.pop("DPCL_STORE", None)
    starts = race(RACES)
    waited, killed = outage(LOCKED_SECONDS, kill=False), outage(LOCKED_SECONDS, kill=True)
    n_cells = presets.load("digits-cosine").n_cells
    rows = [
        (f"one waiting run, seen at once by {THREADS} threads of each of {APPS} apps", f"{starts.races:,} races",
         f"{starts.twice} runs started twice, {starts.never} not started"),
        (f"store locked for {LOCKED_SECONDS:.0f} seconds during a run", f"{n_cells} results", f"{waited} lost"),
        ("the same, and the run's process is killed meanwhile", f"{n_cells} results", f"{killed} lost"),
    ]  # fmt: skip
    lines = [
        "# Outages",
        "",
        "Runs go on while their store is locked, full or restarting; several apps may look after one store. Written by",
        "`python -m scripts.record_outages`, on a store in a file.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}.",
        "",
        "| what happens | tried | found |",
        "| --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    DOCUMENT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(any((starts.twice, starts.never, waited, killed)))


if __name__ == "__main__":
    sys.exit(main())
