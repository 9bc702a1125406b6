"""The Privacy page: statement, ledger, calculators in both directions, what adds up, and bad input in one sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dp
import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import checks, engine, presets
from dpcl_core.events import CellFinished
from dpcl_core.privacy import card, card_document
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import Ledger, ledger_entries
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell
from pages.parts import claim_calculator
from tests.pages.conftest import Open, Patch, told, words
from tests.support import replay
from tests.support.asserting import excludes, includes
from tests.support.planned import plan_of


@pytest.mark.parametrize(("query", "said"), [
    ({}, [
        "is at most 2.72 times likelier because of any one training example", "**Covered**", "**Not covered**",
        "**Assumed**", "**To know**", "right at most 73.11 % of the time", "not DP: there is no bound", "not a weak ε",
        "| learned under DP | labels that many people have, within ε | a share of ε, half of δ |",
        "| 1 | 0.0005 % | 0.0005 % | 0.0005 % |", "| 100 | 1.5 % | 76.2 % | 100 % |",  # by the exact recursion
    ]),
    ({"e": "1"}, [
        *(f"| task {k} | 1 |" for k in range(1, 6)), "| **total for any one person** (parallel) | **1** |",
        "| the same person in every task | 2.45 |",  # 2.442 (paper card, section 3), rounded up
        "**What did it cost me?** at ε = 1", "all people of one task pay alike", "| one of tasks 1 to 5 | 1 |",
    ]),
    ({"e": "inf"}, ["Not differentially private", "| **total for any one person** (parallel) | **no bound** |"]),
    ({"k": "12", "ke": "1", "kn": "5"}, [
        "Equal, as planned: 7 of 12 tasks starve", "doubling: ε = 0.134 for the last task",
    ]),
    # Noise in σ of a single task, and what each attacker proves of ε = 1 after ten tasks.
    ({"k": "10", "ke": "1", "kp": "1"}, ["fresh 3.16, square root 1.79", "Fresh: all releases so far: ε = 1"]),
    ({"k": "10", "ke": "1", "kp": "5"}, ["fresh 7.07, square root 6.91, fitted 6.46"]),
])  # fmt: skip
def test_what_the_example_promises_and_costs_is_in_numbers(open_page: Open, query: dict[str, str], said: list[str]) -> None:
    shown = words(open_page("privacy", **query))
    includes(shown, *said)
    assert ("Ledger: by task" in shown) == ("e" not in query or query["e"] == "1")


def asked(page: AppTest, panel: str = "noise") -> Any:
    """The question that the browser's calculator opens with; `panel`: noise or tasks."""
    return next(document["start"] for document in told(page, "calculator") if document["panels"] == [panel])


@pytest.mark.parametrize(("query", "answer"), [
    ({"f": "epsilon", "cs": "1", "cd": "1e-5", "cq": "0.01", "cn": "1000"}, "ε = 1.829"),
    ({"f": "sigma", "ce": "1", "cd": "1e-5", "cq": "0.01", "cn": "1000"}, "σ = 1.4159"),
    ({"f": "epsilon", "cs": "1", "a": "replace", "cn": "1000"}, "ε = "),
])  # fmt: skip
def test_random_batches_are_accounted_by_losses_too(open_page: Open, query: dict[str, str], answer: str) -> None:
    """Answers as from other accountants (environment notes); the browser's is tested in tests/elements."""
    page = open_page("privacy", m="sampled", **query)
    assert f"**By privacy loss distributions: {answer}" in words(page)
    assert not page.error
    assert asked(page)["find"] == query["f"]


@pytest.mark.parametrize(("query", "sentence"), [
    ({"ce": "0"}, "ε = 0.0: must be a finite number above 0"),
    ({"ce": "banana"}, "ε = banana: must be a number with a decimal point, as in 1.5"),
    ({"cd": "1"}, "δ = 1.0: must lie between 0 and 1, both excluded"),
    ({"f": "epsilon", "cs": "-1"}, "σ = -1.0: must be a finite number above 0"),
    ({"cn": "2.5"}, "steps = 2.5: must be a whole number from 1 to 10,000,000"),
    ({"cq": "1.5"}, "share drawn a step = 1.5: must lie in (0, 1]"),
])  # fmt: skip
def test_bad_input_gives_one_sentence_and_no_answer(open_page: Open, query: dict[str, str], sentence: str) -> None:
    page = open_page("privacy", m="sampled", **query)
    assert [error.value.replace("\\", "") for error in page.error] == [sentence]
    assert "By privacy loss distributions" not in words(page)


def test_one_gaussian_is_left_to_the_browser(open_page: Open) -> None:
    page = open_page("privacy", k="10", ce="8")
    assert (asked(page)["epsilon"], asked(page, "tasks")["tasks"]) == ("8", 10)
    assert "By privacy loss distributions" not in words(page)


def test_a_learned_list_has_its_own_line_in_the_ledger(open_page: Open, store: Store) -> None:
    spec = replay.a_spec(labels="dp-learned", epsilons=(1.0,), seeds=(0,))
    said = words(open_page("privacy", run=replay.fill(store, spec, list(engine.run(spec)))))
    includes(said, "| the list of labels of one task alone | 0.1 |", "a label that few people have is left out on purpose")
    # The sum over tasks is no closed form here, and nothing is trained.
    excludes(said, "Ledger: by task", "three accountants")


def test_a_trained_run_is_held_before_three_accountants(open_page: Open, store: Store, monkeypatch: Patch) -> None:
    asked: list[claim_calculator.Question] = []

    def answer(question: claim_calculator.Question) -> dict[str, object]:
        asked.append(question)
        return {"sigma": 7.5722, "accountants": {"pld": 0.9, "prv": 0.9015, "rdp": 1.0, "exact": None, "agree": True}}

    monkeypatch.setattr(claim_calculator, "_ask", answer)
    raw = {"method": "peft-ensemble", "labels": "dp-learned", "privacy": {"epsilons": [1.0, math.inf]}, "seeds": [0]}
    run_id = replay.finished(store, checks.parse(raw))
    page = open_page("privacy", run=run_id, e="1")
    while "0.9015" not in words(page):
        page.run()
    includes(words(page), "not tight | 1.0000 |", "400 steps, each on a random share of 0.1, σ = 7.5722, at δ = 5e-06")
    assert asked == [claim_calculator.Question(0.1, 400, 5e-6, "add-remove", epsilon=0.9)]
    assert "three accountants" not in words(open_page("privacy", run=run_id, e="inf"))


def test_unknown_and_unfinished_runs_give_the_example_and_say_so(open_page: Open, store: Store) -> None:
    assert "Showing the example instead." in words(open_page("privacy", run="0123456789ab"))
    said = words(open_page("privacy", run=store.create(presets.load("digits-cosine"), name="waits *here*")))
    assert "waits *here* has no finished model yet. Showing the example instead." in said


def test_a_link_gives_the_same_view_again(open_page: Open) -> None:
    query = {"f": "epsilon", "cs": "2", "k": "7", "ke": "0.5", "e": "0.5"}
    page = open_page("privacy", **query)
    assert {name: page.query_params[name] for name in query} == query
    assert (asked(page, "tasks")["tasks"], asked(page, "tasks")["task_epsilon"]) == (7, 0.5)


def test_a_dropped_card_is_checked_and_a_changed_one_named(open_page: Open, home: Path) -> None:
    cell = Cell(1.0, 0)
    ledger = Ledger(1e-5, "add-remove", "once")
    ledger.spend(dp.GaussianDpEvent(4.0), task=0, what="sums")
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0]})
    given = guarantee(ledger, spec, cell, unit="example", n_people=900, n_tasks=1)
    plan = plan_of({cell: ledger}, n_tasks=1)
    document = card_document.document(
        "0" * 12, "cosine", "Digits", [CellFinished(cell, {}, given, 1.0, ledger_entries(ledger))], plan
    )
    page, said, changed = open_page("privacy"), [], json.loads(json.dumps(document))
    changed["cells"][0]["epsilon"] = 0.5
    for content in (document, changed, {"no": "card"}):
        page.file_uploader[0].set_value(("privacy_card.json", json.dumps(content).encode(), "application/json")).run()
        said.append("\n".join([words(page), *(element.value for element in page.success)]))
    includes(said[0], "Every number matches its events.", "| ε = 1, seed 0 |")
    includes(said[1], "A number on this card does not follow", "epsilon is stated as 0.5, and the events give [0.9")
    assert "must be the privacy_card.json of an export" in said[2]
    assert all(card.CHECK_FINDS in one for one in said[:2])


@pytest.mark.parametrize("name", ["own:mine", "digits"])
def test_looks_at_own_data_are_counted_beside_the_statement(name: str, open_page: Open, store: Store, home: Path) -> None:
    (home / "data" / "mine").mkdir(parents=True)
    spec = replay.a_spec(seeds=(0,))
    spec = replace(spec, data=replace(spec.data, dataset=name))
    for _ in range(2):
        run_id = replay.finished(store, spec)
    said = words(open_page("privacy", run=run_id))
    assert "Covered" in said
    assert ("These data have been used" in said) == (name == "own:mine")
