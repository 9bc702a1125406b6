"""Carries out one run: python -m dpcl_core.runs.worker RUN_ID [--store URL]; the command line does so in its own process.

With `--warm` in place of the id it loads the modules that runs need and waits for the app to send a run's id. With `--tied`
this process ends when its standard input is closed, with the command that started it, however that ends: the run is then
stopped, or waits in the queue for another process.

SIGTERM, which a system sends at a shutdown, ends such a process as a crash does, so that the run is resumed: a user's stop
is a request in the store. A command in a terminal hears it as Ctrl-C, and what it carries out is stopped.
"""

import argparse
import faulthandler
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from types import TracebackType
from typing import get_args

from dpcl_core import unforeseen
from dpcl_core.errors import BadInput, StoreTrouble, failure_kind
from dpcl_core.events import Classifier, Event, Progress, Started
from dpcl_core.methods.common.state import Division, Keep
from dpcl_core.runs import administration, audits, executor, process, resumption, shards, tables
from dpcl_core.runs.audits import Engine
from dpcl_core.runs.executor import FREE_SECONDS, WORKER, LocalExecutor, Supervisor
from dpcl_core.runs.process import Patience
from dpcl_core.runs.run import End, Failure, Run, Status
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec

_QUEUE_SECONDS, _LONGEST_SECONDS = 0.25, 2.0  # between looks at a queue, the longer the less happens in it
TICK_SECONDS = 0.25  # longest delay of events on their way to the store, and of a stop request on its way here
GRACE_SECONDS = 1.75  # a step still running so long after a stop is cut off: a stop takes effect within three seconds
_STOP_PATIENCE_SECONDS = 2.0  # for the end of a run that was stopped: somebody waits for it
_LEFT_SECONDS = 2.0  # for handing a run back; what takes longer ends as after a crash


def real_engine(
    spec: RunSpec, device: str, keep: Keep | None = None, division: Division | None = None
) -> Iterator[Event]:
    """Runs the engine, imported only when a run begins because it loads the heavy libraries."""
    _set_passive_waiting()
    from dpcl_core import engine
    from dpcl_core.attacks.catalog import closing_notes
    from dpcl_core.methods import catalog

    run = partial(engine.run, spec, device=device, keep=keep, division=division, audit=closing_notes)
    if not catalog.card(spec.method).has_clients:
        return run()
    from dpcl_core.explorers.matching_log import Observer  # records the clients' lists

    return run(observe=Observer)


def _durable_engine(store: Store, run_id: str, patience: Patience, runner: Supervisor) -> Engine:
    """The engine of a run, or of a part of one, that goes on after its checkpoints, if it has some."""

    def engine(spec: RunSpec, device: str) -> Iterator[Event]:
        patience.outlast(lambda: administration.check_set(store, run_id))
        if (part := shards.part_of(store, run_id, patience)) is not None:
            # Of a part no more is stored as its own than that it has begun, and how far it is.
            stream = real_engine(spec, device, part, part)
            stream = (event for event in stream if isinstance(event, Progress | Started))
        else:
            division = None  # else this process waits for the run's parts
            if (split := store.split_of(run_id)) is not None:
                opened = executor.executor_for(split.executor, store, local=runner)
                division = shards.Waiting(store, run_id, split, opened, patience)
            stream = real_engine(spec, device, resumption.Stored(store, run_id, patience), division)
        return resumption.carried_on(store, run_id, stream, patience)

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
    target.add_argument(process.WARM, action="store_true", help="wait for an app to send a run's id")
    parser.add_argument("--store", metavar="URL")
    parser.add_argument(process.TIED, choices=get_args(process.Tie), help="of the run when standard input is closed")
    options = parser.parse_args(arguments)
    if options.run_id is None:
        _set_passive_waiting()
    try:
        run_id = process.wait_for_run() if options.run_id is None else str(options.run_id)
        patience = Patience()
        store = patience.outlast(lambda: Store(options.store))
        if patience.outlast(lambda: store.attach(run_id, process.me()) or store.claim(run_id, process.me())):
            executor: Supervisor = LocalExecutor(store, worker)
            if options.tied is not None:
                # What `dpcl work` has started starts nothing: that looks after the parts, too.
                executor = of_command(store, run_id, worker) if options.tied == "stop" else Supervisor(store)
                threading.Thread(target=_left, args=(store, run_id, options.tied), name="command", daemon=True).start()
            carry_out(store, run_id, engine=engine, executor=executor)
    except (BadInput, StoreTrouble) as error:
        unforeseen.say(str(error))
        return 2
    return 0


def _left(store: Store, run_id: str, tie: process.Tie) -> None:
    """Waits for the end of the command that started this process, then ends both: nothing may go on using a processor."""
    sys.stdin.buffer.read()
    if tie == "stop":
        Patience().outlast(lambda: store.request_stop(run_id))
        return
    try:
        Patience(give_up=_LEFT_SECONDS).outlast(lambda: resumption.hand_back(store, run_id))
    finally:
        os._exit(1)


def of_command(store: Store, run_id: str, worker: Sequence[str] = WORKER) -> LocalExecutor:
    """What looks after a run that a command or a script carries out: it starts the run's own parts, and no other run."""
    return LocalExecutor(store, worker, own=lambda run: run.id in {part.id for part in shards.parts_of(store, run_id)})


def run_here(
    store: Store, run_id: str, *, on_wait: Callable[[Sequence[Run]], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Run:  # fmt: skip
    """Carries out a queued run in this process when its turn comes, and gives the run as it ended.

    Calls `on_wait` with the runs ahead of it and `on_event` with each event, whose errors are raised here and end the run.
    """
    wait_for_device(store, run_id, on_wait)
    carry_out(store, run_id, on_event=on_event, executor=of_command(store, run_id))
    return store.get(run_id)


def wait_for_device(store: Store, run_id: str, on_wait: Callable[[Sequence[Run]], None] | None = None) -> bool:
    """Waits for this process's turn to carry out a queued run, calling `on_wait` with the runs ahead of it.

    Starts none of these: it passes over those that nobody starts though the device is free, as when no app is up.

    False: it was cancelled meanwhile, another process has claimed it, or it asks for another machine. A KeyboardInterrupt
    and an error of `on_wait` cancel the run.
    """
    supervisor, patience = Supervisor(store), Patience()
    asked = patience.outlast(lambda: store.get(run_id)).device
    if not process.fits(asked, process.here(asked)):
        return False
    free_since, passed, before, pause = math.inf, frozenset[str](), None, _QUEUE_SECONDS
    try:
        while patience.outlast(lambda: store.wait(run_id, process.me())):
            patience.outlast(supervisor.check)  # first, so that nobody hears of runs whose process is gone
            ahead = patience.outlast(lambda: store.ahead(asked, run_id))
            # A claim locks the store for all who write: only one whose turn it seems to be makes it.
            is_next = all(run.id in passed for run in ahead)
            if is_next and patience.outlast(partial(store.claim, run_id, process.me(), passed=passed)):
                return True
            free_since = min(free_since, time.monotonic()) if all(run.status == "queued" for run in ahead) else math.inf
            if time.monotonic() - free_since > FREE_SECONDS:
                passed = frozenset(run.id for run in ahead)
            if ahead and on_wait is not None:
                on_wait(ahead)
            seen = [(run.id, run.status) for run in ahead]
            pause = min(2 * pause, _LONGEST_SECONDS) if seen == before else _QUEUE_SECONDS
            before = seen
            time.sleep(pause)
    except (KeyboardInterrupt, BadInput):
        store.request_stop(run_id)
        raise
    return False


def carry_out(
    store: Store, run_id: str, *, on_event: Callable[[Event], None] | None = None, engine: Engine | None = None,
    executor: Supervisor | None = None, patience: Patience = Patience(),  # noqa: B008 (a value that nothing changes)
) -> Status:  # fmt: skip
    """Carries out the run that this process has claimed, stores its events, and gives its final state.

    A run of another process is followed to its end instead. An exception of the engine ends the run, not this process; one
    of `on_event` stops the run and is raised; a step that does not end after a stop ends both. The run goes on while the
    store is away, until a result has to be stored before it leaves. Raises StoreTrouble if the store stays away until
    `patience` is over; the run then goes on after its last checkpoint, as after a crash.
    """
    run = patience.outlast(lambda: store.get(run_id))
    if run.status not in tables.ACTIVE or run.process != process.me():
        return _follow(store, run_id, on_event, patience)
    runner = executor if executor is not None else LocalExecutor(store)
    device = process.bare(run.runs_on or run.device)
    recorder = Recorder(store, run, on_cut_off=runner.schedule, patience=patience)
    end: End = "finished"
    failure: Failure | None = None
    of_caller: Exception | None = None

    try:
        chosen = engine or patience.outlast(lambda: audits.engine_of(store, run_id))
        chosen = chosen or _durable_engine(store, run_id, patience, runner)
        with recorder, closing(_events(chosen, run.spec, device)) as stream:
            for event in stream:
                recorder.add(event)
                try:
                    if on_event is not None:
                        on_event(event)
                except Exception as error:  # no failure of the run's
                    of_caller = error
                if recorder.is_stopped or of_caller is not None:
                    end = "cancelled"
                    break
    except KeyboardInterrupt:
        end = "cancelled"
    except BaseException as error:  # also SystemExit and the like of a library: the run must not stay "running"
        end, failure = "failed", _failure(error, run)
    recorder.end(end, failure)
    with suppress(StoreTrouble):
        runner.schedule()
    if of_caller is not None:
        raise of_caller
    return patience.outlast(lambda: store.status(run_id))


def _events(engine: Engine, spec: RunSpec, device: str) -> Generator[Event]:
    yield from engine(spec, device)


def _follow(store: Store, run_id: str, on_event: Callable[[Event], None] | None, patience: Patience) -> Status:
    """Passes on the events of another process's run until it has ended."""
    supervisor, last = Supervisor(store), 0

    def look() -> tuple[Status, list[tuple[int, Event]]]:
        status = store.status(run_id)  # read before the events: an ended run has no more
        return status, store.events_after(run_id, last)

    while True:
        status, found = patience.outlast(look)
        for number, event in found:
            last = number
            if on_event is not None:
                on_event(event)
        if status != "queued" and status not in tables.ACTIVE:
            return status
        patience.outlast(supervisor.check)
        time.sleep(_QUEUE_SECONDS)


class Recorder:
    """Writes down a run that this process carries out: `add` its events inside `with`, then `end` it.

    What the store has not taken waits in memory. A process that dies meanwhile loses nothing that anybody saw: results leave
    after their checkpoint, which the store has (`methods.common.state`). Two threads, because a store that is away may hold
    up for minutes whoever asks it: one talks to the store, the other cuts off a step after a stop.

    `on_cut_off` is called before this process is ended in the middle of a step.
    """

    def __init__(self, store: Store, run: Run, *, on_cut_off: Callable[[], None], patience: Patience) -> None:
        self._store, self._run, self._run_id, self._patience = store, run, run.id, patience
        self._on_cut_off = on_cut_off
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
            lines = [(one.task, one.text) for one in (*self._waiting[-1:], event) if isinstance(one, Progress)]
            if len(lines) == 2 and lines[0] == lines[1]:
                self._waiting.pop()
            self._waiting.append(event)

    def __enter__(self) -> None:
        self._next = 1 + (self._patience.outlast(lambda: self._store.scalar(tables.last_number(self._run_id))) or 0)
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
                if self._store.heartbeat(self._run_id, process.me()) not in ("starting", "running"):
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
            is_late = self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE_SECONDS
            if not is_late or self._over.is_set():  # in time, or the step has just ended by itself
                continue
            unforeseen.say(str(self._trouble or "stopped in the middle of a step"))
            try:  # the other thread has sent the events before it
                failure = None if self._trouble is None else _failure(self._trouble, self._run)
                self._store.end(self._run_id, "cancelled" if failure is None else "failed", failure, by=process.me())
                self._on_cut_off()
            finally:
                os._exit(1)


def _failure(error: BaseException, run: Run) -> Failure:
    """The failure that is stored and shown. Of own data it quotes no error that nobody foresaw: it may quote rows."""
    if isinstance(error, shards.PartFailed):
        return error.failure
    kind = failure_kind(error)
    if kind == "internal" and run.spec.data.dataset.startswith("own:"):
        return Failure(kind, unforeseen.recorded(error), "")
    message = unforeseen.masked(" ".join(str(error).split())) or type(error).__name__
    sentence = {
        "out-of-memory": "The computer ran out of memory: fewer examples, a smaller backbone or fewer seeds need less.",
        "internal": f"The program itself went wrong ({type(error).__name__}: {message}); the settings are kept.",
    }.get(kind, message)
    return Failure(kind, sentence, unforeseen.trace(error))


if __name__ == "__main__":
    faulthandler.enable()  # a crash below Python leaves its trace in the log
    sys.exit(main())
