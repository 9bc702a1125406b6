"""The store of all runs, their states and events: the only thing that app, workers and terminal share.

A state changes by one UPDATE that names the states it may follow, so that of two concurrent changes only the first counts:

    queued -> starting -> running -> finished | failed | lost
                   (-> stopping)  -> cancelled, or any of those if they came first;  queued -> cancelled | lost
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar, cast, get_args

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, bindparam, case, func, or_, select, update
from sqlalchemy import cast as cast_in_store
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dpcl_core import paths
from dpcl_core.data import copying
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Classifier, Event, Progress, from_json
from dpcl_core.runs import charges, database, devices, durations, event_rows, queue, tables, visitors
from dpcl_core.runs.process import Process
from dpcl_core.runs.run import End, Failure, Named, Run, Split, Status, checked_id, clean_name, is_id, no_such_run, of_row
from dpcl_core.runs.tables import ACTIVE, cells, dataset, events, of_others, runs, splits
from dpcl_core.runs.transitions import (
    applied,
    columns_of,
    end_update,
    ended,
    forget,
    is_carried_out,
    seconds_taken,
    stop,
    stop_shards,
    transition,
)
from dpcl_core.runs.visitors import Visitor
from dpcl_core.spec import RunSpec

_TAKEN = "is no longer carried out by this process: it was ended or taken over elsewhere, as after a silence; see dpcl runs"
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])
PROMPT_SECONDS = 1.0  # a write that takes longer has waited for somebody

# What every page asks is made here once: making a query takes several times as long as carrying it out.
_ROWS = select(runs, (database.now() - runs.c.heartbeat).label("silent_seconds"))
_ONE = _ROWS.where(runs.c.id == bindparam("run"), runs.c.emptied.is_(None))
_IS_LISTED = and_(runs.c.deleted.is_(None), runs.c.id.not_in(of_others))
_LISTED = select(runs.c.number).where(_IS_LISTED)
_COUNTED = _LISTED.with_only_columns(runs.c.status, func.count().label("n")).group_by(runs.c.status)
_NEWEST_FIRST = (runs.c.number.desc(),)
_OWN_FIRST = (case((runs.c.owner == bindparam("owner"), 0), else_=1), *_NEWEST_FIRST)
_IS_OPEN, _IS_ACTIVE = runs.c.status.in_(("queued", *ACTIVE)), runs.c.status.in_(ACTIVE)
_UNFINISHED = _ROWS.where(_IS_OPEN).order_by(runs.c.number)
_QUEUES = (
    select(runs.c.device, func.count().filter(_IS_ACTIVE), func.count().filter(~_IS_ACTIVE))
    .where(_IS_OPEN).group_by(runs.c.device).order_by(runs.c.device)
)  # fmt: skip


class Store:
    """The runs in one database. Every method raises StoreTrouble, with one sentence, when the database fails.

    Safe to share between threads and processes: it keeps nothing in memory but connections.
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = database.absolute(url or os.environ.get("DPCL_STORE") or f"sqlite:///{paths.home() / 'store.sqlite'}")
        self._file: tuple[int, int] | None = None
        with self._troubles():
            self._reads = database.open_database(self.url)
            self._file = database.file_of(self._reads)
            self._writes = self._reads.execution_options(writes=True)
        self.visitor: Visitor | None = None
        self._sees: Callable[[str], bool] | None = None

    def seen_by(self, sees: Callable[[str], bool]) -> Store:
        """The same store for somebody who sees runs on some datasets alone: `get` and lists have no others."""
        view = copy(self)
        view._sees = sees
        return view

    def as_visitor(self, visitor: Visitor) -> Store:
        """The same store as a visitor of a shared server may use it: within limits, and changing no run of another one."""
        own = copy(self)
        own.visitor = visitor
        return own

    # Making and reading runs

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
                connection, spec, name=label, workload=durations.workload_of(spec), n_cells=spec.n_cells, device=device,
                visitor=self.visitor, split=split, attended_by=attended_by,
            )  # fmt: skip

    def split_of(self, run_id: str) -> Split | None:
        """Into how many parts a run is split, and what starts them; None for one that is carried out whole."""
        with self.reading() as connection:
            row = connection.execute(select(splits).where(splits.c.run_id == checked_id(run_id))).one_or_none()
        return None if row is None else Split(row.n_shards, row.executor, row.device)

    def check_cost(self, spec: RunSpec, seconds: float | None) -> None:
        """Raises BadInput where a run of these settings, estimated to take so long, is above a limit of this visitor."""
        if self.visitor is not None:
            with self.reading() as connection:
                visitors.check(connection, self.visitor, spec.n_cells, seconds)

    def check_kept(self, more: int = 0) -> None:
        """Raises BadInput where this visitor, with so many more bytes, keeps more than the server allows."""
        if self.visitor is not None:
            with self.writing() as connection:
                if more:  # data without a run, which count for others, too
                    visitors.note(connection, self.visitor)
                visitors.check_kept(connection, self.visitor, more)

    def bytes_left(self) -> int:
        """How many more bytes this visitor may keep; where nothing is limited, as many as data may have."""
        if self.visitor is None:
            return copying.MAX_BYTES
        with self.reading() as connection:
            return min(copying.MAX_BYTES, visitors.bytes_left(connection, self.visitor))

    def seconds_before(self, run_id: str) -> float:
        """Seconds that count towards a visitor's limit beside a run's own: of its tuning's other turns."""
        with self.reading() as connection:
            return visitors.seconds_before(connection, run_id)

    def retry(self, run_id: str) -> str:
        """A new run of the same settings, name and device, at the end of the queue; gives its id."""
        before = self.get(run_id)
        return self.create(before.spec, name=before.name, device=before.device, split=self.split_of(run_id))

    def get(self, run_id: str) -> Run:
        """A run, deleted ones included. Raises BadInput for an id that is malformed or unknown."""
        rows = self._runs(_ONE, run=checked_id(run_id))
        if not rows:
            raise no_such_run(run_id)
        return rows[0]

    def get_with_results(self, run_id: str) -> Run:
        """As `get`. Raises BadInput also for what has no results of its own: a tuning, an audit, and a part of a run."""
        run = self.get(run_id)
        with self.reading() as connection:
            if connection.scalar(select(runs.c.id).where(runs.c.id == run_id, runs.c.id.in_(of_others))) is not None:
                allowed = "must be a run with results of its own: this is a tuning, an audit or a part of a run"
                raise BadInput("run", run_id, allowed)
        return run

    def present(self, run_ids: Collection[str]) -> dict[str, Run]:
        """Those of these runs that are there, by id: without unknown ones and without those deleted for good."""
        return {run.id: run for run in self._runs(_ROWS.where(_is_one_of(run_ids), runs.c.emptied.is_(None)))}

    def listed(self, run_ids: Collection[str]) -> dict[str, Run]:
        """Those of these runs that `list_runs` has, by id: without deleted ones, parts, and those of tunings and audits."""
        return {run.id: run for run in self._runs(_ROWS.where(_is_one_of(run_ids), _IS_LISTED))}

    def list_runs(
        self, limit: int | None = None, *, states: Sequence[Status] = (), only: Callable[[Named], bool] | None = None
    ) -> list[Run]:
        """The runs that are not deleted, a visitor's own first, then newest first; without those of tunings and audits.

        `limit`: no more than so many. `states`: those in one of these (none: in any). `only`: those that it is true of.
        """
        order, values = (_NEWEST_FIRST, {}) if self.visitor is None else (_OWN_FIRST, {"owner": self.visitor.owner})
        with self.reading() as connection:
            chosen = self._seen(connection, _LISTED).order_by(*order)
            if states:
                chosen = chosen.where(runs.c.status.in_(states))
            if only is not None:
                said = (func.coalesce(cast_in_store(one, Text), "") for one in (tables.method, dataset, tables.scenario))
                named = chosen.with_only_columns(runs.c.id, runs.c.name, *said)
                wanted = [one.id for one in map(Named._make, connection.execute(named, values)) if only(one)]
                chosen = chosen.where(runs.c.id.in_(wanted[:limit]))
            # Numbers are put into order first: whole rows take several times as long.
            return _read(connection, _ROWS.where(runs.c.number.in_(chosen.limit(limit))).order_by(*order), values)

    def n_listed(self) -> dict[Status, int]:
        """How many runs `list_runs` has in each state."""
        with self.reading() as connection:
            return {row.status: row.n for row in connection.execute(self._seen(connection, _COUNTED))}

    def trash(self) -> list[Run]:
        """The deleted runs that can be restored, newest first: a visitor's own, and all where the server is not shared."""
        mine = [] if self.visitor is None else [runs.c.owner == self.visitor.owner]
        listed = _ROWS.where(runs.c.deleted.is_not(None), runs.c.emptied.is_(None), *mine)
        return self._runs(listed.order_by(runs.c.number.desc()))

    def next_runs(self, passed: Collection[str] = ()) -> frozenset[str]:
        """The run of each device whose turn is next, without those `passed` over; none for a device with an empty queue."""
        with self.reading() as connection:
            return queue.next_runs(connection, passed)

    def ahead(self, device: str, run_id: str | None = None) -> list[Run]:
        """What is ahead of a waiting run (None: of a new one) on the device it asks for: under way, then waiting."""
        with self.reading() as connection:
            ids = queue.ahead(connection, device, run_id)
        found = self.present(ids)
        return [found[one] for one in ids if one in found]

    def unfinished(self) -> list[Run]:
        """Runs that are queued or under way, oldest first."""
        return self._runs(_UNFINISHED)

    def queues(self) -> dict[str, tuple[int, int]]:
        """By device, how many runs are under way and how many wait, those that are not seen included."""
        with self.reading() as connection:
            return {device: (active, queued) for device, active, queued in connection.execute(_QUEUES)}

    def status(self, run_id: str) -> Status:
        """The state of a run, without the rest. Raises BadInput for an id that is malformed or unknown."""
        with self.reading() as connection:
            status: Status | None = connection.scalar(select(runs.c.status).where(runs.c.id == checked_id(run_id)))
        if status is None:
            raise no_such_run(run_id)
        return status

    def estimate_seconds(self, spec: RunSpec, *, device: str = "cpu") -> float | None:
        """Estimated duration of a run of this spec, from finished runs of the same workload; None when there are none."""
        return self.estimates([durations.work_of(spec)], device=device)[0]

    def estimates(self, work: Sequence[durations.Work], *, device: str = "cpu") -> list[float | None]:
        """`estimate_seconds` of several runs, by one query."""
        with self.reading() as connection:
            past = durations.past(connection, {workload for workload, _ in work})
        return [durations.estimate(past.get((workload, device), []), n_cells) for workload, n_cells in work]

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
                event_rows.append(connection, run_id, new_events, first)

    def last_number(self, run_id: str) -> int:
        """The number of a run's last event; 0 if it has none."""
        with self.reading() as connection:
            return event_rows.last_number(connection, checked_id(run_id))

    def take_in(
        self,
        run_id: str,
        by: Process,
        batches: Sequence[tuple[int, Sequence[Event]]],
        end: tuple[End, Failure | None] | None,
    ) -> bool | None:
        """Adds what a journal holds, if the run is still the one that this process carried out; gives whether it is.

        The end counts for a run under way, and for one that was thought lost. None: the store has no such run.
        """
        query = select(runs.c.id).where(runs.c.id == checked_id(run_id))
        with self.reading() as connection:  # a journal of another store is asked for at every look at the queue
            if connection.execute(query).one_or_none() is None:
                return None
        with self.writing() as connection:
            if not is_carried_out(connection, run_id, by, *get_args(End)):
                return False
            for first, said in batches:
                event_rows.append(connection, run_id, said, first)
            if end is not None:
                ended(connection, run_id, end_update(run_id, *end, before=(*ACTIVE, "lost")), *end)
        return True

    def classifiers(self, run_id: str) -> list[Classifier]:
        """What the models of a run had released by the end of each task, in order of budget, seed and task."""
        with self.reading() as connection:
            return event_rows.classifiers_of(connection, checked_id(run_id))

    def events_after(self, run_id: str, seq: int = 0) -> list[tuple[int, Event]]:
        """The events of a run after number `seq` (0: all), in order, each with its number."""
        query = select(events.c.seq, events.c.payload).where(events.c.run_id == checked_id(run_id), events.c.seq > seq)
        with self.reading() as connection:
            return [(row.seq, event_rows.read(row.payload)) for row in connection.execute(query.order_by(events.c.seq))]

    def events(self, run_id: str) -> tuple[Event, ...]:
        """All events of a run so far, in order."""
        return tuple(event for _, event in self.events_after(run_id))

    def results(self, run_ids: Sequence[str]) -> dict[str, list[CellFinished]]:
        """The finished cells of many runs by run id, in order of budget and seed, without reading their events."""
        by_run: dict[str, list[CellFinished]] = {run_id: [] for run_id in run_ids}
        query = select(cells).where(cells.c.run_id.in_(run_ids)).order_by(cells.c.run_id, cells.c.epsilon, cells.c.seed)
        with self.reading() as connection:
            for row in connection.execute(query):
                cell = {"epsilon": row.epsilon, "seed": row.seed}
                rest = {"metrics": row.metrics, "guarantee": row.guarantee, "seconds": row.seconds}
                by_run[row.run_id].append(cast(CellFinished, from_json({"event": "CellFinished", "cell": cell, **rest})))
        return by_run

    def alike(self, spec: RunSpec) -> list[CellFinished]:
        """The finished cells of all finished runs that differ from `spec` in budgets, seeds and labels alone."""
        same = select(runs.c.id).where(
            runs.c.workload == durations.workload_of(spec), runs.c.status == "finished", runs.c.deleted.is_(None)
        )
        with self.reading() as connection:
            found = list(connection.scalars(same))
        return [cell for of_run in self.results(found).values() for cell in of_run]

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

    def may_change(self, run: Run) -> bool:
        """Whether a run may be stopped, renamed and deleted from here: on a shared server only by who started it."""
        return self.visitor is None or run.owner == self.visitor.owner

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
                on = on or devices.here(asked)
                if not devices.fits(asked, on):
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

    def _runs(self, query: Select[*tuple[object, ...]], **values: str) -> list[Run]:
        with self.reading() as connection:
            return _read(connection, self._seen(connection, query), values)

    def _seen(self, connection: Connection, query: Query) -> Query:
        hidden = self._hidden(connection)
        return query.where(dataset.not_in(hidden)) if hidden else query

    def _hidden(self, connection: Connection) -> list[str]:
        """The datasets whose runs are not seen."""
        if self._sees is None:
            return []
        named = connection.scalars(select(dataset).distinct().where(dataset.startswith("own:")))
        return [name for name in named if not self._sees(name)]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction; only for modules of `runs`."""
        with self._troubles(), self._reads.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """A write transaction, committed whole or not at all; only for modules of `runs`.

        `durable`: a power cut just after it takes nothing back; False for what is said again a moment later.
        """
        with self._troubles():
            with self._writes.execution_options(durable=durable).begin() as connection:
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

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            if self._file is not None:
                database.check_in_place(self._reads, self._file)
            raise database.trouble(error, self.url) from error


def _read(connection: Connection, query: Select[*tuple[Any, ...]], values: Mapping[str, str]) -> list[Run]:
    """The runs of a query, with their places in the queue and estimated durations."""
    rows = connection.execute(query, values).all()
    open_rows = [row for row in rows if row.status in ("queued", *ACTIVE)]
    places = queue.places(connection) if open_rows else {}
    past = durations.past(connection, {row.workload for row in open_rows}) if open_rows else {}
    estimates = {row.id: durations.estimate(past.get((row.workload, row.device), []), row.n_cells) for row in open_rows}
    return [of_row(row, places.get(row.id), estimates.get(row.id)) for row in rows]


def _is_one_of(run_ids: Collection[str]) -> ColumnElement[bool]:
    """Whether a run is one of these. Malformed ids are left out: a link may have NUL, which PostgreSQL refuses."""
    return runs.c.id.in_([run_id for run_id in run_ids if is_id(run_id)])
