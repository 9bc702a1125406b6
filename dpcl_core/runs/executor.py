"""Carries out queued runs on this computer: one process per run, one run at a time per device."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from dpcl_core.errors import failure_kind
from dpcl_core.runs import process, resumption
from dpcl_core.runs.store import Failure, Run, Store
from dpcl_core.runs.subprocess_start import log_file, spawn
from dpcl_core.runs.tables import ACTIVE
from dpcl_core.runs.warm_worker import WarmWorker

WORKER = (sys.executable, "-m", "dpcl_core.runs.worker")

SILENT_SECONDS = 10.0  # a process that cannot be inspected counts as gone after so long without a heartbeat
STUCK_SECONDS = 60.0  # one seen to be alive gets longer: loading a large library can hold up every thread
STOP_SECONDS = 2.5  # a stopping one gets less
_SECOND_LOOK_SECONDS = 1.0
_LOG_END = 4000  # characters


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
class LocalExecutor:
    """Executes runs in processes of this computer that outlive the app; their state is in the store alone.

    `worker` is the command that carries out the run whose id is appended to it (tests put a stand-in here). `warm` may
    have a process of the same command ready.
    """

    store: Store
    worker: Sequence[str] = WORKER
    warm: WarmWorker | None = None

    def submit(self, run_id: str) -> None:
        self.store.status(run_id)  # raises for an unknown id here, where the caller can show it
        self.schedule()

    def stop(self, run_id: str) -> None:
        self.store.request_stop(run_id)
        self.schedule()

    def schedule(self) -> None:
        unfinished = self.store.unfinished()
        if [run for run in unfinished if run.status in ACTIVE and self._mark_failed_if_gone(run)]:
            unfinished = self.store.unfinished()
        busy = {run.device for run in unfinished if run.status in ACTIVE}
        for run in unfinished:
            if run.device not in busy:
                busy.add(run.device)  # only the first of a queue, even if it cannot start just now
                if not _is_waited_for(run) and self.store.claim(run.id):
                    self._start(run)
        if self.warm is not None:
            self.warm.keep(self.store.url, is_idle=not unfinished)

    def _mark_failed_if_gone(self, run: Run) -> bool:
        """Ends a run whose process is gone or stuck, and resumes it where that loses nothing and has not failed twice.

        A stuck process is killed first, so that its device is free.
        """
        silent = time.time() - (run.heartbeat or 0.0)
        alive = None if run.process is None else process.is_alive(run.process)
        if alive:
            if silent < (STOP_SECONDS if run.status == "stopping" else STUCK_SECONDS):
                return False
            if run.status != "stopping":  # after a computer's sleep every heartbeat is old: look again
                time.sleep(_SECOND_LOOK_SECONDS)
                if self.store.get(run.id).heartbeat != run.heartbeat:
                    return False
            if run.process is not None:
                process.end(run.process)
        elif alive is None and silent < SILENT_SECONDS:
            return False
        failure = Failure("worker-died", _gone_sentence(run), _end_of_log(run.id))
        return self.store.mark_failed(run, failure, resumption.resume_by_itself)

    def _start(self, run: Run) -> None:
        log = log_file(run.id)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            pid = self.warm.take(run.id, self.store.url, run.device) if self.warm is not None else None
            if pid is None:
                with log.open("ab") as output:
                    pid = spawn([*self.worker, run.id], self.store.url, run.device, stdout=output).pid
        except OSError as error:
            sentence = f"The process of this run could not be started: {error.strerror or error}."
            self.store.end(run.id, "failed", Failure(failure_kind(error), sentence, ""))
            return
        self.store.attach(run.id, process.of(pid))


def _is_waited_for(run: Run) -> bool:
    """Whether a terminal waits to carry out this queued run itself."""
    if run.process is None or time.time() - (run.heartbeat or 0.0) > SILENT_SECONDS:
        return False
    return process.is_alive(run.process) is not False


def _gone_sentence(run: Run) -> str:
    last = datetime.fromtimestamp(run.heartbeat or run.created, UTC)
    return (
        f"The computer stopped this run at {last:%H:%M} UTC on {last:%Y-%m-%d}: its process ended without a word "
        "(switched off, out of memory, or ended by someone)."
    )


def _end_of_log(run_id: str) -> str:
    try:
        return log_file(run_id).read_text(encoding="utf-8", errors="replace")[-_LOG_END:]
    except OSError:
        return ""
