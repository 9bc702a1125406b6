"""Looks after queued runs and those under way; carries them out on this computer, one process per run.

Each device of each machine has one run at a time. Other executors are in `executors`, which knows them all.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from dpcl_core import paths
from dpcl_core.errors import StoreTrouble, failure_kind
from dpcl_core.masking import masked
from dpcl_core.runs import devices, journal, machines, process, resumption, visitors
from dpcl_core.runs.run import Failure, Run
from dpcl_core.runs.store import Store
from dpcl_core.runs.subprocess_start import log_file, spawn
from dpcl_core.runs.tables import ACTIVE
from dpcl_core.runs.warm_worker import TIED, Tie, WarmWorker

WORKER = (sys.executable, "-m", "dpcl_core.runs.worker")

SILENT_SECONDS = 10.0  # a process that cannot be inspected counts as gone after so long without a sign of life
STUCK_SECONDS = 60.0  # one seen to be alive gets longer: loading a large library can hold up every thread
STOP_SECONDS = 2.25  # a stopping one gets less
FREE_SECONDS = 5.0  # apps and `dpcl work` look ten times in this time: what they leave on a free device, nobody starts
_PAUSE_SECONDS = 0.5
_LOG_END = 4000  # characters
_LEFT = "This run had not begun when the command or script that waited to carry it out ended."


class Executor(Protocol):
    """Carries out queued runs; safe to call from many threads and processes at once."""

    def submit(self, run_id: str) -> None:
        """Starts a queued run as soon as its turn comes."""
        ...

    def schedule(self) -> None:
        """Starts runs whose device is free and ends runs whose process is gone; idempotent, called often."""
        ...

    def stop(self, run_id: str) -> None:
        """Requests a run to stop; it stops within three seconds. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Ends or resumes runs whose process is gone, wherever it was; starts none. What executors have in common."""

    store: Store
    _signs: dict[str, tuple[float, object]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _blocked: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def submit(self, run_id: str) -> None:
        self.store.status(run_id)  # raises for an unknown id here, where the caller can show it
        self.schedule()

    def stop(self, run_id: str) -> None:
        self.store.request_stop(run_id)
        self.schedule()

    def schedule(self) -> None:
        self.check()

    def startable(
        self, unfinished: Sequence[Run], offered: Callable[[str], Sequence[str]], own: Callable[[Run], bool] | None = None
    ) -> Iterator[tuple[Run, str]]:
        """The runs whose turn it is, claimed one by one, each with the free device that it was claimed for.

        `offered`: the devices, free or not, that could serve a run which asks for this device. `own`: which runs are looked
        after (None: all); others that nobody starts though a device is free are passed over.
        """
        busy = {run.runs_on for run in unfinished if run.status in ACTIVE}

        def free(run: Run) -> str | None:
            fitting = (device for device in offered(run.device) if devices.fits(run.device, device))
            return next((device for device in fitting if device not in busy), None)

        queued = [run for run in unfinished if run.status == "queued"]
        passed = {run.id for run in queued if run.attended and (run.silent_seconds or 0.0) > SILENT_SECONDS}
        waiting = [run for run in queued if not run.attended and (own is None or own(run))]  # attended: by their processes
        others, since = {run.id for run in queued if run not in waiting}, self._blocked.pop("since", time.monotonic())
        while waiting := [run for run in waiting if free(run) is not None]:
            first = self.store.next_runs(passed)
            turn = [run for run in waiting if run.id in first]
            for run in turn:
                waiting.remove(run)
                if (device := free(run)) is not None and self.store.claim(run.id, on=device, passed=passed):
                    busy.add(device)
                    yield run, device
            if not turn:
                if own is None or passed >= others or time.monotonic() - since < FREE_SECONDS:
                    self._blocked["since"] = since
                    return
                passed |= others

    def check(self) -> list[Run]:
        """Takes in the journals of dead processes and ends or resumes runs whose process is gone; gives those not over.

        Stops a visitor's run that takes longer than this server allows.
        """
        try:
            for run_id in journal.abandoned():
                journal.take_in(self.store, run_id)
            unfinished = self.store.unfinished()
            if [run for run in unfinished if self._is_given_up(run)]:
                unfinished = self.store.unfinished()
            for run in unfinished:
                if run.status in ("starting", "running"):
                    why = visitors.overrun(run, self.store.seconds_before)
                    if why is not None:
                        self.store.stop_overrun(run.id, why)
        except StoreTrouble:
            self._signs.clear()  # nobody could give a sign of life: silence counts from the end of the outage
            raise
        for run_id in self._signs.keys() - {run.id for run in unfinished}:
            self._signs.pop(run_id, None)
        return unfinished

    def settle(self) -> None:
        """Looks until it is known which runs go on: once, or for seconds where a silent process cannot be inspected."""
        end = time.monotonic() + SILENT_SECONDS + _PAUSE_SECONDS
        while any(_is_doubtful(run) for run in self.check()) and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)

    def _is_given_up(self, run: Run) -> bool:
        """Ends a run whose process is gone or stuck, and resumes it where that loses nothing and has not failed twice.

        A stuck process is killed first, so that its device is free. One that waits in the queue ends with its command.
        """
        alive = None if run.process is None else process.is_alive(run.process)
        if run.status == "queued":
            ended = Failure("worker-died", _LEFT, "")
            return bool(run.attended) and alive is False and self.store.mark_failed(run, ended, resumption.resume_by_itself)
        if alive is not False:
            silent = self._silent_seconds(run, is_seen=bool(alive))
            if silent < (SILENT_SECONDS if alive is None else STOP_SECONDS if run.status == "stopping" else STUCK_SECONDS):
                return False
            if run.process is None and self.store.requeue(run):
                return True
            if alive and run.process is not None:
                process.end(run.process)
        if run.process is not None and journal.take_in(self.store, run.id) and self.store.status(run.id) not in ACTIVE:
            return True
        failure = Failure("worker-died", _gone_sentence(run), _end_of_log(run))
        return self.store.mark_failed(run, failure, resumption.resume_by_itself)

    def _silent_seconds(self, run: Run, *, is_seen: bool) -> float:
        """For how long this executor has found no new sign of life of a run, in the store or in its journal.

        A heartbeat that is old at first sight proves nothing: the store may have been away, or this computer asleep. Only
        the time counts in which the process, if it lives, could have given a sign: where its journal cannot be seen, the
        time in which the store took writes.
        """
        sign = (run.status, run.heartbeat, journal.last_beat(run.id))
        since, last = self._signs.get(run.id, (0.0, None))
        if sign != last or not (is_seen or self.store.is_prompt(run.id)):
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
    _announced: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def schedule(self) -> None:
        now = time.monotonic()
        is_due = self.own is None and now - self._announced.get("at", -math.inf) > machines.EVERY_SECONDS
        if is_due and machines.can_share(self.store):
            machines.announce(self.store)
            self._announced["at"] = now
        unfinished = self.check()
        for run, _ in self.startable(unfinished, devices.of_this_machine, self.own):
            self._start(run)
        if self.warm is not None:
            self.warm.keep(self.store.url, is_idle=not unfinished)

    def _start(self, run: Run) -> None:
        log = log_file(run.id)
        try:
            paths.made(log.parent)
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
        self.store.attach(run.id, process.of(pid))


def _is_doubtful(run: Run) -> bool:
    is_silent = run.silent_seconds is not None and run.silent_seconds > SILENT_SECONDS
    return run.status in ACTIVE and is_silent and (run.process is None or process.is_alive(run.process) is None)


def _gone_sentence(run: Run) -> str:
    last = datetime.fromtimestamp(run.heartbeat or run.created, UTC)
    return (
        f"The computer stopped this run at {last:%H:%M} UTC on {last:%Y-%m-%d}: its process ended without a word "
        "(switched off, out of memory, or ended by someone)."
    )


def _end_of_log(run: Run) -> str:
    """What is stored and shown of a run's log. Of own data nothing, since it may quote rows: it stays in its file."""
    if run.readable_spec is None or run.readable_spec.data.dataset.startswith("own:"):
        return ""
    try:
        return masked(log_file(run.id).read_text(encoding="utf-8", errors="replace")[-_LOG_END:])
    except OSError:
        return ""
