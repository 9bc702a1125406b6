"""The privacy card of a run, and its check: a second accountant recomputes every number on it from the card's events.

A card is a JSON document of version 2, described in `docs/privacy_card.md`: the run's models as `cells`, each with its
epsilon, its parts, and the ledger's events, from which both follow.

The check finds inconsistency, not forgery: no card can show that the events are what was done.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from dpcl_core.documents import Document
from dpcl_core.errors import BadInput, first_of
from dpcl_core.events import JsonValue, Mechanism, MechanismKind, Spending, Written, plain_number
from dpcl_core.privacy import statement
from dpcl_core.privacy.budgets import Accountant
from dpcl_core.privacy.card_document import FILE
from dpcl_core.privacy.guarantee import PROTECTED
from dpcl_core.spec import Adjacency, Cell, NoiseSource, Recurrence

CHECK_FINDS = "This finds inconsistency, not forgery: whether the events are what was done, no card can show."
_LARGEST_FILE = 16_000_000  # bytes
_WIDEST = 0.05  # of epsilon: a wider interval checks nothing
_ROUNDING = 1e-6  # of epsilon: rounding in either accountant
_ALL = "all models of the run"  # name of the plan's own number
LARGEST_DELTA = 0.01  # on a card: with a larger one, a bound says nothing however few people there are

Verdict = Literal["matches", "differs", "unchecked"]
Task = Annotated[int, Field(strict=True, ge=1, le=100_000)]


def _written_number(value: object) -> object:
    """A number of JSON, or "inf", as it is. Raises ValueError for what only some readers take for one."""
    if isinstance(value, bool) or (isinstance(value, str) and value != "inf"):
        raise ValueError('must be a number, or "inf"')
    return value


Number = Annotated[float, BeforeValidator(_written_number), Field(ge=0)]  # NaN fails the comparison

# The numbers of each kind of mechanism: no fewer, and no others.
NUMBERS: Mapping[MechanismKind, set[str]] = {
    "gaussian": {"noise_multiplier", "sample_rates", "steps"},
    "label-list": {"epsilon", "delta"},
    "local": {"epsilon"},
    "no-bound": set(),
    "nothing": set(),
}
_Events = Annotated[tuple[Mapping[str, object], ...], Field(max_length=2000)]  # parsed one by one, to name the place of each


class _Mechanism(Document):
    mechanism: MechanismKind
    noise_multiplier: Annotated[float, Field(strict=True, ge=1e-6, le=1e12)] = 1.0
    sample_rates: tuple[Annotated[float, Field(strict=True, ge=0, le=1)], ...] = Field((), max_length=100)
    steps: int = Field(1, strict=True, ge=1, le=10**9)
    epsilon: Annotated[float, Field(strict=True, ge=0, le=1e4)] = 0.0
    delta: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.0

    @property
    def numbers(self) -> set[str]:
        return self.model_fields_set & set().union(*NUMBERS.values())

    @property
    def read(self) -> Mechanism:
        return Mechanism(self.mechanism, **{name: getattr(self, name) for name in self.numbers})

    def is_whole(self, n_people: int) -> bool:
        """Whether it has just the numbers of its kind, and one sampling rate for all or one for each task's people."""
        is_sampled = self.mechanism != "gaussian" or len(self.sample_rates) in (1, n_people)
        return is_sampled and self.numbers == NUMBERS[self.mechanism]


class _Event(_Mechanism):
    what: str
    task: Task
    people_of: tuple[Task, ...] = Field(min_length=1, max_length=1000)
    count: int = Field(strict=True, ge=1, le=10_000)
    adjacency: Adjacency
    shares_batches: bool = Field(strict=True)
    channels: Mapping[Literal["replay", "head"], _Mechanism]

    @property
    def spending(self) -> Spending:
        people = tuple(task - 1 for task in self.people_of)
        channels: dict[str, Mechanism] = {name: one.read for name, one in self.channels.items()}
        return Spending(self.what, self.task - 1, people, self.count, self.read, self.shares_batches, channels)


class _Statement(Document):
    """In words: the headline is checked, the rest is not."""

    headline: str
    composition: str
    scope: str
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


class _Name(Document):
    asked: Number
    seed: int = Field(strict=True)

    @property
    def cell(self) -> Cell:
        return Cell(self.asked, self.seed)


class _Bound(Document):
    epsilon: Number
    delta: float = Field(strict=True, gt=0, lt=1)
    adjacency: Adjacency
    rows_per_unit: int = Field(strict=True, ge=1, le=1000)


class _Cell(_Name, _Bound):
    guarantee: Literal["proved", "nominal", "none"]
    unit: str
    noise: NoiseSource
    recurrence: Recurrence | None
    parts: Mapping[str, Number]
    events: _Events | None
    statement: _Statement


class _Model(Document):
    asked: Number
    events: _Events


class _All(_Bound):
    """All planned models, by learner, and what each of a budget does."""

    people: int = Field(strict=True, ge=1, le=10**12)
    tasks: Task
    recurrence: Recurrence
    learners: tuple[Annotated[tuple[_Name, ...], Field(min_length=1)], ...] = Field(min_length=1, max_length=10_000)
    models: tuple[_Model, ...] = Field(min_length=1)

    @property
    def cells(self) -> list[Cell]:
        return [one.cell for learner in self.learners for one in learner]


class _Card(Document):
    card: Literal["privacy card of a continual learner"]  # NAME
    version: Literal[2]
    how_to_check: str
    run_id: str
    method: str
    dataset: str
    all_models: _All | None
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


def verify(content: bytes) -> list[Checked]:
    """Checks every model of a card. Raises BadInput if the content is no card."""
    found = _read(content)
    if twice := [cell for cell, count in Counter(cell.cell for cell in found.cells).items() if count > 1]:
        raise BadInput("cells", f"{twice[0].epsilon:g}, seed {twice[0].seed}", "must be on the card once")
    return [_checked(cell, found.all_models) for cell in found.cells]


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
    must = f"must be the {FILE} of an export, a JSON document of version 2"
    if len(content) > _LARGEST_FILE:
        raise BadInput("card", f"{len(content):,} bytes", f"{must}, of {_LARGEST_FILE:,} bytes at most")
    try:
        return _Card.model_validate(json.loads(content, object_pairs_hook=_once))
    except ValidationError as error:
        first = first_of(error, "card")
        raise BadInput(first.field, first.value, f"{first.allowed}; the file {must}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput("card", "no JSON", must) from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON. Raises ValueError for a key that stands twice: readers would disagree which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _checked(cell: _Cell, every: _All | None) -> Checked:
    from dpcl_core.privacy.accounting import Pld, Unaccountable  # loads the accountants, which take seconds
    from dpcl_core.privacy.recount import Contradiction
    from dpcl_core.privacy.second import HIGH, LOW

    try:
        if cell.events is None or cell.recurrence is None:
            raise Unaccountable("the run was stored before events were kept; run it again")
        if every is None:
            raise Unaccountable("the run was stored before all its models were planned together; run it again")
        entered = _ledger(cell.events, cell.adjacency, cell.recurrence, cell.rows_per_unit)
        models = _planned_models(cell, entered, every)
        ends = [_recomputed(cell, entered, every, models, accountant) for accountant in (LOW, HIGH, Pld())]
    except Contradiction as problem:
        return Checked(cell.cell, "differs", (), str(problem))
    except (Unaccountable, ArithmeticError) as problem:
        return Checked(cell.cell, "unchecked", (), str(problem))
    stated = {"epsilon": cell.epsilon, **cell.parts, _ALL: every.epsilon}
    for name in dict.fromkeys([*stated, *ends[0]]):
        if name not in stated or name not in ends[0]:
            says = "the events have no such part" if name in stated else "the card leaves this part out"
            return Checked(cell.cell, "differs", (), f"{name}: {says}")
    numbers = []
    for name, value in stated.items():
        low, high, first = (end[name] for end in ends)
        numbers.append(Recounted(name, value, low, high, _verdict(value, low, high, first)))
    verdicts = {number.verdict for number in numbers}
    worst: Verdict = "differs" if "differs" in verdicts else "unchecked" if "unchecked" in verdicts else "matches"
    why = _said_wrong(cell, every) if worst == "matches" else ""
    return Checked(cell.cell, "differs" if why else worst, tuple(numbers), why)


def _said_wrong(cell: _Cell, every: _All) -> str:
    """What a model says beside its numbers that does not go with them; empty for nothing."""
    if not (cell.delta < 1 / every.people and cell.delta <= LARGEST_DELTA):
        return f"delta {cell.delta:g} hides nobody: it must be below 1/{every.people} people, and at most {LARGEST_DELTA:g}"
    if (cell.guarantee == "proved") != math.isfinite(cell.epsilon):
        return f"the guarantee is {cell.guarantee}, which does not go with its epsilon"
    said = cell.statement.headline
    if cell.guarantee == "proved":
        numbers = cell.unit, cell.epsilon, cell.delta, cell.parts
        bounds = [statement.headline(*numbers), statement.earlier_headline(*numbers)]
        is_headline = said in (bounds if cell.noise == "release" else [statement.SEEDED])
    else:  # why there is no bound, and a claim, are in other words each time
        is_headline = said.startswith(statement.NOT_DP.partition("{")[0] if cell.guarantee == "none" else "Claimed ")
    return "" if is_headline else "its headline does not say what its numbers do"


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


def _planned_models(cell: _Cell, entered: Written, every: _All) -> Mapping[float, Written]:
    """The planned ledgers by budget. Raises Unaccountable, and Contradiction if the card's sections do not agree."""
    from dpcl_core.privacy.recount import Contradiction, exceeds

    models = {one.asked: _ledger(one.events, every.adjacency, every.recurrence, every.rows_per_unit) for one in every.models}
    cells, seeds = every.cells, {one.seed for one in every.cells}
    planned = [one for model in models.values() for one in model.entries]
    people = {*range(every.tasks)}
    same = [getattr(cell, name) == getattr(every, name) for name in ("adjacency", "recurrence", "rows_per_unit")]
    found = {
        "the plan names a model or a budget twice": len({*cells}) == len(cells) and len(models) == len(every.models),
        "the plan is no grid of budgets and seeds": {*cells} == {Cell(e, s) for e in models for s in seeds},
        "the plan has no such model": cell.cell in cells,
        "there is no such unit": cell.unit in (one.unit for one in PROTECTED.values()),
        "the plan is for another adjacency, recurrence or number of rows": all(same),
        "the plan does not read the people of just its tasks": {task for one in planned for task in one.people_of} == people,
        "the plan has releases apart": not any(one.channels for one in planned),
        "an event is in no task of the plan": all({e.task, *e.people_of} <= people for e in (*entered.entries, *planned)),
        "the model did more than was planned": cell.asked in models and not exceeds(entered, models[cell.asked]),
    }
    for problem, is_right in found.items():
        if not is_right:
            raise Contradiction(problem)
    return models


def _recomputed(
    cell: _Cell, entered: Written, every: _All, planned: Mapping[float, Written], accountant: Accountant
) -> dict[str, float]:
    """The total and all parts of a model by this accountant. Raises Unaccountable and Contradiction."""
    from dpcl_core.privacy.recount import Contradiction, Recount, joint

    unit = next(one for one in PROTECTED.values() if one.unit == cell.unit)
    kinds = {entry.mechanism.kind for model in (entered, *planned.values()) for entry in model.entries}
    # Without any bounded model nothing says whether lists were learned.
    has_list = "label-list" in kinds or (kinds == {"no-bound"} and statement.LISTS in cell.parts)
    one = unit.one if every.tasks > 1 and unit.in_several else None
    found = Recount(accountant, cell.delta, entered).numbers(one, has_list)
    learners = [[name.cell for name in learner] for learner in every.learners]
    together, delta = joint(learners, planned, cell.delta, accountant)
    if f"{delta:g}" != f"{every.delta:g}":
        raise Contradiction(f"all models together have their epsilon at delta {delta:g}, not {every.delta:g}")
    if len(every.cells) > 1:
        found[statement.all_models(len(every.cells), every.delta, cell.delta)] = together
    return {**found, _ALL: together}


def _ledger(events: Sequence[Mapping[str, object]], adjacency: Adjacency, recurrence: Recurrence, rows: int) -> Written:
    """The ledger of these events. Raises Unaccountable for unknown events, Contradiction for impossible ones."""
    from dpcl_core.privacy.accounting import Unaccountable
    from dpcl_core.privacy.recount import Contradiction

    entries = []
    for place, raw in enumerate(events, start=1):
        try:
            one = _Event.model_validate(raw)
        except ValidationError as error:
            raise Unaccountable(f"event {place} is not known: {first_of(error)}") from error
        if one.adjacency != adjacency:
            raise Contradiction(f"event {place} is accounted under {one.adjacency}, the model under {adjacency}")
        if len({*one.people_of}) < len(one.people_of):
            raise Contradiction(f"event {place} names a task's people twice")
        if not all(mechanism.is_whole(len(one.people_of)) for mechanism in (one, *one.channels.values())):
            raise Unaccountable(f"event {place} does not have just the numbers of its mechanism")
        entries.append(one.spending)
    return Written(adjacency, recurrence, tuple(entries), rows)
