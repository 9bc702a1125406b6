"""The store of all runs, their states and events: the only thing that app, workers and terminal share.

A state changes by one UPDATE that names the states it may follow, so that of two concurrent changes only the first counts:

    queued -> starting -> running -> finished | failed | lost
                   (-> stopping)  -> cancelled, or any of those if they came first;  queued -> cancelled | lost
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import get_args

from sqlalchemy import Connection, and_, case, or_, select, update
from sqlalchemy.exc import IntegrityError

from dpcl_core.errors import BadInput
from dpcl_core.events import Event, Progress
from dpcl_core.runs import charges, database, queue, run, tables
from dpcl_core.runs.process import Process, fits, here
from dpcl_core.runs.reader import Reader
from dpcl_core.runs.run import (
    End,
    Failure,
    Run,
    Split,
    Status,
    applied,
    checked_id,
    clean_name,
    columns_of,
    end_update,
    ended,
    forget,
    is_carried_out,
    no_such_run,
    seconds_taken,
    stop,
    stop_shards,
    transition,
)
from dpcl_core.runs.tables import ACTIVE, runs
from dpcl_core.spec import RunSpec

_TAKEN = "is no longer carried out by this process: it was ended or taken over elsewhere, as after a silence; see dpcl runs"
PROMPT_SECONDS = 1.0  # a write that takes longer has waited for somebody


class Store(Reader):
    """The runs in one database, and what changes them. Every method raises StoreTrouble when it fails, in one sentence."""

    # Making runs

    def create(
        self, spec: RunSpec, *, name: str | None = None, device: str = "cpu", split: Split | None = None,
        attended_by: Process | None = None,
    ) -> str:  # fmt: skip
        """Puts a run at the end of its device's queue and gives its id. Raises BadInput for a bad name or device.

        `split`: it is to be carried out in parts. `attended_by`: the command or script that it ends with.
        """
        label = clean_name(f"{spec.method} on {spec.data.dataset}" if name is None else name)
        with self.writing() as connection:
            return queue.enqueue(
                connection, spec, name=label, workload=run.workload_of(spec), n_cells=spec.n_cells, device=device,
                visitor=self.visitor, split=split, attended_by=attended_by,
            )  # fmt: skip

    def check_cost(self, spec: RunSpec, seconds: float | None) -> None:
        """Raises BadInput where a run of these settings, estimated to take so long, is above a limit of this visitor."""
        if self.visitor is not None:
            with self.reading() as connection:
                queue.check(connection, self.visitor, spec.n_cells, seconds)

    def check_kept(self, more: int = 0) -> None:
        """Raises BadInput where this visitor, with so many more bytes, keeps more than the server allows."""
        if self.visitor is not None:
            with self.writing() as connection:
                if more:  # data without a run, which count for others, too
                    queue.note(connection, self.visitor)
                queue.check_kept(connection, self.visitor, more)

    def retry(self, run_id: str) -> str:
        """A new run of the same settings, name and device, at the end of the queue; gives its id."""
        before = self.get(run_id)
        return self.create(before.spec, name=before.name, device=before.device, split=self.split_of(run_id))

    # Events

    def append(
        self, run_id: str, new_events: Sequence[Event], *, first: int | None = None, by: Process | None = None
    ) -> None:
        """Adds events to a run. Raises BadInput for an unknown run, and for one that `by` no longer carries out.

        Classifiers are kept aside, without a number: no page reads them. `first`: the number of the first event that has
        one (None: the next). Events that the store has already are left out, so that a call whose answer was lost in an
        outage can be repeated.
        """
        checked_id(run_id)
        if new_events:
            durable = not all(isinstance(event, Progress) for event in new_events)
            with self.writing(durable=durable) if by is None else self.holding(run_id, by, durable=durable) as connection:
                tables.append(connection, run_id, new_events, first)

    # Requests of users

    def request_stop(self, run_id: str) -> Status:
        """Cancels a queued run, requests a running one to stop, leaves any other unchanged; returns its current state."""
        self.check_mine(run_id)
        with self.writing() as connection:
            stop(connection, runs.c.id == checked_id(run_id))
            stop_shards(connection, run_id)
        return self.status(run_id)

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name. Raises BadInput for an empty or long one."""
        self.check_mine(run_id)
        self._set(run_id, name=clean_name(name))

    def delete(self, run_id: str) -> None:
        """Hides a run from the list until `restore`; a queued one is cancelled. Deletes its checkpoints and stops its parts.

        Raises BadInput while it is under way.
        """
        self.check_mine(run_id)
        now = time.time()
        with self.writing() as connection:
            connection.execute(transition(run_id, ("queued",)).values(status="cancelled", finished=now))
            changed = connection.execute(transition(run_id, get_args(End)).values(deleted=now)).rowcount
            if changed:
                stop_shards(connection, run_id)  # those of a run whose own process died go on
                forget(connection, run_id)
        if not changed:
            raise BadInput("run", run_id, f"is {self.status(run_id)}: stop it before deleting it")

    def restore(self, run_id: str) -> None:
        """Puts a deleted run back into the list."""
        self.check_mine(run_id)
        with self.writing() as connection:  # one statement: results that go just now leave no empty run in the list
            change = update(runs).where(runs.c.id == checked_id(run_id), runs.c.emptied.is_(None))
            if not applied(connection, change.values(deleted=None)):
                raise no_such_run(run_id)

    def check_mine(self, run_id: str) -> None:
        """Raises BadInput for a run that only another visitor may change, and for an id that is malformed."""
        owner = select(runs.c.owner).where(runs.c.id == checked_id(run_id))
        if self.visitor is not None:
            with self.reading() as connection:
                if connection.scalar(owner) != self.visitor.owner:
                    raise BadInput("run", run_id, "was not started by you: only who did can change it")

    # Transitions by executors and workers: each gives whether this call made it

    def claim(
        self, run_id: str, process: Process | None = None, *, on: str | None = None, passed: Collection[str] = ()
    ) -> bool:
        """Claims the first run of a queue for a process (None: one about to be started), if the device is free.

        One for which the budget of its data no longer suffices fails instead, and has never started.

        `on`: the device that carries it out, MACHINE/cpu (None: this computer's). `passed`: waiting runs that count as not
        there, since nobody carries them out.
        """
        change = transition(run_id, ("queued",))
        with self.writing() as connection:
            if run_id not in queue.next_runs(connection, passed):
                return False
            try:
                begun = {"status": "starting", "started": time.time(), "heartbeat": database.now(), **columns_of(process)}
                asked = str(connection.scalar(select(runs.c.device).where(runs.c.id == run_id)))
                on = on or here(asked)
                if not fits(asked, on):
                    return False
                try:
                    charges.check_again(connection, run_id, is_start=True)
                except BadInput as refused:
                    failed = end_update(run_id, "failed", Failure(refused.kind, str(refused), ""), before=("queued",))
                    connection.execute(failed)
                    return False
                return applied(connection, change.values(**begun, runs_on=on))
            except IntegrityError:  # the index of one run per device
                return False

    def attach(self, run_id: str, process: Process) -> bool:
        """Records the process of a run that was claimed for one about to be started."""
        same_process = [runs.c[name].is_not_distinct_from(value) for name, value in columns_of(process).items()]
        change = transition(run_id, ("starting", "stopping")).where(or_(runs.c.pid.is_(None), and_(*same_process)))
        with self.writing() as connection:
            return applied(connection, change.values(heartbeat=database.now(), **columns_of(process)))

    def wait(self, run_id: str, process: Process) -> bool:
        """Records that a process waits to carry out a queued run itself, which ends with it.

        Others pass over the run after ten seconds without a word, so call it again.
        """
        change = transition(run_id, ("queued",)).values(heartbeat=database.now(), attended=True, **columns_of(process))
        with self.writing(durable=False) as connection:
            return applied(connection, change)

    def requeue(self, run: Run) -> bool:
        """Puts a run back for which no process was started: who claimed it has died, or lost the store just then."""
        change = transition(run.id, ("starting",)).where(runs.c.pid.is_(None), runs.c.heartbeat == run.heartbeat)
        started = case((runs.c.seconds.is_(None), None), else_=runs.c.started)  # an earlier process stays a look at the data
        with self.writing() as connection:
            return applied(connection, change.values(status="queued", started=started, heartbeat=None, runs_on=None))

    def leave_device(self, run_id: str) -> None:
        """Frees the device of a run whose own process from now on only waits for its parts."""
        self._set(run_id, runs_on=None)

    def begin(self, run_id: str, *, by: Process | None = None) -> bool:
        """From starting to running: the data are loaded and the first task begins. `by`: as for `append`."""
        with self.writing() if by is None else self.holding(run_id, by) as connection:
            return applied(connection, transition(run_id, ("starting",)).values(status="running"))

    def heartbeat(self, run_id: str, by: Process) -> Status:
        """Records that the process of a run is alive, and gives the run's state, which others may have changed.

        Raises BadInput for a run that this process no longer carries out.
        """
        beat = {"heartbeat": database.now(), "seconds": seconds_taken()}
        change = update(runs).where(runs.c.id == checked_id(run_id)).values(**beat)
        with self.holding(run_id, by, durable=False) as connection:
            status: Status = connection.execute(change.returning(runs.c.status)).scalar_one()
        return status

    def is_prompt(self, run_id: str) -> bool:
        """Whether the store takes a write at once; to see that, a run's heartbeat is written over itself."""
        begun = time.monotonic()
        with self.writing(durable=False) as connection:
            connection.execute(update(runs).where(runs.c.id == checked_id(run_id)).values(heartbeat=runs.c.heartbeat))
        return time.monotonic() - begun < PROMPT_SECONDS

    def end(self, run_id: str, status: End, failure: Failure | None = None, *, by: Process | None = None) -> bool:
        """Ends a run that is under way; of two concurrent ends the first counts. Deletes checkpoints of no more use.

        Raises BadInput for a run that `by` no longer carries out; one that has ended is still its own.
        """
        with self.writing() if by is None else self.holding(run_id, by, *get_args(End)) as connection:
            return ended(connection, run_id, end_update(run_id, status, failure), status, failure)

    def stop_overrun(self, run_id: str, why: str) -> None:
        """Requests a run under way to stop because it is above a limit, and keeps why; it then cannot be resumed."""
        change = transition(run_id, ("starting", "running"))
        with self.writing() as connection:
            if applied(connection, change.values(status="stopping", error_kind="wrong-input", error=why)):
                stop_shards(connection, run_id)

    def mark_failed(self, run: Run, failure: Failure, if_lost: Callable[[Connection, str], object] | None = None) -> bool:
        """Ends a run whose process is gone: lost, or cancelled if it was stopping. Not if a heartbeat came since `run`.

        `if_lost`: what happens to a lost run in the same transaction. An attended one may have waited; its parts stop.
        """
        status: End = "cancelled" if run.status == "stopping" else "lost"
        before = (*ACTIVE, "queued") if run.attended else ACTIVE
        # A computer that was switched off took none of the time since.
        change = end_update(run.id, status, failure if status == "lost" else None, before, is_gone=True)
        with self.writing() as connection:
            change = change.where(runs.c.status == run.status, runs.c.heartbeat == run.heartbeat)
            is_marked = applied(connection, change)
            if is_marked and status == "lost" and if_lost is not None:
                if_lost(connection, run.id)
            if is_marked and run.attended:
                stop_shards(connection, run.id)
            return is_marked

    # Inside

    def _set(self, run_id: str, **columns: str | float | None) -> None:
        with self.writing() as connection:
            if not applied(connection, update(runs).where(runs.c.id == checked_id(run_id)).values(**columns)):
                raise no_such_run(run_id)

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """A write transaction, committed whole or not at all; only for modules of `runs`.

        `durable`: a power cut just after it takes nothing back; False for what is said again a moment later.
        """
        with self._troubles():
            with self._reads.execution_options(writes=True, durable=durable).begin() as connection:
                yield connection
            database.check_in_place(self._reads, self._file)  # after the commit: one before it could be overtaken

    @contextmanager
    def holding(self, run_id: str, by: Process, *also: Status, durable: bool = True) -> Iterator[Connection]:
        """A write transaction of the process that carries out a run: until it is over, no other can take the run.

        Raises BadInput where the run was given up, or taken by another process, because this one was thought dead: what it
        learned must not leave it, as the other learns the same. `also`: states allowed beside those under way.
        """
        with self.writing(durable=durable) as connection:
            if not is_carried_out(connection, run_id, by, *also):
                raise BadInput("run", run_id, _TAKEN)
            yield connection
