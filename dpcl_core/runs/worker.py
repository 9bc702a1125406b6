"""Carries out one run: python -m dpcl_core.runs.worker RUN_ID [--store URL]; the terminal does so in its own process.

With `--spare` in place of the id it loads what runs need, and waits for the app to say which run it is.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from types import TracebackType

from dpcl_core.errors import BadInput, StoreTrouble, failure_kind
from dpcl_core.events import Event, Progress, Started
from dpcl_core.runs import auditor, process, tuner, warm_worker
from dpcl_core.runs.executor import WORKER, Executor, LocalExecutor
from dpcl_core.runs.store import End, Failure, Run, Status, Store
from dpcl_core.runs.tables import ACTIVE
from dpcl_core.runs.tuner import Engine
from dpcl_core.spec import RunSpec

TICK_SECONDS = 0.25  # events are at most so late in the store, and a stop is heard so soon
GRACE_SECONDS = 1.75  # a step that has not ended so long after a stop is cut off: a stop takes effect within three seconds
_QUEUE_SECONDS = 0.25


def real_engine(spec: RunSpec, device: str) -> Iterator[Event]:
    """The engine, loaded when a run begins: it brings the heavy libraries along."""
    _calm_threads()
    from dpcl_core import engine

    return engine.run(spec, device=device)


def _calm_threads() -> None:
    """Threads of a network's layers sleep while they wait for one another; to be said before torch is loaded.

    Spinning, two of them on two busy cores took six times as long as one (2026-11-21).
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def default_device() -> str:
    """`cuda:0` where there is a graphics card that the installed torch can use, else `cpu`; loads no torch to find out."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "cpu"
    try:
        has_cuda = "+cpu" not in version("torch")
    except PackageNotFoundError:
        return "cpu"
    there = Path("/dev/nvidia0").exists() if sys.platform == "linux" else which("nvidia-smi") is not None
    return "cuda:0" if has_cuda and there else "cpu"


def main(arguments: Sequence[str] | None = None, *, engine: Engine | None = None, worker: Sequence[str] = WORKER) -> int:
    """Carries out the run named on the command line, if it is its turn and nobody else does; gives the exit status.

    Tests call this with an engine of their own (None: the one for the run or tuning that it is), and with the command that
    starts such a process for the next run.
    """
    parser = argparse.ArgumentParser(prog="python -m dpcl_core.runs.worker")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("run_id", metavar="RUN_ID", nargs="?")
    what.add_argument(warm_worker.FLAG, action="store_true", help="wait for an app to say which run")
    parser.add_argument("--store", metavar="URL")
    options = parser.parse_args(arguments)
    if options.run_id is None:
        _calm_threads()
    try:
        run_id = warm_worker.wait_for_run() if options.run_id is None else str(options.run_id)
        store = Store(options.store)
        if store.adopt(run_id, process.me()) or store.claim(run_id, process.me()):
            _stop_on_sigterm(store, run_id)
            carry_out(store, run_id, engine=engine, executor=LocalExecutor(store, worker))
    except (BadInput, StoreTrouble) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def run_here(
    store: Store,
    run_id: str,
    *,
    on_wait: Callable[[int], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Run:
    """Carries out a queued run in this process when its turn comes, and gives it as it ended.

    `on_wait` is told the place in the queue, `on_event` what the run says.
    """
    wait_for_device(store, run_id, on_wait)
    carry_out(store, run_id, on_event=on_event)
    return store.get(run_id)


def wait_for_device(store: Store, run_id: str, on_wait: Callable[[int], None] | None = None) -> bool:
    """Waits for this process's turn to carry out a queued run, telling `on_wait` the place in the queue now and then.

    False: it was cancelled meanwhile, or another process has taken it. Interrupted, it cancels the run.
    """
    executor = LocalExecutor(store)
    try:
        while not store.claim(run_id, process.me()):
            if not store.wait(run_id, process.me()):
                return False
            executor.pump()  # those ahead may be waiting for someone to start them
            place = store.get(run_id).place_in_queue
            if place is not None and on_wait is not None:
                on_wait(place)
            time.sleep(_QUEUE_SECONDS)
    except KeyboardInterrupt:
        store.request_stop(run_id)
        raise
    return True


def carry_out(
    store: Store,
    run_id: str,
    *,
    on_event: Callable[[Event], None] | None = None,
    engine: Engine | None = None,
    executor: Executor | None = None,
) -> Status:
    """Carries out the run that this process has claimed, keeping in the store all it says, and gives the state it ended in.

    A run that is another's is followed to its end instead. Whatever the engine raises ends the run, not this process; a
    step that does not end after a stop ends both. Raises StoreTrouble if the end itself cannot be kept.
    """
    run = store.get(run_id)
    if run.status not in ACTIVE or run.process != process.me():
        return _follow(store, run_id, on_event)
    runner = executor if executor is not None else LocalExecutor(store)
    recorder = _Recorder(store, run_id, runner)
    end: End = "finished"
    failure: Failure | None = None
    try:
        carried_out = engine or tuner.engine_of(store, run_id) or auditor.engine_of(store, run_id) or real_engine
        with recorder, closing(_generator(carried_out, run.spec, run.device)) as said:
            for event in said:
                recorder.add(event)
                if on_event is not None:
                    on_event(event)
                if recorder.is_stopped:
                    end = "cancelled"
                    break
    except KeyboardInterrupt:
        end = "cancelled"
    except BaseException as error:  # whatever the engine, or a library below it, does to end: the run says so
        end, failure = "failed", _failure(error)
    store.end(run_id, end, failure)
    with suppress(StoreTrouble):
        runner.pump()
    return store.status(run_id)


def _generator(engine: Engine, spec: RunSpec, device: str) -> Generator[Event]:
    yield from engine(spec, device)


class _Recorder:
    """Takes what a run says to the store from a thread of its own, tells there that it is alive, and hears of a stop.

    Leaving it writes what is left and raises what the thread met, if anything could not be kept.
    """

    def __init__(self, store: Store, run_id: str, executor: Executor) -> None:
        self._store, self._run_id, self._executor = store, run_id, executor
        self._lock, self._waiting = threading.Lock(), list[Event]()
        self._over = threading.Event()
        self._stopped_at: float | None = None
        self._trouble: StoreTrouble | BadInput | None = None
        self._thread = threading.Thread(target=self._keep, name="recorder", daemon=True)

    @property
    def is_stopped(self) -> bool:
        """Whether the run should end now: someone asked for it, took it away, or nothing can be kept any more."""
        return self._stopped_at is not None

    def add(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, Progress) and self._waiting and isinstance(self._waiting[-1], Progress):
                self._waiting[-1] = event  # a newer word on progress makes an unwritten older one pointless
            else:
                self._waiting.append(event)

    def __enter__(self) -> None:
        self._tick()
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if self._trouble is None:
            self._flush()
        elif kind is None:
            raise self._trouble

    def _keep(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            try:
                self._tick()
            except (StoreTrouble, BadInput) as trouble:
                self._trouble = self._trouble or trouble
                self._stopped_at = self._stopped_at or time.monotonic()
            if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE_SECONDS:
                self._cut_off()

    def _tick(self) -> None:
        self._flush()
        if self._store.beat(self._run_id) not in ("starting", "running") and self._stopped_at is None:
            self._stopped_at = time.monotonic()

    def _flush(self) -> None:
        with self._lock:
            said, self._waiting = self._waiting, []
        self._store.append(self._run_id, said)
        if any(isinstance(event, Started) for event in said):
            self._store.begin(self._run_id)

    def _cut_off(self) -> None:
        """Ends this process in the middle of a step; the partial events are in the store."""
        if self._over.is_set():
            return  # the step has just ended by itself
        print("stopped in the middle of a step", file=sys.stderr, flush=True)
        try:
            if self._trouble is None:
                self._store.end(self._run_id, "cancelled")
            else:
                self._store.end(self._run_id, "failed", _failure(self._trouble))
            self._executor.pump()
        finally:
            os._exit(1)


def _follow(store: Store, run_id: str, on_event: Callable[[Event], None] | None) -> Status:
    """Hands on what another process's run says until it has ended."""
    executor, last = LocalExecutor(store), 0
    while True:
        status = store.status(run_id)  # read before the events: an ended run says nothing more
        for number, event in store.events_after(run_id, last):
            last = number
            if on_event is not None:
                on_event(event)
        if status != "queued" and status not in ACTIVE:
            return status
        executor.pump()
        time.sleep(_QUEUE_SECONDS)


def _failure(error: BaseException) -> Failure:
    kind = failure_kind(error)
    said = " ".join(str(error).split()) or type(error).__name__
    sentence = {
        "out-of-memory": "The computer ran out of memory: fewer examples, a smaller backbone or fewer seeds need less.",
        "internal": f"The program itself went wrong ({type(error).__name__}: {said}); the settings are kept.",
    }.get(kind, said)
    return Failure(kind, sentence, "".join(traceback.format_exception(error)))


def _stop_on_sigterm(store: Store, run_id: str) -> None:
    """Makes SIGTERM a request to stop, heard even while the main thread is inside a long step."""
    heard, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        with wake:  # kept open as long as someone listens
            while heard.recv(1) != bytes([signal.SIGTERM]):
                pass
            try:
                store.request_stop(run_id)
            except StoreTrouble:
                os._exit(1)

    threading.Thread(target=listen, name="sigterm", daemon=True).start()


if __name__ == "__main__":
    faulthandler.enable()  # a crash below Python leaves its trace in the log
    sys.exit(main())
