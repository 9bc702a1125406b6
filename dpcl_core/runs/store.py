"""The store of all runs, their states and events: the only thing that app, workers and terminal share.

A state changes by one UPDATE that names the states it may follow, so that of two concurrent changes only the first counts:

    queued -> starting -> running -> finished | failed | lost
                   (-> stopping)  -> cancelled, or any of those if they came first;  queued -> cancelled | lost
"""

import base64
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar, cast, get_args

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Select, Update, bindparam, case, func, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dpcl_core import paths
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Classifier, Event, Progress, from_json
from dpcl_core.runs import charges, database, queue, run, tables
from dpcl_core.runs.process import Process, fits, here
from dpcl_core.runs.run import RESUMABLE, End, Failure, Named, Run, Split, Status, checked_id, no_such_run, transition
from dpcl_core.runs.tables import ACTIVE, OPEN, cells, classifiers, dataset, events, of_others, runs, splits
from dpcl_core.spec import RunSpec

_TAKEN = "is no longer carried out by this process: it was ended or taken over elsewhere, as after a silence; see dpcl runs"
PROMPT_SECONDS = 1.0  # a write that takes longer has waited for somebody
_ROOM = 1_000_000  # bytes that a disk has to have free
_Query = TypeVar("_Query", bound=Select[*tuple[Any, ...]])
_Rows = Sequence[Row[*tuple[Any, ...]]]

# What every page asks is made here once: making a query takes several times as long as carrying it out.
_ROWS = select(runs, (database.now() - runs.c.heartbeat).label("silent_seconds"))
_ONE = _ROWS.where(runs.c.id == bindparam("run"), runs.c.emptied.is_(None))
_IS_LISTED = runs.c.deleted.is_(None) & runs.c.id.not_in(of_others)
_LISTED = select(runs.c.number).where(_IS_LISTED)
_COUNTED = _LISTED.with_only_columns(runs.c.status, func.count()).group_by(runs.c.status)
_NEWEST_FIRST = (runs.c.number.desc(),)
_OWN_FIRST = (case((runs.c.owner == bindparam("owner"), 0), else_=1), *_NEWEST_FIRST)
_IS_OPEN, _IS_ACTIVE = runs.c.status.in_(OPEN), runs.c.status.in_(ACTIVE)
_UNFINISHED = _ROWS.where(_IS_OPEN).order_by(runs.c.number)
_QUEUES = (
    select(runs.c.device, func.count().filter(_IS_ACTIVE), func.count().filter(~_IS_ACTIVE))
    .where(_IS_OPEN).group_by(runs.c.device).order_by(runs.c.device)
)  # fmt: skip


class Store:
    """The runs in one database, and what changes them. Every method raises StoreTrouble, with one sentence, when it fails.

    Safe to share between threads and processes: it keeps nothing in memory but connections.
    """

    def __init__(self, url: str | None = None) -> None:
        if url is None and (named := os.environ.get("DPCL_STORE")):
            database.check_there(url := named)
        self.url = database.absolute(url or f"sqlite:///{paths.home() / 'store.sqlite'}")
        self._file: tuple[int, int] | None = None
        with self._troubles():
            self._reads = database.open_database(self.url)
            self._file = database.file_of(self._reads)
        self.visitor: queue.Visitor | None = None
        self._sees: Callable[[str], bool] | None = None

    def seen_by(self, sees: Callable[[str], bool]) -> Self:
        """The same store for somebody who sees runs on some datasets alone: `get` and lists have no others."""
        view = copy(self)
        view._sees = sees
        return view

    def as_visitor(self, visitor: queue.Visitor) -> Self:
        """The same store as a visitor of a shared server may use it: within limits, and changing no run of another one."""
        own = copy(self)
        own.visitor = visitor
        return own

    def split_of(self, run_id: str) -> Split | None:
        """Into how many parts a run is split, and what starts them; None for one that is carried out whole."""
        found = self.rows(select(splits).where(splits.c.run_id == checked_id(run_id)))
        return Split(*found[0][1:]) if found else None

    def get(self, run_id: str) -> Run:
        """A run, deleted ones included. Raises BadInput for an id that is malformed or unknown."""
        found = self._runs(_ONE, run=checked_id(run_id))
        if not found:
            raise no_such_run(run_id)
        return found[0]

    def get_with_results(self, run_id: str) -> Run:
        """As `get`. Raises BadInput also for what has no results of its own: a tuning, an audit, and a part of a run."""
        found = self.get(run_id)
        if self.scalar(select(runs.c.id).where(runs.c.id == run_id, runs.c.id.in_(of_others))) is not None:
            allowed = "must be a run with results of its own: this is a tuning, an audit or a part of a run"
            raise BadInput("run", run_id, allowed)
        return found

    def present(self, run_ids: Collection[str]) -> dict[str, Run]:
        """Those of these runs that are there, by id: without unknown ones and without those deleted for good."""
        return {one.id: one for one in self._runs(_ROWS.where(_is_one_of(run_ids), runs.c.emptied.is_(None)))}

    def listed(self, run_ids: Collection[str]) -> dict[str, Run]:
        """Those of these runs that `list_runs` has, by id: without deleted ones, parts, and those of tunings and audits."""
        return {one.id: one for one in self._runs(_ROWS.where(_is_one_of(run_ids), _IS_LISTED))}

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
                said = (func.coalesce(sa.cast(one, sa.Text), "") for one in (tables.method, dataset, tables.scenario))
                named = chosen.with_only_columns(runs.c.id, runs.c.name, *said)
                wanted = [one.id for one in map(Named._make, connection.execute(named, values)) if only(one)]
                chosen = chosen.where(runs.c.id.in_(wanted[:limit]))
            # Numbers are put into order first: whole rows take several times as long.
            return _read(connection, _ROWS.where(runs.c.number.in_(chosen.limit(limit))).order_by(*order), values)

    def n_listed(self) -> dict[Status, int]:
        """How many runs `list_runs` has in each state."""
        with self.reading() as connection:
            return dict(connection.execute(self._seen(connection, _COUNTED)).all())

    def trash(self) -> list[Run]:
        """The deleted runs that can be restored, newest first: a visitor's own, and all where the server is not shared."""
        mine = [] if self.visitor is None else [runs.c.owner == self.visitor.owner]
        return self._runs(_ROWS.where(runs.c.deleted.is_not(None), runs.c.emptied.is_(None), *mine).order_by(*_NEWEST_FIRST))

    def unfinished(self) -> list[Run]:
        """Runs that are queued or under way, oldest first."""
        return self._runs(_UNFINISHED)

    def status(self, run_id: str) -> Status:
        """The state of a run, without the rest. Raises BadInput for an id that is malformed or unknown."""
        status = self.scalar(select(runs.c.status).where(runs.c.id == checked_id(run_id)))
        if status is None:
            raise no_such_run(run_id)
        return cast(Status, status)

    def may_change(self, one: Run) -> bool:
        """Whether a run may be stopped, renamed and deleted from here: on a shared server only by who started it."""
        return self.visitor is None or one.owner == self.visitor.owner

    def ahead(self, device: str, run_id: str | None = None) -> list[Run]:
        """What is ahead of a waiting run (None: of a new one) on the device it asks for: under way, then waiting."""
        with self.reading() as connection:
            ids = queue.ahead(connection, device, run_id)
        found = self.present(ids)
        return [found[one] for one in ids if one in found]

    def queues(self) -> dict[str, tuple[int, int]]:
        """By device, how many runs are under way and how many wait, those that are not seen included."""
        return {device: (active, queued) for device, active, queued in self.rows(_QUEUES)}

    def estimates(self, work: Sequence[run.Work], *, device: str = "cpu") -> list[float | None]:
        """Estimated seconds of runs (`run.work_of`), from finished ones of the same workload; None where there are none."""
        with self.reading() as connection:
            return run.estimates(connection, [(workload, device, n_cells) for workload, n_cells in work])

    def is_full(self) -> bool:
        """Whether the disk of the store's file, or of the home, has no room for what a run says."""
        files = [paths.home(), *([] if self._file is None else [Path(str(self._reads.url.database))])]
        return any(one.exists() and shutil.disk_usage(one).free < _ROOM for one in files)

    def create(
        self, spec: RunSpec, *, name: str | None = None, device: str = "cpu", split: Split | None = None,
        attended_by: Process | None = None,
    ) -> str:  # fmt: skip
        """Puts a run at the end of its device's queue and gives its id. Raises BadInput for a bad name or device.

        `split`: it is to be carried out in parts. `attended_by`: the command or script that it ends with.
        """
        label = run.clean_name(f"{spec.method} on {spec.data.dataset}" if name is None else name)
        with self.writing() as connection:
            return queue.enqueue(
                connection, spec, name=label, device=device, visitor=self.visitor, split=split, attended_by=attended_by
            )

    def retry(self, run_id: str) -> str:
        """A new run of the same settings, name and device, at the end of the queue; gives its id."""
        before = self.get(run_id)
        return self.create(before.spec, name=before.name, device=before.device, split=self.split_of(run_id))

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
            with self.holding(run_id, by, durable=durable) as connection:
                tables.append(connection, run_id, new_events, first)

    def classifiers(self, run_id: str) -> list[Classifier]:
        """What the models of a run had released by the end of each task, in order of budget, seed and task."""
        query = select(classifiers.c.about, classifiers.c.arrays).where(classifiers.c.run_id == checked_id(run_id))
        rows = self.rows(query.order_by(classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task))
        found = [from_json({**row.about, "content": base64.b64encode(row.arrays).decode("ascii")}) for row in rows]
        return cast(list[Classifier], found)

    def events_after(self, run_id: str, seq: int = 0) -> list[tuple[int, Event]]:
        """The events of a run after number `seq` (0: all), in order, each with its number."""
        query = select(events.c.seq, events.c.payload).where(events.c.run_id == checked_id(run_id), events.c.seq > seq)
        return [(row.seq, tables.read_event(row.payload)) for row in self.rows(query.order_by(events.c.seq))]

    def events(self, run_id: str) -> tuple[Event, ...]:
        """All events of a run so far, in order."""
        return tuple(event for _, event in self.events_after(run_id))

    def results(self, run_ids: Sequence[str]) -> dict[str, list[CellFinished]]:
        """The finished cells of many runs by run id, in order of budget and seed, without reading their events."""
        by_run: dict[str, list[CellFinished]] = {run_id: [] for run_id in run_ids}
        query = select(cells).where(cells.c.run_id.in_(run_ids)).order_by(cells.c.run_id, cells.c.epsilon, cells.c.seed)
        for row in self.rows(query):
            cell = {"epsilon": row.epsilon, "seed": row.seed}
            rest = {"metrics": row.metrics, "guarantee": row.guarantee, "seconds": row.seconds}
            by_run[row.run_id].append(cast(CellFinished, from_json({"event": "CellFinished", "cell": cell, **rest})))
        return by_run

    def final_accuracies(self, run_ids: Sequence[str]) -> dict[str, list[float]]:
        """The final average accuracies at each run's largest budget, of its finished seeds in order, by run id."""
        of_runs, by_run = cells.c.run_id.in_(run_ids), {run_id: list[float]() for run_id in run_ids}
        largest = select(cells.c.run_id, func.max(cells.c.epsilon).label("epsilon")).where(of_runs)
        last = largest.group_by(cells.c.run_id).subquery()
        same = (cells.c.run_id == last.c.run_id) & (cells.c.epsilon == last.c.epsilon)
        found = select(cells.c.run_id, cells.c.metrics).join(last, same)
        for row in self.rows(found.order_by(cells.c.run_id, cells.c.seed)):
            by_run[row.run_id] += [row.metrics["AA"]] if row.metrics.get("AA") is not None else []
        return by_run

    def request_stop(self, run_id: str) -> Status:
        """Cancels a queued run, requests a running one to stop, leaves any other unchanged; returns its current state."""
        self.check_mine(run_id)
        with self.writing() as connection:
            run.stop(connection, runs.c.id == run_id)
            run.stop_shards(connection, run_id)
        return self.status(run_id)

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name. Raises BadInput for an empty or long one."""
        self.check_mine(run_id)
        if not self.change(update(runs).where(runs.c.id == run_id).values(name=run.clean_name(name))):
            raise no_such_run(run_id)

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
                run.stop_shards(connection, run_id)  # those of a run whose own process died go on
                run.forget(connection, run_id)
        if not changed:
            raise BadInput("run", run_id, f"is {self.status(run_id)}: stop it before deleting it")

    def restore(self, run_id: str) -> None:
        """Puts a deleted run back into the list."""
        self.check_mine(run_id)
        # One statement: results that go just now leave no empty run in the list.
        if not self.change(update(runs).where(runs.c.id == run_id, runs.c.emptied.is_(None)).values(deleted=None)):
            raise no_such_run(run_id)

    def check_mine(self, run_id: str) -> None:
        """Raises BadInput for a run that only another visitor may change, and for an id that is malformed."""
        owner = select(runs.c.owner).where(runs.c.id == checked_id(run_id))
        if self.visitor is not None and self.scalar(owner) != self.visitor.owner:
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
            with suppress(IntegrityError):  # the index of one run per device
                begun = {"started": time.time(), "heartbeat": database.now(), **run.columns_of(process)}
                asked = str(connection.scalar(select(runs.c.device).where(runs.c.id == run_id)))
                on = on or here(asked)
                if not fits(asked, on):
                    return False
                try:
                    charges.check_again(connection, run_id, is_start=True)
                except BadInput as refused:
                    failure = Failure(refused.kind, str(refused), "")
                    connection.execute(run.end_update(run_id, "failed", failure, before=("queued",)))
                    return False
                return connection.execute(change.values(status="starting", runs_on=on, **begun)).rowcount == 1
            return False

    def attach(self, run_id: str, process: Process) -> bool:
        """Records the process of a run that was claimed for one about to be started."""
        is_same = sa.and_(*(runs.c[name].is_not_distinct_from(value) for name, value in run.columns_of(process).items()))
        change = transition(run_id, ("starting", "stopping")).where(runs.c.pid.is_(None) | is_same)
        return self.change(change.values(heartbeat=database.now(), **run.columns_of(process))) == 1

    def wait(self, run_id: str, process: Process) -> bool:
        """Records that a process waits to carry out a queued run itself, which ends with it.

        Others pass over the run after ten seconds without a word, so call it again.
        """
        said = {"heartbeat": database.now(), "attended": True, **run.columns_of(process)}
        return self.change(transition(run_id, ("queued",)).values(**said), durable=False) == 1

    def requeue(self, claimed: Run) -> bool:
        """Puts a run back for which no process was started: who claimed it has died, or lost the store just then."""
        change = transition(claimed.id, ("starting",)).where(runs.c.pid.is_(None), runs.c.heartbeat == claimed.heartbeat)
        started = case((runs.c.seconds.is_(None), None), else_=runs.c.started)  # an earlier process stays a look at the data
        return self.change(change.values(status="queued", started=started, heartbeat=None, runs_on=None)) == 1

    def begin(self, run_id: str, *, by: Process | None = None) -> bool:
        """From starting to running: the data are loaded and the first task begins. `by`: as for `append`."""
        with self.holding(run_id, by) as connection:
            return connection.execute(transition(run_id, ("starting",)).values(status="running")).rowcount == 1

    def heartbeat(self, run_id: str, by: Process) -> Status:
        """Records that the process of a run is alive, and gives the run's state, which others may have changed.

        Raises BadInput for a run that this process no longer carries out.
        """
        beat = {"heartbeat": database.now(), "seconds": run.seconds_taken()}
        change = update(runs).where(runs.c.id == checked_id(run_id)).values(**beat)
        with self.holding(run_id, by, durable=False) as connection:
            status: Status = connection.execute(change.returning(runs.c.status)).scalar_one()
        return status

    def is_prompt(self, run_id: str) -> bool:
        """Whether the store takes a write at once; to see that, a run's heartbeat is written over itself."""
        begun = time.monotonic()
        self.change(update(runs).where(runs.c.id == run_id).values(heartbeat=runs.c.heartbeat), durable=False)
        return time.monotonic() - begun < PROMPT_SECONDS

    def end(self, run_id: str, status: End, failure: Failure | None = None, *, by: Process | None = None) -> bool:
        """Ends a run that is under way; of two concurrent ends the first counts. Deletes checkpoints of no more use.

        Raises BadInput for a run that `by` no longer carries out; one that has ended is still its own.
        """
        with self.holding(run_id, by, *get_args(End)) as connection:
            is_ended = connection.execute(run.end_update(run_id, status, failure)).rowcount == 1
            if is_ended and (status == "finished" or (failure is not None and failure.kind not in RESUMABLE)):
                run.forget(connection, run_id)
            return is_ended

    def stop_overrun(self, run_id: str, why: str) -> None:
        """Requests a run under way to stop because it is above a limit, and keeps why; it then cannot be resumed."""
        change = transition(run_id, ("starting", "running"))
        with self.writing() as connection:
            if connection.execute(change.values(status="stopping", error_kind="wrong-input", error=why)).rowcount:
                run.stop_shards(connection, run_id)

    def mark_failed(self, gone: Run, failure: Failure, if_lost: Callable[[Connection, str], object] | None = None) -> bool:
        """Ends a run whose process is gone: lost, or cancelled if it was stopping. Not if a heartbeat came since `gone`.

        `if_lost`: what happens to a lost run in the same transaction. An attended one may have waited; its parts stop.
        """
        status: End = "cancelled" if gone.status == "stopping" else "lost"
        before = OPEN if gone.attended else ACTIVE
        # A computer that was switched off took none of the time since.
        change = run.end_update(gone.id, status, failure if status == "lost" else None, before, is_gone=True)
        with self.writing() as connection:
            change = change.where(runs.c.status == gone.status, runs.c.heartbeat == gone.heartbeat)
            is_marked = connection.execute(change).rowcount == 1
            if is_marked and status == "lost" and if_lost is not None:
                if_lost(connection, gone.id)
            if is_marked and gone.attended:
                run.stop_shards(connection, gone.id)
            return is_marked

    # Queries and transactions; only for modules of `runs`

    def rows(self, query: Select[*tuple[Any, ...]], values: Mapping[str, object] | None = None) -> _Rows:
        """All rows of a query."""
        with self.reading() as connection:
            return connection.execute(query, values).all()

    def pairs(self, query: Select[*tuple[Any, ...]]) -> dict[Any, Any]:
        """The second column of a query by the first; of equal ones the last."""
        return dict(map(tuple, self.rows(query)))

    def scalar(self, query: Select[*tuple[Any, ...]]) -> Any | None:
        """The first value of a query's first row; None without a row."""
        with self.reading() as connection:
            return connection.scalar(query)

    def change(self, statement: Update, *, durable: bool = True) -> int:
        """Carries out one UPDATE; gives the number of rows that it changed."""
        with self.writing(durable=durable) as connection:
            return connection.execute(statement).rowcount

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction."""
        with self._troubles(), self._reads.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """A write transaction, committed whole or not at all.

        `durable`: a power cut just after it takes nothing back; False for what is said again a moment later.
        """
        with self._troubles():
            with self._reads.execution_options(writes=True, durable=durable).begin() as connection:
                yield connection
            database.check_in_place(self._reads, self._file)  # after the commit: one before it could be overtaken

    @contextmanager
    def holding(self, run_id: str, by: Process | None, *also: Status, durable: bool = True) -> Iterator[Connection]:
        """A write transaction of the process that carries out a run (None: of any): until it is over, no other can take it.

        Raises BadInput where the run was given up, or taken by another process, because this one was thought dead: what it
        learned must not leave it, as the other learns the same. A run that is deleted for good is nobody's: its results must
        not come back. `also`: states allowed beside those under way.
        """
        columns = (runs.c.machine, runs.c.pid, runs.c.ticks, runs.c.status, runs.c.emptied)
        asked = select(*columns).where(runs.c.id == checked_id(run_id)).with_for_update()
        with self.writing(durable=durable) as connection:
            row = None if by is None else connection.execute(asked).one_or_none()
            if by is not None and row is None:
                raise no_such_run(run_id)
            if row and (row.emptied is not None or row.status not in (*ACTIVE, *also) or Process(*row[:3]) != by):
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

    def _runs(self, query: Select[*tuple[Any, ...]], **values: str) -> list[Run]:
        with self.reading() as connection:
            return _read(connection, self._seen(connection, query), values)

    def _seen(self, connection: Connection, query: _Query) -> _Query:
        """The query without runs on datasets that are not seen."""
        if self._sees is None:
            return query
        named = connection.scalars(select(dataset).distinct().where(dataset.startswith("own:")))
        hidden = [name for name in named if not self._sees(name)]
        return query.where(dataset.not_in(hidden)) if hidden else query


def _read(connection: Connection, query: Select[*tuple[Any, ...]], values: Mapping[str, str]) -> list[Run]:
    """The runs of a query, with their places in the queue and estimated durations."""
    rows = connection.execute(query, values).all()
    is_open = [row for row in rows if row.status in OPEN]
    places = queue.places(connection) if is_open else {}
    durations = run.estimates(connection, [(row.workload, row.device, row.n_cells) for row in is_open])
    estimates = {row.id: seconds for row, seconds in zip(is_open, durations, strict=True)}
    return [run.of_row(row, places.get(row.id), estimates.get(row.id)) for row in rows]


def _is_one_of(run_ids: Collection[str]) -> sa.ColumnElement[bool]:
    """Whether a run is one of these. Malformed ids are left out: a link may have NUL, which PostgreSQL refuses."""
    return runs.c.id.in_([run_id for run_id in run_ids if run.is_id(run_id)])
