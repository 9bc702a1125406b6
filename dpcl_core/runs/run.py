"""One stored run: its settings, states and end."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import sha256
from statistics import median
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Update, bindparam, case, delete, func, select, update

from dpcl_core import checks
from dpcl_core.errors import BadInput, FailureKind
from dpcl_core.events import Event, Progress, Started, TaskLearned
from dpcl_core.methods import catalog as methods
from dpcl_core.metrics import grouped
from dpcl_core.runs import database
from dpcl_core.runs.process import Process
from dpcl_core.runs.tables import ACTIVE, checkpoints, resumptions, runs, shards, splits
from dpcl_core.spec import RunSpec

Status = Literal["queued", "starting", "running", "stopping", "cancelled", "failed", "lost", "finished"]
End = Literal["cancelled", "failed", "lost", "finished"]

_ID = re.compile(r"[0-9a-f]{12}")
LONGEST_NAME = 100
# Between two signs of life, at most so much counts as work: more was an outage, a computer asleep or a clock that was set.
COUNTED_SECONDS = 60.0
RESUMABLE: tuple[FailureKind, ...] = ("worker-died", "store")  # failures that settings and data have no part in


@dataclass(frozen=True, slots=True)
class Run:
    """One stored run; times are seconds since 1970.

    `device`: what it asks for; `runs_on`: what it was given, named with its machine. `readable_spec` is None where the
    settings name something this program no longer has; `spec_trouble` then says so in one sentence and `raw_spec` still
    holds what was stored. `estimate_seconds`: total duration, estimated from past runs of the same workload; None when
    unknown or over. `process` carries the run out, or waits in a terminal to do so. `silent_seconds`: since the last
    heartbeat, by the database's clock. `started`: when its last process was; `seconds`: that its processes took by the last
    heartbeat, None before the first. `place_in_queue`: counts the waiting entries, from 1, a set of runs as one; None
    where it waits for no other entry. `owner`: digest of the token of the visitor of a shared server who started it.
    `attended`: it ends with `process`, a command in a terminal or a script, and goes on by a person's word only.
    """

    id: str
    name: str
    raw_spec: Mapping[str, object]
    readable_spec: RunSpec | None
    spec_trouble: str | None
    digest: str
    status: Status
    device: str
    runs_on: str | None
    created: float
    started: float | None
    finished: float | None
    heartbeat: float | None
    silent_seconds: float | None
    deleted: float | None
    owner: str | None
    attended: bool | None
    seconds: float | None
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
    def seconds_taken(self) -> float | None:
        """Seconds that its processes had taken when it was read, without waiting; None if it never started."""
        if self.started is None:
            return None
        silent = self.silent_seconds or 0.0 if self.status in ACTIVE else 0.0
        return (self.seconds or 0.0) + min(max(silent, 0.0), COUNTED_SECONDS)

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", *ACTIVE)


@dataclass(frozen=True, slots=True)
class Split:
    """How a run is carried out in parts: in at most `n_shards`, which the executor of this name starts on such devices."""

    n_shards: int
    executor: str
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason for a run's failure: kind, one sentence for the user, and details (a traceback, the end of the log)."""

    kind: FailureKind
    sentence: str
    log: str


def is_id(text: str) -> bool:
    """Whether a text has the form of a run's id."""
    return _ID.fullmatch(text) is not None


def checked_id(run_id: str) -> str:
    """The id of a run. Raises BadInput if it is malformed."""
    if not is_id(run_id):
        raise BadInput("run", run_id, "must be 12 hexadecimal digits, as the list of runs shows them")
    return run_id


def no_such_run(run_id: str) -> BadInput:
    """The error for an id that no run of the store has."""
    return BadInput("run", run_id, "no such run in this store")


def clean_line(field: str, text: str, longest: int) -> str:
    """A text without needless blanks. Raises BadInput for an empty or long one."""
    cleaned = " ".join(text.split())
    if not 1 <= len(cleaned) <= longest or not cleaned.isprintable():
        raise BadInput(field, cleaned[:20] or "nothing", f"must be one line of 1 to {longest} characters")
    return cleaned


def clean_name(name: str) -> str:
    """The name of a run without needless blanks. Raises BadInput for an empty or long one."""
    return clean_line("name", name, LONGEST_NAME)


def of_row(row: Row[*tuple[object, ...]], place: int | None, estimate: float | None) -> Run:
    """The run of a row of its table, with its place in the queue and its estimated seconds."""
    (raw, spec, spec_trouble), given = _read_spec(row.spec, tuple(methods.CARDS)), row._asdict()
    return Run(
        **{field.name: given[field.name] for field in fields(Run) if field.name in given},
        raw_spec=raw,
        readable_spec=spec,
        spec_trouble=spec_trouble,
        place_in_queue=place,
        estimate_seconds=estimate,
        process=Process(row.machine, row.pid, row.ticks) if row.pid is not None else None,
    )


class Named(NamedTuple):
    """What a run is called, for a search in all runs of a store: it reads no settings, and what these lack is empty."""

    id: str
    name: str
    method: str
    dataset: str
    scenario: str


def spec_of(text: str) -> RunSpec | None:
    """The settings that a run's row holds; None where they can no longer be read."""
    return _read_spec(text, tuple(methods.CARDS))[1]


@lru_cache(maxsize=1000)  # pages list the same runs again and again
def _read_spec(text: str, known: tuple[str, ...]) -> tuple[Mapping[str, object], RunSpec | None, str | None]:
    """The settings as written and as read, or why they cannot be; `known`: the methods there are, on which that depends."""
    raw: Mapping[str, object] = {}
    try:
        raw = json.loads(text)
        return raw, checks.parse(raw), None
    except (ValueError, TypeError, AttributeError) as error:  # BadInput is a ValueError
        return raw, None, f"its settings can no longer be read: {error}"


# Share of a run that is done and its remaining time, from its events so far.


Left = tuple[float, float]  # seconds left: shortest, longest
_LEAST, _MOST = 0.5, 1.5  # of the time left that was to be expected
_TOO_EARLY = 0.02  # below this share of the work, elapsed time says nothing about the rest


def fraction_done(spec: RunSpec, events: Iterable[Event]) -> float:
    """Share of the training done, in [0, 1]. More events of the same run never lower it."""
    n_cells, n_together = spec.n_cells, n_trained_together(spec)
    n_tasks, learned, furthest = 0, 0, 0.0
    for event in events:
        if isinstance(event, Started):
            n_tasks = event.n_tasks
        elif isinstance(event, TaskLearned):
            learned += 1
            furthest = max(furthest, float(learned))
        elif isinstance(event, Progress) and event.phase == "training" and event.total > 0:
            # A learner trains its cells on a task together: its progress counts for all of them.
            furthest = max(furthest, learned // n_together * n_together + n_together * min(1.0, event.done / event.total))
    return min(1.0, furthest / (n_cells * n_tasks)) if n_tasks else 0.0


def stage(events: Sequence[Event]) -> Progress | None:
    """What the run is doing before its first training: the newest progress of reading data or computing features, if any."""
    if any(isinstance(event, TaskLearned) for event in events):
        return None
    newest = next((event for event in reversed(events) if isinstance(event, (Started, Progress))), None)
    return newest if isinstance(newest, Progress) and newest.phase in ("data", "backbone") else None


def n_trained_together(spec: RunSpec) -> int:
    """Models that learn a task at the same time; the others wait until these have learned all tasks."""
    together = {"all": spec.n_cells, "epsilons": len(spec.privacy.epsilons), "cell": 1}
    return together[methods.card(spec.method).cells_per_learner]


def steady(fresh: Left, before: Left, since: float) -> Left:
    """The time left, at most half more or less than was to be expected `since` seconds after it was `before`.

    A guess changes suddenly where a slower stage begins; what is shown follows it over several looks.
    """
    low, high = (
        min(max(now, _LEAST * max(old - since, 1.0)), _MOST * max(old - since, 1.0))
        for now, old in zip(fresh, before, strict=True)
    )
    return low, max(low, high)


def seconds_left(fraction: float, elapsed: float, estimate: float | None = None) -> Left | None:
    """Range of the seconds left (shortest, longest); None when nothing is known.

    Args: `fraction` of the work done; `elapsed` seconds since the start; `estimate` of the total seconds (see `Run`).
    """
    guesses = [elapsed * (1 - fraction) / fraction] if fraction >= _TOO_EARLY else []
    if estimate is not None:
        guesses.append(max(0.0, estimate - elapsed))
    if not guesses:
        return None
    spread = 1 + (1 - fraction) / 2  # the less is done, the wider the range
    return min(guesses) / spread, max(guesses) * spread


# How long runs take: estimates from finished runs of the same workload.


Work = tuple[str, int]  # a run's workload and number of cells

WORK = (runs.c.workload, runs.c.device, runs.c.n_cells)  # what a run's duration follows from
# Made once, as the queries of `store` are.
_PLACE = func.row_number().over(partition_by=(runs.c.workload, runs.c.device), order_by=runs.c.number.desc())
_FINISHED = (
    select(*WORK, runs.c.seconds, _PLACE.label("place"))
    .where(
        runs.c.status == "finished", runs.c.workload.in_(bindparam("workloads", expanding=True)),
        runs.c.id.not_in(select(splits.c.run_id)),
    ).subquery()
)  # fmt: skip
_PAST = select(*(column for column in _FINISHED.c if column.name != "place")).where(_FINISHED.c.place <= 200)


def workload_of(spec: RunSpec) -> str:
    """Digest of the settings that decide how long a cell takes: all but budgets, seeds and labels."""
    return sha256(spec.to_json(include={"method", "params", "data", "scenario"}).encode()).hexdigest()[:16]


def work_of(spec: RunSpec) -> Work:
    """What a run's duration follows from."""
    return workload_of(spec), spec.n_cells


def estimates(connection: Connection, work: Sequence[Sequence[Any]]) -> list[float | None]:
    """Seconds that runs of this workload, device and number of cells (`WORK`) are likely to take; None where unknown.

    The median of the last 200 finished runs with as many cells; without any, their median seconds per cell times the cells.
    Those of a run that was split are those of its parts, each on one device.
    """
    past = connection.execute(_PAST, {"workloads": [one[0] for one in work]}) if work else ()
    known = grouped(((workload, device), (n_cells, seconds)) for workload, device, n_cells, seconds in past)

    def estimate(workload: str, device: str, n_cells: int) -> float | None:
        alike: list[tuple[int, float]] = known.get((workload, device), [])
        comparable = [one for one in alike if one[0] == n_cells] or alike
        return n_cells * median(seconds / cells for cells, seconds in comparable) if comparable else None

    return [estimate(*one) for one in work]


# How the state of a run changes: statements that change nothing unless the run is in the state that they start from.


def transition(run_id: str, before: Sequence[str]) -> Update:
    """An UPDATE of one run that changes nothing unless the run is in one of the states `before`."""
    return update(runs).where(runs.c.id == checked_id(run_id), runs.c.status.in_(before))


def stop(connection: Connection, which: ColumnElement[bool]) -> None:
    """Cancels those of these runs that wait, and requests those under way to stop; others stay as they are."""
    change = update(runs).where(which)
    connection.execute(change.where(runs.c.status == "queued").values(status="cancelled", finished=time.time()))
    connection.execute(change.where(runs.c.status.in_(("starting", "running"))).values(status="stopping"))


def stop_shards(connection: Connection, run_id: str) -> None:
    """Stops the parts of a run."""
    stop(connection, runs.c.id.in_(select(shards.c.id).where(shards.c.run_id == checked_id(run_id))))


def end_update(
    run_id: str, status: End, failure: Failure | None, before: Sequence[str] = ACTIVE, *, is_gone: bool = False
) -> Update:
    """The end of a run in one of the states `before`. `is_gone`: its process gave its last sign of life some time ago."""
    # A run that is stopping may have been told why (`Store.stop_overrun`).
    is_told = (runs.c.status == "stopping") & (status == "cancelled")
    why: dict[str, object] = {name: case((is_told, runs.c[name]), else_=None) for name in ("error_kind", "error")}
    log = None
    if failure is not None:
        why, log = {"error_kind": failure.kind, "error": _storable(failure.sentence)}, _storable(failure.log)
    before_that = func.coalesce(runs.c.seconds, 0.0)
    took = before_that if is_gone else case((runs.c.status.in_(ACTIVE), seconds_taken()), else_=before_that)
    return transition(run_id, before).values(status=status, error_log=log, finished=time.time(), seconds=took, **why)


def seconds_taken() -> ColumnElement[float]:
    """What the processes of a run under way have taken by now (see `Run.seconds_taken`), by the database's clock."""
    silent = database.now() - runs.c.heartbeat
    counted = case((silent > COUNTED_SECONDS, COUNTED_SECONDS), (silent > 0.0, silent), else_=0.0)
    return func.coalesce(runs.c.seconds, 0.0) + counted


def _storable(text: str) -> str:
    """The text without what PostgreSQL (null characters) or either database (halves of characters) refuses."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def forget(connection: Connection, run_id: str) -> None:
    """Deletes the checkpoints of a run, which cannot be resumed from now on."""
    for table in (checkpoints, resumptions):
        connection.execute(delete(table).where(table.c.run_id == run_id))


def columns_of(process: Process | None) -> dict[str, str | int | None]:
    return {name: getattr(process, name, None) for name in ("machine", "pid", "ticks")}
