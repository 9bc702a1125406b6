"""The Privacy page's section on CSLR: every reading live, every assumption a control, a run's own claim in three numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcl_core.attacks.cslr_games import ATTACKS
from dpcl_core.events import CellFinished, Event
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import cslr_accounting
from dpcl_core.privacy.cslr_accounting import Reading
from dpcl_core.runs.store import Store
from pages import privacy
from pages.parts.cslr_claim import FIELDS
from tests.pages.conftest import Open, words
from tests.support import replay
from tests.support.tiers import quick


@pytest.fixture(scope="module", autouse=True)
def computed() -> None:
    """Every row of the table, before a page waits for them: they take seconds."""
    for row in cslr_accounting.rows().values():
        for sigma in cslr_accounting.TABLE_5.values():
            cslr_accounting.costs(row.of(sigma))


def test_the_section_is_closed_and_costs_nothing_until_it_is_opened(open_page: Open) -> None:
    page = open_page("privacy")
    assert not page.exception
    assert "Claimed and computed" not in words(page)
    assert "r" not in page.query_params


def test_claimed_and_computed_stand_beside_one_another(open_page: Open) -> None:
    page = open_page("privacy", r="1")
    assert not page.exception
    said = words(page)
    for row in (
        "| computed ε; claims not verified | claimed 1: σ = 3.2 | claimed 4: σ = 1.45 | claimed 8: σ = 0.95 |",
        "| reading; claims not verified | claimed 1: σ = 3.2 |",
        "| Eq. 9, the paper's own | 19.8 | 94.4 | 440 |",
        "| RDP, by dp_accounting | 18.6 | 93 | 438 |",
        "| **PLD, used here** | 16.3 | 62.4 | 150 |",
        "| **head alone** | no bound | no bound | no bound |",
        "| **replay and head together** | no bound | no bound | no bound |",
        "| one round, 4 statistics | 1.99 / 1.59 / 1.37 | 6.05 / 5.3 / 4.79 | 10.6 / 9.65 / 8.86 |",
        "| **200 rounds, 4 statistics: the paper's protocol** | **19.8 / 18.6 / 16.3** | **94.4 / 93 / 62.4** |",
        "| 200 rounds, 6 of 20 clients, one replaced by another | – / 135 / – |",
        "| 4 | 5.68 / 13.3 | 15 / 38.1 |",
        "**44 anchors** separate all required pairs",
    ):
        assert row in said, row
    assert "A round is one Gaussian mechanism with multiplier σ/2 on everything" in said
    assert "**This reading keeps none of the claims.** Without noise on the head, the model has no bound at all." in said


@pytest.mark.parametrize(
    ("link", "row"),
    quick(2, [
        ({"rt": "1", "rk": "1"}, "| 0.465 | 1.61 | 3.17 |"),
        ({"rt": "350"}, "| 23.1 | 91.7 | 226 |"),
        ({"rs": "everyone"}, "| 76 | 273 | 570 |"),
        ({"rc": "entry", "rg": "2"}, "| 51.7 | 271 | 697 |"),
        ({"rc": "mode", "rq": "0.5", "rl": "1", "rt": "4"}, None),
        ({"rs": "fixed", "ra": "replace"}, "by dp_accounting | 135 | 1,190 | 3,213 |"),
    ]),
)
def test_every_assumption_is_a_control(open_page: Open, link: dict[str, str], row: str | None) -> None:
    page = open_page("privacy", r="1", **link)
    assert not page.exception
    said = words(page)
    if row is not None:
        assert row in said
    else:
        assert "| **PLD, used here** | 16.3 |" not in said
    assert {name: page.query_params[name] for name in link} == link


def test_a_noisy_head_gives_three_numbers_and_one_bound(open_page: Open) -> None:
    said = words(open_page("privacy", r="1", rh="4.709"))
    assert "| **head alone** | 4 | 4 | 4 |" in said or "| **head alone** | 4.01 | 4.01 | 4.01 |" in said
    together = said.split("| **replay and head together** | ")[1].split(" |")[0]
    assert 16.3 < float(together) < 16.3 + 4.0, "less than the sum"
    assert "no bound at all" not in said.split("This reading keeps")[1][:120]


def test_what_is_not_valid_or_not_known_is_said(open_page: Open) -> None:
    assert "a client is sampled for all statistics" in words(open_page("privacy", r="1", ro="0"))
    unknown = open_page("privacy", r="1", rs="fixed")
    assert "No accountant here handles sets of fixed size" in words(unknown)
    assert not unknown.exception


def test_the_noise_that_the_claims_would_take_is_found_at_a_press(open_page: Open) -> None:
    page = open_page("privacy", r="1", rs="everyone", rt="4")
    assert "σ needed" not in words(page)
    page.button(key="list-needed-search").click().run()
    assert not page.exception
    said = words(page)
    assert "| 4 | 1.45 | **4.32" in said
    assert "| 1 | 3.2 | **14.92" in said


@pytest.mark.parametrize("attack", ["rounds", "head"])
def test_an_attack_is_played_at_a_press_and_gives_its_bound_with_confidence(open_page: Open, attack: str) -> None:
    page = open_page("privacy", r="1", rt="50", rx="1")
    assert "Audited: " not in words(page)
    page.button(key=f"list-audit-{attack}").click().run()
    assert not page.exception
    said = words(page)
    assert "more than the claimed 1 (95 % confidence," in said
    assert all(f"**{one.title}.** The attacker {one.adversary}." in said for name, one in ATTACKS.items() if name != "lists")


def test_theorem_2_follows_its_controls(open_page: Open) -> None:
    assert "**111 anchors**" in words(open_page("privacy", r="1", rp="0.18"))


def test_broken_numbers_of_a_link_are_refused_one_by_one(open_page: Open) -> None:
    page = open_page("privacy", r="1", rq="0", rt="-3", rd="2", rs="nobody")
    assert not page.exception
    assert len(page.warning) == 4
    assert "| **PLD, used here** | 16.3 | 62.4 | 150 |" in words(page)


def test_every_field_of_the_section_has_a_key_of_its_own() -> None:
    keys = [field.key for field in privacy.CODEC.fields]
    assert len(set(keys)) == len(keys)
    assert all(field.key.startswith("r") for field in FIELDS)


def test_a_runs_own_claim_stands_beside_three_numbers_and_its_audit(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: True)
    spec = replay.a_spec(epsilons=(4.0,))

    def of_lists(event: Event) -> Event:
        if not isinstance(event, CellFinished):
            return event
        claim = cslr_accounting.nominal_claim(4.0, Reading(1.45))
        parts = {"replay release": 62.31, "head": float("inf")}
        return replace(event, guarantee=replace(event.guarantee, claim=claim, parts=parts))

    events = [of_lists(event) for event in replay.claimed(replay.recorded(spec))]
    page = open_page("privacy", run=replay.fill(store, spec, events), e="4")
    assert not page.exception
    said = words(page)
    assert "| **claimed**, replay alone (Shihab et al., Table 5; for the replay release alone, not verified) | 4 |" in said
    assert "| computed ε by PLD | 62.4 |" in said
    assert "| **accounted**: replay release | 62.4 |" in said
    assert "| **accounted**: head | no bound |" in said
    assert "| **accounted**: replay and head together | no bound |" in said
    assert "| **audited** | **at least 5.6** |" in said
    assert "Every reading, at the printed noise" in said, "opened where the run's ε is CSLR's claim"
    assert "What Eq. 5 prints" not in said
    assert "What Theorem 2 says" not in said
