"""Looks after queued runs and those under way; carries them out on this computer, one process per run.

Each device of each machine has one run at a time.
"""

import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import insert, make_url, select, update

from dpcl_core import machine, paths, unforeseen
from dpcl_core.data import intake
from dpcl_core.errors import BadInput, DataMissing, StoreTrouble, failure_kind, instead_of, unknown
from dpcl_core.runs import database, process, queue, resumption
from dpcl_core.runs.process import TIED, Patience, Tie, WarmWorker, log_file, spawn
from dpcl_core.runs.run import Failure, Run
from dpcl_core.runs.store import Store
from dpcl_core.runs.tables import ACTIVE, machines

# The machines that share a store on a server: each says every few seconds that it looks after the queue.


EVERY_SECONDS = 10.0
_PRESENT_SECONDS = 60.0  # one that has said nothing for so long is not counted on


def can_share(store: Store) -> bool:
    """Whether several machines can reach a store: not one that is a file."""
    return make_url(store.url).get_backend_name() != "sqlite"


def announce(store: Store) -> None:
    """Says that this machine looks after the queue of a store, and with which devices; says nothing while it is away."""
    name = process.machine()
    said = {"devices": [device.name for device in process.devices()], "seen": database.now()}
    with suppress(StoreTrouble), store.writing(durable=False) as connection:  # also if another process here was first
        if connection.execute(update(machines).where(machines.c.name == name).values(**said)).rowcount == 0:
            connection.execute(insert(machines).values(name=name, **said))


def present_machines(store: Store) -> Mapping[str, Sequence[str]]:
    """The devices of each machine that looks after the queue now, by name."""
    is_here = database.now() - machines.c.seen < _PRESENT_SECONDS
    return store.pairs(select(machines.c.name, machines.c.devices).where(is_here).order_by(machines.c.name))


def overrun(store: Store, run: Run) -> str | None:
    """Why a visitor's run that took so long, with the other turns of its tuning, has to stop; None where it may go on."""
    most = None if run.owner is None else queue.limits()  # nobody's runs have no limit, whatever the variable says
    if most is None:
        return None
    if (run.seconds_taken or 0.0) + (store.scalar(queue.seconds_of_other_turns(run.id)) or 0.0) <= most.seconds:
        return None
    return f"It was stopped after {most.seconds} seconds, the most on this server: take fewer examples, budgets or seeds."


WORKER = (sys.executable, "-m", "dpcl_core.runs.worker")

SILENT_SECONDS = 10.0  # a process that cannot be inspected counts as gone after so long without a sign of life
STUCK_SECONDS = 60.0  # one seen to be alive gets longer: loading a large library can hold up every thread
STOP_SECONDS = 2.25  # a stopping one gets less
FREE_SECONDS = 5.0  # apps and `dpcl work` look ten times in this time: what they leave on a free device, nobody starts
PAUSE_SECONDS = 0.5
_LOG_END = 4000  # characters
_LEFT = "This run had not begun when the command or script that waited to carry it out ended."


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Ends or resumes runs whose process is gone, wherever it was; starts none.

    Executors, which start runs, are made of it. All are safe to call from many threads and processes at once.
    """

    store: Store
    _signs: dict[str, tuple[float, object]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def submit(self, run_id: str) -> None:
        """Starts a queued run as soon as its turn comes."""
        self.store.status(run_id)  # raises for an unknown id here, where the caller can show it
        self.schedule()

    def stop(self, run_id: str) -> None:
        """Requests a run to stop; it stops within three seconds. Idempotent."""
        self.store.request_stop(run_id)
        self.schedule()

    def schedule(self) -> None:
        """Starts runs whose device is free and ends runs whose process is gone; idempotent, called often."""
        self.check()

    def check(self) -> list[Run]:
        """Ends or resumes runs whose process is gone; gives those not over.

        Stops a visitor's run that takes longer than this server allows.
        """
        try:
            unfinished = self.store.unfinished()
            if [run for run in unfinished if self._is_given_up(run)]:
                unfinished = self.store.unfinished()
            for run in unfinished:
                if run.status in ("starting", "running") and (why := overrun(self.store, run)) is not None:
                    self.store.stop_overrun(run.id, why)
        except StoreTrouble:
            self._signs.clear()  # nobody could give a sign of life: silence counts from the end of the outage
            raise
        for run_id in self._signs.keys() - {run.id for run in unfinished}:
            self._signs.pop(run_id, None)
        return unfinished

    def settle(self) -> None:
        """Looks until it is known which runs go on: once, or for seconds where a silent process cannot be inspected."""
        end = time.monotonic() + SILENT_SECONDS + PAUSE_SECONDS
        while True:
            silent = [run for run in self.check() if run.status in ACTIVE and (run.silent_seconds or 0.0) > SILENT_SECONDS]
            is_known = not any(run.process is None or process.is_alive(run.process) is None for run in silent)
            if is_known or time.monotonic() >= end:
                return
            time.sleep(PAUSE_SECONDS)

    def _is_given_up(self, run: Run) -> bool:
        """Ends a run whose process is gone or stuck, and resumes it where that loses nothing and has not failed twice.

        A stuck process is killed first, so that its device is free. One that waits in the queue ends with its command.
        """
        alive = None if run.process is None else process.is_alive(run.process)
        if run.status == "queued":
            ended = Failure("worker-died", _LEFT, "")
            return bool(run.attended) and alive is False and self.store.mark_failed(run, ended, resumption.resume_by_itself)
        if alive is not False:
            silent = self._silent_seconds(run)
            if silent < (SILENT_SECONDS if alive is None else STOP_SECONDS if run.status == "stopping" else STUCK_SECONDS):
                return False
            if run.process is None and self.store.requeue(run):
                return True
            if alive and run.process is not None:
                process.end(run.process)
        last = datetime.fromtimestamp(run.heartbeat or run.created, UTC)
        sentence = (
            f"The computer stopped this run at {last:%H:%M} UTC on {last:%Y-%m-%d}: its process ended without a word "
            "(switched off, out of memory, or ended by someone)."
        )
        return self.store.mark_failed(run, Failure("worker-died", sentence, _end_of_log(run)), resumption.resume_by_itself)

    def _silent_seconds(self, run: Run) -> float:
        """For how long this executor has found no new sign of life of a run.

        A heartbeat that is old at first sight proves nothing: the store may have been away, or this computer asleep. Only
        the time counts in which the process, if it lives, could have given a sign: in which the store took writes.
        """
        sign = (run.status, run.heartbeat)
        since, last = self._signs.get(run.id, (0.0, None))
        if sign != last or not self.store.is_prompt(run.id):
            self._signs[run.id] = (time.monotonic(), sign)
            return 0.0
        return time.monotonic() - since


@dataclass(frozen=True, slots=True)
class LocalExecutor(Supervisor):
    """Executes runs in processes of this computer that outlive the app; their state is in the store alone.

    `worker` is the command that carries out the run whose id is appended to it (tests put a stand-in here). `warm` may
    have a process of the same command ready. `own`: the only runs that are started (None: any), which are stopped when this
    process ends. `tie`: what any others do then (None: go on).
    """

    worker: Sequence[str] = WORKER
    warm: WarmWorker | None = None
    own: Callable[[Run], bool] | None = None
    tie: Tie | None = None
    _last: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)  # when: announced, blocked

    def schedule(self) -> None:
        now = time.monotonic()
        if self.own is None and now - self._last.get("announced", -math.inf) > EVERY_SECONDS and can_share(self.store):
            announce(self.store)
            self._last["announced"] = now
        unfinished = self.check()
        for run in self._claimed(unfinished):
            self._start(run)
        if self.warm is not None:
            self.warm.keep(self.store.url, is_idle=not unfinished)

    def _claimed(self, unfinished: Sequence[Run]) -> Iterator[Run]:
        """The runs whose turn it is, claimed one by one, each for a free device of this computer.

        Those that are not this executor's, and that nobody starts though a device is free, are passed over.
        """
        busy = {run.runs_on for run in unfinished if run.status in ACTIVE}

        def free(run: Run) -> str | None:
            fitting = (device for device in process.of_this_machine(run.device) if process.fits(run.device, device))
            return next((device for device in fitting if device not in busy), None)

        queued = [run for run in unfinished if run.status == "queued"]
        passed = {run.id for run in queued if run.attended and (run.silent_seconds or 0.0) > SILENT_SECONDS}
        # Their own processes take those that are attended.
        waiting = [run for run in queued if not run.attended and (self.own is None or self.own(run))]
        others, since = {run.id for run in queued if run not in waiting}, self._last.pop("blocked", time.monotonic())
        while waiting := [run for run in waiting if free(run) is not None]:
            with self.store.reading() as connection:
                first = queue.next_runs(connection, passed)
            turn = [run for run in waiting if run.id in first]
            for run in turn:
                waiting.remove(run)
                if (device := free(run)) is not None and self.store.claim(run.id, on=device, passed=passed):
                    busy.add(device)
                    yield run
            if not turn:
                if self.own is None or passed >= others or time.monotonic() - since < FREE_SECONDS:
                    self._last["blocked"] = since
                    return
                passed |= others

    def _start(self, run: Run) -> None:
        log = log_file(run.id)
        try:
            paths.make_folder(log.parent)
            pid = self.warm.take(run.id, self.store.url, run.device) if self.warm is not None else None
            if pid is None:
                with log.open("ab") as output:
                    tie = self.tie if self.own is None else "stop"
                    command = [*self.worker, *([TIED, tie] if tie else []), run.id]
                    stdin = subprocess.PIPE if tie else subprocess.DEVNULL  # closed with this process
                    pid = spawn(command, self.store.url, run.device, stdin=stdin, stdout=output).pid
        except OSError as error:
            sentence = f"The process of this run could not be started: {error.strerror or error}."
            self.store.end(run.id, "failed", Failure(failure_kind(error), sentence, ""))
            return
        self.store.attach(run.id, process.process_of(pid))


def _end_of_log(run: Run) -> str:
    """What is stored and shown of a run's log. Of own data nothing, since it may quote rows: it stays in its file."""
    if run.readable_spec is None or run.readable_spec.data.dataset.startswith("own:"):
        return ""
    with suppress(OSError):
        return unforeseen.masked(log_file(run.id).read_text(encoding="utf-8", errors="replace")[-_LOG_END:])
    return ""


# Moves the queue of a store for as long as a server or `dpcl work` is up, whether or not anybody looks at a page.


def move(
    open_executor: Callable[[], Supervisor], over: threading.Event, *, after_each: Callable[[], object] = lambda: None,
    on_trouble: Callable[[StoreTrouble], object] = lambda trouble: None,
    patience: Patience = Patience(),  # noqa: B008 (a value that nothing changes)
) -> None:  # fmt: skip
    """Looks after the queue until `over` is set: starts runs whose turn it is and ends those whose process is gone.

    A store that is away is tried again after pauses that grow, and `on_trouble` hears why, once; an unexpected error
    is printed, and the next look follows. `after_each` is called after every look that succeeded. Own data that a process
    which died has left halfway are removed first.
    """
    intake.sweep()
    executor: Supervisor | None = None
    failures = 0
    while not over.is_set():
        try:
            executor = executor or open_executor()
            executor.schedule()
            after_each()
            failures = 0
        except StoreTrouble as trouble:
            if failures == 0:
                on_trouble(trouble)
            failures += 1
        except Exception as error:
            unforeseen.say(unforeseen.trace(error))
            failures += 1
        over.wait(max(PAUSE_SECONDS, patience.pause(failures)) if failures else PAUSE_SECONDS)


# The executors by name: what carries out queued runs, and where.
#
#     local   processes of this computer
#     ray     machines of a Ray cluster
#
# Both keep the order of the store's queue and one run per device. A cluster's executor only starts workers on machines: each
# looks after the queue as `dpcl work` does, and ends when nothing waits for it. So states, stops, logs of failures and the
# runs of a machine that is gone are the store's matter, whoever started the machine's worker.


Name = Literal["local", "ray"]
NAMES: tuple[Name, ...] = get_args(Name)
_LOOK_SECONDS = 5.0
_NO_CLUSTER = "no Ray cluster can be reached: start one with `ray start --head`, or name yours in RAY_ADDRESS"
_ONE_COMPUTER = "is a file of this computer: other machines need a store on PostgreSQL, postgresql+psycopg://USER@HOST/NAME"


def checked(name: str) -> Name:
    """The name of an executor. Raises BadInput for another one, and where its package or its cluster is not to be had."""
    if name not in NAMES:
        raise unknown("--executor", name, NAMES)
    if name == "ray":
        if missing := machine.lacking(("ray",)):
            raise DataMissing("--executor", name, missing)
        _connected()
    return name


def executor_for(name: str, store: Store, *, local: Supervisor | None = None) -> Supervisor:
    """The executor of this name for a store; `local`: the one to use for this computer. Raises BadInput as `checked`."""
    return RayExecutor(store) if checked(name) == "ray" else local or LocalExecutor(store)


def default_device(name: Name) -> str:
    """The device for runs that name none: a card where the executor has one."""
    if name == "local":
        return process.default()
    return "cuda" if any(_n_cards(node) for node in _nodes().values()) else "cpu"


def n_devices(name: Name, device: str, store: Store | None = None) -> int:
    """How many runs that ask for a device the executor can carry out at once; `store`: with all machines of this store."""
    if name == "ray":
        return sum(1 if process.bare(device) == "cpu" else _n_cards(node) for node in _nodes().values())
    present = {} if store is None else present_machines(store)
    offered = (f"{of}/{one}" for of, names in present.items() for one in names)
    return max(1, sum(process.fits(device, one) for one in offered))


def work(url: str, machine: str) -> None:
    """Carries out queued runs on this machine, under this name, until nothing waits for it or is under way on it.

    Ends, too, when the store stays away: the cluster's machine is then free for others.
    """
    os.environ[process.MACHINE] = machine
    patience, over = Patience(), threading.Event()
    store, seen = patience.outlast(lambda: Store(url)), [time.monotonic()]

    def look() -> None:
        seen[0] = time.monotonic()
        unfinished = store.unfinished()
        mine = [run for run in unfinished if run.status in ACTIVE and _machine(run) == process.machine()]
        waiting = [run.device for run in unfinished if run.status == "queued"]
        if not mine and not any(process.fits(asked, one) for asked in waiting for one in process.of_this_machine(asked)):
            over.set()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            if time.monotonic() - seen[0] > patience.give_up:
                over.set()

    threading.Thread(target=watch, name="store away", daemon=True).start()
    move(lambda: LocalExecutor(store), over, after_each=look)


def _machine(run: Run) -> str:
    """The machine that a run is on; empty where it waits, for its turn or for its parts."""
    return (run.runs_on or "").partition("/")[0]


@dataclass(frozen=True, slots=True)
class RayExecutor(Supervisor):
    """Starts workers on the machines of a Ray cluster while runs wait, at most one on each.

    The cluster is the one that RAY_ADDRESS names, else this computer's. Every machine has this program, and reaches the
    store and the data. A machine is called as Ray calls its node.
    """

    _workers: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # by machine

    def __post_init__(self) -> None:
        _connected()
        hosts = {str(node["NodeManagerHostname"]) for node in _nodes().values()}
        if make_url(self.store.url).get_backend_name() == "sqlite" and hosts - {socket.gethostname()}:
            raise BadInput("--store", unforeseen.masked(self.store.url), _ONE_COMPUTER)

    def schedule(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        unfinished = self.check()
        waiting = [run for run in unfinished if run.status == "queued"]
        for ended in [name for name, worker in self._workers.items() if ray.wait([worker], timeout=0)[0]]:
            del self._workers[ended]
        busy = {_machine(run) for run in unfinished if run.status in ACTIVE}
        n_idle = sum(machine not in busy for machine in self._workers)  # about to take a run
        free = [machine for machine in _nodes() if machine not in self._workers]
        for name in free[: max(0, len(waiting) - n_idle)]:
            node = _nodes()[name]
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked = {"num_cpus": 1, "num_gpus": _n_cards(node), "max_retries": 0, "scheduling_strategy": there}
            self._workers[name] = ray.remote(work).options(**asked).remote(self.store.url, name)


def _connected() -> None:
    import ray

    if not ray.is_initialized():
        with instead_of(ConnectionError, RuntimeError, say=BadInput("--executor", "ray", _NO_CLUSTER)):
            ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=False, logging_level="error")


def _nodes() -> Mapping[str, Mapping[str, Any]]:
    """The machines of the cluster that are up and have a processor for us, by name."""
    import ray

    found = dict[str, Mapping[str, Any]]()
    for node in ray.nodes():
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1:
            is_named = node["NodeName"] != node["NodeManagerAddress"]  # at its start; else its computer's name
            found[process.as_machine(str(node["NodeName" if is_named else "NodeManagerHostname"]))] = node
    return found


def _n_cards(node: Mapping[str, Any]) -> int:
    return int(node["Resources"].get("GPU", 0))
