"""Between a run and the store: sends events and heartbeats, hears of stop requests, and outlasts a store that is away.

Two threads, because a store that is away may hold up for minutes whoever asks it: one talks to the store; the other keeps
in the run's journal what the store has not taken within a second, gives the sign of life, and cuts off a step after a stop.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from dpcl_core import paths
from dpcl_core.errors import StoreRefused, StoreTrouble
from dpcl_core.events import Event, Progress, Started
from dpcl_core.runs import process
from dpcl_core.runs.journal import Journal, n_numbered
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import End, Failure
from dpcl_core.runs.store import Store
from dpcl_core.unforeseen import printable

TICK_SECONDS = 0.25  # longest delay of events on their way to the store, and of a stop request on its way here
GRACE_SECONDS = 1.75  # a step still running so long after a stop is cut off: a stop takes effect within three seconds
JOURNAL_SECONDS = 1.0  # what the store has not taken by then goes into the journal
_STOP_PATIENCE_SECONDS = 2.0  # for the end of a run that was stopped: somebody waits for it


class Recorder:
    """Writes down a run that this process carries out: `add` its events inside `with`, then `end` it.

    `failed_as` describes an error as a failure of the run; `on_cut_off` is called before this process is ended in the middle
    of a step.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        *,
        failed_as: Callable[[BaseException], Failure],
        on_cut_off: Callable[[], None],
        patience: Patience,
    ) -> None:
        self._store, self._run_id, self._patience = store, run_id, patience
        self._failed_as, self._on_cut_off = failed_as, on_cut_off
        self._journal = Journal(run_id)
        self._lock = threading.Lock()
        self._waiting = list[Event]()  # of no number yet
        self._sent = list[Event]()  # numbered from `_next` on; the store has not confirmed them
        self._kept = 0  # how many of `_sent` the journal has
        self._next = 1
        self._confirmed_at = time.monotonic()
        self._is_begin_due = False
        self._stopped_at: float | None = None
        self._trouble: Exception | None = None
        self._over, self._ended = threading.Event(), threading.Event()
        self._sender = threading.Thread(target=self._send, name="recorder", daemon=True)
        self._keeper = threading.Thread(target=self._keep, name="journal", daemon=True)

    @property
    def is_stopped(self) -> bool:
        """Whether the run should end now: a stop was requested, or the run was ended or deleted elsewhere."""
        return self._stopped_at is not None

    def add(self, event: Event) -> None:
        with self._lock:
            # Newer progress replaces an unwritten older one on the same line: which lines there are depends on no time.
            last = self._waiting[-1] if self._waiting else None
            if (
                isinstance(event, Progress)
                and isinstance(last, Progress)
                and (last.task, last.text) == (event.task, event.text)
            ):
                self._waiting.pop()
            self._waiting.append(event)

    def __enter__(self) -> None:
        self._journal.begin()
        self._next = self._patience.outlast(lambda: self._store.last_number(self._run_id)) + 1
        self._sender.start()
        self._keeper.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._sender.join()
        if self._trouble is not None and kind is None:
            raise self._trouble

    def end(self, status: End, failure: Failure | None) -> None:
        """Sends what is left and ends the run; of two concurrent ends the first counts.

        Raises StoreTrouble if the store stays away: everything then lies in the journal, which is taken in later.
        """

        def finish() -> None:
            try:
                if self._trouble is None:
                    self._flush()
                self._store.end(self._run_id, status, failure, by=process.me())
            except StoreTrouble:
                self._keep_all(status, failure)
                raise

        patience = self._patience
        if status == "cancelled":
            patience = Patience(patience.first_pause, patience.longest_pause, min(patience.give_up, _STOP_PATIENCE_SECONDS))
        try:
            patience.outlast(finish)
            self._journal.remove()
        except StoreTrouble as trouble:
            if not self._journal.holds_events:
                raise
            kept = f"what it has not taken of this run is kept in {self._journal.path}"
            raise type(trouble)(f"{trouble}; {kept} and comes into the store when that is back") from trouble
        finally:
            self._over.set()
            self._ended.set()
            if self._keeper.is_alive():
                self._keeper.join()

    # The thread that talks to the store

    def _send(self) -> None:
        failures = 0
        while not self._over.wait(self._patience.pause(failures) if failures else TICK_SECONDS):
            try:
                self._tick()
                failures = 0
            except StoreTrouble as trouble:
                if not failures:
                    print(printable(f"the run goes on and waits for its store: {trouble}"), file=sys.stderr, flush=True)
                failures += 1
            except Exception as trouble:  # no outage: the run is gone or was taken from here, or the program itself is wrong
                self._trouble = self._trouble or trouble
                self._stopped_at = self._stopped_at or time.monotonic()

    def _tick(self) -> None:
        self._flush()
        if self._store.heartbeat(self._run_id, process.me()) not in ("starting", "running") and self._stopped_at is None:
            self._stopped_at = time.monotonic()

    def _flush(self) -> None:
        with self._lock:
            self._number_waiting()
            batch, first = list(self._sent), self._next
        self._store.append(self._run_id, batch, first=first, by=process.me())
        self._is_begin_due |= any(isinstance(event, Started) for event in batch)
        with self._lock:
            del self._sent[: len(batch)]
            self._next += n_numbered(batch)
            self._kept = max(0, self._kept - len(batch))
            self._confirmed_at = time.monotonic()
            if self._kept == 0 and self._journal.holds_events:
                self._journal.clear()
        if self._is_begin_due:
            self._store.begin(self._run_id, by=process.me())
            self._is_begin_due = False

    def _number_waiting(self) -> None:
        self._sent += self._waiting
        self._waiting.clear()

    # The thread that needs no store

    def _keep(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self._journal.beat()
            if time.monotonic() - self._confirmed_at > JOURNAL_SECONDS:
                self._keep_events()
            if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE_SECONDS:
                self._cut_off()

    def _keep_events(self) -> bool:
        """Keeps in the journal what only memory has; whether the disk took it."""
        with self._lock:
            self._number_waiting()
            new, first = self._sent[self._kept :], self._next + n_numbered(self._sent[: self._kept])
            if new and not self._journal.keep(first, new):
                return False
            self._kept = len(self._sent)
            return True

    def _keep_all(self, status: End, failure: Failure | None) -> None:
        if self._keep_events() and not self._journal.holds_end:
            self._journal.keep_end(status, failure)

    def _cut_off(self) -> None:
        """Ends this process in the middle of a step; the events so far are in the store or in the journal."""
        if self._over.is_set():
            return  # the step has just ended by itself
        print(printable(str(self._trouble or "stopped in the middle of a step")), file=sys.stderr, flush=True)
        end: End = "cancelled" if self._trouble is None else "failed"
        failure = None if self._trouble is None else self._failed_as(self._trouble)
        try:
            self._keep_all(end, failure)  # what takes it in finds nothing that it does not have
            self._store.end(self._run_id, end, failure, by=process.me())
            self._on_cut_off()
        finally:
            os._exit(1)


# What has left the runs that this computer carried out, kept outside the store: a restored backup does not know it.
#
# A file for each run, to which a line `GROUP N` is appended before the results of a group's first N tasks leave. It outlives
# the run: a backup may have it under way, and it would draw its noise again for what somebody has seen.


_LINE = re.compile(rb"(\d{1,9}) (\d{1,9})")


def n_tasks(run_id: str) -> dict[int, int]:
    """By group, of how many tasks results have left this computer; a group without any is not in it.

    Raises StoreTrouble where that cannot be read, as StoreRefused where this user may not.
    """
    path, found = _path(run_id), dict[int, int]()
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return found
    except OSError as error:
        raise _trouble("read", error) from error
    for line in lines:
        if said := _LINE.fullmatch(line):  # a power cut may have left a part of the last one: nothing had left then
            group, n = map(int, said.groups())
            found[group] = max(n, found.get(group, 0))
    return found


def record(run_id: str, group: int, n: int) -> None:
    """Writes down that results of a group's first `n` tasks leave from now on; the disk has it when this returns.

    Raises StoreTrouble where the disk refuses, as StoreRefused where this user may not write: nothing may leave then.
    Written again where it stands already: an earlier attempt may have failed before the disk had it.
    """
    path = _path(run_id)
    try:
        is_new = not path.exists()
        paths.made(path.parent)
        handle = paths.opened(path, os.O_WRONLY | os.O_APPEND)
        with os.fdopen(handle, "ab", buffering=0) as file:  # appended whole: parts of a run may write at once
            file.write(b"\n%d %d" % (group, n))  # on a line of its own, also after a part of one
            os.fsync(file.fileno())
        if is_new:
            for folder in (path.parent, path.parent.parent):
                paths.keep_names(folder)
    except OSError as error:
        raise _trouble("written", error) from error


def _path(run_id: str) -> Path:
    return paths.inside(paths.home() / "released", f"{run_id}.txt", "run")


def _trouble(done: str, error: OSError) -> StoreTrouble:
    kind = StoreRefused if isinstance(error, PermissionError) else StoreTrouble
    return kind(f"what has left a run cannot be {done} in released/ of the home folder: {error.strerror or 'unknown error'}")
