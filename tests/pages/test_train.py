"""The Train page in every state of a run."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from dpcl_core import presets
from dpcl_core.data import catalog as datasets
from dpcl_core.events import CellFinished, Progress, TaskLearned
from dpcl_core.papers import measured
from dpcl_core.results import Result
from dpcl_core.runs import database, tables
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from pages.parts import run_panel
from tests.pages.conftest import Open, Patch, address, button, press, words
from tests.papers import making
from tests.support import replay
from tests.support.asserting import includes

SPEC = replay.a_spec()
ALL = replay.recorded(SPEC)
HALF = [
    event
    for event in ALL
    if not isinstance(event, CellFinished) and not (isinstance(event, (TaskLearned, Progress)) and (event.task or 0) > 2)
]


def _charts(page: AppTest) -> list[dict[str, object]]:
    return [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]


def test_first_visit_shows_a_finished_example_and_a_filled_form(open_page: Open) -> None:
    page = open_page("train")
    assert "Example" in words(page)
    assert len(_charts(page)) >= 3
    includes(words(page), "After 5 tasks", "Covered")
    assert page.selectbox[1].value == "digits"
    start = button(page, "Start")
    assert start is not None
    assert not start.disabled  # type: ignore[attr-defined]


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
    assert "has other settings than the form" not in words(page)


def test_a_first_look_is_at_a_run_and_not_at_its_ceiling(open_page: Open, store: Store) -> None:
    run_id, wanted = replay.fill(store, SPEC, ALL), measured.settings(SPEC)
    ceiling_id = replay.fill(store, wanted, replay.recorded(wanted))
    assert open_page("train").query_params["run"] in (run_id, [run_id])
    page = open_page("train", run=ceiling_id)
    assert "Without noise the run ends at" in words(page)
    assert "reaches the ceiling" not in words(page)


def test_a_link_to_the_usual_form_stays_one_beside_another_run(open_page: Open, store: Store) -> None:
    """Beside the newest run the link had named that run alone, which means: the settings of that run."""
    spec = replay.a_spec(labels="prior", tasks=2, seeds=(0,))
    replay.fill(store, spec, replay.recorded(spec, n_tasks=2))
    page = open_page("train", v="1", d="digits")
    assert address(page)["d"] == "digits"
    page.selectbox(key=next(box.key for box in page.selectbox if box.label == "Method")).select("naive").run()
    assert next(box.value for box in page.selectbox if box.label == "Method") == "naive"
    assert page.radio[0].value == "prior-const"


@pytest.mark.parametrize(
    ("state", "events", "said"),
    [
        ("queued", [], ("Queued", "queue for cpu", "Stop")),
        ("starting", ALL[:2], ("Starting", "computing features with pixels", "Stop")),
        ("running", HALF, ("Running", "Task", "of 5", "ε accounted so far", "Stop")),
        ("stopping", HALF, ("Stopping", "results so far are kept")),
        ("cancelled", HALF, ("Cancelled", "the curves so far are kept", "Retry")),
        ("failed", HALF, ("Failed", "This run failed on purpose (diverged).", "that the message names", "Retry")),
        ("failed", HALF, ("No model was finished, so no protection is stated",)),
        ("lost", HALF, ("Lost", "This run failed on purpose (worker-died).", "Retry")),
        ("finished", ALL, ("Finished", "After 5 tasks", "Covered", "Not covered", "Run again")),
    ],
)
def test_every_state_has_its_words_and_buttons(
    open_page: Open, store: Store, state: Status, events: list[object], said: tuple[str, ...]
) -> None:
    run_id = replay.fill(store, SPEC, events, status=state)  # type: ignore[arg-type]
    page = open_page("train", run=run_id)
    shown = words(page) + " ".join(button.label for button in page.button)
    for text in said:
        assert text in shown, text
    assert all(chart.proto.alt for chart in page.get("plotly_chart"))
    assert "Traceback" not in words(page)


@pytest.mark.parametrize(("end", "said"), [("finished", "finished"), ("failed", "failed"), ("lost", "been lost")])
def test_a_stop_that_comes_too_late_says_so(open_page: Open, store: Store, end: Status, said: str) -> None:
    """The run ends between the page's last look and the press: the page still shows Stop, the store knows the end."""
    run_id = replay.fill(store, SPEC, HALF, status="running")
    page = open_page("train", run=run_id)
    assert store.end(run_id, end)
    press(page, "Stop")
    assert f"had {said} before Stop reached it; its results are kept" in words(page)
    assert store.get(run_id).status == end


def test_a_run_of_other_settings_than_the_forms_says_so_and_gives_them(open_page: Open, store: Store) -> None:
    """Whoever comes back meets the newest run beside a form that starts from the first preset."""
    run_id = replay.fill(store, SPEC, ALL)
    said = f"**{store.get(run_id).name}** has other settings than the form."
    page = open_page("train")
    assert said in words(page)
    press(page, "Load its settings")
    assert "with other settings" not in words(page)
    assert address(page)["run"] == run_id
    assert "with other settings" not in words(open_page("train", run=run_id))


def test_a_run_that_is_not_dp_is_banner_marked(open_page: Open, store: Store) -> None:
    spec = replay.a_spec(labels="data", epsilons=(1.0,))
    page = open_page("train", run=replay.fill(store, spec, replay.recorded(spec)))
    banners = re.findall(r'class="privacy-bar not-dp"[^>]*>(.*)', words(page))
    assert len(banners) == 2  # one in the form, one over the result
    assert any("an attacker may be right every time" in banner for banner in banners)


def test_figures_hold_the_runs_numbers(open_page: Open, store: Store) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, ALL))
    names = [trace.get("name") for trace in _charts(page)[0]["data"]]  # type: ignore[attr-defined]
    assert {"ε = 1", "ε = 8", "no noise"} <= set(names)
    assert not any("gl" in trace["type"] for chart in _charts(page) for trace in chart["data"])  # type: ignore[attr-defined]


def test_no_final_accuracy_is_claimed_for_models_that_did_not_finish(open_page: Open, store: Store) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, HALF, status="cancelled"))
    assert "appears when" not in words(page), "nothing will appear any more"
    assert "final accuracy rises" not in words(page)
    assert page.segmented_control(key="more-figures").options == ["Forgetting over tasks", "Settings"]


def test_a_run_that_has_said_nothing_for_some_seconds_says_that_its_store_may_be_away(
    open_page: Open, store: Store, monkeypatch: Patch
) -> None:
    run_id = replay.fill(store, SPEC, HALF, status="running")
    monkeypatch.setattr(run_panel, "_WAITS_SECONDS", 50.0)  # however busy this machine is
    for silent, says in ((0.0, False), (60.0, True)):
        with store.writing() as connection:
            connection.execute(update(tables.runs).values(heartbeat=database.now() - silent))
        assert ("its store may take nothing just now" in words(open_page("train", run=run_id))) is says


@pytest.mark.parametrize(("free", "silent", "says"), [(0, 3.0, True), (0, 0.0, False), (10**9, 3.0, False)])
def test_a_run_that_waits_for_room_on_the_disk_says_so(
    open_page: Open, store: Store, monkeypatch: Patch, free: int, silent: float, *, says: bool
) -> None:
    run_id = replay.fill(store, SPEC, HALF, status="running")
    with store.writing() as connection:
        connection.execute(update(tables.runs).values(heartbeat=database.now() - silent))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(run_panel, "_QUIET_SECONDS", 2.0 if silent else 60.0)  # however busy this machine is
    assert ("The disk of this server is full" in words(open_page("train", run=run_id))) is says


def test_what_is_not_there_yet_is_said_once_and_in_words(open_page: Open, store: Store) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, [], status="queued"))
    for sentence in ("The first point appears", "The first row appears", "Forgetting is defined from the second"):
        assert words(page).count(sentence) == 1
    assert not page.get("plotly_chart"), "a figure of nothing would not break its sentence on a narrow screen"


def test_captions_of_a_run_whose_data_are_not_read_yet_have_their_title() -> None:
    own = replace(SPEC, data=replace(SPEC.data, dataset="own:people"))
    for spec, title in ((SPEC, datasets.CARDS["digits"].title), (own, "people (own data)")):
        assert Result(None, "", spec, ()).provenance.line().startswith(f"example · {title} · ")


def test_one_sentence_says_where_the_run_ended_and_the_ceiling_is_a_press_away(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    run_id = replay.fill(store, spec, replay.recorded(spec))
    page = open_page("train", v="1", run=run_id)
    includes(words(page), "At ε = 1 the run ends at ", "guessing gives 10.")
    page.button(key="ceiling").click().run()
    (queued,) = [run for run in store.list_runs() if run.id != run_id]
    assert queued.spec == measured.settings(spec)
    assert not [button for button in page.button if button.key == "ceiling"], "one is enough"


def test_a_ceiling_of_the_store_is_drawn_and_not_offered_again(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    wanted = measured.settings(spec)
    replay.fill(store, wanted, replay.recorded(wanted))
    page = open_page("train", v="1", run=replay.fill(store, spec, replay.recorded(spec)))
    assert "all at once without noise" in words(page)
    assert not [button for button in page.button if button.key == "ceiling"]


def test_a_ceiling_that_has_ended_since_the_last_look_is_not_trained_again(open_page: Open, store: Store) -> None:
    """Pages look for ceilings every few seconds; one that takes less time must not be called none, nor be trained twice."""
    spec = replay.a_spec()
    run_id = replay.fill(store, spec, replay.recorded(spec))
    page = open_page("train", v="1", run=run_id)
    wanted = measured.settings(spec)
    replay.fill(store, wanted, replay.recorded(wanted))
    page.run()
    assert "No ceiling" not in words(page)
    page.button(key="ceiling").click().run()
    assert len(store.list_runs()) == 2
    assert "all at once without noise" in words(page)
    assert not [button for button in page.button if button.key == "ceiling"]


def test_a_run_of_all_tasks_at_once_that_failed_is_no_ceiling_and_not_offered_again(
    open_page: Open, store: Store, monkeypatch: Patch
) -> None:
    spec = replay.a_spec()
    wanted = measured.settings(spec)
    replay.fill(store, wanted, replay.recorded(wanted))
    better = making.run(lambda epsilon, seed: 0.999, spec=spec, epsilons=(math.inf,))
    monkeypatch.setattr(measured, "all_recorded", lambda dataset=None: (better,))
    page = open_page("train", v="1", run=replay.fill(store, spec, replay.recorded(spec)))
    assert "No ceiling: learning all tasks at once reached less than other runs do" in words(page)
    assert "all at once without noise" not in words(page)
    assert not [button for button in page.button if button.key == "ceiling"]


def test_a_run_that_guesses_is_warned_about(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    guessed = [
        replace(event, metrics={**event.metrics, "AA": 0.1}) if isinstance(event, CellFinished) else event
        for event in replay.recorded(spec)
    ]
    page = open_page("train", v="1", run=replay.fill(store, spec, guessed))
    assert any("Cannot be told from guessing" in warning.value.replace("\\", "") for warning in page.warning)
