"""The three published claims on Privacy: Lifelong DP, CSLR and PeCL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dpcl_core import checks
from dpcl_core.attacks import cslr_games, l2dp_games, token_noise_games
from dpcl_core.events import CellFinished
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import cslr_accounting, text_mechanisms
from dpcl_core.privacy.cslr_accounting import Reading
from dpcl_core.privacy.statement import Standing
from dpcl_core.runs.store import Store
from pages import privacy
from pages import runs as runs_page
from pages.parts import comparison, cslr_claim, lifelong_claims, pecl_claim, status_line
from tests.pages.conftest import Open, Patch, press, words
from tests.support import replay
from tests.support.asserting import excludes, includes
from tests.support.tiers import quick

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
        "| literal | 500 | 0.25 | 2.54e-05 | 6.73e-06 | 39,356 | 78,711 |", "| witness | 2,499 | 0.153 | 0.077 |",
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
        "| 200 rounds, 6 of 20 clients, one replaced by another | – / 135 / – |", "**44 anchors** separate all required",
        "**This reading keeps none of the claims.** Without noise on the head, the model has no bound at all.",
    ]),
    ({"r": "1", "rp": "0.18"}, 0, ["**111 anchors**"]),
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


def test_every_field_has_a_key_of_its_own() -> None:
    keys = [field.key for field in privacy.CODEC.fields]
    assert len(set(keys)) == len(keys)
    for module, letter in ((lifelong_claims, "l"), (cslr_claim, "r"), (pecl_claim, "t")):
        assert all(field.key.startswith(letter) for field in module.FIELDS)


def test_two_records_subtracted_and_two_candidates_tested(open_page: Open) -> None:
    page = press(open_page("privacy", l="1", lc="13"), "Subtract two records")
    assert "The noise is gone from the difference: no pixel is off by more than" in words(page)
    said = words(press(page, "Test two candidates"))
    true = float(said.split("| the true data | ")[1].split(" |")[0])
    assert true < 1e-8 < 0.1 < float(said.split("| one picture replaced | ")[1].split(" |")[0])


def test_a_learner_survives_shared_noise_and_not_fresh_noise(open_page: Open) -> None:
    said = words(page := open_page("privacy", l="1", lc="45"))
    arms = ("one noise for all, before a ReLU", "fresh noise for each picture")
    shared, fresh = (float(said.split(f"| {name} | ")[1].split("\N{NO-BREAK SPACE}%")[0]) for name in arms)
    assert shared > 80 > 25 > fresh
    assert "With b = 45: one noise for all: " in words(press(page, "Train at every scale"))


READING = {"claim": cslr_accounting.nominal_claim(4.0, Reading(1.45)), "parts": {"replay release": 62.31, "head": math.inf}}
TOKENS = {"claim": text_mechanisms.nominal_claim(1.0, 10.0, 1e-6, 64, 3)}


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
    (10.0, TOKENS, "t", [
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
    events = [
        replace(event, guarantee=replace(event.guarantee, **given)) if isinstance(event, CellFinished) else event
        for event in replay.claimed(replay.recorded(spec))
    ]
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
    together = said.split("| **replay and head together** | ")[1].split(" |")[0]
    assert 16.3 < float(together) < 16.3 + 4.0, "less than the sum"
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
    assert heads
    assert all("no guarantee" in line for line in heads)
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
    frame = runs_page.table([store.get(run_id)], store.final_accuracies([run_id]))
    assert frame["epsilons"][0] == "0.5, ∞ (claimed)"


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
    assert said in shown
    assert "accounted so far" not in shown


def test_a_comparison_with_a_bound_is_warned_of(open_page: Open, store: Store, run_id: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: name == "cosine")
    proved = checks.parse({**SPEC.jsonable(), "method": "naive", "params": {}})
    other = replay.finished(store, proved, name="proved")
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
