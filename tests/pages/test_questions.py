"""The gallery of questions, and an answer page in every state of its runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.elements.element import GALLERY, Element
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import answers, claims, questions
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Status
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from pages.parts import figure_card
from tests.pages.conftest import Open, Patch, drawings, words
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
                st.button("Open", key=f"open-{one['name']}", on_click=press, args=("open", one["name"]))
            st.button("Forged", key="forged", on_click=press, args=("open", "no question"))

        return draw if element is GALLERY else usual(element)

    monkeypatch.setattr(figure_card, "mounted", mounted)


def _cards(page: AppTest) -> dict[str, dict[str, str]]:
    """The cards of the gallery by the preset that each opens."""
    (drawn,) = [json.loads(one.proto.bytes) for one in page.get("bidi_component")]
    return {one["name"]: one for group in drawn["groups"] for one in group["cards"]}


def test_the_gallery_has_every_question_once_in_few_words_and_with_a_small_picture(open_page: Open) -> None:
    cards = _cards(open_page("questions", by="shows"))  # a link of earlier days
    names = [question.name for question in questions.questions()]
    assert sorted(questions.of_preset(name).name for name in cards) == sorted(names)
    assert all(parse_qs(one["query"][1:]) == {"v": ["1"], "question": [name]} for name, one in cards.items())
    assert max(len(one["asked"].split()) for one in cards.values()) <= 8
    assert max(len(one["verdict"].split()) for one in cards.values() if one["state"] != "not-run") <= 12
    assert max(len(one["picture"].encode()) for one in cards.values()) <= 6000
    assert {one["picture"][:4] for one in cards.values() if one["state"] != "not-run"} == {"<svg"}


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"p": "cslr"}, {"paper-cslr-anchors", "paper-cslr-lists"}), ({"d": "digits"}, {"digits-cosine", "blurry-digits"}),
        ({"m": "pecl"}, {"pecl-synthetic"}), ({"p": "lifelong", "a": "cannot tell"}, {"paper-harw", "paper-split-mnist"}),
    ],
)  # fmt: skip
def test_filters_stand_in_the_link_and_leave_the_questions_that_fit(
    open_page: Open, chosen: dict[str, str], left: set[str]
) -> None:
    page = open_page("questions", **chosen)
    shown = [questions.of_preset(name) for name in _cards(page)]
    assert left <= {question.name for question in shown}
    assert len(shown) < len(questions.questions())
    for question in shown:
        specs = [spec for form in question.forms.values() for spec in questions.specs(form.name).values()]
        assert question.paper == chosen.get("p", question.paper)
        assert "d" not in chosen or chosen["d"] in {spec.data.dataset for spec in specs}
        assert "m" not in chosen or chosen["m"] in {spec.method for spec in specs}
        assert answers.recorded()[question.name].state == chosen.get("a", answers.recorded()[question.name].state)
    assert {name: page.query_params[name] for name in chosen} == chosen
    assert all(name in parse_qs(one["query"][1:]) for one in _cards(page).values() for name in chosen), (
        "kept for the way back"
    )


def test_filters_that_leave_nothing_say_so(open_page: Open) -> None:
    page = open_page("questions", p="cslr", d="digits")
    (drawn,) = [json.loads(one.proto.bytes) for one in page.get("bidi_component")]
    assert drawn["groups"] == []
    assert "No question fits" in drawn["none"]


def test_links_of_published_numbers_lead_to_the_papers_side(open_page: Open) -> None:
    page = open_page("published", v="1", p="lifelong", x="paper-permuted-mnist", z="small", q="AF")
    asked = questions.of_preset("paper-permuted-mnist-small").asked
    assert page.title[0].value == asked
    assert "The paper's claims, tested in our runs" in words(page)
    told = [page.query_params[key] for key in ("question", "w", "q")]
    assert told == ["paper-permuted-mnist-small", "paper", "AF"]
    assert open_page("published", p="pecl").query_params["p"] == "pecl"


def test_an_answer_is_told_in_the_quantity_asked_with_what_is_excluded_and_how_to_cite_it(open_page: Open) -> None:
    said = words(open_page("questions", question="digits-cosine"))
    assert answers.recorded()["digits-cosine"].verdict in said
    assert "forgotten of the earlier tasks, points" in said or "Forgotten of the earlier tasks" in said
    undecided = answers.recorded()["paper-blurry"]
    assert undecided.excluded is not None
    assert f"Not decided: less than {claims.bound_text(undecided.excluded)} points either way." in words(
        open_page("questions", question="paper-blurry-small")
    )


def test_a_card_opens_its_answer_and_a_forged_press_is_nothing(open_page: Open, pressable: None) -> None:
    page = open_page("questions")
    page.button(key="forged").click().run()
    assert page.title[0].value == "Questions"
    page.button(key=f"open-{NAME}").click().run()
    assert page.title[0].value == questions.of_preset(NAME).asked


def test_a_question_under_way_cannot_be_started_twice(open_page: Open, store: Store) -> None:
    Sets(store).create(NAME, {"main": presets.load(NAME)})
    cards = _cards(open_page("questions"))
    assert "under way" in cards[NAME]["said"]
    assert "under way" not in cards["blurry-digits"]["said"]
    assert "start-set" not in [one.key for one in open_page("questions", question=NAME).button]


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
    assert "under way" in _cards(open_page("questions"))[NAME]["said"]


def test_a_card_without_a_result_says_what_it_lacks(open_page: Open, monkeypatch: Patch) -> None:
    photos, texts = "paper-split-cifar-100-small", "ag-news-cslr"
    (network,) = {spec.data.backbone for spec in questions.specs(photos).values()}
    empty = {
        question.name: replace(answers.recorded()[question.name], state="not run", verdict="", shown=None)
        for question in questions.questions()
    }
    monkeypatch.setattr(answers, "recorded", lambda: empty)
    monkeypatch.setattr(datasets, "available", lambda card: "put it there" if card.name == "ag_news" else None)
    monkeypatch.setattr(backbones, "available", lambda card: "put it there" if card.name == network else None)
    cards = _cards(open_page("questions"))
    assert cards[texts]["verdict"] == "Its data are not on this computer: AG News."
    assert cards[photos]["verdict"] == f"Its network is not on this computer: {backbones.card(network).title}."
    assert cards[NAME]["verdict"] == "Open it to measure it."
    assert not cards[NAME]["picture"]


def test_records_answer_a_question_that_never_ran_here(open_page: Open) -> None:
    page = open_page("questions", question="cifar100-cosine")
    assert "recorded on " in words(page)
    assert drawings(page)


@pytest.mark.usefixtures("by_plotly")
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
    moved = {"Accuracy over tasks", "Who remembers what"}
    assert {part for part in moved if part in words(page)} == (moved if status == "finished" else set())


@pytest.mark.usefixtures("by_plotly")
def test_the_answer_shows_what_an_audit_of_its_run_has_proved(open_page: Open, store: Store) -> None:
    spec = presets.load(NAME)
    run_id = replay.fill(store, spec, replay.recorded(spec))
    audited.fill(store, run_id, "finished", audited.result(1.0, proved=0.519))
    page = open_page("questions", question=NAME)
    assert "≥ 0.51 |" in words(page)  # a lower bound is rounded down
    assert "audited: at least 0.51" in page.get("plotly_chart")[0].proto.spec


def test_a_question_without_a_result_says_what_start_will_do(open_page: Open, monkeypatch: Patch) -> None:
    monkeypatch.setattr(questions, "results", lambda name, store: {})
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


def test_a_refused_start_speaks_as_the_form_does(open_page: Open, monkeypatch: Patch) -> None:
    (network,) = {spec.data.backbone for spec in questions.specs("paper-split-cifar-100-small").values()}
    _without(monkeypatch)
    page = open_page("questions", question="paper-split-cifar-100-small")
    _without(monkeypatch, network)
    page.button(key="start-set").click().run()
    assert f"Network for the features = “{backbones.card(network).title}”" in words(page)


def test_the_only_run_of_a_method_has_its_title() -> None:
    assert questions.titles(NAME) == {"main": methods.card("cosine").title}
    assert questions.titles("blurry-digits")["not-blurred"] == "Nothing strays"


def test_a_link_leads_back_to_the_gallery_that_was_just_left(open_page: Open, pressable: None) -> None:
    """A card replaces the address; afterwards the same address is a link, not a browser that is behind."""
    page = open_page("questions", p="own", v="1")
    page.button(key=f"open-{NAME}").click().run()
    (back,) = [link.proto for link in page.get("page_link") if "All questions" in link.proto.label]
    page.query_params.clear()
    for name, (value,) in parse_qs(back.query_string).items():
        page.query_params[name] = value
    page.run()
    assert page.title[0].value == "Questions"
    assert page.query_params["p"] == "own"
    assert "from" not in page.query_params


def _undecide(name: str, store: Store) -> None:
    """Fills a question's runs with the same numbers on both sides."""
    for spec in questions.specs(name).values():
        replay.fill(store, spec, replay.recorded(spec))


def test_two_seeds_are_added_to_an_answer_that_is_not_decided_with_their_time(
    open_page: Open, store: Store, idle: None
) -> None:
    _undecide("blurry-digits", store)
    page = open_page("questions", question="blurry-digits")
    assert "Not decided: less than" in words(page)
    pressed = page.button(key="more-seeds")
    assert re.fullmatch(r"Two more seeds: about \d+ \w+", pressed.label)
    page = pressed.click().run()
    assert not page.exception
    found = Sets(store).newest("blurry-digits")
    assert found is not None
    asked = answers.table()["blurry-digits"]
    assert set(found.runs) == {run for _, run, _ in asked.sides[:2]}
    for label, run in found.runs.items():
        spec = questions.specs("blurry-digits")[label]
        assert run.spec == replace(spec, seeds=(10, 11)), "the next ones, and nothing else is changed"
    for run in found.runs.values():
        replay.fill(store, run.spec, replay.recorded(run.spec))
    Sets(store).request_stop(found.id)
    said = words(open_page("questions", question="blurry-digits"))
    assert re.search(r"12 seeds, 2 of them added after a look", said)


def test_seeds_are_added_to_both_sides_and_once(store: Store) -> None:
    _undecide(name := "blurry-digits", store)
    labels = {run for _, run, _ in answers.table()[name].sides[:2]}
    first = questions.lacking_seeds(name, labels, questions.results(name, store))
    assert {label: spec.seeds for label, spec in first.items()} == dict.fromkeys(labels, (10, 11))
    label, spec = next(iter(first.items()))
    replay.fill(store, spec, replay.recorded(spec))
    rest = questions.lacking_seeds(name, labels, questions.results(name, store))
    assert {other: spec.seeds for other, spec in rest.items()} == dict.fromkeys(labels - {label}, (10, 11))
    replay.fill(store, *((one := rest[min(labels - {label})]), replay.recorded(one)))
    found = questions.results(name, store)
    assert {model.seed for model in found[label].models} == set(range(12))
    assert not questions.lacking_seeds(name, labels, found)


def test_no_seeds_are_added_to_what_is_decided_and_to_records_of_an_older_edition(open_page: Open, store: Store) -> None:
    assert "more-seeds" not in {one.key for one in open_page("questions", question="digits-cosine").button}
    found = questions.results("blurry-digits", store)
    older = {label: replace(run, edition=run.edition - 1) for label, run in found.items()}
    assert not questions.lacking_seeds("blurry-digits", set(found), older)
