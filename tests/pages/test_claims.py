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


def test_every_page_says_claim_and_audit_beside_the_run(open_page: Open, store: Store, run_id: str) -> None:
    said = words(open_page("train", run=run_id))
    includes(
        said, BANNER, "Audit: ε ≥ 5.6 at 95 % confidence, 1,000 releases a side (differencing the memory).",
        "<b>Why</b> One noise vector is shared", "claimed ε = 0.5, ∞, not verified", "at claimed ε = 0.5",
    )  # fmt: skip
    assert "A guess whether someone took part is right with probability at most" not in said
    shown = words(open_page("privacy", run=run_id, e="0.5"))
    includes(shown, BANNER, "| **total for any one person** (parallel) | **no bound** |")
    frame = runs_page.table([store.get(run_id)], store.final_accuracies([run_id]))
    assert frame["epsilons"][0] == "0.5, ∞ (claimed)"



@pytest.mark.parametrize(
    ("epsilons", "detail", "said"),
    [
        (SPEC.privacy.epsilons, "ε only claimed, no bound", "Every run of it is audited."),
        ((math.inf,), "no noise", "No noise is added: no privacy."),
    ],
)
def test_a_run_under_way_says_that_no_bound_holds(
    open_page: Open, store: Store, epsilons: tuple[float, ...], detail: str, said: str
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



def test_a_comparison_with_a_bound_is_warned_of_and_drawn_apart(
    open_page: Open, store: Store, run_id: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(methods, "is_nominal", lambda name: name == "cosine")
    proved = checks.parse({**SPEC.jsonable(), "method": "naive", "params": {}})
    other = replay.fill(store, proved, replay.recorded(proved), name="proved")
    said = words(open_page("runs", view="compare", v="1", r=f"{run_id},{other}", f="0.5"))
    includes(said, "The ε of A is a claim", "A (claimed): ", "for some runs a claim, not verified", BANNER)


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
    includes(said, "Entity F1 over tasks", "replay ε = 8, total ∞, entity F1 %", "replay ε = 0.5, 8, head not private")
    assert "claimed" not in said
    assert "accuracy" not in " ".join(title for title in said.splitlines() if title.startswith("**"))
    listed = open_page("runs")
    assert "0.5, 8 (replay alone)" in listed.dataframe[0].value["epsilons"].tolist()
    other = replay.fill(store, spec, replay.recorded(spec), name="digits")
    compared = words(open_page("runs", view="compare", v="1", r=f"{run},{other}", f="8"))
    includes(compared, "Entity F1 or accuracy on the tasks seen so far", "A (replay alone): ")
