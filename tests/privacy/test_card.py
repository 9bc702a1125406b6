"""The privacy card: what was written can be read again, true cards match, and every change of a number is found."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import dp_accounting as dp
import pytest

from dpcl_core import checks
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, from_json, to_json
from dpcl_core.privacy import card, gaussian
from dpcl_core.privacy.accounting import (
    LabelListDpEvent,
    LocalDpEvent,
    Pld,
    SampledGroupDpEvent,
    Unaccountable,
    subsampled_gaussian,
)
from dpcl_core.privacy.joint_release import joint_release
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.statement import guarantee
from dpcl_core.privacy.written import event, mechanism, read, written
from dpcl_core.spec import Cell
from tests.support.tiers import quick

SPEC = checks.parse({"privacy": {"epsilons": [1.0, "inf"]}, "seeds": [0], "labels": "dp-learned"})
SIGMA = gaussian.sigma(1.0, 1e-5)
Change = Callable[[dict[str, Any]], object]


def ledgers() -> dict[Cell, Ledger]:
    """Two tasks: learned lists, sums, and a training on random batches whose replay reads the first task's people."""
    found = {cell: Ledger(1e-5, "add-remove", "once") for cell in SPEC.cells()}
    for cell, ledger in found.items():
        for task in range(2):
            ledger.spend(LabelListDpEvent(0.05, 1e-6), task=task, what="list of labels")
            noisy = dp.GaussianDpEvent(SIGMA) if math.isfinite(cell.epsilon) else dp.NonPrivateDpEvent()
            ledger.spend(noisy, task=task, what="sums")
        ledger.spend(subsampled_gaussian(6.0, 0.5, 2), task=1, what="replay", people_of=(0,), shares_batches=True)
    return found


def finished(of: dict[Cell, Ledger] | None = None) -> list[CellFinished]:
    made = ledgers() if of is None else of
    total = joint_release(made)
    return [
        CellFinished(
            cell, {}, guarantee(ledger, SPEC, cell, unit="example", n_people=900, n_tasks=2, together=total), 1.0,
            written(ledger),
        )
        for cell, ledger in made.items()
    ]  # fmt: skip


def a_card() -> dict[str, Any]:
    document = card.document("0" * 12, "cosine", "Digits", finished())
    return json.loads(json.dumps(document, allow_nan=False))


def checked(document: object) -> list[card.Checked]:
    return card.verify(json.dumps(document).encode())


@pytest.mark.parametrize(
    "one",
    [
        dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 1),
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0)), 7),
        dp.SelfComposedDpEvent(SampledGroupDpEvent(2.0, (0.1, 0.2)), 3),
        LabelListDpEvent(0.1, 1e-7),
        LocalDpEvent(1.5),
        dp.NonPrivateDpEvent(),
        dp.NoOpDpEvent(),
    ],
)
def test_every_event_is_written_and_read_again(one: dp.DpEvent) -> None:
    assert event(mechanism(one)) == one


def test_a_bare_gaussian_is_one_step() -> None:
    assert mechanism(dp.GaussianDpEvent(2.0)) == mechanism(dp.SelfComposedDpEvent(dp.GaussianDpEvent(2.0), 1))


def test_an_unknown_event_is_not_written() -> None:
    with pytest.raises(Unaccountable, match="cannot be written down"):
        mechanism(dp.LaplaceDpEvent(1.0))


def test_a_ledger_read_again_adds_up_to_the_same_through_the_store() -> None:
    for one in finished():
        stored = from_json(json.loads(json.dumps(to_json(one))))
        assert isinstance(stored, CellFinished)
        assert stored.ledger is not None
        again = read(stored.ledger, 1e-5, Pld())
        assert again.epsilon() == one.guarantee.epsilon
        assert again.by_people() == ledgers()[one.cell].by_people()


def test_a_run_stored_before_ledgers_were_is_read_without_one() -> None:
    raw = json.loads(json.dumps(to_json(finished()[0])))
    del raw["ledger"]
    stored = from_json(raw)
    assert isinstance(stored, CellFinished)
    assert stored.ledger is None
    (found, *_) = card.verify(json.dumps(card.document("0" * 12, "cosine", "Digits", [stored])).encode())
    assert (found.verdict, found.why) == ("unchecked", "the run was stored before events were kept; run it again")


def test_true_cards_match_with_and_without_noise() -> None:
    found = checked(a_card())
    assert [one.verdict for one in found] == ["matches", "matches"]
    assert card.exit_status(found) == 0
    assert [number.name for number in found[0].numbers] == [
        "epsilon", "task 1", "task 2", "people of task 1", "people of task 2", "the list of labels of one task alone",
        "the same person in every task", "all 2 models of this run together, delta 2e-05",
    ]  # fmt: skip
    assert "matches (no bound" in card.sentence(found[1])


def test_ways_out_are_checked_apart() -> None:
    ledger = Ledger(1e-5, "add-remove", "every")
    replay, head = dp.GaussianDpEvent(5.0), dp.GaussianDpEvent(9.0)
    ledger.spend(dp.GaussianDpEvent(1 / math.hypot(0.2, 1 / 9)), task=0, what="both", channels={REPLAY: replay, HEAD: head})
    cell = Cell(1.0, 0)
    spec = SPEC.model_copy(update={"labels": "prior"})
    given = guarantee(ledger, spec, cell, unit="user", n_people=20, n_tasks=1)
    document = card.document("0" * 12, "m", "d", [CellFinished(cell, {}, given, 1.0, written(ledger))])
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
    "no noise": lambda cell: cell["events"].append({**cell["events"][1], "mechanism": "no-bound"}),
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
        (lambda cell: cell["events"][1].pop("noise_multiplier"), "a mechanism of kind 'gaussian' lacks its numbers"),
        (lambda cell: cell["events"][1].update(surprise=1), "event 2 is not known: surprise = 1: no such setting"),
        (lambda cell: cell["events"][1].update(mechanism="local", epsilon=1.0), "no epsilon under add-remove"),
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
    [b"", b"\xff\xfe", b"[]", b"{}", b'"text"', b"[" * 100_000, b'{"card": NaN}', garbled(version=2), garbled(cells=[]),
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
    document["cells"][0]["events"] += [{**step, "noise_multiplier": 6 + n / 1000} for n in range(300)]
    (found, _) = checked(document)
    assert found.verdict == "unchecked"
    assert "kinds of sampled steps" in found.why
