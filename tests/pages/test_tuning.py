"""The panels of a tuning and of an audit."""

import math

import pytest

from dpcl_core import checks
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.runs.audits import Studies
from dpcl_core.runs.run import Failure
from dpcl_core.runs.store import Store
from dpcl_core.tuning.settings import Trial
from pages.parts import train_form, tuning_panel
from tests.pages.conftest import Open, Patch, address, box, labels, press, unfolded, words
from tests.support import audited, replay, tuned
from tests.support.asserting import includes

LOST = Failure("worker-died", "The computer stopped this run at 09:12 UTC.", "")
MISSING = Failure("data-missing", "data.dataset = mnist: is not on this computer", "Traceback: made up")


def fill(store: Store, status: str, n_trials: int, failure: Failure | None = None, **more: object) -> str:
    """A tuning in any state, with so many trials of which the second failed."""
    studies = Studies(store)
    study_id = studies.create(tuned.a_tuning(**more))  # type: ignore[arg-type]
    if n_trials:
        studies.add_sizes(study_id, tuned.SIZES)
    for number in range(n_trials):
        score, trouble = (None, "the loss is not finite at step 7") if number == 1 else (0.5 + number / 100, None)
        studies.add_trial(study_id, Trial(number, 1e-3, 50, 2.0, score, trouble, 1.0))
    replay.set_state(store, study_id, status, failure or replay.a_failure("worker-died"))
    return study_id


@pytest.mark.parametrize(("status", "n_trials", "failure", "says", "buttons"), [
    ("queued", 0, None, ["Tuning queued", "place 1 in the queue"], ["Stop"]),
    ("starting", 0, None, ["Tuning starts", "loading the tuning data"], ["Stop"]),
    ("running", 3, None, ["Trial 4 of 20", "left", "Trial 3 is the best of 3"], ["Stop", "Use these settings"]),
    ("stopping", 3, None, ["Tuning stops", "trials that ended are kept"], ["Stopping …"]),
    ("cancelled", 3, None, ["Tuning stopped on request", "3 of 20 trials are kept"], ["Resume", "Close"]),
    ("failed", 0, MISSING, ["is not on this computer", "no trial had ended yet"], ["Resume", "Close"]),
    ("lost", 2, LOST, ["The computer stopped this run", "2 of 20 trials are kept"], ["Resume", "Close"]),
    ("finished", 20, None, ["20 trials", "For the full data", "1 of 20 failed"], ["Use these settings", "Close"]),
])  # fmt: skip
def test_every_state_is_said_in_words_with_what_can_be_done(
    open_page: Open, store: Store, status: str, n_trials: int, failure: Failure | None, says: list[str], buttons: list[str]
) -> None:
    page = open_page("train", v="1", m="peft-ensemble", tu=fill(store, status, n_trials, failure))
    includes(words(page), *says, "21 uses of the same data")
    includes(labels(page), *buttons)
    assert ("Resume" in labels(page)) == ("Resume" in buttons)


def test_the_trials_stand_in_a_table_with_the_reason_of_a_failure(open_page: Open, store: Store) -> None:
    page = open_page("train", v="1", m="peft-ensemble", tu=fill(store, "finished", 3))
    table = next(frame.value for frame in page.dataframe if "learning_rate" in frame.value)
    assert (list(table["trial"]), table["accuracy"].round(1).fillna(-1).to_list()) == ([1, 2, 3], [50.0, -1, 52.0])
    assert table["trouble"].to_list() == ["", "the loss is not finite at step 7", ""]


def test_tuning_on_private_data_says_that_it_is_not_accounted(open_page: Open, store: Store, monkeypatch: Patch) -> None:
    started: list[str] = []
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.submit", lambda self, run_id: started.append(run_id))
    page = unfolded(open_page("train", v="1", m="peft-ensemble", e="1,8", sd="4,5"), "tune")
    on = box(page, "radio", "Tune")
    assert on.options[0] == "On a public dataset"  # offered first
    assert on.value == "public"
    page = on.set_value("private").run()
    assert "20 trials and the final run use the same data 21 times" in words(page)
    page = press(page, "Start tuning")
    (study,) = Studies(store).newest()
    assert started == [study.id]
    assert (study.tune.epsilon, study.tune.seed, study.tune.on, study.tune.n_trials) == (1.0, 4, "private", 20)
    assert address(page)["tu"] == study.id
    assert "Tuning queued" in words(page)
    assert address(page)["sd"] == "4,5"  # the form keeps its grid


def test_public_datasets_that_are_here_can_stand_in(open_page: Open, store: Store, monkeypatch: Patch, idle: None) -> None:
    monkeypatch.setattr("pages.parts.tuning_panel.settings.check_search", lambda tune: None)
    monkeypatch.setattr("pages.parts.tuning_panel._proxies_here", lambda dataset: ())
    page = unfolded(open_page("train", v="1", m="peft-ensemble"), "tune")
    assert "There is no other dataset on this computer" in words(page)
    assert box(page, "button", "Start tuning").disabled
    monkeypatch.setattr("pages.parts.tuning_panel._proxies_here", lambda dataset: ("mnist", "cifar10"))
    page = press(unfolded(open_page("train", v="1", m="peft-ensemble"), "tune"), "Start tuning")
    (study,) = Studies(store).newest()
    assert (study.tune.on, study.tune.proxy) == ("public", "mnist")
    assert "private data were not touched" in words(page)
    page = unfolded(open_page("train", v="1", m="cosine"), "tune")  # a method without training
    assert "nothing to tune" in words(page)
    assert "Start tuning" not in labels(page)


def test_the_best_settings_fill_the_form_and_mark_it_as_tuned(open_page: Open, store: Store) -> None:
    study_id = fill(store, "finished", 3)
    page = press(open_page("train", v="1", m="peft-ensemble", e="1,8", sd="4,5", tu=study_id), "Use these settings")
    read = train_form.codec("peft-ensemble", "class-incremental").read(address(page))
    wanted = {
        "p.sample_rate": 50 / 200, "p.learning_rate": pytest.approx(1e-3 * (286 / 200) ** 0.5), "p.clip_norm": 2.0,
        "tuned": "private", "seeds": (4, 5), "epsilons": (1.0, 8.0),  # the grid of the form stays
    }  # fmt: skip
    assert {name: read.values[name] for name in wanted} == wanted
    assert "Settings tuned on the private data (not accounted)." in words(page)
    page = unfolded(page, "more")
    page = box(page, "selectbox", "These settings were tuned").set_value("no").run()
    assert "Settings tuned" not in words(page)  # a way to say no


def test_stop_and_resume_reach_the_queue(open_page: Open, store: Store, idle: None) -> None:
    study_id = fill(store, "queued", 0)
    page = press(open_page("train", v="1", m="peft-ensemble", tu=study_id), "Stop")
    assert store.status(study_id) == "cancelled"
    page = press(open_page("train", v="1", m="peft-ensemble", tu=study_id), "Resume")
    turn = Studies(store).get(study_id).turn
    assert (turn.status, turn.id != study_id) == ("queued", True)
    assert "Tuning queued" in words(page)


def test_tunings_so_far_are_listed_and_opened_without_a_link(open_page: Open, store: Store) -> None:
    study_id = fill(store, "finished", 3)
    page = unfolded(open_page("train", v="1", m="peft-ensemble"), "tune")
    earlier = box(page, "selectbox", "Tunings so far")
    assert "PEFT ensemble for digits, ε = 1, seed 0, on the private data: 3 of 20 trials, finished" in earlier.options
    page = earlier.set_value(study_id).run()
    assert "Trial 3 is the best of 3" in words(page)
    assert "Trial 3 is the best of 3" not in words(press(page, "Close"))
    unknown = open_page("train", v="1", m="peft-ensemble", tu="0123456789ab")
    assert any("0123456789ab" in warning.value for warning in unknown.warning)


# The audit of a run on Train, Runs and Privacy: every state in words, its numbers side by side, red only for an error.


BROKEN = Failure("internal", "The program itself went wrong (ValueError: no); the settings are kept.", "Traceback: made up")
FOUND = (audited.result(1.0, 0.437), audited.result(8.0, 4.625))


@pytest.fixture
def run_id(store: Store) -> str:
    return replay.finished(store, replay.a_spec(epsilons=(1.0, 8.0), seeds=(0,)))


@pytest.mark.parametrize(("status", "results", "failure", "says", "button"), [
    ("queued", (), None, ["Audit queued", "place 1 in the queue"], "Stop"),
    ("running", FOUND[:1], None, ["a training with planted data at ε = 8"], "Stop"),
    ("stopping", (), None, ["Audit stops"], "Stopping …"),
    ("cancelled", FOUND[:1], None, ["Audit stopped on request", "1 of 2 budgets were audited"], "Audit again"),
    ("failed", (), BROKEN, ["The program itself went wrong", "nothing was proved yet"], "Audit again"),
    ("finished", FOUND, None, ["| ε = 1 | 1 | **0.43** | 231 of 368 |", "| ε = 8 | 8 | **4.62** |"], "Audit again"),
])  # fmt: skip
def test_every_state_of_an_audit_is_said_in_words_with_what_can_be_done(
    open_page: Open, store: Store, run_id: str, status: str, results: tuple[Audited, ...], failure: Failure | None,
    says: list[str], button: str,
) -> None:  # fmt: skip
    audited.fill(store, run_id, status, *results, failure=failure)
    for name in ("train", "privacy"):
        page = open_page(name, v="1", run=run_id)
        assert not page.error
        includes(words(page), *says)
        assert button in labels(page)


def test_more_proved_than_accounted_is_shown_as_the_error_it_is(open_page: Open, store: Store, run_id: str) -> None:
    """Also when a later audit does not find it again."""
    audited.fill(store, run_id, "finished", audited.result(1.0, 2.349))
    audited.fill(store, run_id, "finished", *FOUND)
    (error,) = open_page("privacy", v="1", run=run_id).error
    assert "proves ε ≥ 2.34, but the ledger accounts for only 1" in error.value.replace("\\", "")
    assert "Do not release it, and report this." in error.value


@pytest.mark.parametrize(("asked", "said", "command"), [
    ({
        "method": "label-means", "params": {"slots": "even"}, "labels": "prior",
        "scenario": {"kind": "federated", "clients": 20}, "privacy": {"epsilons": [1.0]},
    }, "all clients share the same places in the sum.", "python -m dpcl_core audit --set "),
    # Without noise, whatever the method, none of the reasons that speak of its noise is given.
    ({"method": "l2dp-ml", "data": {"dataset": "digits"}, "privacy": {"epsilons": [math.inf]}}, "adds no noise", None),
])  # fmt: skip
def test_a_run_that_cannot_be_audited_so_says_why_and_what_audits_it(
    open_page: Open, store: Store, asked: dict[str, object], said: str, command: str | None
) -> None:
    page = open_page("train", v="1", run=replay.finished(store, checks.parse({**asked, "seeds": [0]})))
    assert said in words(page)
    assert "share one draw of noise" not in words(page)
    folds = [each for each in page.expander if each.label == "A command audits its settings"]  # it is long
    assert len(folds) == (command is not None)
    assert all(fold.code[0].value.startswith(str(command)) for fold in folds)
    assert box(page, "button", "Audit this run").disabled


def test_the_numbers_are_told_as_one_would_say_them() -> None:
    told = tuning_panel.reading(audited.result(1.0, 0.437))
    includes(told, "1,844 planted examples", "right in 231 of 368 guesses at ε = 1", "ε ≥ 0.43 at 95\u00a0% confidence.")
    assert "proves nothing about ε" in tuning_panel.reading(audited.result(1.0, 0.0))
    assert "without noise" in tuning_panel.reading(audited.result(math.inf))
