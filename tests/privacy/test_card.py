"""The privacy card: what was written can be read again, true cards match, and every change of a number is found."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dp
import pytest

from dpcl_core import checks
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Spending, from_json, to_json
from dpcl_core.privacy import accounting, card, card_document, gaussian, recount, statement
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger, ledger_entries, mechanism
from dpcl_core.privacy.mechanisms import class_sums_std
from dpcl_core.spec import Cell
from tests.support.planned import plan_of
from tests.support.tiers import quick

SPEC = checks.parse({"privacy": {"epsilons": [1.0, "inf"]}, "seeds": [0], "labels": "dp-learned"})
SIGMA = gaussian.sigma(1.0, 1e-5)
ROOT = Path(__file__).parents[2]
Change = Callable[[dict[str, Any]], object]


def ledgers() -> dict[Cell, Ledger]:
    """Two tasks: learned lists, sums, and a training on random batches whose replay reads the first task's people."""
    found = {cell: Ledger(1e-5, "add-remove", "once") for cell in SPEC.cells()}
    for cell, ledger in found.items():
        for task in range(2):
            ledger.spend(accounting.LabelListDpEvent(0.05, 1e-6), task=task, what="list of labels")
            noisy = dp.GaussianDpEvent(SIGMA) if math.isfinite(cell.epsilon) else dp.NonPrivateDpEvent()
            ledger.spend(noisy, task=task, what="sums")
        ledger.spend(accounting.subsampled_gaussian(6.0, 0.5, 2), task=1, what="replay", people_of=(0,), shares_batches=True)
    return found


def finished() -> list[CellFinished]:
    made = ledgers()
    return [
        CellFinished(
            cell, {}, guarantee(ledger, SPEC, cell, unit="example", n_people=900, n_tasks=2, planned=plan_of(made)), 1.0,
            ledger_entries(ledger),
        )
        for cell, ledger in made.items()
    ]  # fmt: skip


def a_card() -> dict[str, Any]:
    document = card_document.document("0" * 12, "cosine", "Digits", finished(), plan_of(ledgers()))
    return json.loads(json.dumps(document, allow_nan=False))


def checked(document: object) -> list[card.Checked]:
    return card.verify(json.dumps(document).encode())


@pytest.mark.parametrize(
    "one",
    [
        dp.GaussianDpEvent(2.0),
        dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)),
        accounting.SampledGroupDpEvent(2.0, (0.1, 0.2)),
        accounting.LabelListDpEvent(0.1, 1e-7),
        accounting.LocalDpEvent(1.5),
        dp.NonPrivateDpEvent(),
        dp.NoOpDpEvent(),
    ],
)
def test_every_event_is_written_and_counted_again(one: dp.DpEvent) -> None:
    n = 2 if isinstance(one, accounting.SampledGroupDpEvent) else 1
    counted = recount.costs([Spending("", 0, tuple(range(n)), 3, mechanism(one))], set(range(n)))
    assert counted == {one: 3}


def test_a_bare_gaussian_is_one_step() -> None:
    assert mechanism(dp.GaussianDpEvent(2.0)) == mechanism(dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 1))


def test_an_unknown_event_is_not_written() -> None:
    with pytest.raises(accounting.Unaccountable, match="cannot be written down"):
        mechanism(dp.LaplaceDpEvent(1.0))


def test_a_ledger_counted_again_adds_up_to_the_same_through_the_store() -> None:
    for one in finished():
        stored = from_json(json.loads(json.dumps(to_json(one))))
        assert isinstance(stored, CellFinished)
        again = recount.Recount(accounting.Pld(), 1e-5, stored.ledger).numbers("person", has_list=True)
        assert again["epsilon"] == pytest.approx(one.guarantee.epsilon, rel=1e-9)
        parts = {name: value for name, value in one.guarantee.parts.items() if not name.startswith("all ")}
        assert again == pytest.approx({"epsilon": again["epsilon"], **parts})


def test_a_run_stored_before_ledgers_were_is_read_without_one() -> None:
    raw = json.loads(json.dumps(to_json(finished()[0])))
    del raw["ledger"]
    stored = from_json(raw)
    assert isinstance(stored, CellFinished)
    assert stored.ledger is None
    for plan, why in ((plan_of(ledgers()), "events were kept"), (None, "events were kept")):
        (found,) = card.verify(json.dumps(card_document.document("0" * 12, "cosine", "Digits", [stored], plan)).encode())
        assert (found.verdict, found.why) == ("unchecked", f"the run was stored before {why}; run it again")


def test_a_run_stored_before_plans_were_cannot_be_checked() -> None:
    for one in checked({**a_card(), "all_models": None}):
        assert (one.verdict, "before all its models were planned" in one.why) == ("unchecked", True)


def test_true_cards_match_with_and_without_noise() -> None:
    found = checked(a_card())
    assert [one.verdict for one in found] == ["matches", "matches"]
    assert card.exit_status(found) == 0
    assert [number.name for number in found[0].numbers] == [
        "epsilon", "task 1", "task 2", "people of task 1", "people of task 2", "the list of labels of one task alone",
        "the same person in every task", "all 2 models of this run together, delta 2e-05", "all models of the run",
    ]  # fmt: skip
    assert "matches (no bound" in card.sentence(found[1])


def test_ways_out_are_checked_apart() -> None:
    ledger = Ledger(1e-5, "add-remove", "every")
    replay, head = dp.GaussianDpEvent(5.0), dp.GaussianDpEvent(9.0)
    ledger.spend(dp.GaussianDpEvent(1 / math.hypot(0.2, 1 / 9)), task=0, what="both", channels={REPLAY: replay, HEAD: head})
    cell = Cell(1.0, 0)
    spec = replace(SPEC, labels="prior")
    given = guarantee(ledger, spec, cell, unit="user", n_people=20, n_tasks=1)
    plan = plan_of({cell: ledger}, n_tasks=1)
    document = card_document.document("0" * 12, "m", "d", [CellFinished(cell, {}, given, 1.0, ledger_entries(ledger))], plan)
    assert card.exit_status(checked(document)) == 0
    raw = json.loads(json.dumps(document))
    raw["cells"][0]["events"][0]["channels"]["head"]["noise_multiplier"] = 4.5
    (found,) = checked(raw)
    assert found.verdict == "differs"
    assert "head is stated as" in card.sentence(found)


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
    ],
)
def test_what_cannot_be_checked_says_why(change: Change, why: str) -> None:
    document = a_card()
    change(document["cells"][0])
    found = checked(document)
    assert found[0].verdict == "unchecked"
    assert card.exit_status(found) == 2
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
    with pytest.raises(BadInput, match=r"must be the privacy_card\.json of an export") as refused:
        card.verify(content)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_nan_is_no_epsilon() -> None:
    document = a_card()
    document["cells"][0]["epsilon"] = math.nan
    with pytest.raises(BadInput, match="epsilon"):
        checked(document)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sample_rates": [0.1] * 101}, "sample_rates"),
        ({"steps": 10**12}, "steps"),
        ({"noise_multiplier": 1e-9}, "noise_multiplier"),
        ({"count": 10**9}, "count"),
    ],
)
def test_a_card_made_to_be_costly_is_not_added_up(changes: dict[str, object], why: str) -> None:
    document = a_card()
    document["cells"][0]["events"][4].update(changes)
    (found, _) = checked(document)
    assert found.verdict == "unchecked"
    assert f"event 5 is not known: {why} = " in found.why


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
    cell, spec = Cell(1.0, 0), checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0], "labels": "prior-const"})
    ledger = Ledger(1e-5, "add-remove", "once")
    for task in range(2):
        ledger.spend(dp.GaussianDpEvent(class_sums_std(1.0, 1e-5, "add-remove")), task=task, what="sums of unit features")
    plan = plan_of({cell: ledger}, n_people=1000)
    given = guarantee(ledger, spec, cell, unit="example", n_people=1000, n_tasks=2, planned=plan)
    finished = CellFinished(cell, {}, given, 1.0, ledger_entries(ledger))
    return card_document.document("0" * 12, "cosine", "Digits", [finished], plan)


def test_the_documents_example_is_a_card_that_matches_and_adds_up_by_hand() -> None:
    document = (ROOT / "docs/privacy_card.md").read_text(encoding="utf-8")
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
    """Readers differ in what they take such a value for."""
    document = a_card()
    cell = document["cells"][0]
    cell.update({name: made(cell[name])})
    with pytest.raises(BadInput):
        checked(document)
    (event,) = [event for event in a_card()["cells"][0]["events"] if event["what"] == "replay"]
    for number in ("task", "count", "steps", "noise_multiplier"):
        document = a_card()
        document["cells"][0]["events"][-1] = {**event, number: made(event[number])}
        assert checked(document)[0].verdict == "unchecked"
