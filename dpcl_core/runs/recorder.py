"""Between a run and the store: sends events and heartbeats, hears of stop requests, and outlasts a store that is away.

What the store has not taken waits in memory. A process that dies meanwhile loses nothing that anybody saw: results leave
after their checkpoint, which the store has (`dpcl_core.checkpoints`). Two threads, because a store that is away may hold up
for minutes whoever asks it: one talks to the store, the other cuts off a step after a stop.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from dpcl_core import paths, unforeseen
from dpcl_core.errors import StoreRefused, StoreTrouble
from dpcl_core.events import Classifier, Event, Progress, Started
from dpcl_core.runs import process
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import End, Failure
from dpcl_core.runs.store import Store

TICK_SECONDS = 0.25  # longest delay of events on their way to the store, and of a stop request on its way here
GRACE_SECONDS = 1.75  # a step still running so long after a stop is cut off: a stop takes effect within three seconds
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
        self._lock = threading.Lock()
        self._waiting = list[Event]()  # of no number yet
        self._sent = list[Event]()  # numbered from `_next` on; the store has not confirmed them
        self._next = 1
        self._is_begin_due = False
        self._stopped_at: float | None = None
        self._trouble: Exception | None = None
        self._over, self._ended = threading.Event(), threading.Event()
        self._sender = threading.Thread(target=self._send, name="recorder", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="stops", daemon=True)

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
        self._next = self._patience.outlast(lambda: self._store.last_number(self._run_id)) + 1
        self._sender.start()
        self._watcher.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._sender.join()
        if self._trouble is not None and kind is None:
            raise self._trouble

    def end(self, status: End, failure: Failure | None) -> None:
        """Sends what is left and ends the run; of two concurrent ends the first counts.

        Raises StoreTrouble if the store stays away: the run then goes on after its last checkpoint, as after a crash.
        """

        def finish() -> None:
            if self._trouble is None:
                self._flush()
            self._store.end(self._run_id, status, failure, by=process.me())

        patience = self._patience
        if status == "cancelled":
            patience = Patience(patience.first_pause, patience.longest_pause, min(patience.give_up, _STOP_PATIENCE_SECONDS))
        try:
            patience.outlast(finish)
        finally:
            self._over.set()
            self._ended.set()
            if self._watcher.is_alive():
                self._watcher.join()

    def _send(self) -> None:
        failures = 0
        while not self._over.wait(self._patience.pause(failures) if failures else TICK_SECONDS):
            try:
                self._flush()
                status = self._store.heartbeat(self._run_id, process.me())
                if status not in ("starting", "running"):
                    self._stopped_at = self._stopped_at or time.monotonic()
                failures = 0
            except StoreTrouble as trouble:
                if not failures:
                    unforeseen.say(f"the run goes on and waits for its store: {trouble}")
                failures += 1
            except Exception as trouble:  # no outage: the run is gone or was taken from here, or the program itself is wrong
                self._trouble = self._trouble or trouble
                self._stopped_at = self._stopped_at or time.monotonic()

    def _flush(self) -> None:
        with self._lock:
            self._sent += self._waiting
            self._waiting.clear()
        self._store.append(self._run_id, self._sent, first=self._next, by=process.me())
        self._is_begin_due |= any(isinstance(event, Started) for event in self._sent)
        self._next += sum(not isinstance(event, Classifier) for event in self._sent)  # classifiers have no number
        self._sent.clear()
        if self._is_begin_due:
            self._store.begin(self._run_id, by=process.me())
            self._is_begin_due = False

    def _watch(self) -> None:
        """Ends this process where a step goes on after a stop; the other thread may be held up by the store."""
        while not self._ended.wait(TICK_SECONDS):
            if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE_SECONDS:
                self._cut_off()

    def _cut_off(self) -> None:
        """Ends this process in the middle of a step; the other thread has sent the events before it."""
        if self._over.is_set():
            return  # the step has just ended by itself
        unforeseen.say(str(self._trouble or "stopped in the middle of a step"))
        end: End = "cancelled" if self._trouble is None else "failed"
        try:
            failure = None if self._trouble is None else self._failed_as(self._trouble)
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
