"""The gallery of questions, and an answer page in every state of its runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs

import pytest
import streamlit as st

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.elements.element import GALLERY, Element
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import questions
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Status
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from pages.parts import figure_card
from tests.pages.conftest import Open, Patch, words
from tests.support import audited, replay

NAME = "digits-cosine"


@pytest.fixture
def pressable(monkeypatch: Patch) -> None:
    """Real buttons in place of the element that the browser draws: a press reports what the element would."""

    usual = figure_card.mounted

    def mounted(element: Element) -> Callable[..., None]:
        def draw(*, key: str, data: dict[str, Any], **on_change: Callable[[], None]) -> None:
            def press(what: str, name: object) -> None:
                st.session_state[key] = {what: name}
                on_change[f"on_{what}_change"]()

            for one in (one for group in data["groups"] for one in group["cards"]):
                for form in one["forms"]:
                    st.button("Open", key=f"open-{form['name']}", on_click=press, args=("open", form["name"]))
                if name := one["start"] and one["start"]["name"]:
                    st.button("Start", key=f"start-{name}", on_click=press, args=("start", name))
            st.button("Forged", key="forged", on_click=press, args=("start", "no question"))

        return draw if element is GALLERY else usual(element)

    monkeypatch.setattr(figure_card, "mounted", mounted)


@pytest.mark.parametrize("by", ["paper", "shows"])
def test_the_gallery_has_every_preset_once(open_page: Open, by: str) -> None:
    page = open_page("questions", by=by)
    (drawn,) = [json.loads(one.proto.bytes) for one in page.get("bidi_component")]
    forms = [form for group in drawn["groups"] for one in group["cards"] for form in one["forms"]]
    assert sorted(form["name"] for form in forms) == sorted(presets.names())
    assert all(parse_qs(form["query"][1:]) == {"v": ["1"], "question": [form["name"]], "by": [by]} for form in forms)
    assert all(form["said"].startswith(("About ", "Duration ", "Small. ", "Larger. ", "As published. ")) for form in forms)


def test_a_card_opens_its_answer_and_a_forged_press_is_nothing(open_page: Open, pressable: None) -> None:
    page = open_page("questions")
    page.button(key="forged").click().run()
    assert page.title[0].value == "Questions"
    page.button(key=f"open-{NAME}").click().run()
    assert page.title[0].value == presets.about(NAME).title


def test_a_question_under_way_cannot_be_started_twice(open_page: Open, store: Store) -> None:
    Sets(store).create(NAME, {"main": presets.load(NAME)})
    (drawn,) = [json.loads(one.proto.bytes) for one in open_page("questions").get("bidi_component")]
    cards = {one["forms"][0]["name"]: one for group in drawn["groups"] for one in group["cards"]}
    assert cards[NAME]["start"] is None
    assert "Under way" in cards[NAME]["forms"][0]["said"]
    assert cards["blurry-digits"]["start"]["name"] == "blurry-digits"


def test_only_a_run_of_ones_own_that_was_started_alone_is_under_way(
    open_page: Open, store: Store, monkeypatch: Patch, idle: None
) -> None:
    """Not the run of a set with the same settings, nor a waiting audit, nor another visitor's run."""
    spec = presets.load(NAME)
    Sets(store).create("blurry-digits", {"not-blurred": spec})
    Audits(store).create(replay.fill(store, spec, replay.recorded(spec)))
    page = open_page("questions", question=NAME)
    assert "Started on Train" not in words(page)
    assert not page.button(key="start-set").disabled
    alone = store.create(spec, name="alone")
    with monkeypatch.context() as others:
        others.setattr(Store, "may_change", lambda self, run: run.id != alone)
        assert "Started on Train" not in words(open_page("questions", question=NAME))
    assert "Started on Train: **alone**" in words(open_page("questions", question=NAME))
    (drawn,) = [json.loads(one.proto.bytes) for one in open_page("questions").get("bidi_component")]
    cards = {one["forms"][0]["name"]: one for group in drawn["groups"] for one in group["cards"]}
    assert cards[NAME]["start"] is None


def test_a_card_without_its_data_or_network_has_no_start_and_says_what_is_lacking(
    open_page: Open, monkeypatch: Patch
) -> None:
    photos, texts = "paper-split-cifar-100-small", "ag-news-cslr"
    (network,) = {spec.data.backbone for spec in questions.specs(photos).values()}
    monkeypatch.setattr(datasets, "available", lambda card: "put it there" if card.name == "ag_news" else None)
    monkeypatch.setattr(backbones, "available", lambda card: "put it there" if card.name == network else None)
    (drawn,) = [json.loads(one.proto.bytes) for one in open_page("questions").get("bidi_component")]
    cards = {one["forms"][0]["name"]: one for group in drawn["groups"] for one in group["cards"]}
    assert cards[texts]["forms"][0]["said"].endswith("Its data are not on this computer: AG News.")
    title = backbones.card(network).title
    assert cards[photos]["forms"][0]["said"].endswith(f"Its network is not on this computer: {title}.")
    assert cards[texts]["start"] is cards[photos]["start"] is None
    assert cards[NAME]["start"]["name"] == NAME


def test_records_answer_a_question_that_never_ran_here(open_page: Open) -> None:
    page = open_page("questions", question="cifar100-cosine")
    assert "recorded on " in words(page)
    assert page.get("plotly_chart")


def test_chance_is_drawn_as_recorded_where_the_data_are_not_here(
    open_page: Open, monkeypatch: Patch, tmp_path: Path
) -> None:
    """Six datasets together have no number of classes on their card."""
    monkeypatch.setenv("DPCL_DATA", str(tmp_path))
    (drawn,) = open_page("questions", question="paper-pecl-thousands-bundled").get("plotly_chart")
    assert "chance 20 %" in drawn.proto.spec


def test_start_queues_all_runs_as_one_set_and_stop_ends_it(open_page: Open, store: Store, idle: None) -> None:
    page = open_page("questions", question="blurry-digits")
    page.button(key="start-set").click().run()
    whole = Sets(store).newest("blurry-digits")
    assert whole is not None
    assert set(whole.runs) == set(presets.variants("blurry-digits"))
    assert {label: run.name for label, run in whole.runs.items()} == questions.titles("blurry-digits")
    assert "Queued" in words(page)
    page.button(key="stop-set").click().run()
    assert "Stopped: 0 of 4 runs finished, 4 cancelled" in words(page)


def test_a_deleted_run_of_a_set_is_neither_counted_nor_linked(open_page: Open, store: Store) -> None:
    sets, runs = Sets(store), presets.variants("blurry-digits")
    set_id = sets.create("blurry-digits", runs)
    first, second, third, last = sets.get(set_id).runs.values()
    for run in (first, second, third):
        assert store.claim(run.id)
        store.append(run.id, replay.recorded(run.spec))
        store.end(run.id, "finished")
    sets.request_stop(set_id)
    store.delete(first.id)
    page = open_page("questions", question="blurry-digits")
    assert "Stopped: 2 of 3 runs finished, 1 cancelled, 1 deleted" in words(page)
    linked = {parse_qs(link.proto.query_string).get("run", [""])[0] for link in page.get("page_link")}
    assert linked - {""} == {second.id, third.id, last.id}
    store.delete(last.id)
    assert "Finished: 2 of 2 runs finished, 2 deleted" in words(open_page("questions", question="blurry-digits"))
    store.delete(second.id)
    store.delete(third.id)
    page = open_page("questions", question="blurry-digits")
    assert "Start all 4 runs" in [button.label for button in page.button]
    assert "deleted" not in words(page)


@pytest.mark.parametrize(
    ("status", "said"),
    [("finished", "Finished: 1 of 1 run finished"), ("failed", "Ended with an error"), ("cancelled", "Stopped: ")],
)
def test_every_end_has_its_words(open_page: Open, store: Store, status: Status, said: str) -> None:
    spec = presets.load(NAME)
    sets = Sets(store)
    run_id = sets.create(NAME, {"main": spec})
    assert store.claim(run_id)
    store.append(run_id, replay.recorded(spec))
    store.end(run_id, status, replay.a_failure("diverged") if status == "failed" else None)  # type: ignore[arg-type]
    page = open_page("questions", question=NAME)
    assert said in words(page)
    assert ("ends at" in words(page)) == (status == "finished")
    moved = {"Accuracy over tasks", "Who remembers what", "since each one's best"}
    assert {part for part in moved if part in words(page)} == (moved if status == "finished" else set())


def test_the_answer_shows_what_an_audit_of_its_run_has_proved(open_page: Open, store: Store) -> None:
    spec = presets.load(NAME)
    run_id = replay.fill(store, spec, replay.recorded(spec))
    audited.fill(store, run_id, "finished", audited.result(1.0, proved=0.519))
    page = open_page("questions", question=NAME)
    assert "≥ 0.51 |" in words(page)  # a lower bound is rounded down
    assert "audited: at least 0.51" in page.get("plotly_chart")[0].proto.spec


def test_the_gallery_starts_the_smallest_form_and_goes_to_its_answer(
    open_page: Open, store: Store, pressable: None, idle: None
) -> None:
    page = open_page("questions", by="shows")
    page.button(key=f"start-{NAME}").click().run()
    assert Sets(store).newest(NAME) is not None
    assert page.title[0].value == presets.about(NAME).title


def test_a_question_without_a_result_says_what_start_will_do(open_page: Open) -> None:
    page = open_page("questions", question="blurry-digits")
    assert "nothing has been measured yet" in words(page)
    assert "To measure it: 4 runs" in words(page).replace("*", "")


def test_a_question_whose_only_run_was_started_on_train_shows_it_and_offers_no_second(open_page: Open, store: Store) -> None:
    spec = presets.load("digits-cosine", here=True)
    run_id = replay.fill(store, spec, [], status="running", name=presets.about("digits-cosine").title)
    page = open_page("questions", question="digits-cosine")
    said = words(page)
    assert "nothing has been measured yet" not in said
    assert "Running" in said
    assert "start-set" not in [one.key for one in page.button]
    assert store.end(run_id, "cancelled")
    assert "start-set" in [one.key for one in page.run().button]


def test_a_run_has_the_title_of_its_question_wherever_it_was_started(open_page: Open, store: Store, idle: None) -> None:
    page = open_page("questions", question="digits-cosine")
    page.button(key="start-set").click().run()
    assert [run.name for run in store.list_runs()] == [presets.about("digits-cosine").title]


def test_the_runs_are_listed_in_the_order_of_the_queue_and_can_be_told_apart(
    open_page: Open, store: Store, monkeypatch: Patch, idle: None
) -> None:
    monkeypatch.setattr(questions, "results", lambda name, store: {})
    monkeypatch.setattr(questions, "cheapest_first", lambda runs, store, device: dict(sorted(runs.items(), reverse=True)))
    page, titles = open_page("questions", question="blurry-digits"), questions.titles("blurry-digits")
    listed = "; ".join(titles[label] for label in sorted(titles, reverse=True))
    assert f"the cheapest first: {listed}. In all" in words(page)
    page.button(key="start-set").click().run()
    whole = Sets(store).newest("blurry-digits")
    assert whole is not None
    assert list(whole.runs) == sorted(titles, reverse=True)


def _without(monkeypatch: Patch, *lacking: str) -> None:
    """This computer lacks these networks, and has all others with all data."""
    monkeypatch.setattr(datasets, "available", lambda card: None)
    monkeypatch.setattr(backbones, "available", lambda card: f"put {card.name}" if card.name in lacking else None)


def test_what_start_lacks_is_said_before_and_a_smaller_form_is_offered(open_page: Open, monkeypatch: Patch) -> None:
    full, bundled = "paper-split-cifar-100", "paper-split-cifar-100-bundled"
    (network,) = {spec.data.backbone for spec in questions.specs(full).values()}
    _without(monkeypatch, network)
    page = open_page("questions", question=full)
    assert page.button(key="start-set").disabled
    assert f"Network for the features = “{backbones.card(network).title}”" in words(page)
    (smaller,) = [one.proto for one in page.get("page_link") if "can start here" in one.proto.label]
    assert parse_qs(smaller.query_string)["question"] == [bundled]
    assert not open_page("questions", question=bundled).button(key="start-set").disabled


def test_no_form_is_offered_that_lacks_something_too(open_page: Open, monkeypatch: Patch) -> None:
    forms = questions.of_preset("paper-split-cifar-100").forms.values()
    _without(monkeypatch, *(spec.data.backbone for form in forms for spec in questions.specs(form.name).values()))
    page = open_page("questions", question="paper-split-cifar-100")
    assert not any("can start here" in one.proto.label for one in page.get("page_link"))


def test_a_refused_start_speaks_as_the_form_does(open_page: Open, pressable: None, monkeypatch: Patch) -> None:
    (network,) = {spec.data.backbone for spec in questions.specs("paper-split-cifar-100-small").values()}
    _without(monkeypatch)
    page = open_page("questions")
    _without(monkeypatch, network)
    page.button(key="start-paper-split-cifar-100-small").click().run()
    assert f"Network for the features = “{backbones.card(network).title}”" in words(page)


def test_the_only_run_of_a_method_has_its_title() -> None:
    assert questions.titles(NAME) == {"main": methods.card("cosine").title}
    assert questions.titles("blurry-digits")["not-blurred"] == "Nothing strays"


def test_a_link_leads_back_to_the_gallery_that_was_just_left(
    open_page: Open, store: Store, pressable: None, idle: None
) -> None:
    """Start replaces the address; afterwards the same address is a link, not a browser that is behind."""
    page = open_page("questions", by="shows", v="1")
    page.button(key=f"start-{NAME}").click().run()
    (back,) = [link.proto for link in page.get("page_link") if "All questions" in link.proto.label]
    page.query_params.clear()
    for name, (value,) in parse_qs(back.query_string).items():
        page.query_params[name] = value
    page.run()
    assert page.title[0].value == "Questions"
    assert "from" not in page.query_params


def test_every_question_has_a_place_in_both_groupings() -> None:
    assert set(questions.SHOWS) == set(get_args(presets.Shows))
    assert {question.smallest.shows for question in questions.questions()} == set(questions.SHOWS)
