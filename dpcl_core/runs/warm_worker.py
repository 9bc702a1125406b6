"""At most one process that has already loaded what a run needs, kept ready by an app: the run's first point comes sooner.

Both ends of its pipe are here. The process says `here` when it listens. The app says, a line each: `load MODULE`, and once
`run RUN_ID`, which the process answers with `ready`; only then does the app say `go`. Until that word the process has not
touched the store, and the app may end it and start another one: a run is never worse off than without it. A pipe that is
closed before ends the process, so it outlives no app.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import IO

import dpcl_core
from dpcl_core.runs.subprocess_start import environment, log_file, spawn

FLAG = "--spare"  # in place of the id of a run
ENGINE = "dpcl_core.engine"
PROGRAM = Path(dpcl_core.__file__).resolve().parent
WANTED_SECONDS = 900.0  # nobody has looked for so long: its memory is given back
ANSWER_SECONDS = 1.0  # it answers at once, also while it loads; a run waits no longer for it
_AFTER_A_DEATH_SECONDS = 60.0  # one that ended unasked may do so again


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Who may soon start a run: the store's address, the modules that run needs, and until when that counts (monotonic)."""

    url: str
    modules: tuple[str, ...]
    until: float


@dataclass(slots=True)
class _Waiting:
    """A process that waits, its pipe, and what it was started from."""

    process: subprocess.Popen[bytes]
    orders: IO[bytes]
    origin: tuple[object, ...]
    loaded: set[str] = field(default_factory=set)
    here: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def started(cls, worker: Sequence[str], url: str) -> _Waiting:
        """Starts one. Raises OSError where the system cannot."""
        origin = _origin(url)
        with ExitStack() as opened:
            (theirs, ours), (heard, said) = os.pipe(), os.pipe()
            opened.callback(os.close, theirs)
            opened.callback(os.close, said)
            orders, answers = os.fdopen(ours, "wb", buffering=0), os.fdopen(heard, "rb")
            try:
                process = spawn([*worker, FLAG], url, stdin=theirs, stdout=said, stderr=subprocess.DEVNULL)
            except OSError:
                orders.close()
                answers.close()
                raise
        waiting = cls(process, orders, origin)
        threading.Thread(target=_hear, args=(answers, waiting.here, waiting.ready), name="spare", daemon=True).start()
        return waiting

    def say(self, order: str) -> None:
        """Raises OSError if it is gone."""
        self.orders.write(f"{order}\n".encode())

    def end(self) -> None:
        self.orders.close()
        self.process.kill()


class WarmWorker:
    """The spare process of this app process, if there is one; used from any thread."""

    def __init__(self, worker: Sequence[str]) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._wanted: _Wanted | None = None
        self._waiting: _Waiting | None = None
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """The number of the process that waits now."""
        waiting = self._waiting
        return None if waiting is None else waiting.process.pid

    @property
    def listens(self) -> bool:
        """Whether there is a process that would take a run over."""
        waiting = self._waiting
        return waiting is not None and waiting.here.is_set()

    def expect(self, url: str, *modules: str) -> None:
        """Notes that a run that needs these modules may soon be started in the store at this address. Starts nothing yet."""
        self._wanted = _Wanted(url, (ENGINE, *modules), time.monotonic() + WANTED_SECONDS)

    def keep(self, url: str, *, is_idle: bool) -> None:
        """Starts the process where one is wanted and the store at this address has nothing to do, and lets it load; ends one
        that is wanted no more. Called often."""
        wanted, now = self._wanted, time.monotonic()
        if wanted is None or wanted.url != url:
            return
        with self._lock:
            if self._waiting is not None and self._waiting.process.poll() is not None:
                self._give_up()
                self._not_before = now + _AFTER_A_DEATH_SECONDS
            if now > wanted.until:
                self._give_up()
            elif is_idle and now > self._not_before:
                try:
                    self._load(wanted)
                except OSError:
                    self._give_up()
                    self._not_before = now + _AFTER_A_DEATH_SECONDS

    def take(self, run_id: str, url: str) -> int | None:
        """Hands a claimed run to the process and gives its number; None: there is none that could carry it out now.

        A process that was started from another state of the program, of its environment or for another store is ended, as
        is one that does not listen yet or does not answer.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                return None
            try:
                if waiting.here.is_set() and waiting.origin == _origin(url):
                    waiting.say(f"run {run_id}")
                    if waiting.ready.wait(ANSWER_SECONDS):
                        waiting.say("go")
                        waiting.orders.close()
                        return waiting.process.pid
            except OSError:
                pass  # it is gone
            waiting.end()
            return None

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._give_up()

    def _load(self, wanted: _Wanted) -> None:
        if self._waiting is None:
            self._waiting = _Waiting.started(self._worker, wanted.url)
        for module in wanted.modules:
            if module not in self._waiting.loaded:
                self._waiting.say(f"load {module}")
                self._waiting.loaded.add(module)

    def _give_up(self) -> None:
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None


def wait_for_run() -> str:
    """The process's own end: loads what the app asks for until it hands over a run, and gives its id.

    From then on this process speaks into the log of that run and listens to nobody. What is not loaded by then the run loads
    itself, when it needs it.
    """
    orders: SimpleQueue[tuple[str, str]] = SimpleQueue()
    has_run = threading.Event()
    threading.Thread(target=_listen, args=(orders, has_run), name="orders", daemon=True).start()
    while True:
        order, name = orders.get()
        if order == "run":
            return name
        with suppress(Exception):  # the run that needs it says what is wrong with it
            if not has_run.is_set():
                import_module(name)


def _listen(orders: SimpleQueue[tuple[str, str]], has_run: threading.Event) -> None:
    """Hears the app, also while a library is being loaded; ends this process when the app is gone or does not want it."""
    with suppress(OSError):  # no log, no answer: the app starts another process, which can say why
        os.write(1, b"here\n")
        for line in sys.stdin.buffer:
            order, _, name = line.decode().strip().partition(" ")
            if order == "run":
                if not _agreed(name):
                    break
                has_run.set()
                orders.put((order, name))
                return
            orders.put((order, name))
    os._exit(0)


def _agreed(run_id: str) -> bool:
    """Answers the app; if it still wants this process, everything said from here on goes into the run's log."""
    log = os.open(log_file(run_id), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(1, b"ready\n")
    if sys.stdin.buffer.readline() != b"go\n":
        return False
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, fixed in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(ours, fixed)
    return True


def _hear(answers: IO[bytes], *expected: threading.Event) -> None:
    """Sets one event a line."""
    with answers:
        for _, event in zip(answers, expected, strict=False):
            event.set()


def _origin(url: str) -> tuple[object, ...]:
    """What a process depends on from its start: environment, folder, and the program's files as they are now."""
    files = [(path, path.stat()) for path in sorted(PROGRAM.rglob("*.py"))]
    return environment(url), os.getcwd(), [(str(path), found.st_mtime_ns, found.st_size) for path, found in files]
