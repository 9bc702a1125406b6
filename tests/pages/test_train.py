"""The Train page in every state of a run, and its form."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core import presets
from dpcl_core.events import CellFinished, Progress, TaskLearned
from dpcl_core.papers import ceilings, measured
from dpcl_core.runs import devices, machines
from dpcl_core.runs.journal import Journal
from dpcl_core.runs.run import Split, Status
from dpcl_core.runs.store import Store
from pages.parts.training import run_panel, train_form
from tests.data.making import write_pair
from tests.pages.conftest import Open, unfolded, words
from tests.papers import making
from tests.support import replay

SPEC = replay.a_spec()
ALL = replay.recorded(SPEC)
HALF = [
    event
    for event in ALL
    if not isinstance(event, CellFinished) and not (isinstance(event, (TaskLearned, Progress)) and (event.task or 0) > 2)
]


def _charts(page: AppTest) -> list[dict[str, object]]:
    return [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]


def _button(page: AppTest, label: str) -> object:
    return next((button for button in page.button if button.label == label), None)


def test_first_visit_shows_a_finished_example_and_a_filled_form(open_page: Open) -> None:
    page = open_page("train")
    assert not page.exception
    assert "Example" in words(page)
    assert len(_charts(page)) >= 3
    assert "After 5 tasks" in words(page)
    assert "Covered" in words(page)
    assert page.selectbox[1].value == "digits"
    start = _button(page, "Start")
    assert start is not None
    assert not start.disabled  # type: ignore[attr-defined]


def test_a_dataset_of_ones_own_can_be_chosen(open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pair(tmp_path / "data" / "mine", [0, 1] * 20, [0, 1])
    monkeypatch.setenv("DPCL_DATA", str(tmp_path / "data"))
    st.cache_data.clear()
    page = open_page("train")
    dataset = next(box for box in page.selectbox if box.label == "Dataset")
    assert "own:mine" in dataset.options
    page = dataset.set_value("own:mine").run()
    assert "must divide" in words(page) or "must be at most 2" in words(page)
    assert not page.exception


@pytest.mark.parametrize("key", ["question", "preset"])
def test_a_link_may_name_a_question_alone(open_page: Open, key: str) -> None:
    page = open_page("train", **{key: "blurry-digits"})
    assert not page.warning
    assert page.query_params["question"] == "blurry-digits"
    assert "preset" not in page.query_params
    assert f"From the question “{presets.about('blurry-digits').title}”." in words(page)


def test_beside_a_question_stands_a_run_of_its_settings_or_the_example(open_page: Open, store: Store) -> None:
    replay.fill(store, SPEC, ALL, name="another question's")
    page = open_page("train", question="digits-cosine")
    assert "**Example**" in words(page)
    assert "run" not in page.query_params
    spec = presets.load("digits-cosine")
    run_id = replay.fill(store, spec, replay.recorded(spec))
    replay.fill(store, SPEC, ALL, name="newer, another question's")
    page = open_page("train", question="digits-cosine")
    assert page.query_params["run"] in (run_id, [run_id])
    assert "has other settings than the form" not in words(page)


def test_a_first_look_is_at_a_run_and_not_at_its_ceiling(open_page: Open, store: Store) -> None:
    run_id, wanted = replay.fill(store, SPEC, ALL), ceilings.settings(SPEC)
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
    assert dict(page.query_params)["d"] in ("digits", ["digits"])
    page.selectbox(key=next(box.key for box in page.selectbox if box.label == "Method")).select("naive").run()
    assert next(box.value for box in page.selectbox if box.label == "Method") == "naive"
    assert page.radio[0].value == "prior-const"


def test_a_dataset_is_known_by_its_title_too(open_page: Open) -> None:
    page = open_page("train", v="1", d="AG News")
    assert not any("must be one of" in error.value for error in page.error)
    assert dict(page.query_params)["d"] in ("ag_news", ["ag_news"])


def test_a_dataset_that_nobody_knows_leaves_the_link_but_may_be_typed(open_page: Open) -> None:
    page = open_page("train", v="1", d="nonsense")
    assert not page.error
    assert dict(page.query_params)["d"] in ("digits", ["digits"])
    assert not open_page("train", v="1", d="own:elsewhere").warning
    typed = train_form.codec("cosine", "class-incremental").write({"dataset": "nonsense"})
    assert typed["d"] == "nonsense", "the form says what is wrong with it"


def test_a_network_that_nobody_knows_is_told_in_a_sentence(open_page: Open) -> None:
    page = open_page("train", v="1", bb="timm:no such model")
    assert not page.exception
    assert "Network for the features = timm:no such model" in words(page)


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
    assert not page.exception
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
    _button(page, "Stop").click()  # type: ignore[union-attr]
    page.run()
    assert not page.exception
    assert f"had {said} before Stop reached it; its results are kept" in words(page)
    assert store.get(run_id).status == end


def test_a_run_of_other_settings_than_the_forms_says_so_and_gives_them(open_page: Open, store: Store) -> None:
    """Whoever comes back meets the newest run beside a form that starts from the first preset."""
    run_id = replay.fill(store, SPEC, ALL)
    said = f"**{store.get(run_id).name}** has other settings than the form."
    page = open_page("train")
    assert said in words(page)
    _button(page, "Load its settings").click()  # type: ignore[union-attr]
    page.run()
    assert not page.exception
    assert "with other settings" not in words(page)
    assert page.query_params["run"] in (run_id, [run_id])
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


def test_a_run_whose_results_wait_for_the_store_says_so_after_some_seconds(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = replay.fill(store, SPEC, HALF, status="running")
    assert "wait in a file" not in words(open_page("train", run=run_id))
    waiting = Journal(run_id)
    waiting.begin()
    waiting.keep(len(HALF) + 1, ALL[len(HALF) :])
    assert "wait in a file" not in words(open_page("train", run=run_id))
    monkeypatch.setattr(run_panel, "_WAITS_SECONDS", 0.0)
    assert "The run goes on: its results wait in a file" in words(open_page("train", run=run_id))


def test_forgetting_is_not_printed_after_one_task(open_page: Open, store: Store) -> None:
    first = [event for event in ALL if not isinstance(event, TaskLearned) or event.task < 1][:13]
    page = open_page("train", run=replay.fill(store, SPEC, first, status="running"))
    assert "Forgetting is defined from the second task on." in words(page)


def test_what_is_not_there_yet_is_said_once_and_in_words(open_page: Open, store: Store) -> None:
    page = open_page("train", run=replay.fill(store, SPEC, [], status="queued"))
    for sentence in ("The first point appears", "The first row appears", "Forgetting is defined from the second"):
        assert words(page).count(sentence) == 1
    assert not page.get("plotly_chart"), "a figure of nothing would not break its sentence on a narrow screen"


def test_start_creates_a_run_with_the_settings_of_the_form(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.submit", lambda self, run_id: None)
    page = open_page("train", v="1", e="0.5,inf", sd="0", l="prior", **{"s.tasks": "2"})
    _button(page, "Start").click()  # type: ignore[union-attr]
    page.run()
    (run,) = store.list_runs()
    assert run.spec.privacy.epsilons == (0.5, math.inf)
    assert run.spec.labels == "prior"
    assert run.spec.model_dump()["scenario"]["tasks"] == 2
    assert page.query_params["run"] in (run.id, [run.id])
    assert "Queued" in words(page)


def test_a_computer_with_a_card_offers_a_choice_of_device_and_starts_the_run_there(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Device" not in [box.label for box in open_page("train").selectbox]
    cards = (devices.Device("cpu", "Processor"), devices.Device("cuda:0", "A card (8 GB)"))
    monkeypatch.setattr(devices, "found", lambda: cards)
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.submit", lambda self, run_id: None)
    page = open_page("train", v="1", e="0.5", sd="0")
    (box,) = (box for box in page.selectbox if box.label == "Device")
    assert (box.options, box.value) == (["Processor", "A card (8 GB)"], "cuda:0")
    _button(page, "Start").click()  # type: ignore[union-attr]
    page.run()
    assert [run.device for run in store.list_runs()] == ["cuda:0"]
    page = open_page("train", v="1", e="0.5", sd="0")
    next(box for box in page.selectbox if box.label == "Device").select("cpu").run()
    _button(page, "Start").click()  # type: ignore[union-attr]
    page.run()
    assert sorted(run.device for run in store.list_runs()) == ["cpu", "cuda:0"]


def test_where_a_run_goes_is_asked_only_where_there_are_several_machines(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Where" not in [box.label for box in open_page("train").selectbox]
    monkeypatch.setattr(machines, "can_share", lambda store: True)
    monkeypatch.setattr(machines, "present", lambda store: {"lab1": ["cpu"], "lab2": ["cpu"]})
    monkeypatch.setattr("dpcl_core.runs.executor.LocalExecutor.submit", lambda self, run_id: None)
    page = open_page("train", v="1", e="0.5", sd="0")
    (box,) = (box for box in page.selectbox if box.label == "Where")
    assert box.options == ["This computer", "All machines: lab1, lab2"]
    box.select("All machines").run()
    _button(page, "Start").click()  # type: ignore[union-attr]
    page.run()
    (run,) = store.list_runs()
    assert store.split_of(run.id) == Split(2, "local", "cpu")
    assert run.device == devices.here("cpu")


def test_a_process_gets_ready_for_the_method_of_the_form_and_for_nobody_who_only_reads(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "dpcl_core.runs.warm_worker.WarmWorker.expect", lambda self, url, *modules, device: expected.append(modules)
    )
    open_page("start")
    assert expected == []
    open_page("train", m="naive")
    assert expected == [("dpcl_core.methods.features.naive",)]
    open_page("train", m="pecl")
    assert expected[1:] == [("dpcl_core.methods.language.pecl", "dpcl_core.backbones.language.libraries")]


def test_impossible_settings_disable_start_and_say_why(open_page: Open) -> None:
    page = open_page("train", v="1", **{"s.tasks": "11"})
    assert any("scenario.tasks" in error.value.replace("\\", "") for error in page.error)
    assert _button(page, "Start").disabled  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dataset", "network", "is_offered"),
    [("mnist", "lite0", True), ("cifar10-100", "lite0", False), ("digits", "pixels", False)],
)
def test_axes_are_offered_where_there_are_some_and_left_out_elsewhere(
    open_page: Open, dataset: str, network: str, is_offered: bool
) -> None:
    page = open_page("train", v="1", d=dataset, bb=network, ax="64")
    assert [box.value for box in page.number_input if box.label == "Axes"] == ([64] if is_offered else [])
    assert ("ax" in page.query_params) is is_offered
    assert not any("axes = 64" in error.value.replace("\\", "") for error in page.error)


def test_delta_above_one_over_people_is_refused(open_page: Open) -> None:
    page = open_page("train", v="1", dl="0.01")
    assert any("δ = 0.01" in error.value.replace("\\", "") for error in page.error)
    assert _button(page, "Start").disabled  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("query", "notice"),
    [
        ({"e": "banana"}, "The link asks for ε = banana; using 1,8 instead."),
        ({"d": "nonsense"}, "The link asks for dataset = nonsense; using digits instead."),
        ({"run": "nonsense"}, "Showing an example instead."),
        ({"run": "0123456789ab"}, "Showing an example instead."),
        ({"zzz": "1"}, "The link also has zzz"),
    ],
)
def test_broken_links_give_their_notice(open_page: Open, query: dict[str, str], notice: str) -> None:
    page = open_page("train", v="1", **query)
    assert not page.exception
    assert any(notice in warning.value.replace("\\", "") for warning in page.warning)


def test_link_of_a_run_fills_the_form_with_its_settings(open_page: Open, store: Store) -> None:
    spec = replay.a_spec(labels="prior", tasks=2, seeds=(0,))
    run_id = replay.fill(store, spec, replay.recorded(spec, n_tasks=2))
    page = open_page("train", run=run_id)
    assert page.radio[0].value == "prior"
    assert next(n for n in page.number_input if n.label == "Tasks").value == 2
    assert page.query_params["l"] in ("prior", ["prior"])


def test_a_budget_that_no_model_survives_gets_a_note_and_can_still_be_started(open_page: Open) -> None:
    page = open_page("train", v="1", e="0.1,8")
    page.session_state["noise-warning"] = True  # a popover is drawn when it is opened
    page.run()
    (note,) = [info.value.replace("\\", "") for info in page.markdown if "longest signal" in info.value]
    assert "ε = 0.1 needs noise 4.1 times" in note
    assert not _button(page, "Start").disabled  # type: ignore[union-attr]
    assert "longest signal" not in words(open_page("train", v="1", e="8"))


def test_a_budget_that_no_noise_keeps_is_told_before_the_start(open_page: Open) -> None:
    page = open_page("train", v="1", m="peft-ensemble", e="0.0001,8")
    page.session_state["noise-warning"] = True
    assert not page.run().exception
    assert "with no noise multiplier up to a million can that be shown" in words(page)


def test_a_learned_list_says_how_many_people_a_label_needs(open_page: Open) -> None:
    page = open_page("train", v="1", l="dp-learned", e="0.1,1")
    assert not page.exception
    needed = "853 people (ε = 0.1) or 109 people (ε = 1)"
    assert f"A label is as likely listed as not when it has {needed} in a task." in words(page)
    page = unfolded(page, "more")
    (share,) = [box for box in page.number_input if box.label.startswith("Share of ε")]
    page = share.set_value(0.5).run()
    assert page.query_params["ls"] == "0.5"
    assert "853" not in words(page)
    assert not any(box.label == "Labels assumed public" for box in page.multiselect)


def test_choosing_labels_from_data_flips_the_form_at_once(open_page: Open) -> None:
    page = open_page("train")
    assert "not-dp" not in words(page)
    page.radio[0].set_value("data").run()
    assert "Not DP" in words(page)


def test_only_lists_of_labels_that_a_method_takes_can_be_chosen(open_page: Open) -> None:
    page = open_page("train", m="naive", l="data")
    (lists,) = [radio for radio in page.radio if radio.label == "Label list"]
    assert lists.options == ["One public list"]
    assert "does not go with “From the data: not DP”" in words(page)
    (lists,) = [radio for radio in open_page("train", m="cosine", l="data").radio if radio.label == "Label list"]
    assert len(lists.options) == 4
    assert lists.value == "data"


def test_undo_brings_the_form_back(open_page: Open) -> None:
    page = open_page("train")
    page.radio[0].set_value("prior").run()
    assert page.radio[0].value == "prior"
    _button(page, "Undo").click()  # type: ignore[union-attr]
    page.run()
    assert page.radio[0].value == "prior-const"
    _button(page, "Redo").click()  # type: ignore[union-attr]
    page.run()
    assert page.radio[0].value == "prior"


def test_the_form_is_kept_over_a_visit_to_another_page(open_page: Open) -> None:
    page = open_page("train")
    page.radio[0].set_value("prior").run()
    page.query_params.clear()  # as the browser does on a change of page
    page.switch_page("pages/about.py").run()
    assert page.title[0].value == "About"
    page.query_params.clear()
    page.switch_page("pages/train.py").run()
    assert page.radio[0].value == "prior"


def test_every_spec_survives_the_form(home: object) -> None:
    from dpcl_core import checks, presets

    for spec in [*(presets.load(name) for name in presets.names()), replay.a_spec(labels="prior", tasks=2, epsilons=(0.3,))]:
        read = train_form.codec(spec.method, spec.scenario.kind).read(train_form.parameters_of(spec))
        assert not read.notices
        assert checks.parse(train_form.raw_of(read.values)) == spec


def test_one_sentence_says_where_the_run_ended_and_the_ceiling_is_a_press_away(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    run_id = replay.fill(store, spec, replay.recorded(spec))
    page = open_page("train", v="1", run=run_id)
    assert "At ε = 1 the run ends at " in words(page)
    assert "guessing gives 10." in words(page)
    page.button(key="ceiling").click().run()
    assert not page.exception
    (queued,) = [run for run in store.list_runs() if run.id != run_id]
    assert queued.spec == ceilings.settings(spec)
    assert not [button for button in page.button if button.key == "ceiling"], "one is enough"


def test_a_ceiling_of_the_store_is_drawn_and_not_offered_again(open_page: Open, store: Store) -> None:
    spec = replay.a_spec()
    wanted = ceilings.settings(spec)
    replay.fill(store, wanted, replay.recorded(wanted))
    page = open_page("train", v="1", run=replay.fill(store, spec, replay.recorded(spec)))
    assert "all at once without noise" in words(page)
    assert not [button for button in page.button if button.key == "ceiling"]


def test_a_ceiling_that_has_ended_since_the_last_look_is_not_trained_again(open_page: Open, store: Store) -> None:
    """Pages look for ceilings every few seconds; one that takes less time must not be called none, nor be trained twice."""
    spec = replay.a_spec()
    run_id = replay.fill(store, spec, replay.recorded(spec))
    page = open_page("train", v="1", run=run_id)
    wanted = ceilings.settings(spec)
    replay.fill(store, wanted, replay.recorded(wanted))
    page.run()
    assert "No ceiling" not in words(page)
    page.button(key="ceiling").click().run()
    assert len(store.list_runs()) == 2
    assert "all at once without noise" in words(page)
    assert not [button for button in page.button if button.key == "ceiling"]


def test_a_run_of_all_tasks_at_once_that_failed_is_no_ceiling_and_not_offered_again(
    open_page: Open, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replay.a_spec()
    wanted = ceilings.settings(spec)
    replay.fill(store, wanted, replay.recorded(wanted))
    better = making.run(lambda epsilon, seed: 0.999, spec=spec, epsilons=(math.inf,))
    monkeypatch.setattr(measured, "all_recorded", lambda: (better,))
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


def test_a_method_without_noise_offers_the_budget_it_takes(open_page: Open) -> None:
    page = open_page("train", v="1", m="joint-network", e="1")
    assert not page.exception
    assert page.button(key="start").disabled
    mend = page.button(key="mend")
    assert mend.label == "Use ε = ∞ instead"
    mend.click().run()
    assert not page.exception
    assert not page.button(key="start").disabled
    assert page.query_params["e"] == "inf"


def test_a_refused_pair_of_method_and_data_names_all_that_changes(open_page: Open) -> None:
    page = open_page("train", v="1", m="cslr-server-head")
    mend = page.button(key="mend")
    assert mend.label == "Use settings that go together"
    assert "They are: " in words(page)
    mend.click().run()
    assert not page.exception
    assert not page.button(key="start").disabled


def test_the_form_names_its_question_until_something_changes_and_knows_the_way_back(open_page: Open) -> None:
    page = open_page("train", question="blurry-digits")
    assert not page.exception
    title = presets.about("blurry-digits").title
    assert f"From the question “{title}”." in words(page).replace("\\", "")
    assert page.query_params["s"] == "i-blurry"
    page.selectbox(key=next(box.key for box in page.selectbox if box.label == "Method")).set_value("naive").run()
    assert f"From the question “{title}”; changed." in words(page).replace("\\", "")
    page.button(key="back-to-question").click().run()
    assert not page.exception
    assert f"From the question “{title}”." in words(page).replace("\\", "")
    assert page.query_params["question"] == "blurry-digits"


def test_folded_settings_are_those_of_the_link_and_stay_when_the_fold_is_closed(open_page: Open) -> None:
    given = {"tr": "40", "dl": "0.001", "n": "seeded", "tn": "public", "a": "replace", "e": "0.3,1", "pl": "0,3,4,7,8"}
    page = open_page("train", v="1", **given)
    assert not page.exception
    folded = {key: page.query_params[key] for key in given}
    assert not any(box.label == "Noise" for box in page.radio)
    page = unfolded(page, "more")
    assert {key: page.query_params[key] for key in given} == folded
    (noise,) = [box for box in page.radio if box.label == "Noise"]
    assert noise.value == "seeded"
    page = noise.set_value("release").run()
    page = unfolded(page, "more", is_open=False)
    assert "n" not in page.query_params
    assert [box.value for box in page.radio if box.label == "Noise"] == ["release"]
