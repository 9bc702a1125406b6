"""The gallery of questions, and an answer page in every state of its runs."""

import re
from collections.abc import Callable
from dataclasses import replace
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
from tests.pages.conftest import Open, Patch, drawings, labels, told, words
from tests.support import audited, replay
from tests.support.asserting import includes

NAME = "digits-cosine"


@pytest.fixture
def pressable(monkeypatch: Patch) -> None:
    """Real buttons in place of the element that the browser draws: a press reports what the element would."""

    usual = figure_card.mounted

    def mounted(element: Element) -> Callable[..., None]:
        def draw(*, key: str, data: dict[str, Any], on_open_change: Callable[[], None]) -> None:
            def press(name: str) -> None:
                st.session_state[key] = {"open": name}
                on_open_change()

            for name in (*(one["name"] for group in data["groups"] for one in group["cards"]), "no question"):
                st.button("Open", key=f"open-{name}", on_click=press, args=(name,))

        return draw if element is GALLERY else usual(element)

    monkeypatch.setattr(figure_card, "mounted", mounted)


def _drawn(page: AppTest) -> dict[str, Any]:
    (drawn,) = told(page, GALLERY.folder)
    return drawn  # type: ignore[no-any-return]


def _cards(page: AppTest) -> dict[str, dict[str, str]]:
    """The cards of the gallery by the preset that each opens."""
    return {one["name"]: one for group in _drawn(page)["groups"] for one in group["cards"]}


def _query(link: Any) -> dict[str, str]:
    """What the address of a link to a page says."""
    return {name: text for name, (text,) in parse_qs(link.proto.query_string).items()}


def _question(open_page: Open, name: str) -> AppTest:
    return open_page("questions", question=name)


def test_the_gallery_has_every_question_once_in_few_words_and_with_a_small_picture(open_page: Open) -> None:
    cards = _cards(open_page("questions", by="shows"))  # a link of earlier days
    names = [question.name for question in questions.questions()]
    assert sorted(questions.of_preset(name).name for name in cards) == sorted(names)
    assert all(parse_qs(one["query"][1:]) == {"v": ["1"], "question": [name]} for name, one in cards.items())
    assert max(len(one["asked"].split()) for one in cards.values()) <= 8
    assert max(len(one["verdict"].split()) for one in cards.values() if one["state"] != "not-run") <= 12
    assert max(len(one["picture"].encode()) for one in cards.values()) <= 6000
    assert {one["picture"][:4] for one in cards.values() if one["state"] != "not-run"} == {"<svg"}


@pytest.mark.parametrize(("chosen", "left"), [
    ({"p": "cslr"}, {"paper-cslr-anchors", "paper-cslr-lists"}), ({"d": "digits"}, {"digits-cosine", "blurry-digits"}),
    ({"m": "pecl"}, {"pecl-synthetic"}), ({"p": "lifelong", "a": "cannot tell"}, {"paper-harw", "paper-split-mnist"}),
    ({"p": "cslr", "d": "digits"}, set()),
])  # fmt: skip
def test_filters_stand_in_the_link_and_leave_what_fits(open_page: Open, chosen: dict[str, str], left: set[str]) -> None:
    page = open_page("questions", **chosen)
    shown = [questions.of_preset(name) for name in _cards(page)]
    assert left <= {question.name for question in shown}
    assert len(shown) < len(questions.questions())
    assert bool(shown) is bool(left) is ("No question fits" not in _drawn(page)["none"])
    for question in shown:
        specs = [spec for form in question.forms.values() for spec in questions.specs(form.name).values()]
        assert question.paper == chosen.get("p", question.paper)
        assert "d" not in chosen or chosen["d"] in {spec.data.dataset for spec in specs}
        assert "m" not in chosen or chosen["m"] in {spec.method for spec in specs}
        assert answers.recorded()[question.name].state == chosen.get("a", answers.recorded()[question.name].state)
    assert {name: page.query_params[name] for name in chosen} == chosen
    kept = [parse_qs(one["query"][1:]) for one in _cards(page).values()]
    assert all(name in query for query in kept for name in chosen), "kept for the way back"


def test_an_answer_is_told_in_the_quantity_asked_with_what_is_excluded(open_page: Open) -> None:
    includes(words(_question(open_page, NAME)), answers.recorded()[NAME].verdict, "orgotten of the earlier tasks")
    undecided = answers.recorded()["paper-blurry"]
    assert undecided.excluded is not None
    excluded = f"Not decided: less than {claims.bound_text(undecided.excluded)} points either way."
    assert excluded in words(_question(open_page, "paper-blurry-small"))
    page = _question(open_page, "cifar100-cosine")  # which never ran here
    assert "recorded on " in words(page)
    assert drawings(page)


def test_a_card_opens_its_answer_a_link_leads_back_and_a_forged_press_is_nothing(open_page: Open, pressable: None) -> None:
    """A card replaces the address; afterwards the same address is a link, not a browser that is behind."""
    page = open_page("questions", p="own", v="1")
    page.button(key="open-no question").click().run()
    assert page.title[0].value == "Questions"
    page.button(key=f"open-{NAME}").click().run()
    assert page.title[0].value == questions.of_preset(NAME).asked
    (back,) = [link for link in page.get("page_link") if "All questions" in link.proto.label]
    page.query_params.clear()
    page.query_params.update(_query(back))
    page.run()
    assert (page.title[0].value, page.query_params["p"]) == ("Questions", "own")
    assert "from" not in page.query_params


def test_only_ones_own_run_alone_is_under_way(open_page: Open, store: Store, monkeypatch: Patch, idle: None) -> None:
    """Not the run of a set with the same settings, nor a waiting audit, nor another visitor's run."""
    spec = presets.load(NAME)
    Sets(store).create("blurry-digits", {"not-blurred": spec})
    Audits(store).create(replay.finished(store, spec))
    cards = _cards(open_page("questions"))
    assert "under way" in cards["blurry-digits"]["said"]
    assert "under way" not in cards[NAME]["said"]
    assert "start-set" not in [one.key for one in _question(open_page, "blurry-digits").button]
    page = _question(open_page, NAME)
    assert "Started on Train" not in words(page)
    assert not page.button(key="start-set").disabled
    alone = store.create(spec, name="alone")
    with monkeypatch.context() as others:
        others.setattr(Store, "may_change", lambda self, run: run.id != alone)
        assert "Started on Train" not in words(_question(open_page, NAME))
    assert "Started on Train: **alone**" in words(_question(open_page, NAME))
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


def test_start_queues_one_set_in_the_order_said(open_page: Open, store: Store, monkeypatch: Patch, idle: None) -> None:
    monkeypatch.setattr(questions, "results", lambda name, store: {})
    monkeypatch.setattr(questions, "cheapest_first", lambda runs, store, device: dict(sorted(runs.items(), reverse=True)))
    page, titles = _question(open_page, "blurry-digits"), questions.titles("blurry-digits")
    assert set(titles) == set(presets.variants("blurry-digits"))
    in_order = sorted(titles, reverse=True)
    listed = "; ".join(titles[label] for label in in_order)
    said = words(page).replace("*", "")
    includes(said, "nothing has been measured yet", "To measure it: 4 runs", f"the cheapest first: {listed}. In all")
    page.button(key="start-set").click().run()
    whole = Sets(store).newest("blurry-digits")
    assert whole is not None
    assert [(label, run.name) for label, run in whole.runs.items()] == [(label, titles[label]) for label in in_order]
    assert "Queued" in words(page)
    page.button(key="stop-set").click().run()
    assert "Stopped: 0 of 4 runs finished, 4 cancelled" in words(page)


def test_a_deleted_run_of_a_set_is_neither_counted_nor_linked(open_page: Open, store: Store) -> None:
    sets, runs = Sets(store), presets.variants(name := "blurry-digits")
    set_id = sets.create(name, runs)
    first, second, third, last = sets.get(set_id).runs.values()
    for run in (first, second, third):
        assert store.claim(run.id)
        store.append(run.id, replay.recorded(run.spec))
        store.end(run.id, "finished")
    sets.request_stop(set_id)
    store.delete(first.id)
    page = _question(open_page, name)
    assert "Stopped: 2 of 3 runs finished, 1 cancelled, 1 deleted" in words(page)
    assert {_query(link).get("run", "") for link in page.get("page_link")} - {""} == {second.id, third.id, last.id}
    store.delete(last.id)
    assert "Finished: 2 of 2 runs finished, 2 deleted" in words(_question(open_page, name))
    for run in (second, third):
        store.delete(run.id)
    page = _question(open_page, name)
    assert "Start all 4 runs" in labels(page)
    assert "deleted" not in words(page)


@pytest.mark.parametrize(("status", "said"), [
    ("finished", "Finished: 1 of 1 run finished"), ("failed", "Ended with an error"), ("cancelled", "Stopped: ")
])
def test_every_end_has_its_words(open_page: Open, store: Store, status: Status, said: str) -> None:
    spec = presets.load(NAME)
    run_id = Sets(store).create(NAME, {"main": spec})
    assert store.claim(run_id)
    store.append(run_id, replay.recorded(spec))
    store.end(run_id, status, replay.a_failure("diverged") if status == "failed" else None)
    shown = words(_question(open_page, NAME))
    assert said in shown
    moved = {"Accuracy over tasks", "Who remembers what"}
    assert {part for part in moved if part in shown} == (moved if status == "finished" else set())


@pytest.mark.usefixtures("by_plotly")
def test_the_answer_shows_what_an_audit_of_its_run_has_proved(open_page: Open, store: Store) -> None:
    audited.fill(store, replay.finished(store, presets.load(NAME)), "finished", audited.result(1.0, proved=0.519))
    page = _question(open_page, NAME)
    assert "≥ 0.51 |" in words(page)  # a lower bound is rounded down
    assert "audited: at least 0.51" in page.get("plotly_chart")[0].proto.spec


def test_a_question_whose_run_was_started_on_train_offers_no_second(open_page: Open, store: Store, idle: None) -> None:
    def can_start() -> bool:
        return "start-set" in [one.key for one in page.run().button]

    spec, title = presets.load(NAME, here=True), presets.about(NAME).title
    run_id = replay.fill(store, spec, [], status="running", name=title)
    page = _question(open_page, NAME)
    assert "nothing has been measured yet" not in words(page)
    assert "Running" in words(page)
    assert not can_start()
    assert store.end(run_id, "cancelled")
    assert can_start()
    page.button(key="start-set").click().run()
    assert [run.name for run in store.list_runs()] == [title] * 2, "wherever it was started"
    assert questions.titles(NAME) == {"main": methods.card("cosine").title}
    assert questions.titles("blurry-digits")["not-blurred"] == "Nothing strays"


def _without(monkeypatch: Patch, *lacking: str) -> None:
    """This computer lacks these networks, and has all others with all data."""
    monkeypatch.setattr(datasets, "available", lambda card: None)
    monkeypatch.setattr(backbones, "available", lambda card: f"put {card.name}" if card.name in lacking else None)


def test_what_start_lacks_is_said_before_and_a_smaller_form_is_offered(open_page: Open, monkeypatch: Patch) -> None:
    def smaller(page: AppTest) -> list[str]:
        return [_query(one)["question"] for one in page.get("page_link") if "can start here" in one.proto.label]

    full, bundled = "paper-split-cifar-100", "paper-split-cifar-100-bundled"
    (network,) = {spec.data.backbone for spec in questions.specs(full).values()}
    said = f"Network for the features = “{backbones.card(network).title}”"
    _without(monkeypatch)
    there = _question(open_page, full)
    _without(monkeypatch, network)
    assert said in words(there.button(key="start-set").click().run()), "a refused start speaks as the form does"
    page = _question(open_page, full)
    assert page.button(key="start-set").disabled
    assert said in words(page)
    assert smaller(page) == [bundled]
    assert not _question(open_page, bundled).button(key="start-set").disabled
    forms = questions.of_preset(full).forms.values()
    _without(monkeypatch, *(spec.data.backbone for form in forms for spec in questions.specs(form.name).values()))
    assert not smaller(_question(open_page, full))


def _undecide(name: str, store: Store) -> None:
    """Fills a question's runs with the same numbers on both sides."""
    for spec in questions.specs(name).values():
        replay.finished(store, spec)


def test_two_seeds_are_added_to_an_undecided_answer_with_their_time(open_page: Open, store: Store, idle: None) -> None:
    _undecide("blurry-digits", store)
    page = _question(open_page, "blurry-digits")
    assert "Not decided: less than" in words(page)
    pressed = page.button(key="more-seeds")
    assert re.fullmatch(r"Two more seeds: about \d+ \w+", pressed.label)
    pressed.click().run()
    found = Sets(store).newest("blurry-digits")
    assert found is not None
    specs = questions.specs("blurry-digits")
    added = {run: replace(specs[run], seeds=(10, 11)) for _, run, _ in answers.table()["blurry-digits"].sides[:2]}
    assert {label: run.spec for label, run in found.runs.items()} == added, "the next ones, and nothing else is changed"
    for spec in added.values():
        replay.finished(store, spec)
    Sets(store).request_stop(found.id)
    assert "12 seeds, 2 of them added after a look" in words(_question(open_page, "blurry-digits"))


def test_seeds_are_added_to_both_sides_and_once(store: Store) -> None:
    def lacking() -> dict[str, tuple[int, ...]]:
        found = questions.results(name, store)
        return {label: spec.seeds for label, spec in questions.lacking_seeds(name, labels, found).items()}

    _undecide(name := "blurry-digits", store)
    labels, seeds = {run for _, run, _ in answers.table()[name].sides[:2]}, (10, 11)
    found = questions.results(name, store)
    older = {label: replace(run, edition=run.edition - 1) for label, run in found.items()}
    assert not questions.lacking_seeds(name, set(found), older), "none to records of an older edition"
    for left in (labels, {max(labels)}):
        assert lacking() == dict.fromkeys(left, seeds)
        spec = replace(questions.specs(name)[min(left)], seeds=seeds)
        replay.finished(store, spec)
    assert {model.seed for model in questions.results(name, store)[min(labels)].models} == set(range(12))
    assert not lacking()


def test_no_seeds_are_added_to_what_is_decided(open_page: Open, store: Store) -> None:
    assert "more-seeds" not in {one.key for one in _question(open_page, NAME).button}
