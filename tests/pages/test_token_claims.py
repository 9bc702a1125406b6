"""The Privacy page's section on PeCL: printed and true numbers, the noise level, attacks at a press, a run's own claim."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcl_core.attacks.token_noise_games import ATTACKS
from dpcl_core.events import CellFinished, Event
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import text_mechanisms
from dpcl_core.runs.store import Store
from pages.parts import lifelong_claims, pecl_claim
from tests.pages.conftest import Open, words
from tests.support import replay


def test_the_section_is_closed_and_costs_nothing_until_it_is_opened(open_page: Open) -> None:
    page = open_page("privacy")
    assert not page.exception
    assert "What Eq. 5 prints" not in words(page)
    assert "t" not in page.query_params


def test_printed_and_true_stand_beside_one_another(open_page: Open) -> None:
    page = open_page("privacy", t="1")
    assert not page.exception
    said = words(page)
    for row in (
        "| one token, one release | 1 | **1.657** |",
        "| one token, 3 epochs with fresh noise | 1 | **3.031** |",
        "| a name that occurs 20 times, one epoch | 1 | **8.97",
        "| a text of 64 tokens: plain sum, one release | 64 | **18.31** |",
        "| the same text: Remark 1, 3 epochs | 106.1 | **37.83** |",
        "| the same text, one release, with noise for sensitivity 2C | | 7.866 |",
    ):
        assert row in said, row
    assert "= 5.299, so σ = 5.299 here; C does not affect ε." in said
    assert "It would have to be 8.449, 1.59 times as much" in said
    assert "the true δ is 0.00077" in said
    assert "Nominal ε = 1 (Zhan et al., Theorem 1), no guarantee: the noise level reveals the token" in said
    assert "What a nominal ε of 1 (no guarantee) really costs: one token 1.657; one token, 3 epochs 3.031;" in said
    assert "| 1 or 1.1 |" in said


def test_every_number_can_be_changed_and_is_in_the_link(open_page: Open) -> None:
    page = open_page("privacy", t="1", te="5", tc="0.25", tl="32", tp="10", tn="2", td="1e-05", tw="4096")
    assert not page.exception
    said = words(page)
    assert "so σ = 0.2422 here" in said
    assert "| one token, 10 epochs with fresh noise | 5 |" in said
    assert "a text of 32 tokens" in said
    given = {"te": "5", "tc": "0.25", "tl": "32", "tp": "10", "tn": "2", "td": "1e-05", "tw": "4096"}
    assert {name: page.query_params[name] for name in given} == given
    before = words(open_page("privacy", t="1", te="5", td="1e-06"))
    assert "| 5 or 5.05 | 1.861 | 57.7 % |" in before
    assert "| one token, one release | 5 | **10.25** |" in before


def test_the_nominal_number_never_stands_without_the_word_and_the_warning(open_page: Open) -> None:
    """Every sentence that names the printed budget says that it is nominal and no guarantee (PeCL is only ever claimed)."""
    said = words(open_page("privacy", t="1", te="7"))
    assert "No differential privacy guarantee for tokens, texts or people." in said.replace("\n", " ")
    heads = [line for line in said.splitlines() if line.startswith("|") and "nominal" in line]
    assert heads
    assert all("no guarantee" in line for line in heads)
    for start in ("Nominal ε = 7", "What a nominal ε of 7", "Nominal for the attacked token: ε = 7"):
        sentence = said[said.index(start) :][:120]
        assert "no guarantee" in " ".join(sentence.split())


@pytest.mark.parametrize("attack", ["level", "exact", "epochs"])
def test_an_attack_is_played_at_a_press_and_gives_its_bound_with_confidence(open_page: Open, attack: str) -> None:
    page = open_page("privacy", t="1")
    assert "Audited: " not in words(page)
    page.button(key=f"token-audit-{attack}").click().run()
    assert not page.exception
    said = words(page)
    assert "more than the nominal 1 (95 % confidence," in said
    assert all(f"**{one.title}.** The attacker {one.adversary}." in said for one in ATTACKS.values())
    page.number_input(key=next(box.key for box in page.number_input if "t_epsilon" in str(box.key))).set_value(2.0).run()
    assert "Audited: " not in words(page), "other numbers, another game"


def test_broken_numbers_of_a_link_are_refused_one_by_one(open_page: Open) -> None:
    page = open_page("privacy", t="1", te="0", tl="-3", td="2", tw="wide")
    assert not page.exception
    assert len(page.warning) == 4
    assert "| one token, one release | 1 | **1.657** |" in words(page)


def test_no_two_fields_share_a_key() -> None:
    keys = [field.key for field in (*pecl_claim.FIELDS, *lifelong_claims.FIELDS)]
    assert len(set(keys)) == len(keys)
    assert all(field.key.startswith("t") for field in pecl_claim.FIELDS)


def test_a_runs_own_claim_stands_beside_its_ledger_and_its_audit(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: True)
    spec = replay.a_spec(epsilons=(10.0,))

    def of_tokens(event: Event) -> Event:
        if not isinstance(event, CellFinished):
            return event
        claim = text_mechanisms.nominal_claim(1.0, 10.0, 1e-6, 64, 3)
        return replace(event, guarantee=replace(event.guarantee, claim=claim))

    events = [of_tokens(event) for event in replay.claimed(replay.recorded(spec))]
    page = open_page("privacy", run=replay.fill(store, spec, events), e="10")
    assert not page.exception
    said = words(page)
    assert "Claimed ε = 10 (Zhan et al., Theorem 1; nominal, no guarantee, not verified). No bound: an audit proved" in said
    assert "| nominal ε of the least noised token (no guarantee) | 10 |" in said
    assert "| true ε of the least noised token, one release | 24.42 |" in said
    assert "| true ε of a text of the most noised tokens, all epochs | 37.83 |" in said
    assert "| **accounted** by the ledger | no bound |" in said
    assert "| **audited** | **at least 5.6** |" in said
    assert "What Eq. 5 prints" in said, "opened where the run's ε is PeCL's claim"
    assert "What Theorem 2 says" not in said
