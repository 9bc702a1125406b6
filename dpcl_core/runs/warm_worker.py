"""At most one process with the modules of a run already loaded, held ready by an app: the run's first point appears sooner.

Both ends of its pipe are here. The process sends `here` when it reads. The app sends, one per line, `load MODULE`, and once
`run RUN_ID`, which the process answers with `ready`; only then does the app send `go`. Until then the process has not
touched the store, and the app may end it and start another one: a run is never worse off than without it. If the pipe is
closed before, the process ends, so it never outlives the app.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from dpcl_core import paths
from dpcl_core.runs.process import log_file, spawn, worker_environment

FLAG = "--warm"  # in place of the id of a run
TIED = "--tied"  # before the id of a run whose worker ends when its standard input is closed
Tie = Literal["stop", "wait"]  # what the run then does
ENGINE = ("dpcl_core.engine", "dpcl_core.explorers.matching_log", "dpcl_core.attacks.catalog")
PROGRAM = Path(paths.__file__).resolve().parent
WANTED_SECONDS = 900.0  # after so long without `expect` the process is ended, to free its memory
ANSWER_SECONDS = 1.0  # it answers at once, even while it loads; a run waits no longer for it
_AFTER_A_DEATH_SECONDS = 60.0  # a process that ended by itself may do so again


@dataclass(slots=True)
class _Waiting:
    """A waiting process, its pipe, and the program state that it was started from."""

    process: subprocess.Popen[bytes]
    device: str
    origin: tuple[object, ...]
    loaded: set[str] = field(default_factory=set)
    here: threading.Event = field(default_factory=threading.Event)
    ready: threading.Event = field(default_factory=threading.Event)

    def say(self, order: str) -> None:
        """Sends one line. Raises OSError if the process is gone."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n".encode())
        self.process.stdin.flush()

    def hear(self) -> None:
        """Sets `here` and `ready`, one per line read."""
        assert self.process.stdout is not None
        with self.process.stdout as answers:
            for _, event in zip(answers, (self.here, self.ready), strict=False):
                event.set()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # the process is gone
            self.process.stdin.close()


class WarmWorker:
    """The waiting process of this app, if there is one; safe to use from any thread."""

    def __init__(self, worker: Sequence[str]) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._wanted: tuple[str, str, tuple[str, ...], float] | None = None  # store, device, modules, until (monotonic)
        self._waiting: _Waiting | None = None
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """The id of the process that waits now."""
        waiting = self._waiting
        return None if waiting is None else waiting.process.pid

    @property
    def listens(self) -> bool:
        """Whether a process is ready to take a run."""
        waiting = self._waiting
        return waiting is not None and waiting.here.is_set()

    def expect(self, url: str, *modules: str, device: str = "cpu") -> None:
        """Expects a run that needs these modules in the store at this address soon. Starts nothing yet."""
        self._wanted = url, device, (*ENGINE, *modules), time.monotonic() + WANTED_SECONDS

    def keep(self, url: str, *, is_idle: bool) -> None:
        """Starts a process if a run is expected and the store at this address is idle, and lets it load; ends one that is no
        longer expected. Called often."""
        wanted, now = self._wanted, time.monotonic()
        if wanted is None or wanted[0] != url:
            return
        _, device, modules, until = wanted
        with self._lock:
            is_dead = self._waiting is not None and self._waiting.process.poll() is not None
            if is_dead or now > until:
                self._give_up()
            if is_dead:
                self._not_before = now + _AFTER_A_DEATH_SECONDS
            if is_idle and self._not_before < now <= until:
                try:
                    self._load(url, device, modules)
                except OSError:
                    self._give_up()
                    self._not_before = now + _AFTER_A_DEATH_SECONDS

    def take(self, run_id: str, url: str, device: str) -> int | None:
        """Hands a claimed run to the waiting process and gives the process id; None: no process can take it now.

        A process that was started from another state of the program or environment, or for another store or device, is
        ended, and so is one that does not read yet or does not answer.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                return None
            try:
                if waiting.here.is_set() and waiting.origin == _origin(url, device):
                    waiting.say(f"run {run_id}")
                    if waiting.ready.wait(ANSWER_SECONDS):
                        waiting.say("go")
                        waiting.hang_up()
                        return waiting.process.pid
            except OSError:
                pass  # the process is gone
            waiting.process.kill()
            waiting.hang_up()
            return None

    def close(self) -> None:
        """Ends the process, if there is one."""
        with self._lock:
            self._give_up()

    def _load(self, url: str, device: str, modules: Sequence[str]) -> None:
        if self._waiting is not None and self._waiting.device != device:
            self._give_up()
        if self._waiting is None:
            origin, pipe = _origin(url, device), subprocess.PIPE
            process = spawn([*self._worker, FLAG], url, device, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            self._waiting = _Waiting(process, device, origin)
            threading.Thread(target=self._waiting.hear, name="warm worker", daemon=True).start()
        for module in modules:
            if module not in self._waiting.loaded:
                self._waiting.say(f"load {module}")
                self._waiting.loaded.add(module)

    def _give_up(self) -> None:
        if self._waiting is not None:
            self._waiting.process.kill()
            self._waiting.hang_up()
            self._waiting = None


def wait_for_run() -> str:
    """The process's own end: imports the modules that the app names until the app hands over a run, and gives its id.

    From then on this process writes to that run's log and reads no more orders. Modules not loaded by then are loaded by the
    run when it needs them.
    """
    orders: SimpleQueue[tuple[str, str]] = SimpleQueue()
    has_run = threading.Event()
    threading.Thread(target=_listen, args=(orders, has_run), name="orders", daemon=True).start()
    while True:
        order, name = orders.get()
        if order == "run":
            return name
        with suppress(Exception):  # the run that needs the module reports the error
            if not has_run.is_set():
                import_module(name)


def _listen(orders: SimpleQueue[tuple[str, str]], has_run: threading.Event) -> None:
    """Reads the app's orders, also while a library is being loaded; ends this process when the app is gone."""
    with suppress(OSError):  # no log, no answer: the app starts another process, which can report why
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
    """Answers the app; if the app sends `go`, redirects all output to the run's log. Gives whether it did."""
    log = os.open(log_file(run_id), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(1, b"ready\n")
    if sys.stdin.buffer.readline() != b"go\n":
        return False
    null = os.open(os.devnull, os.O_RDONLY)
    for ours, fixed in ((null, 0), (log, 1), (log, 2)):
        os.dup2(ours, fixed)
    return True


def _origin(url: str, device: str) -> tuple[object, ...]:
    """The inputs of a process at its start: environment, working folder, and the state of the program's files."""
    files = [(path, path.stat()) for path in sorted(PROGRAM.rglob("*.py"))]
    written = [(str(path), stat.st_mtime_ns, stat.st_size) for path, stat in files]
    return worker_environment(url, device), os.getcwd(), written
