"""One stored run: its settings, states and end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal, NamedTuple

from sqlalchemy import Row

from dpcl_core import checks
from dpcl_core.errors import BadInput, FailureKind
from dpcl_core.methods import catalog as methods
from dpcl_core.runs.process import Process
from dpcl_core.runs.tables import ACTIVE
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


def clean_name(name: str) -> str:
    """The name of a run without needless blanks. Raises BadInput for an empty or long one."""
    cleaned = " ".join(name.split())
    if not 1 <= len(cleaned) <= LONGEST_NAME or not cleaned.isprintable():
        raise BadInput("name", name, f"must be one line of 1 to {LONGEST_NAME} characters")
    return cleaned


def of_row(row: Row[*tuple[object, ...]], place: int | None, estimate: float | None) -> Run:
    """The run of a row of its table, with its place in the queue and its estimated seconds."""
    raw, spec, spec_trouble = _read_spec(row.spec, tuple(methods.CARDS))
    return Run(
        **{field.name: row._mapping[field.name] for field in fields(Run) if field.name in row._mapping},
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
