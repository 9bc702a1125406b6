"""The audit of a run on Train, Runs and Privacy: every state in words, its numbers side by side, red only for an error."""

from __future__ import annotations

import math

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core import checks
from dpcl_core.attacks import play
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from pages.parts import tuning_panel
from tests.pages.conftest import Open, words
from tests.support import audited, replay

SPEC = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0,))
BROKEN = Failure("internal", "The program itself went wrong (ValueError: no); the settings are kept.", "Traceback: made up")
FOUND = (audited.result(1.0, 0.437), audited.result(8.0, 4.625))


@pytest.fixture
def run_id(store: Store) -> str:
    return replay.fill(store, SPEC, replay.recorded(SPEC))


def labels(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


@pytest.mark.parametrize(
    ("status", "results", "failure", "says", "button"),
    [
        ("queued", (), None, ["Audit queued", "place 1 in the queue"], "Stop"),
        ("running", FOUND[:1], None, ["a training with planted data at ε = 8"], "Stop"),
        ("stopping", (), None, ["Audit stops"], "Stopping …"),
        ("cancelled", FOUND[:1], None, ["Audit stopped on request", "1 of 2 budgets were audited"], "Audit again"),
        ("failed", (), BROKEN, ["The program itself went wrong", "nothing was proved yet"], "Audit again"),
        ("finished", FOUND, None, ["| ε = 1 | 1 | **0.43** | 231 of 368 |", "| ε = 8 | 8 | **4.62** |"], "Audit again"),
    ],
)
def test_every_state_is_said_in_words_with_what_can_be_done(
    open_page: Open, store: Store, run_id: str, status: str, results: tuple[Audited, ...], failure: Failure | None,
    says: list[str], button: str,
) -> None:  # fmt: skip
    audited.fill(store, run_id, status, *results, failure=failure)
    for name in ("train", "privacy"):
        page = open_page(name, v="1", run=run_id)
        assert not page.exception
        assert not page.error
        for text in says:
            assert text in words(page)
        assert button in labels(page)


def test_a_press_puts_an_audit_of_the_run_into_the_queue(
    open_page: Open, store: Store, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.submit", lambda self, turn: started.append(turn))
    page = open_page("train", v="1", run=run_id)
    next(button for button in page.button if button.label == "Audit this run").click()
    page = page.run()
    (found,) = Audits(store).of_run(run_id)
    assert started == [found.turn.id]
    assert "Audit queued" in words(page)


def test_more_proved_than_accounted_is_shown_as_the_error_it_is(open_page: Open, store: Store, run_id: str) -> None:
    """Also when a later audit does not find it again."""
    audited.fill(store, run_id, "finished", audited.result(1.0, 2.349))
    audited.fill(store, run_id, "finished", *FOUND)
    page = open_page("privacy", v="1", run=run_id)
    (error,) = page.error
    assert "proves ε ≥ 2.34, but the ledger accounts for only 1" in error.value.replace("\\", "")
    assert "Do not release it, and report this." in error.value


def test_a_run_that_cannot_be_audited_so_says_why_and_what_audits_it(open_page: Open, store: Store) -> None:
    even = checks.parse({
        "method": "label-means", "params": {"slots": "even"}, "privacy": {"epsilons": [1.0]}, "seeds": [0],
        "labels": "prior", "scenario": {"kind": "federated", "clients": 20},
    })  # fmt: skip
    page = open_page("train", v="1", run=replay.fill(store, even, replay.recorded(even)))
    assert "all clients share the same places in the sum." in words(page)
    (fold,) = [each for each in page.expander if each.label == "A command audits its settings"]  # it is long
    assert fold.code[0].value.startswith("python -m dpcl_core audit --set ")
    assert next(button for button in page.button if button.label == "Audit this run").disabled


def test_a_run_without_noise_has_nothing_to_audit(open_page: Open, store: Store) -> None:
    """Whatever the method: none of the reasons that speak of its noise is given, and no command."""
    raw = {"method": "l2dp-ml", "data": {"dataset": "digits"}, "seeds": [0]}
    noisy, spec = (checks.parse({**raw, "privacy": {"epsilons": [epsilon]}}) for epsilon in (1.0, math.inf))
    assert "share one draw of noise" in (play.refusal(noisy) or "")
    page = open_page("train", v="1", run=replay.fill(store, spec, replay.recorded(spec)))
    said = words(page)
    assert "adds no noise" in said
    assert "share one draw of noise" not in said
    assert not [each for each in page.expander if each.label == "A command audits its settings"]


def test_the_numbers_are_told_as_one_would_say_them() -> None:
    told = tuning_panel.reading(audited.result(1.0, 0.437))
    assert told == (
        "Someone who guesses which of 1,844 planted examples were in the training is right in 231 of 368 guesses at ε = 1; "
        "this proves ε ≥ 0.43 at 95\u00a0% confidence."
    )
    assert "proves nothing about ε" in tuning_panel.reading(audited.result(1.0, 0.0))
    assert "without noise" in tuning_panel.reading(audited.result(math.inf))
