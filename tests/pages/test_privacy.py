"""The Privacy page: statement, ledger, calculators, what adds up, bad input in one sentence, and three published claims."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dp
import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import checks, engine, presets
from dpcl_core.attacks import cslr_games, l2dp_games, token_noise_games
from dpcl_core.events import CellFinished
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import card, card_document, cslr_accounting, text_mechanisms
from dpcl_core.privacy.cslr_accounting import Reading
from dpcl_core.privacy.guarantee import guarantee
from dpcl_core.privacy.ledger import ledger_entries
from dpcl_core.privacy.statement import Standing
from dpcl_core.runs.store import Store
from dpcl_core.spec import Cell
from pages import runs as runs_page
from pages.parts import claim_calculator, comparison, status_line
from tests.pages.conftest import Open, Patch, press, told, turned, words
from tests.support import replay
from tests.support.asserting import excludes, includes
from tests.support.planned import charged, plan_of
from tests.support.tiers import quick


@pytest.mark.parametrize("view", [("privacy", {}), ("explore", {"view": "playground"})], ids=["privacy", "playground"])
def test_of_runs_with_one_name_the_linked_one_is_shown(open_page: Open, store: Store, view) -> None:
    name, query = view
    for run_id in [replay.finished(store, replay.a_spec(epsilons=(one,))) for one in (1.0, 8.0)]:
        assert open_page(name, run=run_id, **query).run().query_params["run"] == run_id


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
        "all people of one task pay alike", "| one of tasks 1 to 5 | 1 |",
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
    shown = words(turned(open_page("privacy", **query), "own-cost-was-open"))
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
    assert (list(page.error), asked(page)["find"]) == ([], query["f"])


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
    page = open_page("privacy", run="0123456789ab")
    for _ in range(2):  # also when a figure, which says how wide it is, has the page drawn again
        assert "Showing the example instead." in words(page)
        page.run()
    said = words(open_page("privacy", run=store.create(presets.load("digits-cosine"), name="waits *here*")))
    assert "waits *here* has no finished model yet. Showing the example instead." in said


def test_a_link_gives_the_same_view_again(open_page: Open) -> None:
    query = {"f": "epsilon", "cs": "2", "k": "7", "ke": "0.5", "e": "0.5"}
    page = open_page("privacy", **query)
    assert {name: page.query_params[name] for name in query} == query
    assert (asked(page, "tasks")["tasks"], asked(page, "tasks")["task_epsilon"]) == (7, 0.5)


def test_a_dropped_card_is_checked_and_a_changed_one_named(open_page: Open, home: Path) -> None:
    cell, ledger = Cell(1.0, 0), charged(dp.GaussianDpEvent(4.0))
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


# The three published claims: Lifelong DP, CSLR and PeCL.


SECTIONS = {"l": "What Theorem 2 says", "r": "Every reading, at the printed noise", "t": "What Eq. 5 prints"}


def test_sections_are_closed_and_cost_nothing_until_they_are_opened(open_page: Open) -> None:
    page = open_page("privacy")
    excludes(words(page), *SECTIONS.values())
    excludes(page.query_params, *SECTIONS)


@pytest.mark.parametrize(("query", "n_warnings", "rows"), [
    # The numbers themselves are those of tests/privacy; here each control reaches them. Lifelong DP: the theorem term by
    # term, as the paper card has it; at last with one patch of 48 values and one feature map of 256 units.
    ({"l": "1", "lb": "0", "le": "-1", "lw": "nothing", "lc": "-3"}, 4, ["| ε1 | 0.25 |"]),
    ({"l": "1"}, 0, [
        "| ε1/γ_x | 2.54e-05 |", "| **claimed in all, not verified** | **0.5** |", "| **accounted** | **no bound** |",
        "b = Δ_R/(ε1 λ) = **39,356** on each value of an input",
        "Claimed ε = 0.5 (Lai et al. 2022, Theorem 2, not verified).",
    ]),
    ({"l": "1", "ld": "10", "lh": "8", "lb": "100"}, 0, ["Δ_R = d(|h1| + 2) = 100,"]),
    ({"l": "1", "lr": "witness", "le": "2", "ls": "0.8", "lb": "100", "lt": "13", "lw": "cifar"}, 0, [
        "| ε2 | 0.4 |", "Δ_R = d(|h1| + 2) = 12,384",
    ]),
    # CSLR: claimed and computed, every assumption a control, and what is not valid or not known.
    ({"r": "1", "rq": "0", "rt": "-3", "rd": "2", "rs": "nobody"}, 4, ["| **PLD, used here** | 16.3 | 62.4 | 150 |"]),
    ({"r": "1"}, 0, [
        "| computed ε; claims not verified | claimed 1: σ = 3.2 | claimed 4: σ = 1.45 | claimed 8: σ = 0.95 |",
        "| Eq. 9, the paper's own | 19.8 | 94.4 | 440 |", "| **PLD, used here** | 16.3 | 62.4 | 150 |",
        "| **head alone** | no bound | no bound | no bound |",
        "| **replay and head together** | no bound | no bound | no bound |",
        "| **200 rounds, 4 statistics: the paper's protocol** | **19.8 / 18.6 / 16.3** | **94.4 / 93 / 62.4** |",
        "| 200 rounds, 6 of 20 clients, one replaced by another | – / 135 / – |",
        "**This reading keeps none of the claims.** Without noise on the head, the model has no bound at all.",
    ]),
    ({"r": "1", "ro": "0"}, 0, ["a client is sampled for all statistics"]),
    ({"r": "1", "rs": "fixed"}, 1, ["No accountant here handles sets of fixed size"]),
    *quick(1, [
        ({"r": "1", "rt": "1", "rk": "1"}, 0, ["| 0.465 | 1.61 | 3.17 |"]),
        ({"r": "1", "rs": "everyone"}, 0, ["| 76 | 273 | 570 |"]),
        ({"r": "1", "rc": "mode", "rq": "0.5", "rl": "1", "rt": "4"}, 0, ["| **PLD, used here** | 15.8 | 55 | 111 |"]),
        ({"r": "1", "rs": "fixed", "ra": "replace"}, 0, ["by dp_accounting | 135 | 1,190 | 3,213 |"]),
    ]),
    # PeCL: printed and true numbers, and the noise level.
    ({"t": "1", "te": "0", "tl": "-3", "td": "2", "tw": "wide"}, 4, ["| one token, one release | 1 | **1.657** |"]),
    ({"t": "1"}, 0, [
        "| one token, one release | 1 | **1.657** |", "| a text of 64 tokens: plain sum, one release | 64 | **18.31** |",
        "| the same text: Remark 1, 3 epochs | 106.1 | **37.83** |",
        "= 5.299, so σ = 5.299 here; C does not affect ε.", "It would have to be 8.449, 1.59 times as much",
        "the true δ is 0.00077", "Nominal ε = 1 (Zhan et al., Theorem 1), no guarantee: the noise level reveals",
        "What a nominal ε of 1 (no guarantee) really costs: one token 1.657; one token, 3 epochs 3.031;", "| 1 or 1.1 |",
    ]),
    ({"t": "1", "te": "5", "tc": "0.25", "tl": "32", "tp": "10", "tn": "2", "td": "1e-05", "tw": "4096"}, 0, [
        "so σ = 0.2422 here", "| one token, 10 epochs with fresh noise | 5 |", "a text of 32 tokens",
    ]),
])  # fmt: skip
def test_a_section_says_its_numbers(open_page: Open, query: dict[str, str], n_warnings: int, rows: list[str]) -> None:
    page = open_page("privacy", **query)
    assert len(page.warning) == n_warnings
    includes(words(page), *rows)
    if n_warnings < 4:  # numbers that are refused leave the link
        assert {name: page.query_params[name] for name in query} == query


LIFELONG = {"l": "1", "lr": "witness"}, "audit", l2dp_games.ATTACKS, "**ε is at least 5.60**, more than is claimed"
CSLR = {"r": "1", "rt": "50", "rx": "1"}, "list-audit", cslr_games.ATTACKS, "more than the claimed 1"
PECL = {"t": "1"}, "token-audit", token_noise_games.ATTACKS, "more than the nominal 1"


@pytest.mark.parametrize(("query", "panel", "games", "verdict", "name"), [
    *((*LIFELONG, name) for name in ("differencing", "rank-one", "labels")), *((*CSLR, name) for name in ("rounds", "head")),
    *((*PECL, name) for name in ("level", "exact", "epochs")),
])  # fmt: skip
def test_an_attack_is_played_at_a_press_and_gives_its_bound_with_confidence(
    open_page: Open, query: dict[str, str], panel: str, games: Mapping[str, Any], verdict: str, name: str
) -> None:
    page = open_page("privacy", **query)
    assert "Audited: " not in words(page)
    said = words(page.button(key=f"{panel}-{name}").click().run())
    assert f"{verdict} (95 % confidence," in said
    includes(said, *(f"**{one.title}.** The attacker {one.adversary}." for name, one in games.items() if name != "lists"))


@pytest.mark.parametrize(("section", "name"), [("l", "l_epsilon"), ("t", "t_epsilon")])
def test_other_numbers_are_another_game(open_page: Open, section: str, name: str) -> None:
    page = press(open_page("privacy", **{section: "1"}), "Play ")
    assert "Audited: " in words(page)
    number = next(box for box in page.number_input if name in str(box.key))
    assert "Audited: " not in words(number.set_value(2.0).run())


READING = {"claim": cslr_accounting.nominal_claim(4.0, Reading(1.45)), "parts": {"replay release": 62.31, "head": math.inf}}


@pytest.mark.parametrize(("epsilon", "given", "section", "rows"), [
    (0.5, {}, "l", [
        "| claimed: ε1/γ | 0.125 |", "| **claimed** in all (Lai et al. 2022, Theorem 2, not verified) | 0.5 |",
        "| **accounted** by the ledger | no bound |", "| each of 5 parts, task 1 to task 5 | no bound |",
        "the noise scales of the run above",
    ]),
    (4.0, READING, "r", [
        "| **claimed**, replay alone (Shihab et al., Table 5; for the replay release alone, not verified) | 4 |",
        "| computed ε by PLD | 62.4 |", "| **accounted**: replay release | 62.4 |", "| **accounted**: head | no bound |",
        "| **accounted**: replay and head together | no bound |",
    ]),
    (10.0, {"claim": text_mechanisms.nominal_claim(1.0, 10.0, 1e-6, 64, 3)}, "t", [
        "Claimed ε = 10 (Zhan et al., Theorem 1; nominal, no guarantee, not verified). No bound: an audit proved",
        "| nominal ε of the least noised token (no guarantee) | 10 |", "| **accounted** by the ledger | no bound |",
        "| true ε of the least noised token, one release | 24.42 |",
        "| true ε of a text of the most noised tokens, all epochs | 37.83 |",
    ]),
])  # fmt: skip
def test_a_runs_own_claim_stands_beside_its_ledger_and_its_audit(
    open_page: Open, store: Store, monkeypatch: Patch, epsilon: float, given: dict[str, Any], section: str, rows: list[str]
) -> None:
    """Of a method whose published ε is not delivered; its own section alone is open."""
    monkeypatch.setattr(methods, "is_nominal", lambda name: True)
    spec = replay.a_spec(epsilons=(epsilon,))
    events = replay.promising(replay.claimed(replay.recorded(spec)), **given)
    said = words(open_page("privacy", run=replay.fill(store, spec, events), e=f"{epsilon:g}"))
    includes(said, *rows, "| **audited** | **at least 5.6** |", SECTIONS[section])
    excludes(said, *(title for name, title in SECTIONS.items() if name != section))


@pytest.fixture(scope="module", autouse=True)
def computed() -> None:
    """Every row of the table, before a page waits for them: they take seconds."""
    for row in cslr_accounting.rows().values():
        for sigma in cslr_accounting.TABLE_5.values():
            cslr_accounting.costs(row.of(sigma))


def test_a_noisy_head_gives_three_numbers_and_one_bound(open_page: Open) -> None:
    said = words(open_page("privacy", r="1", rh="4.709"))
    assert "| **head alone** | 4 | 4 | 4 |" in said or "| **head alone** | 4.01 | 4.01 | 4.01 |" in said
    together = float(said.split("| **replay and head together** | ")[1].split(" |")[0])
    assert 16.3 < together < 16.3 + 4.0, "less than the sum"
    assert "no bound at all" not in said.split("This reading keeps")[1][:120]


def test_the_noise_that_the_claims_would_take_is_found_at_a_press(open_page: Open) -> None:
    page = open_page("privacy", r="1", rs="everyone", rt="4")
    assert "σ needed" not in words(page)
    page.button(key="list-needed-search").click().run()
    includes(words(page), "| 4 | 1.45 | **4.32", "| 1 | 3.2 | **14.92")


def test_the_nominal_number_never_stands_without_the_word_and_the_warning(open_page: Open) -> None:
    """Every sentence that names the printed budget says that it is nominal and no guarantee (PeCL is only ever claimed)."""
    said = words(open_page("privacy", t="1", te="7"))
    assert "No differential privacy guarantee for tokens, texts or people." in said.replace("\n", " ")
    heads = [line for line in said.splitlines() if line.startswith("|") and "nominal" in line]
    assert {"no guarantee" in line for line in heads} == {True}
    for start in ("Nominal ε = 7", "What a nominal ε of 7", "Nominal for the attacked token: ε = 7"):
        assert "no guarantee" in " ".join(said[said.index(start) :][:120].split())


# A run whose ε is only claimed: no page shows that number without "not verified", or on a line with bounds.


SPEC = replay.a_spec(epsilons=(0.5, math.inf))
BANNER = "Claimed ε = 0.5 (Lai et al. 2022, Theorem 2, not verified). No bound: an audit proved at least 5.6."


@pytest.fixture
def only_claims(monkeypatch: Patch) -> None:
    """The cosine classifier, as if its budgets were only claimed."""
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "cosine": replace(methods.CARDS["cosine"], guarantee="nominal")})


@pytest.fixture
def run_id(store: Store, only_claims: None) -> str:
    return replay.fill(store, SPEC, replay.claimed(replay.recorded(SPEC)), name="claims")


def test_every_page_says_claim_and_audit_beside_the_run(open_page: Open, store: Store, run_id: str) -> None:
    said = words(open_page("train", run=run_id))
    audit = "Audit: ε ≥ 5.6 at 95 % confidence, 1,000 releases a side (differencing the memory)."
    includes(said, BANNER, audit, "<b>Why</b> One noise vector is shared", "claimed ε = 0.5, ∞, not verified")
    assert "A guess whether someone took part is right with probability at most" not in said
    shown = words(open_page("privacy", run=run_id, e="0.5"))
    includes(shown, BANNER, "| **total for any one person** (parallel) | **no bound** |")
    assert runs_page.table([store.get(run_id)], store.final_accuracies([run_id]))["epsilons"][0] == "0.5, ∞ (claimed)"


@pytest.mark.parametrize(("epsilons", "detail", "said"), [
    (SPEC.privacy.epsilons, "ε only claimed, no bound", "Every run of it is audited."),
    ((math.inf,), "no noise", "No noise is added: no privacy."),
])  # fmt: skip
def test_a_run_under_way_says_that_no_bound_holds(
    open_page: Open, store: Store, only_claims: None, epsilons: tuple[float, ...], detail: str, said: str
) -> None:
    spec = replay.a_spec(epsilons=epsilons)
    events = [event for event in replay.claimed(replay.recorded(spec)) if type(event).__name__ != "CellFinished"]
    run = store.get(replay.fill(store, spec, events, status="running"))
    line = status_line.status_of_run(run, events, run.started or 0.0).detail
    assert detail in line
    assert ("claimed" in line) == ("claimed" in detail)
    shown = words(open_page("train", run=run.id))
    assert (said in shown, "accounted so far" in shown) == (True, False)


def test_a_comparison_with_a_bound_is_warned_of(open_page: Open, store: Store, run_id: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: name == "cosine")
    other = replay.finished(store, checks.parse({**SPEC.jsonable(), "method": "naive", "params": {}}), name="proved")
    said = words(open_page("runs", view="compare", v="1", r=f"{run_id},{other}", f="0.5"))
    includes(said, "The ε of A is a claim", "A (claimed): ", "for some runs a claim, not verified", BANNER)


@pytest.mark.parametrize(("kinds", "said"), [
    *(((kind, kind), None) for kind in ("bound", "claimed", "replay")),
    (("bound", "claimed"), "The ε of B is a claim"),
    (("replay", "bound"), "The ε of A covers the replay only: the head is not private"),
    (("bound", "none"), "The ε of B is only what was asked for: labels read from the data have no bound."),
])  # fmt: skip
def test_promises_are_unequal_only_where_they_are(kinds: tuple[Standing, Standing], said: str | None) -> None:
    found = comparison.unequal_promises(dict(zip("AB", kinds, strict=True)))
    assert found is None if said is None else str(found).startswith(said)


def test_a_budget_of_the_replay_alone_is_called_so_on_every_page(open_page: Open, store: Store, monkeypatch: Patch) -> None:
    """And what marked names are found by is called entity F1, not accuracy."""
    card = replace(methods.CARDS["cosine"], guarantee="proved", is_for_the_replay=lambda params: True)
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "cosine": card})
    spec = replay.a_spec(epsilons=(0.5, 8.0))
    run = replay.finished(store, replace(spec, data=replace(spec.data, dataset="ner-gum")), name="names")
    said = words(open_page("train", run=run))
    includes(said, "Entity F1 over tasks", "replay ε = 8, total ∞, entity F1 %", "replay ε = 0.5, 8, head not private")
    assert "claimed" not in said
    assert "accuracy" not in " ".join(title for title in said.splitlines() if title.startswith("**"))
    assert "0.5, 8 (replay alone)" in open_page("runs").dataframe[0].value["epsilons"].tolist()
    other = replay.finished(store, spec, name="digits")
    compared = words(open_page("runs", view="compare", v="1", r=f"{run},{other}", f="8"))
    includes(compared, "Entity F1 or accuracy on the tasks seen so far", "A (replay alone): ")
