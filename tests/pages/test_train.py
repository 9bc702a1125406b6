"""The Train page in every state of a run."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from dpcl_core import presets
from dpcl_core.data import catalog as datasets
from dpcl_core.events import CellFinished
from dpcl_core.papers import measured, questions
from dpcl_core.results import Result
from dpcl_core.runs import database, tables
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from pages.parts import run_panel, train_form
from tests.data.making import write_pair
from tests.pages.conftest import Open, Patch, address, box, charts, labels, press, words
from tests.pages.test_run_panel import streams
from tests.papers import making
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
    spec = presets.load("digits-cosine")
    run_id = replay.fill(store, spec, replay.recorded(spec))
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


def test_a_ceiling_of_the_store_is_drawn_and_not_offered_again(open_page: Open, store: Store) -> None:
    ceiling = replay.fill(store, WANTED, replay.recorded(WANTED))
    page = open_page("train", v="1", run=replay.fill(store, SPEC, ALL))
    assert "all at once without noise" in words(page)
    assert not is_offered(page)
    said = words(open_page("train", run=ceiling))
    assert "Without noise the run ends at" in said
    assert "reaches the ceiling" not in said, "that is itself"


def test_a_ceiling_that_has_ended_since_the_last_look_is_not_trained_again(open_page: Open, store: Store) -> None:
    """Pages look for ceilings every few seconds; one that takes less time must not be called none, nor be trained twice."""
    page = open_page("train", v="1", run=replay.fill(store, SPEC, ALL))
    replay.fill(store, WANTED, replay.recorded(WANTED))
    page.run()
    assert "No ceiling" not in words(page)
    page.button(key="ceiling").click().run()
    assert len(store.list_runs()) == 2
    assert "all at once without noise" in words(page)
    assert not is_offered(page)


def test_a_run_of_all_tasks_at_once_that_failed_is_no_ceiling_and_not_offered_again(
    open_page: Open, store: Store, monkeypatch: Patch
) -> None:
    replay.fill(store, WANTED, replay.recorded(WANTED))
    better = making.run(lambda epsilon, seed: 0.999, spec=SPEC, epsilons=(math.inf,))
    monkeypatch.setattr(measured, "all_recorded", lambda dataset=None: (better,))
    page = open_page("train", v="1", run=replay.fill(store, SPEC, ALL))
    assert "No ceiling: learning all tasks at once reached less than other runs do" in words(page)
    assert "all at once without noise" not in words(page)
    assert not is_offered(page)


def test_a_link_to_the_usual_form_stays_one_beside_another_run(open_page: Open, store: Store) -> None:
    spec = replay.a_spec(labels="prior", tasks=2, seeds=(0,))
    replay.fill(store, spec, replay.recorded(spec, n_tasks=2))
    page = open_page("train", v="1", d="digits")
    assert address(page)["d"] == "digits"
    box(page, "selectbox", "Method").select("naive").run()
    assert [box(page, "selectbox", name).value for name in ("Method", "Label list")] == ["naive", "prior-const"]


@pytest.mark.parametrize(
    ("state", "events", "said"),
    [
        ("queued", [], ("Queued", "queue for cpu", "Stop")),
        ("starting", ALL[:2], ("Starting", "computing features with pixels", "Stop")),
        ("running", HALF, ("Running", "Task", "of 5", "ε accounted so far", "Stop")),
        ("stopping", HALF, ("Stopping", "results so far are kept")),
        ("cancelled", HALF, ("Cancelled", "the curves so far are kept", "Retry")),
        ("failed", HALF, ("Failed", "This run failed on purpose (diverged).", "that the message names", "Retry",
                          "No model was finished, so no protection is stated")),
        ("lost", HALF, ("Lost", "This run failed on purpose (worker-died).", "Retry")),
        ("finished", ALL, ("Finished", "After 5 tasks", "the run ends at", "Run again")),
    ],
)  # fmt: skip
def test_every_state_has_its_words_and_buttons(
    open_page: Open, store: Store, state: Status, events: list[object], said: tuple[str, ...]
) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, events, status=state))  # type: ignore[arg-type]
    includes(words(page) + " ".join(labels(page)), *said)
    assert all(chart.proto.alt for chart in page.get("plotly_chart"))
    assert "Traceback" not in words(page)
    if state == "cancelled":
        assert "appears when" not in words(page), "nothing will appear any more"
        assert "final accuracy rises" not in words(page), "of models that did not finish"
        assert page.segmented_control(key="more-figures").options == ["Forgetting over tasks", "Settings"]
    if state == "finished":
        names = [trace.get("name") for trace in charts(page)[0]["data"]]
        assert {"ε = 1", "ε = 8", "no noise"} <= set(names)
        assert not any("gl" in trace["type"] for chart in charts(page) for trace in chart["data"])
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


def test_beside_a_changed_form_stands_its_nearest_record_and_never_the_run_it_was_changed_from(
    open_page: Open, store: Store
) -> None:
    spec = replay.a_spec(labels="data")  # not DP, in red
    run_id = replay.fill(store, spec, replay.recorded(spec))
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


def test_beside_ones_own_data_stands_their_plan_without_counts_and_no_other_run(
    open_page: Open, store: Store, tmp_path: Path, monkeypatch: Patch
) -> None:
    spec = replay.a_spec(labels="data")
    replay.fill(store, spec, replay.recorded(spec))
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
    link = train_form.parameters_of(SPEC)
    assert address(open_page("train", **link))["run"] == run_id


def test_settings_that_a_question_has_measured_lead_to_its_answer(open_page: Open, store: Store) -> None:
    def links(**link: str) -> list[str]:
        return [one.proto.label for one in open_page("train", **link).get("page_link")]

    name = "digits-peft-head"  # on data that are always here
    assert "Its answer" in links(question=name)
    spec = next(iter(questions.specs(name).values()))
    assert "Measured before: see the answer" in links(**train_form.parameters_of(spec))


def silent(store: Store, run_id: str, seconds: float) -> str:
    """The run, which has given its last sign of life so many seconds ago."""
    with store.writing() as connection:
        connection.execute(update(tables.runs).values(heartbeat=database.now() - seconds))
    return run_id


def test_a_run_that_has_said_nothing_for_some_seconds_says_that_its_store_may_be_away(
    open_page: Open, store: Store, monkeypatch: Patch
) -> None:
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


def test_captions_of_a_run_whose_data_are_not_read_yet_have_their_title() -> None:
    own = replace(SPEC, data=replace(SPEC.data, dataset="own:people"))
    for spec, title in ((SPEC, datasets.CARDS["digits"].title), (own, "people (own data)")):
        assert Result(None, "", spec, ()).provenance.line().startswith(f"example · {title} · ")


def test_a_run_that_guesses_is_warned_about(open_page: Open, store: Store) -> None:
    guessed = [
        replace(event, metrics={**event.metrics, "AA": 0.1}) if isinstance(event, CellFinished) else event for event in ALL
    ]
    page = open_page("train", v="1", run=replay.fill(store, SPEC, guessed))
    assert any("It may be guessing" in warning.value.replace("\\", "") for warning in page.warning)
