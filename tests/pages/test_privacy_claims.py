"""The Privacy page's section on Lifelong DP: the theorem term by term, attacks at a press, noise that subtracts away."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core.attacks.l2dp_games import ATTACKS
from dpcl_core.methods import catalog as methods
from dpcl_core.runs.store import Store
from pages.parts import lifelong_claims
from tests.pages.conftest import Open, words
from tests.support import replay


def press(page: AppTest, label: str) -> AppTest:
    next(button for button in page.button if button.label == label).click()
    return page.run()


def test_the_section_is_closed_and_costs_nothing_until_it_is_opened(open_page: Open) -> None:
    page = open_page("privacy")
    assert not page.exception
    assert "What Theorem 2 says" not in words(page)
    assert "l" not in page.query_params


def test_the_theorem_is_shown_term_by_term_as_the_paper_card_has_it(open_page: Open) -> None:
    page = open_page("privacy", l="1")
    assert not page.exception
    said = words(page)
    assert "| ε1 | 0.25 |" in said
    assert "| ε1/γ_x | 2.54e-05 |" in said
    assert "| **claimed in all, not verified** | **0.5** |" in said
    assert "| **accounted** | **no bound** |" in said
    assert "b = Δ_R/(ε1 λ) = **39,356** on each value of an input" in said
    for row in ("| literal | 500 | 0.25 | 2.54e-05 | 6.73e-06 | 39,356 | 78,711 |", "| witness | 2,499 | 0.153 | 0.077 |"):
        assert row in said
    assert "Claimed ε = 0.5 (Lai et al. 2022, Theorem 2, not verified). One noise vector is shared by all records." in said


def test_every_number_of_the_theorem_can_be_changed_and_is_in_the_link(open_page: Open) -> None:
    page = open_page("privacy", l="1", lr="witness", le="2", ls="0.8", lb="100", lt="13", lw="cifar")
    said = words(page)
    assert "| ε2 | 0.4 |" in said
    assert "Δ_R = d(|h1| + 2) = 12,384" in said  # one patch of 48 values, one feature map of 256 units
    for name, value in (("lr", "witness"), ("le", "2"), ("ls", "0.8"), ("lb", "100"), ("lt", "13"), ("lw", "cifar")):
        assert page.query_params[name] == value
    own = open_page("privacy", l="1", ld="10", lh="8", lb="100")
    assert "Δ_R = d(|h1| + 2) = 100," in words(own)
    assert (own.query_params["ld"], own.query_params["lh"]) == ("10", "8")


@pytest.mark.parametrize("attack", ["differencing", "rank-one", "labels"])
def test_an_audit_is_played_at_a_press_and_gives_its_bound_with_confidence(open_page: Open, attack: str) -> None:
    page = open_page("privacy", l="1", lr="witness")
    assert "Audited: " not in words(page)
    page.button(key=f"audit-{attack}").click().run()
    assert not page.exception
    said = words(page)
    bound = "Audited: **ε is at least 5.60**, more than is claimed (95 % confidence, 1,000 releases a side, δ = 1e-05)."
    assert bound in said
    assert all(f"**{attack.title}.** The attacker {attack.adversary}." in said for attack in ATTACKS.values())
    assert "Audited: " not in words(page.number_input[4].set_value(1.0).run()), "other numbers, another game"


def test_two_records_subtracted_and_two_candidates_tested(open_page: Open) -> None:
    page = press(open_page("privacy", l="1", lc="13"), "Subtract two records")
    assert not page.exception
    assert "The noise is gone from the difference: no pixel is off by more than" in words(page)
    page = press(page, "Test two candidates")
    said = words(page)
    true = float(said.split("| the true data | ")[1].split(" |")[0])
    changed = float(said.split("| one picture replaced | ")[1].split(" |")[0])
    assert true < 1e-8 < 0.1 < changed


def test_a_learner_survives_shared_noise_and_not_fresh_noise(open_page: Open) -> None:
    said = words(open_page("privacy", l="1", lc="45"))
    shared, fresh = (
        float(said.split(f"| {name} | ")[1].split("\N{NO-BREAK SPACE}%")[0])
        for name in ("one noise for all, before a ReLU", "fresh noise for each picture")
    )
    assert shared > 80
    assert fresh < 25
    everywhere = words(press(open_page("privacy", l="1", lc="45"), "Train at every scale"))
    assert "With b = 45: one noise for all: " in everywhere


def test_broken_numbers_of_a_link_are_refused_one_by_one(open_page: Open) -> None:
    page = open_page("privacy", l="1", lb="0", le="-1", lw="nothing", lc="-3")
    assert not page.exception
    assert len(page.warning) == 4
    assert "| ε1 | 0.25 |" in words(page)


def test_a_runs_own_claim_stands_beside_its_ledger_and_its_audit(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: True)
    spec = replay.a_spec(epsilons=(0.5,))
    page = open_page("privacy", run=replay.fill(store, spec, replay.claimed(replay.recorded(spec))), e="0.5")
    assert not page.exception
    said = words(page)
    assert "| claimed: ε1/γ | 0.125 |" in said
    assert "| **claimed** in all (Lai et al. 2022, Theorem 2, not verified) | 0.5 |" in said
    assert "| **accounted** by the ledger | no bound |" in said
    assert "| each of 5 parts, task 1 to task 5 | no bound |" in said
    assert "| **audited** | **at least 5.6** |" in said
    assert "What Theorem 2 says" in said, "opened where the run's ε is only claimed"
    assert "the noise scales of the run above" in said


def test_every_field_of_the_section_has_a_key_of_its_own() -> None:
    keys = [field.key for field in lifelong_claims.FIELDS]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("l") for key in keys)
