"""Carries out one run: python -m dpcl_core.runs.worker RUN_ID [--store URL]; the command line does so in its own process.

With `--warm` in place of the id it loads the modules that runs need and waits for the app to send a run's id.
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
from types import TracebackType

from dpcl_core.checkpoints import Keep
from dpcl_core.errors import BadInput, StoreTrouble, failure_kind
from dpcl_core.events import Event, Progress, Started
from dpcl_core.runs import auditor, process, resumption, tuner, warm_worker
from dpcl_core.runs.executor import WORKER, Executor, LocalExecutor
from dpcl_core.runs.store import End, Failure, Run, Status, Store
from dpcl_core.runs.tables import ACTIVE
from dpcl_core.runs.tuner import Engine
from dpcl_core.spec import RunSpec

TICK_SECONDS = 0.25  # longest delay of events on their way to the store, and of a stop request on its way here
GRACE_SECONDS = 1.75  # a step still running so long after a stop is cut off: a stop takes effect within three seconds
_QUEUE_SECONDS = 0.25


def real_engine(spec: RunSpec, device: str, keep: Keep | None = None) -> Iterator[Event]:
    """Runs the engine, imported only when a run begins because it loads the heavy libraries."""
    _set_passive_waiting()
    from dpcl_core import engine

    return engine.run(spec, device=device, keep=keep)


def _durable_engine(store: Store, run_id: str) -> Engine:
    """The engine of a run that goes on after its checkpoints, if it has some."""

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        return resumption.carried_on(store, run_id, real_engine(spec, device, resumption.Stored(store, run_id)))

    return engine


def _set_passive_waiting() -> None:
    """Makes OpenMP threads sleep while they wait for one another; must be set before torch is loaded.

    Spinning, two of them on two busy cores took six times as long as one (2026-11-21).
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def main(arguments: Sequence[str] | None = None, *, engine: Engine | None = None, worker: Sequence[str] = WORKER) -> int:
    """Carries out the run named on the command line, if it is first in its queue and unclaimed; gives the exit status.

    Tests pass an engine of their own (None: the one for a run, tuning or audit), and the command that starts such a process
    for the next run.
    """
    parser = argparse.ArgumentParser(prog="python -m dpcl_core.runs.worker")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("run_id", metavar="RUN_ID", nargs="?")
    target.add_argument(warm_worker.FLAG, action="store_true", help="wait for an app to send a run's id")
    parser.add_argument("--store", metavar="URL")
    options = parser.parse_args(arguments)
    if options.run_id is None:
        _set_passive_waiting()
    try:
        run_id = warm_worker.wait_for_run() if options.run_id is None else str(options.run_id)
        store = Store(options.store)
        if store.attach(run_id, process.me()) or store.claim(run_id, process.me()):
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
    """Carries out a queued run in this process when its turn comes, and gives the run as it ended.

    Calls `on_wait` with the place in the queue and `on_event` with each event.
    """
    wait_for_device(store, run_id, on_wait)
    carry_out(store, run_id, on_event=on_event)
    return store.get(run_id)


def wait_for_device(store: Store, run_id: str, on_wait: Callable[[int], None] | None = None) -> bool:
    """Waits for this process's turn to carry out a queued run, calling `on_wait` with the place in the queue.

    False: it was cancelled meanwhile, or another process has claimed it. A KeyboardInterrupt cancels the run.
    """
    executor = LocalExecutor(store)
    try:
        while not store.claim(run_id, process.me()):
            if not store.wait(run_id, process.me()):
                return False
            executor.schedule()  # runs ahead may need an executor to start them
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
    """Carries out the run that this process has claimed, stores its events, and gives its final state.

    A run of another process is followed to its end instead. An exception of the engine ends the run, not this process; a
    step that does not end after a stop ends both. Raises StoreTrouble if the end itself cannot be stored.
    """
    run = store.get(run_id)
    if run.status not in ACTIVE or run.process != process.me():
        return _follow(store, run_id, on_event)
    runner = executor if executor is not None else LocalExecutor(store)
    recorder = _Recorder(store, run_id, runner)
    end: End = "finished"
    failure: Failure | None = None
    try:
        own_engine = engine or tuner.engine_of(store, run_id) or auditor.engine_of(store, run_id)
        chosen_engine = own_engine or _durable_engine(store, run_id)
        with recorder, closing(_generator(chosen_engine, run.spec, run.device)) as stream:
            for event in stream:
                recorder.add(event)
                if on_event is not None:
                    on_event(event)
                if recorder.is_stopped:
                    end = "cancelled"
                    break
    except KeyboardInterrupt:
        end = "cancelled"
    except BaseException as error:  # also SystemExit and the like of a library: the run must not stay "running"
        end, failure = "failed", _failure(error)
    if store.get(run_id).process == process.me():  # else another process carries it on
        store.end(run_id, end, failure)
    with suppress(StoreTrouble):
        runner.schedule()
    return store.status(run_id)


def _generator(engine: Engine, spec: RunSpec, device: str) -> Generator[Event]:
    yield from engine(spec, device)


class _Recorder:
    """Background writer: flushes events and heartbeats to the store and polls for stop requests.

    On exit it writes the remaining events, or raises the thread's error if something could not be stored.
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
        """Whether the run should end now: a stop was requested, the run was ended elsewhere, or the store has failed."""
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
        if self._store.heartbeat(self._run_id) not in ("starting", "running") and self._stopped_at is None:
            self._stopped_at = time.monotonic()

    def _flush(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        self._store.append(self._run_id, batch)
        if any(isinstance(event, Started) for event in batch):
            self._store.begin(self._run_id)

    def _cut_off(self) -> None:
        """Ends this process in the middle of a step; the events so far are in the store."""
        if self._over.is_set():
            return  # the step has just ended by itself
        print("stopped in the middle of a step", file=sys.stderr, flush=True)
        try:
            if self._trouble is None:
                self._store.end(self._run_id, "cancelled")
            else:
                self._store.end(self._run_id, "failed", _failure(self._trouble))
            self._executor.schedule()
        finally:
            os._exit(1)


def _follow(store: Store, run_id: str, on_event: Callable[[Event], None] | None) -> Status:
    """Passes on the events of another process's run until it has ended."""
    executor, last = LocalExecutor(store), 0
    while True:
        status = store.status(run_id)  # read before the events: an ended run has no more
        for number, event in store.events_after(run_id, last):
            last = number
            if on_event is not None:
                on_event(event)
        if status != "queued" and status not in ACTIVE:
            return status
        executor.schedule()
        time.sleep(_QUEUE_SECONDS)


def _failure(error: BaseException) -> Failure:
    kind = failure_kind(error)
    message = " ".join(str(error).split()) or type(error).__name__
    sentence = {
        "out-of-memory": "The computer ran out of memory: fewer examples, a smaller backbone or fewer seeds need less.",
        "internal": f"The program itself went wrong ({type(error).__name__}: {message}); the settings are kept.",
    }.get(kind, message)
    return Failure(kind, sentence, "".join(traceback.format_exception(error)))


def _stop_on_sigterm(store: Store, run_id: str) -> None:
    """Makes SIGTERM a request to stop, handled even while the main thread is inside a long step."""
    signals, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        with wake:  # kept open while this thread reads
            while signals.recv(1) != bytes([signal.SIGTERM]):
                pass
            try:
                store.request_stop(run_id)
            except StoreTrouble:
                os._exit(1)

    threading.Thread(target=listen, name="sigterm", daemon=True).start()


if __name__ == "__main__":
    faulthandler.enable()  # a crash below Python leaves its trace in the log
    sys.exit(main())
