"""The privacy card of a run, and its check: a second accountant recomputes every number on it from the card's events.

A card is a JSON document of version 1, described in `docs/privacy_card.md`: the run's models as `cells`, each with its
epsilon, its parts, and the ledger's events, from which both follow.

The check finds inconsistency, not forgery: no card can show that the events are what was done.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from dpcl_core.errors import BadInput, first_of
from dpcl_core.events import CellFinished, Guarantee, JsonValue, Mechanism, MechanismKind, Spending, Written, plain_number
from dpcl_core.privacy import statement
from dpcl_core.privacy.protected import who
from dpcl_core.spec import Adjacency, Cell, NoiseSource, Recurrence, Spec

if TYPE_CHECKING:
    from dpcl_core.privacy.accounting import Accountant

FILE = "privacy_card.json"
NAME = "privacy card of a continual learner"
_HOW_TO_CHECK = (
    "Each epsilon follows from the events beside it. Check them with any accountant, or with: python -m dpcl_core verify "
    "privacy_card.json. That finds inconsistency, not forgery."
)
CHECK_FINDS = "This finds inconsistency, not forgery: whether the events are what was done, no card can show."
_LARGEST_FILE = 16_000_000  # bytes
_WIDEST = 0.05  # of epsilon: a wider interval checks nothing
_ROUNDING = 1e-6  # of epsilon: rounding in either accountant

Verdict = Literal["matches", "differs", "unchecked"]
Task = Annotated[int, Field(ge=1, le=100_000)]
Number = Annotated[float, Field(ge=0)]  # NaN fails the comparison


class _Mechanism(Spec):
    mechanism: MechanismKind
    noise_multiplier: Annotated[float, Field(ge=1e-6, le=1e12)] | None = None
    sample_rates: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field((), max_length=100)
    steps: int = Field(1, ge=1, le=10**9)
    epsilon: Annotated[float, Field(ge=0, le=1e4)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None

    @property
    def read(self) -> Mechanism:
        return Mechanism(self.mechanism, self.noise_multiplier, self.sample_rates, self.steps, self.epsilon, self.delta)


class _Event(_Mechanism):
    what: str
    task: Task
    people_of: tuple[Task, ...] = Field(max_length=1000)
    count: int = Field(ge=1, le=10_000)
    adjacency: Adjacency
    shares_batches: bool = False
    channels: Mapping[str, _Mechanism] = Field(default_factory=dict)


class _Cell(Spec):
    """A model on a card. `events` are parsed one by one, so that an unknown one is reported by its place."""

    asked: Number
    seed: int
    guarantee: Literal["proved", "nominal", "none"]
    unit: str
    noise: NoiseSource
    epsilon: Number
    delta: float = Field(gt=0, lt=1)
    adjacency: Adjacency
    recurrence: Recurrence | None
    parts: Mapping[str, Number]
    rows_per_unit: int = Field(1, ge=1, le=1000)
    events: Annotated[tuple[Mapping[str, object], ...], Field(max_length=2000)] | None
    statement: Mapping[str, str | tuple[str, ...]] = Field(default_factory=dict)  # in words, not checked

    @property
    def cell(self) -> Cell:
        return Cell(self.asked, self.seed)


class _Card(Spec):
    card: Literal["privacy card of a continual learner"]  # NAME
    version: Literal[1]
    how_to_check: str
    run_id: str
    method: str
    dataset: str
    cells: tuple[_Cell, ...] = Field(min_length=1, max_length=1024)


@dataclass(frozen=True, slots=True)
class Recounted:
    """A number on a card and an interval that contains the exact value; without a bound both ends are infinite."""

    name: str
    stated: float
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Checked:
    """The check of one model; `why`: what differs other than numbers, or why it cannot be checked."""

    cell: Cell
    verdict: Verdict
    numbers: tuple[Recounted, ...]
    why: str = ""


class _Contradiction(ValueError):
    """The card contradicts itself, whatever its events add up to."""


def document(run_id: str, method: str, dataset: str, finished: Sequence[CellFinished]) -> dict[str, JsonValue]:
    """The card of a run. `events` are null for a model that was stored before ledgers were stored."""
    return {
        "card": NAME,
        "version": 1,
        "how_to_check": _HOW_TO_CHECK,
        "run_id": run_id,
        "method": method,
        "dataset": dataset,
        "cells": [_cell(one) for one in finished],
    }


def _cell(event: CellFinished) -> dict[str, JsonValue]:
    guarantee, ledger = event.guarantee, event.ledger
    return {
        "asked": plain_number(event.cell.epsilon),
        "seed": event.cell.seed,
        "guarantee": statement.kind(guarantee),
        "unit": guarantee.unit,
        "noise": guarantee.noise,
        "epsilon": plain_number(guarantee.epsilon),
        "delta": guarantee.delta,
        "adjacency": "replace" if guarantee.adjacency.startswith("replace") else "add-remove",
        "recurrence": None if ledger is None else ledger.recurrence,
        "parts": {name: plain_number(value) for name, value in guarantee.parts.items()},
        **({} if ledger is None or ledger.rows_per_unit == 1 else {"rows_per_unit": ledger.rows_per_unit}),
        "events": None if ledger is None else [_event(entry, ledger.adjacency) for entry in ledger.entries],
        "statement": _statement(guarantee),
    }


def _statement(given: Guarantee) -> dict[str, JsonValue]:
    """The statement of a model as every surface shows it."""
    said = statement.words(given)
    return {
        "headline": said.banner or said.headline,
        "composition": given.composition,
        "scope": given.scope,
        "covered": list(said.covered),
        "not_covered": list(said.not_covered),
        "assumptions": list(said.assumptions),
        "notes": list(said.caveats),
    }


def _event(entry: Spending, adjacency: Adjacency) -> dict[str, JsonValue]:
    return {
        "what": entry.what,
        "task": entry.task + 1,
        "people_of": [task + 1 for task in entry.people_of],
        "count": entry.count,
        "adjacency": adjacency,
        **_numbers(entry.mechanism),
        **({"shares_batches": True} if entry.shares_batches else {}),
        **({"channels": {name: _numbers(one) for name, one in entry.channels.items()}} if entry.channels else {}),
    }


def _numbers(one: Mechanism) -> dict[str, JsonValue]:
    """A mechanism on a card, with only the numbers that its kind has."""
    numbers: dict[str, JsonValue] = {"epsilon": one.epsilon, "delta": one.delta}
    if one.kind == "gaussian":
        numbers = {"noise_multiplier": one.noise_multiplier, "sample_rates": list(one.sample_rates), "steps": one.steps}
    return {"mechanism": one.kind, **{name: value for name, value in numbers.items() if value is not None}}


def verify(content: bytes) -> list[Checked]:
    """Checks every model of a card. Raises BadInput if the content is no card."""
    cells = _read(content).cells
    return [_checked(cell, cells) for cell in cells]


def exit_status(checks: Sequence[Checked]) -> int:
    """0 where all models match, 1 where one differs, 2 where one cannot be checked."""
    verdicts = {one.verdict for one in checks}
    return 1 if "differs" in verdicts else 2 if "unchecked" in verdicts else 0


def sentence(check: Checked) -> str:
    """The result of checking one model, in one line."""
    head = f"epsilon asked {check.cell.epsilon:g}, seed {check.cell.seed}: "
    if check.verdict == "matches":
        total = check.numbers[0]
        where = "no bound" if math.isinf(total.stated) else f"epsilon {total.stated:.6g} in {_span(total)}"
        return f"{head}matches ({where}; numbers checked: {len(check.numbers)})"
    wrong = [number for number in check.numbers if number.verdict == check.verdict]
    if check.verdict == "differs":
        pairs = [f"{one.name} is stated as {one.stated:.6g}, and the events give {_span(one)}" for one in wrong]
        return f"{head}differs: {'; '.join(pairs) or check.why}"
    return f"{head}cannot be checked: {check.why or f'{wrong[0].name} is known no better than {_span(wrong[0])}'}"


def checked_document(checks: Sequence[Checked]) -> dict[str, JsonValue]:
    """The check as JSON; the exact number is between `low` and `high`."""
    return {
        "exit_status": exit_status(checks),
        "finds": CHECK_FINDS,
        "cells": [
            {
                "asked": plain_number(one.cell.epsilon),
                "seed": one.cell.seed,
                "verdict": one.verdict,
                "why": one.why or None,
                "numbers": [
                    {name: plain_number(x) if isinstance(x, float) else x for name, x in asdict(number).items()}
                    for number in one.numbers
                ],
            }
            for one in checks
        ],
    }


def _span(number: Recounted) -> str:
    return "no bound" if math.isinf(number.low) else f"[{number.low:.6g}, {number.high:.6g}]"


def _read(content: bytes) -> _Card:
    must = f"must be the {FILE} of an export, a JSON document of version 1"
    if len(content) > _LARGEST_FILE:
        raise BadInput("card", f"{len(content):,} bytes", f"{must}, of {_LARGEST_FILE:,} bytes at most")
    try:
        return _Card.model_validate(json.loads(content))
    except ValidationError as error:
        first = first_of(error, "card")
        raise BadInput(first.field, first.value, f"{first.allowed}; the file {must}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput("card", "no JSON", must) from error


def _checked(cell: _Cell, cells: Sequence[_Cell]) -> Checked:
    from dpcl_core.privacy.accounting import Pld, Unaccountable  # loads the accountants, which take seconds
    from dpcl_core.privacy.second import HIGH, LOW

    try:
        ends = [_recomputed(cell, accountant) for accountant in (LOW, HIGH, Pld())]
    except _Contradiction as problem:
        return Checked(cell.cell, "differs", (), str(problem))
    except (Unaccountable, ArithmeticError) as problem:
        return Checked(cell.cell, "unchecked", (), str(problem))
    stated, why = {"epsilon": cell.epsilon, **cell.parts}, ""
    joint_parts = {name: stated.pop(name) for name in cell.parts if name.startswith(statement.OF_ALL)}
    for name in dict.fromkeys([*stated, *ends[0]]):
        if name not in stated or name not in ends[0]:
            says = "the events have no such part" if name in stated else "the card leaves this part out"
            return Checked(cell.cell, "differs", (), f"{name}: {says}")
    numbers = [_recounted(name, value, [end[name] for end in ends]) for name, value in stated.items()]
    try:
        for name, value in joint_parts.items():
            joint_ends = [_joint_total(name, cells, accountant) for accountant in (LOW, HIGH, Pld())]
            numbers.append(_recounted(name, value, joint_ends))
    except (_Contradiction, Unaccountable, ArithmeticError) as problem:
        why = f"{name}: {problem}"
    verdicts = {number.verdict for number in numbers} | ({"unchecked"} if why else set())
    worst: Verdict = "differs" if "differs" in verdicts else "unchecked" if "unchecked" in verdicts else "matches"
    return Checked(cell.cell, worst, tuple(numbers), why)


def _recounted(name: str, stated: float, ends: Sequence[float]) -> Recounted:
    low, high, first = ends
    return Recounted(name, stated, low, high, _verdict(stated, low, high, first))


def _verdict(stated: float, low: float, high: float, first: float) -> Verdict:
    """Whether a stated epsilon agrees with its interval.

    The first accountant rounds up, at times above the interval: the number that it gives counts as right there, too.
    """
    if math.isinf(low):
        return "matches" if math.isinf(stated) else "differs"
    if stated < low * (1 - _ROUNDING) - _ROUNDING:
        return "differs"
    if math.isinf(high) or high - low > _WIDEST * (1 + low):
        return "unchecked"
    is_close = stated <= high * (1 + _ROUNDING) + _ROUNDING
    return "matches" if is_close or stated == first or abs(stated - first) <= _ROUNDING * (1 + first) else "differs"


def _recomputed(cell: _Cell, accountant: Accountant) -> dict[str, float]:
    """The total and all parts of a model by this accountant. Raises Unaccountable and _Contradiction."""
    from dpcl_core.privacy.written import read

    ledger = read(_ledger(cell), cell.delta, accountant)
    n_tasks = 2 if any(name.startswith("the same ") for name in cell.parts) else 1
    has_list = statement.LISTS in cell.parts
    parts = statement.parts_of(ledger, one=who(cell.unit), has_list=has_list, n_tasks=n_tasks)
    return {"epsilon": ledger.epsilon(), **parts}


def _joint_total(name: str, cells: Sequence[_Cell], accountant: Accountant) -> float:
    """Joint epsilon of all models of the card, stated under this name. Raises Unaccountable and _Contradiction."""
    from dpcl_core.privacy.joint_release import joint_release
    from dpcl_core.privacy.written import read

    total, delta = joint_release({one.cell: read(_ledger(one), one.delta, accountant) for one in cells})
    if name != (expected := statement.all_models(len(cells), delta, cells[0].delta)):
        raise _Contradiction(f"the card holds {expected}")
    return total


def _ledger(cell: _Cell) -> Written:
    """The ledger of a model's events. Raises Unaccountable for unknown events, _Contradiction for another adjacency."""
    from dpcl_core.privacy.accounting import Unaccountable

    if cell.events is None or cell.recurrence is None:
        raise Unaccountable("the run was stored before events were kept; run it again")
    entries = []
    for place, raw in enumerate(cell.events, start=1):
        try:
            one = _Event.model_validate(raw)
        except ValidationError as error:
            raise Unaccountable(f"event {place} is not known: {first_of(error)}") from error
        if one.adjacency != cell.adjacency:
            raise _Contradiction(f"event {place} is accounted under {one.adjacency}, the model under {cell.adjacency}")
        channels = {name: channel.read for name, channel in one.channels.items()}
        people = tuple(task - 1 for task in one.people_of)
        entries.append(Spending(one.what, one.task - 1, people, one.count, one.read, one.shares_batches, channels))
    return Written(cell.adjacency, cell.recurrence, tuple(entries), cell.rows_per_unit)
