"""Who carries out queued runs: on this computer, one process a run and one run at a time on each device."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from dpcl_core.errors import failure_kind
from dpcl_core.runs import process
from dpcl_core.runs.store import Failure, Run, Store
from dpcl_core.runs.subprocess_start import log_file, spawn
from dpcl_core.runs.tables import ACTIVE
from dpcl_core.runs.warm_worker import WarmWorker

WORKER = (sys.executable, "-m", "dpcl_core.runs.worker")

SILENT_SECONDS = 10.0  # a process that cannot be looked at counts as gone after so long without a sign
STUCK_SECONDS = 60.0  # one that is seen to live gets longer: loading a large library can hold up every thread
STOP_SECONDS = 2.5  # one that was asked to stop gets less
_SECOND_LOOK_SECONDS = 1.0
_LOG_END = 4000  # characters


class Executor(Protocol):
    """Carries out what the store has queued; safe to call from many threads and processes at once."""

    def submit(self, run_id: str) -> None:
        """Starts a queued run as soon as its turn comes."""
        ...

    def pump(self) -> None:
        """Starts what can be started and ends the runs whose process is gone; called often, does nothing twice."""
        ...

    def stop(self, run_id: str) -> None:
        """Asks a run to stop; it does within three seconds. Asking again does nothing more."""
        ...


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Processes of this computer. They outlive the app that started them; the store alone says what they do.

    `worker` is the command that carries out the run whose id is put after it (tests put a stand-in here). `spare` may have
    a process of the same command ready.
    """

    store: Store
    worker: Sequence[str] = WORKER
    spare: WarmWorker | None = None

    def submit(self, run_id: str) -> None:
        self.store.status(run_id)  # refuses an unknown id here, where somebody listens
        self.pump()

    def stop(self, run_id: str) -> None:
        self.store.request_stop(run_id)
        self.pump()

    def pump(self) -> None:
        unfinished = self.store.unfinished()
        if [run for run in unfinished if run.status in ACTIVE and self._bury_if_gone(run)]:
            unfinished = self.store.unfinished()
        busy = {run.device for run in unfinished if run.status in ACTIVE}
        for run in unfinished:
            if run.device not in busy:
                busy.add(run.device)  # only the first of a queue, even if it cannot start just now
                if not _is_waited_for(run) and self.store.claim(run.id):
                    self._start(run)
        if self.spare is not None:
            self.spare.keep(self.store.url, is_idle=not unfinished)

    def _bury_if_gone(self, run: Run) -> bool:
        """Ends a run whose process is gone or stuck. A stuck one is ended first, so that its device is free indeed."""
        silent = time.time() - (run.heartbeat or 0.0)
        alive = None if run.process is None else process.is_alive(run.process)
        if alive:
            if silent < (STOP_SECONDS if run.status == "stopping" else STUCK_SECONDS):
                return False
            if run.status != "stopping":  # a computer that wakes from sleep finds everyone silent: look again
                time.sleep(_SECOND_LOOK_SECONDS)
                if self.store.get(run.id).heartbeat != run.heartbeat:
                    return False
            if run.process is not None:
                process.end(run.process)
        elif alive is None and silent < SILENT_SECONDS:
            return False
        return self.store.bury(run, Failure("worker-died", _last_sign(run), _end_of_log(run.id)))

    def _start(self, run: Run) -> None:
        log = log_file(run.id)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            pid = self.spare.take(run.id, self.store.url) if self.spare is not None else None
            if pid is None:
                with log.open("ab") as output:
                    pid = spawn([*self.worker, run.id], self.store.url, stdout=output).pid
        except OSError as error:
            sentence = f"The process of this run could not be started: {error.strerror or error}."
            self.store.end(run.id, "failed", Failure(failure_kind(error), sentence, ""))
            return
        self.store.adopt(run.id, process.of(pid))


def _is_waited_for(run: Run) -> bool:
    """Whether a terminal waits to carry out this queued run itself."""
    if run.process is None or time.time() - (run.heartbeat or 0.0) > SILENT_SECONDS:
        return False
    return process.is_alive(run.process) is not False


def _last_sign(run: Run) -> str:
    when = datetime.fromtimestamp(run.heartbeat or run.created, UTC)
    return (
        f"The computer stopped this run at {when:%H:%M} UTC on {when:%Y-%m-%d}: its process ended without a word "
        "(switched off, out of memory, or ended by someone)."
    )


def _end_of_log(run_id: str) -> str:
    try:
        return log_file(run_id).read_text(encoding="utf-8", errors="replace")[-_LOG_END:]
    except OSError:
        return ""
