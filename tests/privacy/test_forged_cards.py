"""Forged cards: a valid card of every kind of ledger, and every small change of it that changes what it says, found."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import dp_accounting as dp
import pytest

from dpcl_core import checks
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished
from dpcl_core.privacy import accounting, card, card_document, ledger
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger, ledger_entries
from dpcl_core.spec import Cell
from tests.support import planned, tiers

Books = dict[Cell, Ledger]
Path = tuple[str | int, ...]
DELTA, SEEDS, BUDGETS = 1e-5, (0, 1), (1.0, 4.0)
FREE = {"how_to_check", "run_id", "method", "dataset", "what", "people"}  # words, and a number of which nothing follows
WORDS = {"composition", "scope", "covered", "not_covered", "assumptions", "notes"}


def books(recurrence: str = "once", adjacency: str = "add-remove", rows: int = 1) -> Books:
    cells = [Cell(epsilon, seed) for epsilon in BUDGETS for seed in SEEDS]
    return {cell: Ledger(DELTA, adjacency, recurrence, rows_per_unit=rows) for cell in cells}  # type: ignore[arg-type]


def sums() -> list[Books]:
    """One learner, learned lists, one noisy sum a task, and one training on shared batches of everybody."""
    made = books()
    for cell, book in made.items():
        for task in range(2):
            book.spend(accounting.LabelListDpEvent(0.05 * cell.epsilon, 1e-6), task=task, what="list")
            book.spend(dp.GaussianDpEvent(5.0 / cell.epsilon), task=task, what="sums")
        shared = accounting.subsampled_gaussian(40.0 / cell.epsilon, 1.0, 2)
        book.spend(shared, task=1, what="training", people_of=(0, 1), shares_batches=True)
    return [made]


def clients() -> list[Books]:
    """A learner for each seed; two releases at once by clients that are in every task."""
    made = books("every")
    for cell, book in made.items():
        for task in range(2):
            replay, head = (dp.GaussianDpEvent(scale / cell.epsilon) for scale in (9.0, 14.0))
            both = dp.GaussianDpEvent(1 / math.hypot(cell.epsilon / 9, cell.epsilon / 14))
            book.spend(both, task=task, what="both", channels={REPLAY: replay, HEAD: head})
    return [{cell: book for cell, book in made.items() if cell.seed == seed} for seed in SEEDS]


def copies() -> list[Books]:
    """A learner for each model; noisy copies of every record, and noisy sums, under replacement."""
    made = books(adjacency="replace")
    for cell, book in made.items():
        for task in range(2):
            book.spend(accounting.LocalDpEvent(cell.epsilon / 2), task=task, what="copies")
            book.spend(dp.GaussianDpEvent(12.0 / cell.epsilon), task=task, what="sums")
    return [{cell: book} for cell, book in made.items()]


def rows() -> list[Books]:
    """People of several rows."""
    made = books(rows=3)
    for cell, book in made.items():
        for task in range(2):
            book.spend(dp.GaussianDpEvent(40.0 / cell.epsilon), task=task, what="sums")
    return [made]


def replays() -> list[Books]:
    """A learner for each model; steps on random batches that mix people of both tasks."""
    made = books()
    for cell, book in made.items():
        book.spend(accounting.subsampled_gaussian(9.0 / cell.epsilon, 0.5, 3), task=0, what="steps")
        mixed = dp.SelfComposedDpEvent(accounting.SampledGroupDpEvent(9.0 / cell.epsilon, (0.2, 0.5)), 3)
        book.spend(mixed, task=1, what="mixed", people_of=(0, 1))
    return [{cell: book} for cell, book in made.items()]


KINDS: dict[str, tuple[Callable[[], list[Books]], str, dict[str, object]]] = {
    "clients": (clients, "user", {}),
    "sums": (sums, "example", {"labels": "dp-learned"}),
    "copies": (copies, "text", {"adjacency": "replace"}),
    "rows": (rows, "person", {}),
    "replays": (replays, "text", {}),
}


def a_card(kind: str, learners: list[Books] | None = None, n_finished: int = 4) -> dict[str, Any]:
    make, unit, settings = KINDS[kind]
    made = make() if learners is None else learners
    delta = next(iter(made[0].values())).delta
    privacy = {"epsilons": BUDGETS, "delta": delta, "adjacency": settings.get("adjacency", "add-remove")}
    labels = settings.get("labels", "prior-const")
    spec, plan = checks.parse({"privacy": privacy, "seeds": SEEDS, "labels": labels}), planned.plan_of(*made)
    done = [
        CellFinished(
            cell, {}, guarantee(book, spec, cell, unit=unit, n_people=900, n_tasks=2, planned=plan), 1.0,
            ledger_entries(book),
        )
        for learner in made for cell, book in learner.items()
    ]  # fmt: skip
    return json.loads(json.dumps(card_document.document("0" * 12, "m", "d", done[:n_finished], plan), allow_nan=False))


def accepted(content: str) -> bool:
    try:
        return card.exit_status(card.verify(content.encode())) == 0
    except BadInput:
        return False


def places(value: object, at: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every value of a nest with its path, but those under words that nothing checks."""
    yield at, value
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in FREE | WORDS:
                yield from places(inner, (*at, name))
    if isinstance(value, list):
        for place, inner in enumerate(value[:1] if at == ("cells",) else value):  # all cells are alike
            yield from places(inner, (*at, place))


def changed(document: object, at: Path, change: Callable[[Any, str | int], object]) -> str:
    found: Any = copy.deepcopy(document)
    inner = found
    for step in at[:-1]:
        inner = inner[step]
    change(inner, at[-1])
    return json.dumps(found)


def assign(value: object) -> Callable[[Any, str | int], object]:
    return lambda inner, name: inner.__setitem__(name, value)


OTHER: dict[object, object] = {
    "proved": "nominal", "release": "seeded", "add-remove": "replace", "replace": "add-remove", "once": "every",
    "every": "once", "gaussian": "nothing", "label-list": "nothing", "local": "nothing", True: False, False: True,
}  # fmt: skip


def forgeries(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Changed cards by name: a field dropped, doubled or unknown; a list emptied, or an item twice; other values."""
    for at, value in places(document):
        where = "/".join(map(str, at))
        if at and isinstance(at[-1], str):
            yield f"{where} dropped", changed(document, at, lambda inner, name: inner.pop(name))
            twice = changed(document, at, lambda inner, name: inner.__setitem__(name, {"TWICE": [name, inner[name]]}))
            said = json.dumps(value)
            yield f"{where} doubled", twice.replace(f'{{"TWICE": ["{at[-1]}", {said}]}}', f'{said}, "{at[-1]}": {said}')
        if isinstance(value, dict) and at and at[-1] not in ("statement", "channels"):
            yield f"{where} with a surprise", changed(document, (*at, "surprise"), assign(1))
        if isinstance(value, list):
            yield f"{where} emptied", changed(document, at, assign([]))
            again = changed(document, at, lambda inner, name: inner[name].append(inner[name][-1]))
            yield f"{where} with its last item twice", again
            yield f"{where} without its last item", changed(document, at, lambda inner, name: inner[name].pop())
        if isinstance(value, float | int) and not isinstance(value, bool):
            for other in (2 * value + (value == 0), value / 2) if isinstance(value, float) else (value + 1, value - 1, 0):
                if other != value:
                    yield f"{where} = {other}", changed(document, at, assign(other))
            yield f"{where} = null", changed(document, at, assign(None))
        if isinstance(value, bool | str) and value in OTHER:
            yield f"{where} = {OTHER[value]}", changed(document, at, assign(OTHER[value]))
        if at and at[-1] in ("unit", "headline"):
            yield f"{where} = another", changed(document, at, assign("one training image"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_true_card_matches_and_so_does_one_of_a_run_that_ended_early(kind: str) -> None:
    for n_finished in (4, 3, 1):
        assert accepted(json.dumps(a_card(kind, n_finished=n_finished)))


@pytest.mark.parametrize("kind", tiers.quick(1, KINDS))
def test_every_change_of_a_card_is_found(kind: str) -> None:
    survivors = {name for name, forged in forgeries(a_card(kind)) if accepted(forged)}
    survivors = {name for name in survivors if not name.endswith("sample_rates with its last item twice")}  # says the same
    assert survivors == {"cells without its last item"}, "which is the card of a run that ended before its last model"


@pytest.mark.parametrize("kind", tiers.quick(2, KINDS))
def test_models_that_exchange_their_numbers_or_names_are_found(kind: str) -> None:
    document = a_card(kind)
    for name in ("asked", "epsilon", "parts", "events", "statement"):
        forged = copy.deepcopy(document)
        first, last = forged["cells"][0], next(c for c in forged["cells"] if c["asked"] != forged["cells"][0]["asked"])
        first[name], last[name] = last[name], first[name]
        assert not accepted(json.dumps(forged)), name
    forged = copy.deepcopy(document)
    forged["cells"].append(forged["cells"][0])
    assert not accepted(json.dumps(forged))


@pytest.mark.parametrize("delta", [0.9999, 0.011, 1 / 900])
def test_a_delta_that_hides_nobody_is_no_match(delta: float) -> None:
    """However consistent the card is: everything of it is counted at that delta."""
    made = [{cell: Ledger(delta, "add-remove", "once") for cell in books()}]
    for cell, book in made[0].items():
        for task in range(2):
            book.spend(dp.GaussianDpEvent(5.0 / cell.epsilon), task=task, what="sums")
    document = a_card("rows", made)
    assert not accepted(json.dumps(document))
    document["all_models"]["people"] = 1
    assert accepted(json.dumps(document)) == (delta < card.LARGEST_DELTA)


# Faults in what the ledger charges to whom; a card that was made with one of them is found by the second account.


def _first_rate(event: dp.DpEvent, part: int) -> dp.DpEvent:
    return real_part(event, 0)


def _uncharged(event: dp.DpEvent, size: int) -> dp.DpEvent:
    return event


def _charged_twice(event: dp.DpEvent, size: int) -> dp.DpEvent:
    return real_group(event, size) if size == 1 else dp.SelfComposedDpEvent(real_group(event, size), 2)


def _own_people_only(self: Ledger) -> dict[str, list[dp.DpEvent]]:
    return real_people(Ledger(self.delta, self.adjacency, self.recurrence, self.accountant,
                              [entry for entry in self.entries if entry.people_of == (entry.task,)]))  # fmt: skip


def _first_people_twice(self: Ledger) -> dict[str, list[dp.DpEvent]]:
    groups = real_people(self)
    first = next(iter(groups), None)
    return groups if first is None else {**groups, first: [*groups[first], *groups[first]]}


def _largest_noise(events: list[dp.DpEvent]) -> dp.DpEvent:
    return real_joint(list(events)[:1])


def _as_if_apart(events: list[dp.DpEvent]) -> dp.DpEvent:
    made = real_joint(events)
    return dp.SelfComposedDpEvent(made.event, 2 * made.count)


real_part, real_group, real_people = accounting.of_part, accounting.of_group, Ledger.events_by_people
real_joint = ledger.joint_training
FAULTS: dict[str, tuple[str, object, str, object]] = {
    "of_part: everybody at the first rate": ("replays", accounting, "of_part", _first_rate),
    "of_group: one example of several": ("clients-shared", accounting, "of_group", _uncharged),
    "of_group: charged twice": ("clients-shared", accounting, "of_group", _charged_twice),
    "events_by_people: what was read again left out": ("replays", Ledger, "events_by_people", _own_people_only),
    "events_by_people: the first people twice": ("sums", Ledger, "events_by_people", _first_people_twice),
    "joint: the first model's noise alone": ("sums", ledger, "joint_training", _largest_noise),
    "joint: shared batches twice": ("sums", ledger, "joint_training", _as_if_apart),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_the_first_account_charges_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, owner, name, wrong = FAULTS[fault]
    if kind == "clients-shared":  # everybody is in every task, and one sum reads two of them
        made = [books("every")]
        for cell, book in made[0].items():
            book.spend(dp.GaussianDpEvent(9.0 / cell.epsilon), task=1, what="sums of both", people_of=(0, 1))
        kind = "rows"
    else:
        made = KINDS[kind][0]()
    assert accepted(json.dumps(a_card(kind, made)))
    monkeypatch.setattr(owner, name, wrong)
    forged = json.dumps(a_card(kind, made))
    assert not accepted(forged)
