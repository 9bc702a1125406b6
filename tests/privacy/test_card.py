"""The privacy card: what was written can be read again, true cards match, and every change of a number is found."""

import copy
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dp_accounting as dp
import pytest

from dpcl_core import checks, errors
from dpcl_core.events import CellFinished, Planned, Spending, from_json, to_json
from dpcl_core.privacy import accounting, card, card_document, gaussian, ledger, recount, statement
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger, ledger_entries, mechanism
from dpcl_core.privacy.mechanisms import class_sums_std
from dpcl_core.spec import Cell, RunSpec
from tests.support.asserting import refusal_of, refuses
from tests.support.planned import charged, plan_of
from tests.support.tiers import quick

SPEC = checks.parse({"privacy": {"epsilons": [1.0, "inf"]}, "seeds": [0], "labels": "dp-learned"})
SIGMA = gaussian.sigma(1.0, 1e-5)
Change = Callable[[dict[str, Any]], object]
Books = dict[Cell, Ledger]


def ledgers() -> Books:
    """Two tasks: learned lists, sums, and a training on random batches whose replay reads the first task's people."""
    found = {cell: Ledger(1e-5, "add-remove", "once") for cell in SPEC.cells()}
    for cell, book in found.items():
        for task in range(2):
            book.spend(accounting.LabelListDpEvent(0.05, 1e-6), task=task, what="list of labels")
            noisy = dp.GaussianDpEvent(SIGMA) if math.isfinite(cell.epsilon) else dp.NonPrivateDpEvent()
            book.spend(noisy, task=task, what="sums")
        book.spend(accounting.subsampled_gaussian(6.0, 0.5, 2), task=1, what="replay", people_of=(0,), shares_batches=True)
    return found


def ended(made: Books, spec: RunSpec, plan: Planned, unit: str = "example") -> list[CellFinished]:
    """What the ends of models with these ledgers say."""
    to_all = {"unit": unit, "n_people": plan.n_people, "n_tasks": 2, "planned": plan}
    return [
        CellFinished(cell, {}, guarantee(book, spec, cell, **to_all), 1.0, ledger_entries(book))  # type: ignore[arg-type]
        for cell, book in made.items()
    ]


def finished() -> list[CellFinished]:
    made = ledgers()
    return ended(made, SPEC, plan_of(made))


def a_card() -> dict[str, Any]:
    document = card_document.document("0" * 12, "cosine", "Digits", finished(), plan_of(ledgers()))
    return json.loads(json.dumps(document, allow_nan=False))


def checked(document: object) -> list[card.Checked]:
    return card.verify(json.dumps(document).encode())


WRITTEN = [
    dp.GaussianDpEvent(2.0), dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), dp.NonPrivateDpEvent(),
    dp.NoOpDpEvent(), accounting.SampledGroupDpEvent(2.0, (0.1, 0.2)), accounting.LabelListDpEvent(0.1, 1e-7),
    accounting.LocalDpEvent(1.5),
]  # fmt: skip


def test_every_event_is_written_and_counted_again() -> None:
    for one in WRITTEN:
        people = tuple(range(2 if isinstance(one, accounting.SampledGroupDpEvent) else 1))
        assert recount.costs([Spending("", 0, people, 3, mechanism(one))], set(people)) == {one: 3}
    assert mechanism(dp.GaussianDpEvent(2.0)) == mechanism(dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 1))
    refuses("cannot be written down", mechanism, dp.LaplaceDpEvent(1.0), error=accounting.Unaccountable)


def test_a_ledger_counted_again_adds_up_to_the_same_through_the_store() -> None:
    for one in finished():
        stored = from_json(json.loads(json.dumps(to_json(one))))
        assert isinstance(stored, CellFinished)
        again = recount.Recount(accounting.Pld(), 1e-5, stored.ledger).numbers("person", has_list=True)
        assert again["epsilon"] == pytest.approx(one.guarantee.epsilon, rel=1e-9)
        parts = {name: value for name, value in one.guarantee.parts.items() if not name.startswith("all ")}
        assert again == pytest.approx({"epsilon": again["epsilon"], **parts})


def test_a_run_stored_before_ledgers_or_plans_were_is_read_and_cannot_be_checked() -> None:
    raw = json.loads(json.dumps(to_json(finished()[0])))
    del raw["ledger"]
    stored = from_json(raw)
    assert isinstance(stored, CellFinished)
    assert stored.ledger is None
    for plan in (plan_of(ledgers()), None):
        (found,) = card.verify(json.dumps(card_document.document("0" * 12, "cosine", "Digits", [stored], plan)).encode())
        assert (found.verdict, found.why) == ("unchecked", "the run was stored before events were kept; run it again")
    for one in checked({**a_card(), "all_models": None}):
        assert (one.verdict, "before all its models were planned" in one.why) == ("unchecked", True)


def test_true_cards_match_with_and_without_noise() -> None:
    found = checked(a_card())
    assert ([one.verdict for one in found], card.exit_status(found)) == (["matches", "matches"], 0)
    assert [number.name for number in found[0].numbers] == [
        "epsilon", "task 1", "task 2", "people of task 1", "people of task 2", "the list of labels of one task alone",
        "the same person in every task", "all 2 models of this run together, delta 2e-05", "all models of the run",
    ]  # fmt: skip
    assert "matches (no bound" in card.sentence(found[1])


def test_ways_out_are_checked_apart() -> None:
    raw = card_of("clients")
    raw["cells"][0]["events"][0]["channels"]["head"]["noise_multiplier"] /= 2
    found = checked(raw)
    assert found[0].verdict == "differs"
    assert "head is stated as" in card.sentence(found[0])


def total(share: float) -> Change:
    return lambda cell: cell.update(epsilon=share * cell["epsilon"])


CHANGES: dict[str, Change] = {
    "epsilon understated": total(0.98),
    "epsilon overstated": total(1.02),
    "no bound stated": lambda cell: cell.update(epsilon="inf"),
    "a part understated": lambda cell: cell["parts"].update({"people of task 1": 0.9}),
    "a part left out": lambda cell: cell["parts"].pop("task 1"),
    "a part made up": lambda cell: cell["parts"].update({"task 9": 0.1}),
    "together understated": lambda cell: cell["parts"].update({"all 2 models of this run together, delta 2e-05": 3.0}),
    "more noise": lambda cell: cell["events"][1].update(noise_multiplier=2 * SIGMA),
    "less noise": lambda cell: cell["events"][1].update(noise_multiplier=0.97 * SIGMA),
    "smaller batches": lambda cell: cell["events"][4].update(sample_rates=[0.4]),
    "more steps": lambda cell: cell["events"][4].update(steps=4),
    "an event twice": lambda cell: cell["events"][1].update(count=2),
    "an event left out": lambda cell: cell["events"].pop(4),
    "other people": lambda cell: cell["events"][4].update(people_of=[2]),
    "no noise": lambda cell: cell["events"].append(
        {name: value for name, value in cell["events"][1].items() if name not in card.NUMBERS["gaussian"]}
        | {"mechanism": "no-bound"}
    ),
    "a larger list": lambda cell: cell["events"][0].update(epsilon=0.5),
    "smaller delta": lambda cell: cell.update(delta=1e-6),
    "another adjacency": lambda cell: cell.update(adjacency="replace"),
    "adjacency of one event": lambda cell: cell["events"][0].update(adjacency="replace"),
    "everyone in every task": lambda cell: cell.update(recurrence="every"),
}


@pytest.mark.parametrize("change", quick(4, CHANGES))
def test_a_changed_number_is_found(change: str) -> None:
    document = a_card()
    CHANGES[change](document["cells"][0])
    found = checked(document)
    assert found[0].verdict == "differs", card.sentence(found[0])
    assert card.exit_status(found) == 1
    assert "differs: " in card.sentence(found[0])
    json.dumps(card.checked_document(found), allow_nan=False)


def test_no_noise_beside_a_bound_is_found() -> None:
    document = a_card()
    document["cells"][1]["epsilon"] = 8.0
    assert [one.verdict for one in checked(document)] == ["matches", "differs"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda cell: cell["events"][1].update(mechanism="magic"), "event 2 is not known: mechanism = magic"),
        (lambda cell: cell["events"][1].update(noise_multiplier=-1.0), "event 2 is not known: noise_multiplier = -1.0"),
        (lambda cell: cell["events"][1].pop("noise_multiplier"), "event 2 does not have just the numbers of its mechanism"),
        (lambda cell: cell["events"][1].update(surprise=1), "event 2 is not known: surprise = 1: no such setting"),
        (lambda cell: cell["events"][1].update(mechanism="local", epsilon=1.0), "event 2 does not have just the numbers"),
        (lambda cell: cell.update(events=None), "the run was stored before events were kept"),
        # Made to be costly.
        (lambda cell: cell["events"][4].update(sample_rates=[0.1] * 101), "event 5 is not known: sample_rates = "),
        (lambda cell: cell["events"][4].update(steps=10**12), "event 5 is not known: steps = "),
        (lambda cell: cell["events"][4].update(noise_multiplier=1e-9), "event 5 is not known: noise_multiplier = "),
        (lambda cell: cell["events"][4].update(count=10**9), "event 5 is not known: count = "),
    ],
)
def test_what_cannot_be_checked_says_why(change: Change, why: str) -> None:
    document = a_card()
    change(document["cells"][0])
    found = checked(document)
    assert (found[0].verdict, card.exit_status(found)) == ("unchecked", 2)
    assert f"cannot be checked: {why}" in card.sentence(found[0])
    assert "\n" not in card.sentence(found[0])


def garbled(**changes: object) -> bytes:
    return json.dumps({**copy.deepcopy(a_card()), **changes}).encode()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b"{}", b'"text"', b"[" * 100_000, b'{"card": NaN}', garbled(version=1), garbled(cells=[]),
     garbled(card="another"), garbled(extra=1), b"1" * 16_000_001, b"1" * 5000],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_card_is_refused_in_one_sentence(content: bytes) -> None:
    with pytest.raises(errors.BadInput, match=r"must be the privacy_card\.json of an export") as refused:
        card.verify(content)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_too_many_kinds_of_steps_are_not_added_up() -> None:
    document = a_card()
    step = document["cells"][0]["events"][4]
    more = [{**step, "noise_multiplier": 6 + n / 1000, "shares_batches": False} for n in range(300)]
    document["cells"][0]["events"] += more
    document["all_models"]["models"][0]["events"] += more
    (found, _) = checked(document)
    assert found.verdict == "unchecked"
    assert "kinds of sampled steps" in found.why


def example() -> dict[str, Any]:
    """The card of the documents: one model, two tasks, one noisy release each."""
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0], "labels": "prior-const"})
    release = dp.GaussianDpEvent(class_sums_std(1.0, 1e-5, "add-remove"))
    made = {Cell(1.0, 0): charged(release, release, what="sums of unit features")}
    plan = plan_of(made, n_people=1000)
    return card_document.document("0" * 12, "cosine", "Digits", ended(made, spec, plan), plan)


def test_the_documents_example_is_a_card_that_matches_and_adds_up_by_hand() -> None:
    document = (Path(__file__).parents[2] / "docs/privacy_card.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"```json\n(.*?)```", document, re.DOTALL)
    found, made = json.loads(said), json.loads(json.dumps(example()))
    assert _without_numbers(found) == _without_numbers(made)
    assert card.exit_status(card.verify(said.encode())) == 0
    (cell,) = found["cells"]
    sigma = cell["events"][0]["noise_multiplier"]
    assert sigma == pytest.approx(SIGMA, rel=1e-12)
    assert cell["epsilon"] == pytest.approx(gaussian.epsilon(sigma, cell["delta"]), rel=1e-4)
    *_, (last, in_every) = cell["parts"].items()
    assert last == "the same person in every task"
    assert in_every == pytest.approx(gaussian.epsilon(sigma / math.sqrt(2), cell["delta"]), rel=1e-4)
    assert f"at most {card.LARGEST_DELTA:g}" in document


def _without_numbers(value: object) -> object:
    """The same without fractions: another processor may give another last digit."""
    if isinstance(value, dict):
        return {name: _without_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_numbers(inner) for inner in value]
    return None if isinstance(value, float) else value


def test_a_card_in_the_words_of_before_stays_valid() -> None:
    document = a_card()
    proved = [cell for cell in document["cells"] if cell["guarantee"] == "proved"]
    assert proved
    for cell in proved:
        earlier = statement.earlier_headline(cell["unit"], cell["epsilon"], cell["delta"], cell["parts"])
        cell["statement"]["headline"] = earlier
        assert "times as likely" in earlier
    assert all(not found.why for found in checked(document))


@pytest.mark.parametrize("added", ["000", " All models of this run together: epsilon 0.01.", " "])
def test_nothing_is_added_to_the_headline_of_a_bound(added: str) -> None:
    document = a_card()
    document["cells"][0]["statement"]["headline"] += added
    assert checked(document)[0].why == "its headline does not say what its numbers do"


@pytest.mark.parametrize("name", ["asked", "seed", "epsilon", "delta", "rows_per_unit"])
@pytest.mark.parametrize("made", [str, bool])
def test_a_text_or_a_truth_value_is_no_number(name: str, made: type[str] | type[bool]) -> None:
    """Readers differ in what they take such a value for. Nor is NaN one."""
    nan = a_card()
    nan["cells"][0]["epsilon"] = math.nan
    refuses("epsilon", checked, nan)
    document = a_card()
    cell = document["cells"][0]
    cell.update({name: made(cell[name])})
    refusal_of(checked, document)
    (event,) = [event for event in a_card()["cells"][0]["events"] if event["what"] == "replay"]
    for number in ("task", "count", "steps", "noise_multiplier"):
        document = a_card()
        document["cells"][0]["events"][-1] = {**event, number: made(event[number])}
        assert checked(document)[0].verdict == "unchecked"


# Forged cards: a valid card of every kind of ledger, and every small change of it that changes what it says, found.


Place = tuple[str | int, ...]
SEEDS, BUDGETS = (0, 1), (1.0, 4.0)
CELLS = [Cell(epsilon, seed) for epsilon in BUDGETS for seed in SEEDS]
FREE = {"how_to_check", "run_id", "method", "dataset", "what", "people"}  # words, and a number of which nothing follows
WORDS = {"composition", "scope", "covered", "not_covered", "assumptions", "notes"}


def noisy_sums(scale: float, **made_with: Any) -> Books:
    """One noisy sum a task for two tasks, of less noise at a larger budget."""
    return {cell: charged(*[dp.GaussianDpEvent(scale / cell.epsilon)] * 2, **made_with) for cell in CELLS}


def sums() -> list[Books]:
    """One learner, learned lists, one noisy sum a task, and one training on shared batches of everybody."""
    made = noisy_sums(5.0)
    for cell, book in made.items():
        for task in range(2):
            book.spend(accounting.LabelListDpEvent(0.05 * cell.epsilon, 1e-6), task=task, what="list")
        shared = accounting.subsampled_gaussian(40.0 / cell.epsilon, 1.0, 2)
        book.spend(shared, task=1, what="training", people_of=(0, 1), shares_batches=True)
    return [made]


def clients() -> list[Books]:
    """A learner for each seed; two releases at once by clients that are in every task."""
    made = {}
    for cell in CELLS:
        replay, head = (dp.GaussianDpEvent(scale / cell.epsilon) for scale in (9.0, 14.0))
        both = dp.GaussianDpEvent(1 / math.hypot(cell.epsilon / 9, cell.epsilon / 14))
        made[cell] = charged(both, both, channels={REPLAY: replay, HEAD: head}, recurrence="every")
    return [{cell: book for cell, book in made.items() if cell.seed == seed} for seed in SEEDS]


def copies() -> list[Books]:
    """A learner for each model; noisy copies of every record, and noisy sums, under replacement."""
    made = noisy_sums(12.0, adjacency="replace")
    for cell, book in made.items():
        for task in range(2):
            book.spend(accounting.LocalDpEvent(cell.epsilon / 2), task=task, what="copies")
    return [{cell: book} for cell, book in made.items()]


def rows() -> list[Books]:
    """People of several rows."""
    return [noisy_sums(40.0, rows_per_unit=3)]


def replays() -> list[Books]:
    """A learner for each model; steps on random batches that mix people of both tasks."""
    made = {cell: charged(accounting.subsampled_gaussian(9.0 / cell.epsilon, 0.5, 3)) for cell in CELLS}
    for cell, book in made.items():
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


def card_of(kind: str, learners: list[Books] | None = None, n_finished: int = 4) -> dict[str, Any]:
    make, unit, settings = KINDS[kind]
    made = make() if learners is None else learners
    delta = next(iter(made[0].values())).delta
    privacy = {"epsilons": BUDGETS, "delta": delta, "adjacency": settings.get("adjacency", "add-remove")}
    labels = settings.get("labels", "prior-const")
    spec, plan = checks.parse({"privacy": privacy, "seeds": SEEDS, "labels": labels}), plan_of(*made)
    done = [end for learner in made for end in ended(learner, spec, plan, unit)]
    return json.loads(json.dumps(card_document.document("0" * 12, "m", "d", done[:n_finished], plan), allow_nan=False))


def accepted(content: str) -> bool:
    try:
        return card.exit_status(card.verify(content.encode())) == 0
    except errors.BadInput:
        return False


def places(value: object, at: Place = ()) -> Iterator[tuple[Place, object]]:
    """Every value of a nest with its path, but those under words that nothing checks."""
    yield at, value
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in FREE | WORDS:
                yield from places(inner, (*at, name))
    if isinstance(value, list):
        for place, inner in enumerate(value[:1] if at == ("cells",) else value):  # all cells are alike
            yield from places(inner, (*at, place))


def changed(document: object, at: Place, change: Callable[[Any, str | int], object]) -> str:
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
        assert accepted(json.dumps(card_of(kind, n_finished=n_finished)))


@pytest.mark.parametrize("kind", quick(1, KINDS))
def test_every_change_of_a_card_is_found(kind: str) -> None:
    survivors = {name for name, forged in forgeries(card_of(kind)) if accepted(forged)}
    survivors = {name for name in survivors if not name.endswith("sample_rates with its last item twice")}  # says the same
    assert survivors == {"cells without its last item"}, "which is the card of a run that ended before its last model"


@pytest.mark.parametrize("kind", quick(2, KINDS))
def test_models_that_exchange_their_numbers_or_names_are_found(kind: str) -> None:
    document = card_of(kind)
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
    document = card_of("rows", [noisy_sums(5.0, delta=delta)])
    assert not accepted(json.dumps(document))
    document["all_models"]["people"] = 1
    assert accepted(json.dumps(document)) == (delta < card.LARGEST_DELTA)


# Faults in what the ledger charges to whom; a card that was made with one of them is found by the second account.


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
    "of_part: everybody at the first rate": ("replays", accounting, "of_part", lambda event, part: real_part(event, 0)),
    "of_group: one example of several": ("clients-shared", accounting, "of_group", lambda event, size: event),
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
        of_both = {"task": 1, "people_of": (0, 1), "recurrence": "every"}
        made = [{cell: charged(dp.GaussianDpEvent(9.0 / cell.epsilon), **of_both) for cell in CELLS}]  # type: ignore[arg-type]
        kind = "rows"
    else:
        made = KINDS[kind][0]()
    assert accepted(json.dumps(card_of(kind, made)))
    monkeypatch.setattr(owner, name, wrong)
    assert not accepted(json.dumps(card_of(kind, made)))
