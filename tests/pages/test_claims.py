"""A run whose ε is only claimed: no page shows that number without "not verified", or on a line with bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpcl_core import checks
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import Standing
from dpcl_core.runs.store import Store
from pages import runs as runs_page
from pages.parts import comparison, status_line
from tests.pages.conftest import Open, Patch, words
from tests.support import replay
from tests.support.asserting import includes

SPEC = replay.a_spec(epsilons=(0.5, math.inf))
BANNER = "Claimed ε = 0.5 (Lai et al. 2022, Theorem 2, not verified). No bound: an audit proved at least 5.6."


@pytest.fixture(autouse=True)
def only_claims(monkeypatch: Patch) -> None:
    """The cosine classifier, as if its budgets were only claimed."""
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "cosine": replace(methods.CARDS["cosine"], guarantee="nominal")})


@pytest.fixture
def run_id(store: Store) -> str:
    return replay.fill(store, SPEC, replay.claimed(replay.recorded(SPEC)), name="claims")


def test_the_train_page_says_claim_and_audit_beside_the_run(open_page: Open, run_id: str) -> None:
    said = words(open_page("train", run=run_id))
    assert BANNER in said
    assert "Audit: ε ≥ 5.6 at 95 % confidence, 1,000 releases a side (differencing the memory)." in said
    assert "The attacker sees the noisy records and knows one of them." in said
    assert "<b>Why</b> One noise vector is shared by all records." in said
    assert "claimed ε = 0.5, ∞, not verified" in said, "under the figures"
    assert "at claimed ε = 0.5" in said, "in the findings"
    assert "A guess whether someone took part is right with probability at most" not in said


def test_the_privacy_page_states_it_without_a_bound(open_page: Open, run_id: str) -> None:
    said = words(open_page("privacy", run=run_id, e="0.5"))
    assert BANNER in said
    assert "| **total for any one person** (parallel) | **no bound** |" in said


def test_a_run_under_way_says_that_no_bound_holds(open_page: Open, store: Store) -> None:
    events = [event for event in replay.claimed(replay.recorded(SPEC)) if type(event).__name__ != "CellFinished"]
    said = words(open_page("train", run=replay.fill(store, SPEC, events, status="running")))
    includes(said, "Every run of it is audited.", "ε only claimed, no bound")
    assert "accounted so far" not in said


def test_a_run_without_noise_claims_nothing_while_it_runs(open_page: Open, store: Store) -> None:
    spec = replace(replay.a_spec(epsilons=(math.inf,)), method=SPEC.method)
    events = [event for event in replay.claimed(replay.recorded(spec)) if type(event).__name__ != "CellFinished"]
    run_id = replay.fill(store, spec, events, status="running")
    run = store.get(run_id)
    assert "no noise" in status_line.status_of_run(run, events, run.started or 0.0).detail
    assert "claimed" not in status_line.status_of_run(run, events, run.started or 0.0).detail
    said = words(open_page("train", run=run_id))
    assert "No noise is added: no privacy." in said


def test_the_list_of_runs_calls_the_budgets_claims(store: Store, run_id: str) -> None:
    frame = runs_page.table([store.get(run_id)], store.final_accuracies([run_id]))
    assert frame["epsilons"][0] == "0.5, ∞ (claimed)"


def test_a_comparison_with_a_bound_is_warned_of_and_drawn_apart(
    open_page: Open, store: Store, run_id: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: name == "cosine")
    proved = checks.parse({**SPEC.jsonable(), "method": "naive", "params": {}})
    other = replay.fill(store, proved, replay.recorded(proved), name="proved")
    said = words(open_page("runs", view="compare", v="1", r=f"{run_id},{other}", f="0.5"))
    assert "The ε of A is a claim that no ledger supports: at the same ε it promises nothing, while the others hold." in said
    assert "A (claimed): " in said
    assert "for some runs a claim, not verified" in said
    assert BANNER in said


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("bound", "bound"), None),
        (("claimed", "claimed"), None),
        (("replay", "replay"), None),
        (("bound", "claimed"), "The ε of B is a claim"),
        (("replay", "bound"), "The ε of A covers the replay only: the head is not private"),
        (("bound", "none"), "The ε of B is only what was asked for: labels read from the data have no bound."),
    ],
)
def test_promises_are_unequal_only_where_they_are(kinds: tuple[Standing, Standing], said: str | None) -> None:
    found = comparison.unequal_promises(dict(zip("AB", kinds, strict=True)))
    assert found is None if said is None else str(found).startswith(said)


def test_a_budget_of_the_replay_alone_is_called_that_on_every_page(
    open_page: Open, store: Store, monkeypatch: Patch
) -> None:
    """And what marked names are found by is called entity F1, not accuracy."""
    card = replace(methods.CARDS["cosine"], guarantee="proved", is_for_the_replay=lambda params: True)
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "cosine": card})
    spec = replay.a_spec(epsilons=(0.5, 8.0))
    names = replace(spec, data=replace(spec.data, dataset="ner-gum"))
    run = replay.fill(store, names, replay.recorded(names), name="names")
    said = words(open_page("train", run=run))
    assert "Entity F1 over tasks" in said
    assert "replay ε = 8, total ∞, entity F1 %" in said
    assert "replay ε = 0.5, 8, head not private" in said
    assert "claimed" not in said
    assert "accuracy" not in " ".join(title for title in said.splitlines() if title.startswith("**"))
    listed = open_page("runs")
    assert "0.5, 8 (replay alone)" in listed.dataframe[0].value["epsilons"].tolist()
    other = replay.fill(store, spec, replay.recorded(spec), name="digits")
    compared = words(open_page("runs", view="compare", v="1", r=f"{run},{other}", f="8"))
    includes(compared, "Entity F1 or accuracy on the tasks seen so far", "A (replay alone): ")
