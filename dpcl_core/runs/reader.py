"""Reading the store of all runs: runs, their events and results, as whoever asks may see them."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, bindparam, case, func, select
from sqlalchemy import cast as cast_in_store
from sqlalchemy.exc import SQLAlchemyError

from dpcl_core import paths
from dpcl_core.data import copying
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Classifier, Event, from_json
from dpcl_core.runs import database, queue, run, tables
from dpcl_core.runs.queue import Visitor
from dpcl_core.runs.run import Named, Run, Split, Status, checked_id, is_id, no_such_run, of_row
from dpcl_core.runs.tables import ACTIVE, cells, dataset, events, of_others, runs, splits
from dpcl_core.spec import RunSpec

_ROOM = 1_000_000  # bytes that a disk has to have free
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

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


class Reader:
    """What can be asked of the runs in one database. Every method raises StoreTrouble, with one sentence, when it fails.

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
        self.visitor: Visitor | None = None
        self._sees: Callable[[str], bool] | None = None

    def seen_by(self, sees: Callable[[str], bool]) -> Self:
        """The same store for somebody who sees runs on some datasets alone: `get` and lists have no others."""
        view = copy(self)
        view._sees = sees
        return view

    def as_visitor(self, visitor: Visitor) -> Self:
        """The same store as a visitor of a shared server may use it: within limits, and changing no run of another one."""
        own = copy(self)
        own.visitor = visitor
        return own

    def split_of(self, run_id: str) -> Split | None:
        """Into how many parts a run is split, and what starts them; None for one that is carried out whole."""
        with self.reading() as connection:
            row = connection.execute(select(splits).where(splits.c.run_id == checked_id(run_id))).one_or_none()
        return None if row is None else Split(row.n_shards, row.executor, row.device)

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
        return self.estimates([run.work_of(spec)], device=device)[0]

    def estimates(self, work: Sequence[run.Work], *, device: str = "cpu") -> list[float | None]:
        """`estimate_seconds` of several runs, by one query."""
        with self.reading() as connection:
            past = run.past(connection, {workload for workload, _ in work})
        return [run.estimate(past.get((workload, device), []), n_cells) for workload, n_cells in work]

    def last_number(self, run_id: str) -> int:
        """The number of a run's last event; 0 if it has none."""
        with self.reading() as connection:
            return tables.last_number(connection, checked_id(run_id))

    def classifiers(self, run_id: str) -> list[Classifier]:
        """What the models of a run had released by the end of each task, in order of budget, seed and task."""
        with self.reading() as connection:
            return tables.classifiers_of(connection, checked_id(run_id))

    def events_after(self, run_id: str, seq: int = 0) -> list[tuple[int, Event]]:
        """The events of a run after number `seq` (0: all), in order, each with its number."""
        query = select(events.c.seq, events.c.payload).where(events.c.run_id == checked_id(run_id), events.c.seq > seq)
        with self.reading() as connection:
            return [(row.seq, tables.read(row.payload)) for row in connection.execute(query.order_by(events.c.seq))]

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
            runs.c.workload == run.workload_of(spec), runs.c.status == "finished", runs.c.deleted.is_(None)
        )
        with self.reading() as connection:
            found = list(connection.scalars(same))
        return [cell for of_run in self.results(found).values() for cell in of_run]

    def may_change(self, run: Run) -> bool:
        """Whether a run may be stopped, renamed and deleted from here: on a shared server only by who started it."""
        return self.visitor is None or run.owner == self.visitor.owner

    def seconds_before(self, run_id: str) -> float:
        """Seconds that count towards a visitor's limit beside a run's own: of its tuning's other turns."""
        with self.reading() as connection:
            return queue.seconds_before(connection, run_id)

    def bytes_left(self) -> int:
        """How many more bytes this visitor may keep; where nothing is limited, as many as data may have."""
        if self.visitor is None:
            return copying.MAX_BYTES
        with self.reading() as connection:
            return min(copying.MAX_BYTES, queue.bytes_left(connection, self.visitor))

    def is_full(self) -> bool:
        """Whether the disk of the store's file, or of the home, has no room for what a run says."""
        files = [paths.home(), *([] if self._file is None else [Path(str(self._reads.url.database))])]
        return any(one.exists() and shutil.disk_usage(one).free < _ROOM for one in files)

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
    past = run.past(connection, {row.workload for row in open_rows}) if open_rows else {}
    estimates = {row.id: run.estimate(past.get((row.workload, row.device), []), row.n_cells) for row in open_rows}
    return [of_row(row, places.get(row.id), estimates.get(row.id)) for row in rows]


def _is_one_of(run_ids: Collection[str]) -> ColumnElement[bool]:
    """Whether a run is one of these. Malformed ids are left out: a link may have NUL, which PostgreSQL refuses."""
    return runs.c.id.in_([run_id for run_id in run_ids if is_id(run_id)])
