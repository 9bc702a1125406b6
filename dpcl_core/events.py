"""What a run can say: a closed list of frozen records, each with a JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, cast

from pydantic import TypeAdapter

from dpcl_core.spec import Cell, NoiseSource

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The epsilon that a publication claims for what a method did. A label of a configuration, not a bound.

    `terms`: what it is the sum of; `numbers`: what the terms were computed from, by name; `source`: where it is claimed.
    """

    epsilon: float
    source: str
    terms: Mapping[str, float]
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AuditNote:
    """What an attack on a method's mechanism proved: epsilon is at least `lower_bound`, with this confidence."""

    lower_bound: float
    confidence: float
    trials: int
    attack: str
    adversary: str


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What one cell's release protects, and what it does not. `epsilon` is what its ledger adds up to (inf: no bound).

    `parts` names what the total is made of (for instance one task's epsilon); `claimed_epsilon` is what the form asked for.
    `noise` "seeded" voids the bound for whoever knows the seed. `claim`: what a publication says, for methods whose epsilon
    is nominal; `audit` then stands beside it.
    """

    epsilon: float
    delta: float
    unit: str
    adjacency: str
    composition: str
    scope: str
    claimed_epsilon: float | None
    noise: NoiseSource
    assumptions: tuple[str, ...]
    not_covered: tuple[str, ...]
    caveats: tuple[str, ...]
    parts: Mapping[str, float]
    claim: Claim | None = None
    audit: AuditNote | None = None

    @property
    def is_private(self) -> bool:
        return math.isfinite(self.epsilon)


@dataclass(frozen=True, slots=True)
class Started:
    """The stream is open: public facts about what will be learned. `titles` names the data truthfully (subset, stand-in)."""

    n_tasks: int
    task_names: tuple[str, ...]
    dataset_title: str
    n_train: int
    n_test: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the run is: `done` of `total` units of work, in which phase, learning which task (None: before the first)."""

    phase: Literal["data", "backbone", "training", "evaluating"]
    done: int
    total: int
    task: int | None
    text: str


@dataclass(frozen=True, slots=True)
class TaskLearned:
    """Test accuracy after a task (entry i: on task i <= task), and the epsilon the ledger adds up to by then.

    None is "not evaluated", never zero: a task without test examples, or no model released yet. `pooled` is accuracy over
    all test examples of the tasks seen so far; it differs from the mean where tasks differ in size. `by_rule` has the
    accuracies under each of the method's prediction rules, the run's own first; empty where there is one rule only.
    """

    cell: Cell
    task: int
    accuracy: tuple[float | None, ...]
    pooled: float | None
    epsilon: float
    by_rule: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CellFinished:
    """One model is done: its metrics (None where undefined), its guarantee, the seconds of work counted to it."""

    cell: Cell
    metrics: Mapping[str, float | None]
    guarantee: Guarantee
    seconds: float


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reader of the result should know."""

    level: Literal["info", "warning"]
    text: str


Event = Started | Progress | TaskLearned | CellFinished | Note  # a closed list: adding one is a decision
_READERS: Mapping[str, TypeAdapter[Event]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Started, Progress, TaskLearned, CellFinished, Note)
}


def to_json(event: Event) -> dict[str, JsonValue]:
    """A JSON document of the event; infinity is the string "inf", a kind's name stands under "event"."""
    return {"event": type(event).__name__, **cast(dict[str, JsonValue], _plain(asdict(event)))}


def from_json(document: Mapping[str, JsonValue]) -> Event:
    """The event that `to_json` wrote. Raises KeyError for an unknown kind."""
    fields = dict(document)
    return _READERS[str(fields.pop("event"))].validate_python(fields)


def plain_number(value: float) -> float | str:
    """A number that strict JSON can hold: infinity as the string "inf"."""
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _plain(value: object) -> JsonValue:
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    return cast(JsonValue, value)
