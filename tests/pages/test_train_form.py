"""The form of the Train page: what can be chosen, what is refused, and what Start makes of it."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core import checks, presets
from dpcl_core.errors import DataMissing
from dpcl_core.papers import questions
from dpcl_core.privacy.statement import NO_ODDS
from dpcl_core.runs import executor, process
from dpcl_core.runs.run import Split
from dpcl_core.runs.store import Store
from dpcl_core.scenarios.catalog import Blurry
from dpcl_core.spec import RunSpec
from pages.parts import start_box, train_form
from tests.data.making import write_pair
from tests.pages.conftest import Open, Patch, address, box, labels, press, turned, unfolded, words
from tests.support import replay, tuned

_EPOCHS = {"m": "agem", "e": "inf", "p.variant": "heterogeneous"}


def test_a_dataset_of_ones_own_can_be_chosen(open_page: Open, tmp_path: Path, monkeypatch: Patch) -> None:
    write_pair(tmp_path / "data" / "mine", [0, 1] * 20, [0, 1])
    monkeypatch.setenv("DPCL_DATA", str(tmp_path / "data"))
    st.cache_data.clear()
    page = open_page("train")
    dataset = next(box for box in page.selectbox if box.label == "Dataset")
    assert "mine (own data)" in dataset.options
    page = dataset.set_value("own:mine").run()
    assert not page.error, "tasks that fit came along"
    assert (address(page)["d"], address(page)["e"], address(page)["sd"]) == ("own:mine", "1", "0"), "one model, one release"


def test_a_dataset_is_known_by_its_title_too_and_one_that_nobody_knows_leaves_the_link(open_page: Open) -> None:
    page = open_page("train", v="1", d="AG News")
    assert not any("must be one of" in error.value for error in page.error)
    assert address(page)["d"] == "ag_news"
    page = open_page("train", v="1", d="nonsense")
    assert not page.error
    assert address(page)["d"] == "digits"
    assert not open_page("train", v="1", d="own:elsewhere").warning
    typed = train_form.codec("cosine", "class-incremental").write({"dataset": "nonsense"})
    assert typed["d"] == "nonsense", "the form says what is wrong with it"


def test_start_creates_a_run_with_the_settings_of_the_form(open_page: Open, store: Store, idle: None) -> None:
    page = open_page("train", v="1", e="0.5,inf", sd="0", l="prior", **{"s.tasks": "2"})
    press(page, "Start")
    (run,) = store.list_runs()
    assert (run.spec.privacy.epsilons, run.spec.labels) == ((0.5, math.inf), "prior")
    assert asdict(run.spec)["scenario"]["tasks"] == 2
    assert address(page)["run"] == run.id
    assert "Queued" in words(page)


def test_a_computer_with_a_card_offers_a_device(open_page: Open, store: Store, monkeypatch: Patch, idle: None) -> None:
    assert not {"Device", "Where"} & {field.label for field in open_page("train").selectbox}
    cards = (process.Device("cpu", "Processor"), process.Device("cuda:0", "A card (8 GB)"))
    monkeypatch.setattr(process, "devices", lambda: cards)
    page = open_page("train", v="1", e="0.5", sd="0")
    device = box(page, "selectbox", "Device")
    assert (device.options, device.value) == (["Processor", "A card (8 GB)"], "cuda:0")
    press(page, "Start")
    page = open_page("train", v="1", e="0.5", sd="0")
    press(box(page, "selectbox", "Device").select("cpu").run(), "Start")
    assert [run.device for run in store.list_runs()] == ["cpu", "cuda:0"]


def test_a_choice_of_machines_is_offered(open_page: Open, store: Store, monkeypatch: Patch, idle: None) -> None:
    monkeypatch.setattr(executor, "can_share", lambda store: True)
    monkeypatch.setattr(executor, "present_machines", lambda store: {"lab1": ["cpu"], "lab2": ["cpu"]})
    where = box(page := open_page("train", v="1", e="0.5", sd="0"), "selectbox", "Where")
    assert where.options == ["This computer", "All machines: lab1, lab2"]
    where.select("All machines").run()
    press(page, "Start")
    (run,) = store.list_runs()
    assert store.split_of(run.id) == Split(2, "local", "cpu")
    assert run.device == process.here("cpu")


@pytest.mark.parametrize(("query", "said", "label", "mended"), [
    ({"bb": "timm:no such model"}, "Network for the features = timm:no such model", "", {}),
    ({"s.tasks": "11"}, "Tasks = 11: must", "Use “Tasks” = 10", {"s.tasks": "10"}),
    ({"d": "mnist", "bb": "lite0", "ax": "3000"}, "= 3000: must be at most", "", {}),
    ({"dl": "0.01"}, "δ = 0.01", "", {}),
    (_EPOCHS, "Epochs of each task = nothing: must be 5", "Use the method's defaults instead", {}),
    ({"e": "1000000000"}, "Privacy budget ε = 1,000,000,000: must be at most 1,000,000", "Use ε = 1,000,000 instead",
     {"e": "1000000"}),
    ({"m": "joint-network", "e": "1"}, "", "Use ε = ∞ instead", {"e": "inf"}),
    ({"m": "peft-ensemble", "p.sample_rate": "0.0001"}, "", "Use “Sampling rate q” = ", {}),
    ({"e": "1000000000", "s.tasks": "11"}, "", "Use settings that go together", {"e": "1000000", "s.tasks": "10"}),
])  # fmt: skip
def test_impossible_settings_disable_start_say_why_and_are_mended_at_a_press(
    open_page: Open, query: dict[str, str], said: str, label: str, mended: dict[str, str]
) -> None:
    page = open_page("train", v="1", **query)
    assert any(said in error.value.replace("\\", "") for error in page.error)
    assert page.button(key="start").disabled
    assert ("They are: " in words(page)) is (label == "Use settings that go together")
    if label:
        assert page.button(key="mend").label.startswith(label)
        page.button(key="mend").click().run()
        assert not page.button(key="start").disabled
        assert mended.items() <= address(page).items()


@pytest.mark.parametrize(("dataset", "network", "is_offered"), [
    ("mnist", "lite0", True), ("cifar10-100", "lite0", False), ("digits", "pixels", False)
])
def test_axes_are_offered_where_there_are_some(open_page: Open, dataset: str, network: str, is_offered: bool) -> None:
    page = open_page("train", v="1", d=dataset, bb=network, ax="64")
    assert [box.value for box in page.number_input if box.label == "Axes"] == ([64] if is_offered else [])
    assert ("ax" in page.query_params) is is_offered
    assert not any("axes = 64" in error.value.replace("\\", "") for error in page.error)


def _chosen(page: AppTest, label: str, name: str) -> AppTest:
    """The page after another option of a select box was chosen."""
    return box(page, "selectbox", label).set_value(name).run()


_CSLR = {"v": "1", "m": "cslr-central", "d": "ag_news", "s": "federated", "bb": "minilm", "e": "4"}


@pytest.mark.parametrize(("query", "method"), [
    ({"v": "1", "question": "permuted-mnist-lifelong"}, "cslr-central"),
    ({"v": "1", "m": "l2dp-ml", "d": "digits", "e": "1"}, "cslr-central"),
    ({"v": "1", "question": "digits-peft-head"}, "dp-agem"),
    (_CSLR, "l2dp-ml"),
    (_CSLR, "cslr-published"),
])  # fmt: skip
def test_another_method_begins_with_its_own_defaults(open_page: Open, query: dict[str, str], method: str) -> None:
    page = open_page("train", **query)
    filled, first = dict(page.query_params), box(page, "selectbox", "Method").value
    page = unfolded(_chosen(page, "Method", method), "advanced")
    assert "params." not in words(page)
    assert not [key for key in page.query_params if key.startswith("p.")], "nothing but defaults"
    if query.get("question") == "digits-peft-head":
        assert dict(_chosen(page, "Method", first).query_params) == filled


def test_what_a_visitor_typed_goes_along_where_the_next_method_allows_it(open_page: Open) -> None:
    page = open_page("train", v="1", question="digits-peft-head")
    box(page, "number_input", "Epochs").set_value(7)
    page = _chosen(_chosen(page.run(), "Method", "naive"), "Method", "dp-agem")
    assert box(unfolded(page, "advanced"), "number_input", "Epochs").value == 7
    assert {key for key in page.query_params if key.startswith("p.")} == {"p.epochs"}
    page = unfolded(open_page("train", v="1", m="l2dp-ml", d="digits", e="1", **{"s.tasks": "2"}), "advanced")
    page = _chosen(_chosen(page, "Head", "per-task"), "Method", "cslr-central")
    assert "p.head" not in page.query_params
    assert "s.tasks" not in _chosen(page, "Stream", "i-blurry").query_params, "another stream begins with its own"


def test_the_stream_says_whether_its_lists_are_read_from_the_examples(open_page: Open, monkeypatch: Patch) -> None:
    def warned(**link: str) -> bool:
        return "Labels from the data: no bound holds" in words(open_page("train", v="1", s="i-blurry", **link))

    assert warned(l="prior", **{"s.task_prior": "occurring"})
    assert not warned(l="prior-const", **{"s.task_prior": "occurring"})
    assert not warned(l="prior")
    monkeypatch.setattr(Blurry, "reads_lists", property(lambda self: self.task_prior == "home"))
    assert warned(l="prior")


@pytest.mark.parametrize("key", ["question", "preset"])
def test_a_link_to_a_question_may_say_more(open_page: Open, key: str) -> None:
    """The question's settings, with what the link says in their place; messengers add keys that nobody means."""
    as_asked, title = start_box.question_link("photos-cosine"), f"“{presets.about('photos-cosine').title}”"
    for more in ({"fbclid": "abc", "utm_source": "mail"}, {"v": "1", "e": "1"}, {"foo": "1"}):
        page = open_page("train", **{key: "photos-cosine", **more})
        kept = {name: more[name] for name in ("e",) if name in more}
        assert {**as_asked, **kept}.items() <= address(page).items()
        assert title in words(page)
        assert (f"{title}, changed" in words(page)) is bool(kept)
        assert [("also has foo" in one.value) for one in page.warning] == [True] * ("foo" in more)
    page = open_page("train", **{key: "digits-peft-head", "m": "cosine"})
    assert not page.warning
    assert (address(page)["d"], address(page).get("m", "cosine")) == ("digits", "cosine")
    assert not [name for name in address(page) if name.startswith("p.")], "those of the question's method"


def test_the_form_names_its_question_until_something_changes_and_knows_the_way_back(open_page: Open) -> None:
    page, changed = open_page("train", question="blurry-digits"), f"“{presets.about('blurry-digits').title}”, changed"
    assert page.query_params["s"] == "i-blurry"
    assert changed not in words(page)
    assert changed in words(_chosen(page, "Method", "naive"))
    page.button(key="back-to-question").click().run()
    assert changed not in words(page)
    assert page.query_params["question"] == "blurry-digits"


def test_a_link_to_a_run_may_say_more_and_a_tracker_alone_is_no_link(open_page: Open, store: Store) -> None:
    run_id = replay.finished(store, replay.a_spec(labels="prior", tasks=2, seeds=(0,)), n_tasks=2)
    alone = address(open_page("train", run=run_id))
    assert (alone["l"], alone["s.tasks"]) == ("prior", "2")
    page = open_page("train", run=run_id, fbclid="abc")
    assert not page.warning
    assert alone.items() <= address(page).items()
    other = address(open_page("train", run=run_id, e="4"))
    assert {**alone, "run": "", "e": "4"} == {"run": "", **other}, "a run stands beside its own settings alone"
    page = open_page("train", gclid="abc")
    assert not page.warning
    assert address(page) == address(open_page("train"))
    assert address(page).get("run") != run_id


@pytest.mark.parametrize(("query", "said"), [
    ({"e": "0.1,8"}, "ε = 0.1 needs noise 4.1 times"),
    ({"m": "peft-ensemble", "e": "0.0001,8"}, "with no noise multiplier up to a million"),
    ({"e": "8"}, ""),
])  # fmt: skip
def test_a_budget_that_no_model_survives_is_told_before_the_start(open_page: Open, query: dict[str, str], said: str) -> None:
    page = turned(open_page("train", v="1", **query), "noise-warning")  # a popover is drawn when it is opened
    shown = words(page)
    assert said in shown
    assert ("longest signal" in shown) is (query["e"] == "0.1,8")
    assert not page.button(key="start").disabled


def test_a_learned_list_says_how_many_people_a_label_needs(open_page: Open) -> None:
    page = open_page("train", v="1", l="dp-learned", e="0.1,1")
    needed = "853 people (ε = 0.1) or 109 people (ε = 1)"
    assert f"A label needs about {needed} in a task to have an even chance of being found." in words(page)
    page = unfolded(page, "more")
    (share,) = [box for box in page.number_input if box.label.startswith("Share of ε")]
    page = share.set_value(0.5).run()
    assert page.query_params["ls"] == "0.5"
    assert "853" not in words(page)
    assert not any(box.label == "Labels assumed public" for box in page.multiselect)


def test_choosing_labels_from_data_flips_the_form_at_once(open_page: Open) -> None:
    page = open_page("train")
    assert "not-dp" not in words(page)
    assert "right with probability at most" in words(page)
    page = _chosen(page, "Label list", "data")
    assert "Not DP" in words(page)
    # A head that is not private: no bound holds for what is released together, but for the replay alone.
    replay_alone = open_page("train", v="1", d="ag_news", m="cslr-central", s="federated", **{"p.head": "clean"})
    for said in (words(page), words(replay_alone)):
        assert "right with probability at most" not in said
        assert NO_ODDS in said


def test_what_cannot_go_with_the_data_says_why_beside_its_name(open_page: Open) -> None:
    page = open_page("train", m="cosine")
    methods_shown, streams = (box(page, "selectbox", name).options for name in ("Method", "Stream"))
    assert any("(not here: no texts)" in one for one in methods_shown), "language models, on pictures"
    assert any("(not here: no clients)" in one for one in streams)
    with_clients = box(open_page("train", m="label-means"), "selectbox", "Stream").options
    assert not any("(not here: no clients)" in one for one in with_clients)


def test_undo_brings_the_form_back_and_it_is_kept_over_a_visit_to_another_page(open_page: Open) -> None:
    page = _chosen(open_page("train"), "Label list", "prior")
    for step, shown in (("Undo", "prior-const"), ("Redo", "prior")):
        assert box(press(page, step), "selectbox", "Label list").value == shown
    for name in ("about", "train"):
        page.query_params.clear()  # as the browser does on a change of page
        page.switch_page(f"pages/{name}.py").run()
    assert box(page, "selectbox", "Label list").value == "prior"


STREAMS = (
    {"kind": "split", "tasks": 5, "classes_per_task": 2, "order": [5, 1, 2, 3, 4]},
    {"kind": "permuted", "tasks": 20, "of": "values", "images": "disjoint", "order": list(range(20, 0, -1))},
    {"kind": "source-incremental", "order": ["50 Hz", "5 Hz", "20 Hz"]},
)


def test_every_spec_survives_the_form(home: object) -> None:
    specs = [*map(presets.load, presets.names()), replay.a_spec(labels="prior", tasks=2, epsilons=(0.3,))]
    specs += [replace(tuned.a_tuning().base, tuned=on) for on in ("no", "public", "private")]
    data = {"dataset": "har-wisdm", "train_per_source": 300}
    for spec in [*specs, *(checks.parse({"data": data, "scenario": stream}) for stream in STREAMS)]:
        read = train_form.CODEC.read(train_form.parameters_of(spec))
        assert not read.notices
        assert checks.parse(train_form.raw_of(read.values)) == spec


@pytest.mark.parametrize("name", ["paper-split-cifar-100", "paper-pecl-main"])
def test_a_question_without_its_network_leads_to_its_smaller_form(open_page: Open, name: str, monkeypatch: Patch) -> None:
    asked = checks.check_run

    def check(spec: RunSpec) -> object:
        if spec.digest() == questions.digests(name)[0]:
            raise DataMissing("data.backbone", spec.data.backbone, "is not here")
        return spec if spec.digest() == questions.digests(f"{name}-small")[0] else asked(spec)

    monkeypatch.setattr(checks, "check_run", check)
    page = open_page("train", v="1", question=name)
    assert page.button(key="start").disabled
    assert f"“{presets.about(name).title}”" in words(page)
    assert "Back to it" not in labels(page)
    page = press(page, "The same, small")
    assert page.query_params["question"] == f"{name}-small"
    assert "The same, small" not in labels(page)


def test_folded_settings_are_those_of_the_link_and_stay_when_the_fold_is_closed(open_page: Open) -> None:
    given = {
        "tr": "40", "dl": "0.0000123456789", "n": "seeded", "tn": "public", "a": "replace", "e": "0.12345678,123456.75",
        "pl": "0,3,4,7,8",
    }  # fmt: skip
    page = open_page("train", v="1", **given)
    folded = {key: page.query_params[key] for key in given}
    assert {**given, "dl": float(given["dl"])} == {**folded, "dl": float(folded["dl"])}, "budgets keep all their digits"
    assert not any(field.label == "Noise" for field in page.radio)
    page = unfolded(page, "more")
    assert {key: page.query_params[key] for key in given} == folded
    noise = box(page, "radio", "Noise")
    assert noise.value == "seeded"
    page = unfolded(noise.set_value("release").run(), "more", is_open=False)
    assert "n" not in page.query_params
    assert [field.value for field in page.radio if field.label == "Noise"] == ["release"]


def test_without_noise_alone_the_form_claims_no_epsilon_whatever_the_method_does(open_page: Open) -> None:
    for method in ("l2dp-ml", "cosine"):
        said = words(open_page("train", v="1", m=method, d="digits", e="inf"))
        assert "No noise is added: no privacy." in said
        assert "claimed by its paper" not in said
    assert "claimed by its paper" in words(open_page("train", v="1", m="l2dp-ml", d="digits", e="1,inf"))
