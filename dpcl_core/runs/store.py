"""The store of all runs, their states and events: the only thing that app, workers and terminal share.

A state changes by one UPDATE that names the states it may follow, so that of two concurrent changes only the first counts:

    queued -> starting -> running -> finished | failed | lost
                   (-> stopping)  -> cancelled, or any of those if they came first;  queued -> cancelled
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from hashlib import sha256
from statistics import median
from typing import Literal, cast, get_args

from sqlalchemy import Connection, Row, Select, Update, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from dpcl_core import checks, paths
from dpcl_core.errors import BadInput, FailureKind
from dpcl_core.events import CellFinished, Classifier, Event, JsonValue, Note, from_json, to_json
from dpcl_core.runs import database
from dpcl_core.runs.process import Process
from dpcl_core.runs.tables import ACTIVE, audits, cells, checkpoints, classifiers, events, resumptions, runs, set_runs, turns
from dpcl_core.spec import RunSpec

Status = Literal["queued", "starting", "running", "stopping", "cancelled", "failed", "lost", "finished"]
End = Literal["cancelled", "failed", "lost", "finished"]

_ID = re.compile(r"[0-9a-f]{12}")
_DEVICE = re.compile(r"cpu|cuda:[0-9]{1,2}")
LONGEST_NAME = 100
RESUMABLE: tuple[FailureKind, ...] = ("worker-died", "store")  # failures that settings and data have no part in


@dataclass(frozen=True, slots=True)
class Run:
    """One stored run; times are seconds since 1970.

    `readable_spec` is None where the settings name something this program no longer has; `spec_trouble` then says so in
    one sentence and `raw_spec` still holds what was stored. `estimate_seconds`: total duration, estimated from past runs
    of the same workload; None when unknown or over. `process` carries the run out, or waits in a terminal to do so.
    `place_in_queue`: counts the waiting entries, from 1, a set of runs as one; None where it waits for no other entry.
    """

    id: str
    name: str
    raw_spec: Mapping[str, object]
    readable_spec: RunSpec | None
    spec_trouble: str | None
    digest: str
    status: Status
    device: str
    created: float
    started: float | None
    finished: float | None
    heartbeat: float | None
    deleted: float | None
    place_in_queue: int | None
    error_kind: FailureKind | None
    error: str | None
    error_log: str | None
    estimate_seconds: float | None
    process: Process | None

    @property
    def spec(self) -> RunSpec:
        """The run's settings. Raises BadInput with `spec_trouble` where they can no longer be read."""
        if self.readable_spec is None:
            raise BadInput("run", self.id, self.spec_trouble or "its settings can no longer be read")
        return self.readable_spec

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", *ACTIVE)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for a run's failure: kind, one sentence for the user, and details (a traceback, the end of the log)."""

    kind: FailureKind
    sentence: str
    log: str


class Store:
    """The runs in one database. Every method raises StoreTrouble, with one sentence, when the database fails.

    Safe to share between threads and processes: it keeps nothing in memory but connections.
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = database.absolute(url or os.environ.get("DPCL_STORE") or f"sqlite:///{paths.home() / 'store.sqlite'}")
        with self._troubles():
            self._reads = database.open_database(self.url)
            self._writes = self._reads.execution_options(writes=True)

    # Making and reading runs

    def create(self, spec: RunSpec, *, name: str | None = None, device: str = "cpu") -> str:
        """Puts a run at the end of its device's queue and gives its id. Raises BadInput for a bad name or device."""
        label = clean_name(f"{spec.method} on {spec.data.dataset}" if name is None else name)
        with self.writing() as connection:
            return enqueue(connection, spec, name=label, workload=workload_of(spec), n_cells=spec.n_cells, device=device)

    def retry(self, run_id: str) -> str:
        """A new run of the same settings, name and device, at the end of the queue; gives its id."""
        before = self.get(run_id)
        return self.create(before.spec, name=before.name, device=before.device)

    def get(self, run_id: str) -> Run:
        """A run, deleted ones included. Raises BadInput for an id that is malformed or unknown."""
        rows = self._runs(select(runs).where(runs.c.id == checked_id(run_id)))
        if not rows:
            raise BadInput("run", run_id, "no such run in this store")
        return rows[0]

    def list_runs(self, limit: int = 500) -> list[Run]:
        """The newest runs that are not deleted, newest first; without the runs of tunings and audits."""
        others = select(turns.c.run_id).union_all(select(audits.c.id))
        listed = select(runs).where(runs.c.deleted.is_(None), runs.c.id.not_in(others))
        return self._runs(listed.order_by(runs.c.number.desc()).limit(limit))

    def unfinished(self) -> list[Run]:
        """Runs that are queued or under way, oldest first."""
        return self._runs(select(runs).where(runs.c.status.in_(("queued", *ACTIVE))).order_by(runs.c.number))

    def status(self, run_id: str) -> Status:
        """The state of a run, without the rest. Raises BadInput for an id that is malformed or unknown."""
        with self.reading() as connection:
            status: Status | None = connection.scalar(select(runs.c.status).where(runs.c.id == checked_id(run_id)))
        if status is None:
            raise BadInput("run", run_id, "no such run in this store")
        return status

    def estimate_seconds(self, spec: RunSpec, *, device: str = "cpu") -> float | None:
        """Estimated duration of a run of this spec, from finished runs of the same workload; None when there are none."""
        return self.estimates([spec], device=device)[0]

    def estimates(self, specs: Sequence[RunSpec], *, device: str = "cpu") -> list[float | None]:
        """`estimate_seconds` of several specs, by one query."""
        workloads = [workload_of(spec) for spec in specs]
        with self.reading() as connection:
            past = _past(connection, set(workloads))
        return [
            _estimate(past.get((workload, device), []), spec.n_cells)
            for workload, spec in zip(workloads, specs, strict=True)
        ]

    # Events

    def append(self, run_id: str, new_events: Sequence[Event]) -> None:
        """Adds events to a run; only the process that carries it out calls this. Raises BadInput for an unknown run.

        Classifiers are kept aside: no page reads them.
        """
        if not new_events:
            return
        now = time.time()
        documents = [to_json(event) for event in new_events if not isinstance(event, Classifier)]
        kept = [_classifier_row(run_id, event) for event in new_events if isinstance(event, Classifier)]
        with self.writing() as connection:
            last = connection.scalar(select(func.max(events.c.seq)).where(events.c.run_id == checked_id(run_id))) or 0
            rows = [
                {"run_id": run_id, "seq": seq, "kind": document["event"], "at": now, "payload": document}
                for seq, document in enumerate(documents, start=last + 1)
            ]
            done = [_cell_row(run_id, document) for document in documents if document["event"] == "CellFinished"]
            try:
                if rows:
                    connection.execute(insert(events), rows)
                if kept:
                    connection.execute(insert(classifiers), kept)
                if done:
                    connection.execute(insert(cells), done)
            except IntegrityError as error:
                raise BadInput("run", run_id, "must be a run of this store, each of its cells finishing once") from error

    def classifiers(self, run_id: str) -> list[Classifier]:
        """What the models of a run had released by the end of each task, in order of budget, seed and task."""
        order = (classifiers.c.epsilon, classifiers.c.seed, classifiers.c.task)
        query = select(classifiers.c.about, classifiers.c.arrays).where(classifiers.c.run_id == checked_id(run_id))
        with self.reading() as connection:
            rows = connection.execute(query.order_by(*order)).all()
        found = [from_json({**row.about, "content": base64.b64encode(row.arrays).decode("ascii")}) for row in rows]
        return cast(list[Classifier], found)

    def events_after(self, run_id: str, seq: int = 0) -> list[tuple[int, Event]]:
        """The events of a run after number `seq` (0: all), in order, each with its number."""
        query = select(events.c.seq, events.c.payload).where(events.c.run_id == checked_id(run_id), events.c.seq > seq)
        with self.reading() as connection:
            return [(row.seq, _read_event(row.payload)) for row in connection.execute(query.order_by(events.c.seq))]

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
            runs.c.workload == workload_of(spec), runs.c.status == "finished", runs.c.deleted.is_(None)
        )
        with self.reading() as connection:
            found = list(connection.scalars(same))
        return [cell for of_run in self.results(found).values() for cell in of_run]

    # Requests of users

    def request_stop(self, run_id: str) -> Status:
        """Cancels a queued run, requests a running one to stop, leaves any other unchanged; returns its current state."""
        with self.writing() as connection:
            connection.execute(_transition(run_id, ("queued",)).values(status="cancelled", finished=time.time()))
            connection.execute(_transition(run_id, ("starting", "running")).values(status="stopping"))
        return self.status(run_id)

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name. Raises BadInput for an empty or long one."""
        self._set(run_id, name=clean_name(name))

    def delete(self, run_id: str) -> None:
        """Hides a run from the list until `restore`; a queued one is cancelled. Deletes its checkpoints.

        Raises BadInput while it is under way.
        """
        now = time.time()
        with self.writing() as connection:
            connection.execute(_transition(run_id, ("queued",)).values(status="cancelled", finished=now))
            changed = connection.execute(_transition(run_id, get_args(End)).values(deleted=now)).rowcount
            if changed:
                _forget(connection, run_id)
        if not changed:
            raise BadInput("run", run_id, f"is {self.status(run_id)}: stop it before deleting it")

    def restore(self, run_id: str) -> None:
        """Puts a deleted run back into the list."""
        self._set(run_id, deleted=None)

    # Transitions by executors and workers: each gives whether this call made it

    def claim(self, run_id: str, process: Process | None = None) -> bool:
        """Claims the first run of a queue for a process (None: one about to be started), if its device is free."""
        ahead = runs.alias()
        first = select(func.min(ahead.c.number)).where(ahead.c.device == runs.c.device, ahead.c.status == "queued")
        now = time.time()
        change = _transition(run_id, ("queued",)).where(runs.c.number == first.scalar_subquery())
        with self.writing() as connection:
            try:
                values = {"status": "starting", "started": now, "heartbeat": now, **_columns(process)}
                return _applied(connection, change.values(**values))
            except IntegrityError:  # the index of one run per device
                return False

    def attach(self, run_id: str, process: Process) -> bool:
        """Records the process of a run that was claimed for one about to be started."""
        same_process = [runs.c[name].is_not_distinct_from(value) for name, value in _columns(process).items()]
        change = _transition(run_id, ("starting", "stopping")).where(or_(runs.c.pid.is_(None), and_(*same_process)))
        with self.writing() as connection:
            return _applied(connection, change.values(heartbeat=time.time(), **_columns(process)))

    def wait(self, run_id: str, process: Process) -> bool:
        """Records that a process waits to carry out a queued run itself; valid for ten seconds, so call it again."""
        with self.writing() as connection:
            return _applied(connection, _transition(run_id, ("queued",)).values(heartbeat=time.time(), **_columns(process)))

    def begin(self, run_id: str) -> bool:
        """From starting to running: the data are loaded and the first task begins."""
        with self.writing() as connection:
            return _applied(connection, _transition(run_id, ("starting",)).values(status="running"))

    def heartbeat(self, run_id: str) -> Status:
        """Records that the process of a run is alive, and gives the run's state, which others may have changed."""
        change = _transition(run_id, ACTIVE).values(heartbeat=time.time()).returning(runs.c.status)
        with self.writing() as connection:
            status: Status | None = connection.scalar(change)
        return status or self.status(run_id)

    def end(self, run_id: str, status: End, failure: Failure | None = None) -> bool:
        """Ends a run that is under way; of two concurrent ends the first counts. Deletes checkpoints of no more use."""
        with self.writing() as connection:
            if not _applied(connection, _end_update(run_id, status, failure)):
                return False
            if status == "finished" or (failure is not None and failure.kind not in RESUMABLE):
                _forget(connection, run_id)
            return True

    def mark_failed(self, run: Run, failure: Failure, if_lost: Callable[[Connection, str], object] | None = None) -> bool:
        """Ends a run whose process is gone: lost, or cancelled if it was stopping. Not if a heartbeat came since `run`.

        `if_lost`: what happens to a lost run in the same transaction.
        """
        status: End = "cancelled" if run.status == "stopping" else "lost"
        change = _end_update(run.id, status, failure if status == "lost" else None)
        with self.writing() as connection:
            change = change.where(runs.c.status == run.status, runs.c.heartbeat == run.heartbeat)
            is_marked = _applied(connection, change)
            if is_marked and status == "lost" and if_lost is not None:
                if_lost(connection, run.id)
            return is_marked

    # Inside

    def _set(self, run_id: str, **columns: str | float | None) -> None:
        with self.writing() as connection:
            if not _applied(connection, update(runs).where(runs.c.id == checked_id(run_id)).values(**columns)):
                raise BadInput("run", run_id, "no such run in this store")

    def _runs(self, query: Select[*tuple[object, ...]]) -> list[Run]:
        with self.reading() as connection:
            rows = connection.execute(query).all()
            open_rows = [row for row in rows if row.status in ("queued", *ACTIVE)]
            places = _places(connection) if open_rows else {}
            past = _past(connection, {row.workload for row in open_rows}) if open_rows else {}
        estimates = {row.id: _estimate(past.get((row.workload, row.device), []), row.n_cells) for row in open_rows}
        return [_run(row, places.get(row.id), estimates.get(row.id)) for row in rows]

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read transaction; only for modules of `runs`."""
        with self._troubles(), self._reads.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A write transaction, committed whole or not at all; only for modules of `runs`."""
        with self._troubles(), self._writes.begin() as connection:
            yield connection

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise database.trouble(error, self.url) from error


def enqueue(connection: Connection, spec: RunSpec, *, name: str, workload: str, n_cells: int, device: str) -> str:
    """Puts a row at the end of its device's queue and gives its id. Raises BadInput for a bad device."""
    if not _DEVICE.fullmatch(device):
        raise BadInput("device", device, "must be cpu or cuda:N")
    run_id = secrets.token_hex(6)
    connection.execute(
        insert(runs).values(
            id=run_id,
            name=name,
            spec=spec.model_dump_json(),
            digest=spec.digest(),
            workload=workload,
            n_cells=n_cells,
            device=device,
            status="queued",
            created=time.time(),
        )
    )
    return run_id


def checked_id(run_id: str) -> str:
    """The id of a run. Raises BadInput if it is malformed."""
    if not _ID.fullmatch(run_id):
        raise BadInput("run", run_id, "must be 12 hexadecimal digits, as the list of runs shows them")
    return run_id


def clean_name(name: str) -> str:
    """The name of a run without needless blanks. Raises BadInput for an empty or long one."""
    cleaned = " ".join(name.split())
    if not 1 <= len(cleaned) <= LONGEST_NAME or not cleaned.isprintable():
        raise BadInput("name", name, f"must be one line of 1 to {LONGEST_NAME} characters")
    return cleaned


def workload_of(spec: RunSpec) -> str:
    """Digest of the settings that decide how long a cell takes: all but budgets, seeds and labels."""
    return sha256(spec.model_dump_json(include={"method", "params", "data", "scenario"}).encode()).hexdigest()[:16]


def _transition(run_id: str, before: Sequence[str]) -> Update:
    """An UPDATE of one run that changes nothing unless the run is in one of the states `before`."""
    return update(runs).where(runs.c.id == checked_id(run_id), runs.c.status.in_(before))


def _end_update(run_id: str, status: End, failure: Failure | None) -> Update:
    change = _transition(run_id, ACTIVE).values(status=status, finished=time.time())
    if failure is None:
        return change
    return change.values(error_kind=failure.kind, error=failure.sentence, error_log=failure.log)


def _forget(connection: Connection, run_id: str) -> None:
    """Deletes the checkpoints of a run, which cannot be resumed from now on."""
    for table in (checkpoints, resumptions):
        connection.execute(delete(table).where(table.c.run_id == run_id))


def _applied(connection: Connection, change: Update) -> bool:
    return connection.execute(change).rowcount == 1


def _columns(process: Process | None) -> dict[str, str | int | None]:
    return {name: getattr(process, name, None) for name in ("machine", "pid", "ticks")}


def _cell_row(run_id: str, document: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    cell = cast(Mapping[str, float | str | int], document["cell"])
    return {
        "run_id": run_id,
        "epsilon": float(cell["epsilon"]),
        "seed": int(cell["seed"]),
        "metrics": document["metrics"],
        "guarantee": document["guarantee"],
        "seconds": document["seconds"],
    }


def _classifier_row(run_id: str, event: Classifier) -> dict[str, object]:
    place = {"run_id": run_id, "epsilon": event.cell.epsilon, "seed": event.cell.seed, "task": event.task}
    about = {name: value for name, value in to_json(event).items() if name != "content"}
    return {**place, "about": about, "arrays": base64.b64decode(event.content)}


def _places(connection: Connection) -> dict[str, int]:
    """Place in its device's queue of every queued run, from 1; the runs of a set share one.

    A set that is under way waits no more: its queued runs have none.
    """
    entries: dict[str, list[str]] = {}
    places = {}
    query = select(runs.c.id, runs.c.device, runs.c.status, set_runs.c.set_id).select_from(runs.outerjoin(set_runs))
    rows = connection.execute(query.where(runs.c.status.in_(("queued", *ACTIVE))).order_by(runs.c.number)).all()
    under_way = {row.set_id for row in rows if row.status != "queued"}
    for row in rows:
        if row.status == "queued" and (row.set_id is None or row.set_id not in under_way):
            ahead, entry = entries.setdefault(row.device, []), row.set_id or row.id
            if entry not in ahead[-1:]:
                ahead.append(entry)
            places[row.id] = len(ahead)
    return places


_Durations = list[tuple[int, float]]  # number of cells and seconds of each finished run of one workload


def _past(connection: Connection, workloads: Collection[str]) -> dict[tuple[str, str], _Durations]:
    """Durations of the last 200 finished runs, by workload and device."""
    query = select(runs.c.workload, runs.c.device, runs.c.n_cells, runs.c.finished - runs.c.started)
    durations: dict[tuple[str, str], _Durations] = {}
    for workload, device, n_cells, seconds in connection.execute(
        query.where(runs.c.status == "finished", runs.c.workload.in_(workloads)).order_by(runs.c.number.desc()).limit(200)
    ):
        durations.setdefault((workload, device), []).append((n_cells, seconds))
    return durations


def _estimate(past: _Durations, n_cells: int) -> float | None:
    """Median seconds of runs with as many cells; without any, the median seconds per cell of the others times `n_cells`."""
    comparable = [(cells, seconds) for cells, seconds in past if cells == n_cells] or past
    return n_cells * median(seconds / cells for cells, seconds in comparable) if comparable else None


def _run(row: Row[*tuple[object, ...]], place: int | None, estimate: float | None) -> Run:
    raw, spec, spec_trouble = _read_spec(row.spec)
    return Run(
        **{field.name: row._mapping[field.name] for field in fields(Run) if field.name in row._mapping},
        raw_spec=raw,
        readable_spec=spec,
        spec_trouble=spec_trouble,
        place_in_queue=place,
        estimate_seconds=estimate,
        process=Process(row.machine, row.pid, row.ticks) if row.pid is not None else None,
    )


def _read_spec(text: str) -> tuple[Mapping[str, object], RunSpec | None, str | None]:
    raw: Mapping[str, object] = {}
    try:
        raw = json.loads(text)
        return raw, checks.parse(raw), None
    except (ValueError, TypeError, AttributeError) as error:  # BadInput is a ValueError
        return raw, None, f"its settings can no longer be read: {error}"


def _read_event(document: Mapping[str, JsonValue]) -> Event:
    try:
        return from_json(document)
    except (KeyError, TypeError, ValueError):
        return Note("warning", "One entry of this run can no longer be read by this version of the program.")
