"""The Train page in every state of a run: its status line, its prediction rules, the stream of its form."""

import base64
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core import presets
from dpcl_core.events import CellFinished, Progress, Started, TaskLearned
from dpcl_core.methods import catalog
from dpcl_core.papers import measured
from dpcl_core.runs import database
from dpcl_core.runs.run import Run, Status
from dpcl_core.runs.store import Store
from pages.parts import run_panel, status_line, train_form
from tests.data.making import write_pair
from tests.pages.conftest import Open, Patch, address, box, charts, labels, press, turned, unfolded, words
from tests.support import replay, texts
from tests.support.asserting import excludes, includes

pytestmark = pytest.mark.usefixtures("by_plotly")

SPEC = replay.a_spec()
ALL = replay.recorded(SPEC)
HALF = replay.half(ALL)


def test_first_visit_shows_a_finished_example_and_a_filled_form(open_page: Open) -> None:
    page = open_page("train")
    assert len(charts(page)) >= 3
    includes(words(page), "Example", "After 5 tasks", "Who remembers what")
    assert "At most 2.72 times likelier because of you" in [fold.label for fold in page.expander]
    assert page.selectbox[0].value == "digits"
    assert not page.button(key="start").disabled


def test_beside_a_question_stands_a_run_of_its_settings_or_the_example(open_page: Open, store: Store) -> None:
    replay.fill(store, SPEC, ALL, name="another question's")
    page = open_page("train", question="digits-cosine")
    assert "**Example**" in words(page)
    assert "run" not in page.query_params
    run_id = replay.finished(store, presets.load("digits-cosine"))
    replay.fill(store, SPEC, ALL, name="newer, another question's")
    page = open_page("train", question="digits-cosine")
    assert address(page)["run"] == run_id
    assert "has other settings" not in words(page)


WANTED = measured.settings(SPEC)  # of the ceiling


def is_offered(page: AppTest) -> bool:
    """Whether the ceiling can be computed."""
    return any(one.key == "ceiling" for one in page.button)


def test_one_sentence_says_where_the_run_ended_and_the_ceiling_is_a_press_away(open_page: Open, store: Store) -> None:
    run_id = replay.fill(store, SPEC, ALL)
    page = open_page("train", v="1", run=run_id)
    includes(words(page), "At ε = 1 the run ends at ", "guessing gives 10.")
    page.button(key="ceiling").click().run()
    (queued,) = [run for run in store.list_runs() if run.id != run_id]
    assert queued.spec == WANTED
    assert not is_offered(page), "one is enough"


def test_a_ceiling_that_has_ended_since_the_last_look_is_not_trained_again(open_page: Open, store: Store) -> None:
    """Pages look for ceilings every few seconds; one that takes less time must not be called none, nor be trained twice."""
    page = open_page("train", v="1", run=replay.fill(store, SPEC, ALL))
    replay.finished(store, WANTED)
    page.run()
    assert "No ceiling" not in words(page)
    page.button(key="ceiling").click().run()
    assert len(store.list_runs()) == 2
    assert "all at once without noise" in words(page)
    assert not is_offered(page)


def test_a_link_to_the_usual_form_stays_one_beside_another_run(open_page: Open, store: Store) -> None:
    replay.finished(store, replay.a_spec(labels="prior", tasks=2, seeds=(0,)), n_tasks=2)
    page = open_page("train", v="1", d="digits")
    assert address(page)["d"] == "digits"
    box(page, "selectbox", "Method").select("naive").run()
    assert [box(page, "selectbox", name).value for name in ("Method", "Label list")] == ["naive", "prior-const"]


@pytest.mark.parametrize(("state", "events", "said"), [
    ("queued", [], ("Queued", "queue for cpu", "Stop")),
    ("starting", ALL[:2], ("Starting", "computing features with pixels", "Stop")),
    ("running", HALF, ("Running", "Task", "of 5", "ε accounted so far", "Stop")),
    ("stopping", HALF, ("Stopping", "results so far are kept")),
    ("cancelled", HALF, ("Cancelled", "the curves so far are kept", "Retry")),
    ("failed", HALF, ("Failed", "This run failed on purpose (diverged).", "that the message names", "Retry",
                      "No model was finished, so no protection is stated")),
    ("lost", HALF, ("Lost", "This run failed on purpose (worker-died).", "Retry")),
    ("finished", ALL, ("Finished", "After 5 tasks", "the run ends at", "Run again")),
])  # fmt: skip
def test_every_state_has_its_words_and_buttons(
    open_page: Open, store: Store, state: Status, events: list[object], said: tuple[str, ...]
) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, events, status=state))  # type: ignore[arg-type]
    includes(words(page) + " ".join(labels(page)), *said)
    assert "Traceback" not in words(page)
    if state == "cancelled":
        assert "appears when" not in words(page), "nothing will appear any more"
        assert "final accuracy rises" not in words(page), "of models that did not finish"
        assert page.segmented_control(key="more-figures").options == ["Forgetting over tasks", "Settings"]
    if state == "finished":
        assert {"ε = 1", "ε = 8", "no noise"} <= {trace.get("name") for trace in charts(page)[0]["data"]}
    if state == "queued":  # before the first point, the stream and no empty figure
        assert "nothing-yet" not in words(page)
        (stream,) = charts(page)
        assert [trace["type"] for trace in stream["data"]] == ["heatmap", "bar"]


@pytest.mark.parametrize(("end", "said"), [("finished", "finished"), ("failed", "failed"), ("lost", "been lost")])
def test_a_stop_that_comes_too_late_says_so(open_page: Open, store: Store, end: Status, said: str) -> None:
    """The run ends between the page's last look and the press: the page still shows Stop, the store knows the end."""
    page = open_page("train", run=(run_id := replay.fill(store, SPEC, HALF, status="running")))
    assert store.end(run_id, end)
    assert f"had {said} before Stop reached it; its results are kept" in words(press(page, "Stop"))
    assert store.get(run_id).status == end


def test_beside_a_changed_form_stands_its_nearest_record_and_never_the_run_before(open_page: Open, store: Store) -> None:
    run_id = replay.finished(store, replay.a_spec(labels="data"))  # not DP, in red
    page = open_page("train", run=run_id)
    (banner,) = re.findall(r'class="privacy-bar not-dp"[^>]*>(.*)', words(page))
    assert "an attacker may be right every time" in banner, "beside a run stands what its ledger says"
    page = box(page, "selectbox", "Label list").set_value("prior").run()
    assert "run" not in page.query_params
    assert "not-dp" not in words(page)
    lines = [trace for trace in charts(page)[0]["data"] if trace.get("line", {}).get("dash") == "solid"]
    assert len({trace["line"]["color"] for trace in lines}) == 1, "a ghost has no colours"
    left = f"**{store.get(run_id).name}** (finished) has other settings."
    includes(words(page), "**Measured before** :small[with other settings: label list", left)
    page = press(page, "Back to that run")
    assert address(page)["run"] == run_id
    assert "has other settings" not in words(page)


def test_beside_own_data_stands_their_plan_alone(open_page: Open, store: Store, tmp_path: Path, monkeypatch: Patch) -> None:
    replay.finished(store, replay.a_spec(labels="data"))
    write_pair(tmp_path / "data" / "mine", [0, 1] * 20, [0, 1])
    monkeypatch.setenv("DPCL_DATA", str(tmp_path / "data"))
    st.cache_data.clear()
    page = open_page("train", v="1", d="own:mine", **{"s.tasks": "2"})
    assert "run" not in page.query_params
    includes(words(page), "2 tasks with 1 class at home in each.", ", about ", "We show no counts")
    excludes(words(page), "not-dp", "Measured before", "Finished", "20 training examples")
    assert not streams(page), "the plan is a grid without bars"


def test_a_run_under_way_stands_beside_a_form_of_its_settings(open_page: Open, store: Store) -> None:
    run_id = replay.fill(store, SPEC, HALF, status="running")
    assert "run" not in address(open_page("train"))
    assert address(open_page("train", **train_form.parameters_of(SPEC)))["run"] == run_id


def silent(store: Store, run_id: str, seconds: float) -> str:
    """The run, which has given its last sign of life so many seconds ago."""
    replay.alter(store, run_id, heartbeat=database.now() - seconds)
    return run_id


def test_a_silent_run_says_that_its_store_may_be_away(open_page: Open, store: Store, monkeypatch: Patch) -> None:
    run_id = replay.fill(store, SPEC, HALF, status="running")
    monkeypatch.setattr(run_panel, "_WAITS_SECONDS", 50.0)  # however busy this machine is
    for seconds, says in ((0.0, False), (60.0, True)):
        page = open_page("train", run=silent(store, run_id, seconds))
        assert ("its store may take nothing just now" in words(page)) is says


@pytest.mark.parametrize(("free", "seconds", "says"), [(0, 3.0, True), (0, 0.0, False), (10**9, 3.0, False)])
def test_a_run_that_waits_for_room_on_the_disk_says_so(
    open_page: Open, store: Store, monkeypatch: Patch, free: int, seconds: float, *, says: bool
) -> None:
    run_id = silent(store, replay.fill(store, SPEC, HALF, status="running"), seconds)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(run_panel, "_QUIET_SECONDS", 2.0 if seconds else 60.0)  # however busy this machine is
    assert ("The disk of this server is full" in words(open_page("train", run=run_id))) is says


def test_what_a_language_model_memorised_stays_after_the_run_with_a_slider_over_tasks(open_page: Open, store: Store) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, texts.with_texts(ALL)))
    after = next(slider for slider in page.select_slider if slider.label == "After task")
    assert (after.options, after.value) == ([*"12345"], 4)
    page = after.set_value(1).run()
    includes(words(page), "of exposure after task 2", "After task 2")


def test_a_run_that_guesses_is_warned_about(open_page: Open, store: Store) -> None:
    guessed = replay.altered(ALL, CellFinished, lambda event: replace(event, metrics={**event.metrics, "AA": 0.1}))
    page = open_page("train", v="1", run=replay.fill(store, SPEC, guessed))
    assert any("It may be guessing" in warning.value.replace("\\", "") for warning in page.warning)


# The status line of a run in every state, from what it has said alone.


def _run(store: Store, state: str, events: list[object], **changes: object) -> Run:
    return replace(store.get(replay.fill(store, SPEC, events, status=state)), **changes)  # type: ignore[arg-type]


def _line(store: Store, state: str, events: list[object], **changes: object) -> status_line.StatusLine:
    return status_line.status_of_run(_run(store, state, events, **changes), events, now=0)  # type: ignore[arg-type]


def test_queued_says_place_and_device_and_time(store: Store) -> None:
    said = _line(store, "queued", [], place_in_queue=2, estimate_seconds=4.0)
    assert (said.label, said.detail) == ("Queued", "place 2 in the queue for cpu · then about 3–6 s")


def test_running_says_task_spent_budget_and_time_left_as_a_range_or_as_at_most(store: Store) -> None:
    run = _run(store, "running", HALF, started=100.0, seconds=12.0, silent_seconds=0.0, estimate_seconds=20.0)
    said = status_line.status_of_run(run, HALF, now=112.0)
    assert (said.headline, said.fraction) == ("Task 4 of 5", pytest.approx(3 / 5))
    assert said.detail == "learning task 4 · largest ε accounted so far 8 · 7–10 s left"
    said = status_line.status_of_run(replace(run, seconds=1.0, estimate_seconds=50.0), HALF, now=101.0)
    assert said.left == (pytest.approx(2 / 3 / 1.2), pytest.approx(49 * 1.2))
    assert said.detail.endswith(" · up to 59 s left")


def test_features_have_a_bar_from_the_start_of_the_process_to_the_first_training(store: Store) -> None:
    """A worker counts features before its run has begun; those of public sentences follow the event that begins it."""
    counted = Progress("backbone", 250, 1000, None, "computing features with pixels")
    line = status_line.status_of_run(_run(store, "starting", [], started=100.0), [counted], now=110.0)
    assert (line.label, line.fraction, line.is_stage) == ("Starting", 0.25, True)
    assert "250 of 1,000" in line.detail
    assert line.left is not None
    run = replace(_run(store, "finished", []), status="running", started=100.0, estimate_seconds=500.0)
    for events in ([counted], [*(event for event in HALF if isinstance(event, Started)), counted]):
        line = status_line.status_of_run(run, events, now=110.0)
        assert (line.headline, line.fraction, line.is_stage) == ("Preparing", 0.25, True)
        # 30 s, give or take
        assert line.detail == "computing features with pixels · 250 of 1,000 · 22–42 s left for this step"
    assert not status_line.status_of_run(run, [*HALF, counted], now=110.0).is_stage, "they are a part of the training"


def test_the_time_left_follows_the_last_look_but_not_over_the_end_of_a_stage(store: Store) -> None:
    run = _run(store, "running", HALF, started=100.0, seconds=12.0, silent_seconds=0.0)
    first = status_line.status_of_run(run, HALF, now=112.0)
    assert first.left is not None
    before = status_line.Look(replace(first, left=(1000.0, 2000.0)), 111.0)
    later = status_line.status_of_run(run, HALF, now=112.0, before=before)
    assert later.left == (pytest.approx(499.5), pytest.approx(999.5))  # half of what was to be expected
    stage = status_line.Look(replace(first, left=(1000.0, 2000.0), is_stage=True), 111.0)
    assert status_line.status_of_run(run, HALF, now=112.0, before=stage).left == first.left


def test_trainings_one_after_another_are_counted_and_the_newest_counts(store: Store, monkeypatch: Patch) -> None:
    run = _run(store, "running", [], started=100.0)
    one_by_one = ALL[:3] + [e for cell in SPEC.cells() for e in ALL if isinstance(e, TaskLearned) and e.cell == cell]
    parts, n_cells = (one_by_one[:3], one_by_one[: 3 + 5 + 2], one_by_one), len(list(SPEC.cells()))
    assert status_line.status_of_run(run, parts[1], now=105.0).headline == "Task 3 of 5"
    apart = replace(catalog.CARDS["cosine"], cells_per_learner="cell")
    monkeypatch.setattr(catalog, "CARDS", {**catalog.CARDS, "cosine": apart})
    said = [status_line.status_of_run(run, part, now=105.0).headline for part in parts]
    assert said[:2] == [f"Training 1 of {n_cells} · Task 1 of 5", f"Training 2 of {n_cells} · Task 3 of 5"]
    assert said[2].startswith(f"Training {n_cells} of {n_cells}")


def test_progress_never_falls_while_events_arrive(store: Store) -> None:
    run = _run(store, "running", [], started=100.0)
    shares = [status_line.status_of_run(run, ALL[:n], now=105.0).fraction or 0.0 for n in range(len(ALL))]
    assert (shares, shares[-1]) == (sorted(shares), 1.0)


@pytest.mark.parametrize(("kind", "fix"), [
    ("out-of-memory", "fewer examples"), ("diverged", "Change the settings"), ("data-missing", "Put the data where"),
    ("store", "disk space"), ("wrong-input", "Change the setting"), ("internal", "details below")
])  # fmt: skip
def test_failures_are_told_apart_by_what_to_do(store: Store, kind: str, fix: str) -> None:
    run = store.get(replay.fill(store, SPEC, HALF, status="failed", failure=replay.a_failure(kind)))  # type: ignore[arg-type]
    said = status_line.status_of_run(run, HALF, now=0)
    assert (said.headline, said.tone) == (f"This run failed on purpose ({kind}).", "bad")
    assert fix in said.detail


def test_lost_says_when_and_offers_retry(store: Store) -> None:
    assert _line(store, "lost", HALF).headline.startswith("This run failed on purpose (worker-died)")
    silent = _line(store, "lost", HALF, error=None, heartbeat=0.0)
    assert silent.headline.startswith("The computer stopped this run")
    assert "Retry" in silent.detail


@pytest.mark.parametrize(("seconds", "words"), [
    (0.2, "1 second"), (4, "4 seconds"), (17, "20 seconds"), (95, "2 minutes"), (10800, "3 hours"), (9e5, "10 days")
])
def test_estimates_name_an_order_of_magnitude_in_a_fitting_unit(seconds: float, words: str) -> None:
    assert status_line.about(seconds) == f"about {words}"


# A run whose method has several prediction rules can be looked at under each of them, from what was said alone.


def under_three_rules(event: TaskLearned) -> TaskLearned:
    """Median is right 10 points less often than the run's own rule, Entropy 20."""
    median, entropy = (tuple(None if value is None else value - less for value in event.accuracy) for less in (0.1, 0.2))
    return replace(event, by_rule={"argmax": event.accuracy, "median": median, "entropy": entropy})


SAID = replay.altered(replay.recorded(SPEC), TaskLearned, under_three_rules)


def numbers(encoded: dict[str, str]) -> np.ndarray:
    """An array as plotly sends it."""
    return np.frombuffer(base64.b64decode(encoded["bdata"]), dtype=encoded["dtype"])


def drawn(page: AppTest, kind: str) -> list[dict[str, Any]]:
    """The traces of the first figure that begins with one of this kind."""
    return next(chart["data"] for chart in charts(page) if chart["data"][0]["type"] == kind)


def ends(page: AppTest) -> list[float]:
    """The last point of every line of the first figure with lines: the accuracy curves."""
    names = ("ε = 1", "ε = 8", "no noise")
    lines = [one for one in drawn(page, "scatter") if "lines" in one["mode"] and one["name"] in names]
    assert len(lines) == 3
    return [float(numbers(trace["y"])[-1]) for trace in lines]


def corner(page: AppTest) -> float:
    """The first number of the accuracy matrix."""
    return float(numbers(drawn(page, "heatmap")[0]["z"])[0])


@pytest.mark.parametrize("status", ["finished", "running"])
def test_another_rule_redraws_curves_and_matrix_from_what_was_said(status: Status, open_page: Open, store: Store) -> None:
    events = SAID if status == "finished" else [event for event in SAID if type(event).__name__ != "CellFinished"]
    page = open_page("train", v="1", run=replay.fill(store, SPEC, events, status=status))
    switch = next(control for control in page.get("button_group") if control.label == "Prediction rule")
    assert "costs no privacy" in switch.help
    assert list(switch.options) == ["ArgMax", "Median", "Entropy"]
    before, was = ends(page), corner(page)
    page = turned(page, switch.key, "entropy")
    assert (ends(page), corner(page)) == (pytest.approx([end - 20 for end in before]), pytest.approx(was - 20))
    if status == "finished":
        assert page.query_params["ru"] == "entropy"


def test_the_link_keeps_the_rule_and_a_wrong_one_shows_the_runs_own(open_page: Open, store: Store) -> None:
    link = {"v": "1", "run": replay.fill(store, SPEC, SAID)}
    own = ends(open_page("train", **link))
    assert ends(open_page("train", **link, ru="median")) == pytest.approx([end - 10 for end in own])
    assert ends(open_page("train", **link, ru="loudest")) == own


def test_a_method_with_one_rule_has_no_switch(open_page: Open) -> None:
    assert not any(control.label == "Prediction rule" for control in open_page("train").get("button_group"))


# The stream on the Train page before anything runs: redrawn with the form, quiet where it cannot be drawn.


def streams(page: AppTest) -> list[dict[str, object]]:
    """The figures that have sizes of tasks above classes by task."""
    return [chart for chart in charts(page) if [trace["type"] for trace in chart["data"]] == ["heatmap", "bar"]]  # type: ignore


def _form(open_page: Open, **link: str) -> AppTest:
    return open_page("train", **{"v": "1", "d": "digits", "bb": "pixels", **link})


def test_a_first_visit_sees_the_stream_and_each_setting_redraws_it(open_page: Open) -> None:
    page = _form(open_page, s="i-blurry")
    (before,) = streams(page)
    assert "5 of 10 classes occur in several tasks" in words(page)
    box(page, "number_input", "Disjoint percent").set_value(100).run()
    assert "Every class occurs in one task only." in words(page)
    box(page, "number_input", "Tasks").set_value(11).run()
    includes(words(page), "when the settings fit the data", "must be at most 10")
    assert not streams(page)
    box(page, "number_input", "Tasks").set_value(2).run()
    assert streams(page) not in ([], [before])
    drawn = [streams(_form(open_page, sd=seed))[0] for seed in ("1", "2")]
    assert drawn[0]["data"] != drawn[1]["data"]


@pytest.mark.parametrize(("events", "read"), [([], 0.0), (HALF, 0.6), (ALL, 1.0)])
def test_the_stream_of_a_run_fills_as_it_is_read(open_page: Open, store: Store, events: list[object], read: float) -> None:
    status: Status = "finished" if events is ALL else "running"
    page = open_page("train", run=replay.fill(store, SPEC, events, status=status))  # type: ignore[arg-type]
    (drawn,) = streams(page)
    veils = [shape for shape in drawn["layout"]["shapes"] if shape.get("yref") == "paper"]  # type: ignore[index]
    assert [(veil["x0"], veil["x1"]) for veil in veils] == [(pytest.approx(0.5 + 5 * read), 5.5)] * (read < 1)
    assert "5 tasks of 263 to 280 training examples" in words(page)


def test_a_permuted_stream_says_that_examples_come_again(open_page: Open) -> None:
    def odds() -> bool:
        return any("right with probability at most" in caption.value for caption in page.caption)

    page = _form(open_page, s="permuted", **{"s.tasks": "20"})
    assert streams(page)
    said = "20 tasks of 1,347 training examples each. All classes occur in every task."
    includes(words(page), said, "adds up over the tasks", "the total ε of the run is larger")
    assert not odds()
    box(page, "selectbox", "Images of a task").set_value("disjoint").run()
    assert "20 tasks of 52 to 82 training examples." in words(page)
    assert "adds up over the tasks" not in words(page)
    assert odds()


def test_a_split_stream_is_the_same_for_every_seed_and_takes_an_order(open_page: Open) -> None:
    page = _form(open_page, s="split")
    box(page, "text_input", "Order").set_value("5 4 3 2 1").run()
    assert streams(page)
    assert address(page)["s.order"] == "5,4,3,2,1"
    page = open_page("train", **address(page))
    assert box(page, "text_input", "Order").value == "5 4 3 2 1"
    for order, said in (
        ("5 4 3 2 2", "must name each task from 1 to 5 once, but 2 occurs 2 times"),
        ("5 4 x", "Order = x: must be whole numbers; left out."),
    ):
        assert said in words(box(page, "text_input", "Order").set_value(order).run())


def test_a_federated_stream_says_what_its_clients_hold(open_page: Open) -> None:
    page = _form(open_page, s="federated", **{"s.clients": "12"})
    assert streams(page)
    includes(words(page), "10 tasks of", "12 clients hold", "A client may be in every task")
    assert "Every task has the same examples" not in words(page)
    neighbours = box(unfolded(page, "more"), "radio", "Neighbouring datasets differ by")
    assert neighbours.options == ["one client present or left out", "one client replaced"]
