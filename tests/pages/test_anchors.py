"""Matching clients without a browser: a simulation first, then runs in every state, and never a list of private data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core.explorers import matching, matching_log
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from dpcl_core.scenarios.catalog import Federated
from pages.parts import anchor_source, fields, matching_clients
from pages.parts.matching_clients import CODEC
from tests.pages.conftest import Open, Patch, address, drawings, told, words
from tests.support import clients, replay
from tests.support.asserting import includes
from tests.support.signatures import TOLD, with_lists
from tests.support.tiers import quick

FEW = {"dimensions": 4, "anchors": 20, "restarts": 1, "steps": 5, "samples": 20, "hidden": 4}

SPEC = replay.a_spec(epsilons=(4.0, 8.0), seeds=(0, 7), tasks=3)
SAID = with_lists(replay.recorded(SPEC, n_tasks=3))
TOLD_FIRST = next(event for event in SAID if type(event) is type(TOLD) and event.cell.epsilon == 8.0)
SETUP = anchor_source.Setup("exact", "server", "centred", 50, 0.1, 4.0, 4, 20, 384, 1)
TABS = {
    "Margins": "close.",
    "Matched and true": "of entries lie in the group of their mode",
    "Noise": "The budget requires",
    "Anchors": "Theorem 2 requires",
    "Signal": "second moment",
}


def played(page: AppTest) -> Any:
    """What the element is drawn from; None where there is none."""
    return next(iter(told(page, "anchors")), None)


def open_tab(page: AppTest, name: str) -> None:
    page.session_state["anchor-views"] = name
    page.run()


def test_it_opens_on_a_finished_simulation(open_page: Open) -> None:
    page = open_page("explore", view="clients")
    assert not page.warning
    assert page.title[0].value == "Explore"
    assert played(page)["start"] == {"m": 50, "noise": 0.1, "matcher": "anchors, centred"}
    assert len(played(page)["lists"]["modes"]) == 80
    assert "found their group" not in words(page)  # the browser draws the map, the server does not draw it again
    assert address(page) == {"view": "clients", "v": "1"}
    charts = drawings(page)
    assert charts
    assert all(chart.attrib["aria-label"] for chart in charts)


def test_every_figure_links_to_what_is_shown_now(open_page: Open) -> None:
    page = open_page("explore", view="clients", n="0", x="axes", y="2")
    page.session_state["save-anchor-map"] = page.session_state["save-agreement"] = page.session_state["share"] = True
    page.run()
    (count,) = (slider for slider in page.select_slider if slider.label == "Anchors m")
    count.set_value(10).run()
    now = dict(page.query_params)
    assert now["m"] == "10"
    links = [dict(parse_qsl(urlsplit(code.value).query)) for code in page.code]
    assert len(links) > 2
    assert all(link == now for link in links)


def test_lists_that_the_browser_does_not_have_are_drawn_by_the_server(open_page: Open) -> None:
    page = open_page("explore", view="clients", n="0", x="axes", y="2")
    assert played(page) is None
    said = words(page)
    includes(said, "80 of 80 entries of 20 clients found their group", "not visible to the server", "with the truth (")
    page.select_slider[1].set_value(0.8).run()
    assert page.query_params["n"] == "0.8"
    assert "80 of 80" not in words(page)
    page.selectbox[0].set_value("client").run()
    assert page.query_params["w"] == "client"
    assert [slider.label for slider in page.select_slider][:4] == ["Anchors m", "ε of all four rounds", "Round", "Clients"]
    assert "released groups" in words(page)


def test_a_link_opens_the_lists_to_play_with_at_the_nearest_stop(open_page: Open) -> None:
    page = open_page("explore", view="clients", n="0.19", m="30", x="hungarian", d="32")
    assert played(page)["start"] == {"m": 25, "noise": 0.2, "matcher": "Hungarian"}
    assert played(page)["lists"]["length"] == 32
    asked = {"n": "0.2", "m": "25", "x": "hungarian", "d": "32"}
    assert {key: page.query_params[key] for key in asked} == asked
    assert len(json.dumps(played(page))) < 200_000  # travels with the page, and later in a plain file


def test_settings_left_in_the_browser_are_taken_over_and_others_are_not() -> None:
    moved = matching_clients.reported_setup({"m": 10, "noise": 0.2, "matcher": "public axes"}, SETUP)
    assert (moved.m, moved.noise, moved.matcher) == (10, 0.2, "axes")
    refused = {"m": 11, "noise": 0.2, "matcher": "public axes"}, {"m": 10, "noise": "x", "matcher": "random"}
    for reported in (None, {}, *refused):
        assert matching_clients.reported_setup(reported, SETUP) == SETUP
    rows = matching_clients.csv(moved).splitlines()
    assert len(rows) == 81
    assert rows[0].startswith("client,digit,random,")


@pytest.mark.parametrize("status", ["finished", "running", "failed", "cancelled", "lost"])
def test_a_run_in_any_state_shows_its_recorded_lists(open_page: Open, store: Store, status: Status) -> None:
    run = replay.fill(store, SPEC, SAID, status=status)
    page = open_page("explore", view="clients", run=run)
    assert not page.warning
    includes(
        words(page), "3 of 4 entries of 2 clients found their group; 1 is ambiguous.", "agrees best with the truth (0.80)",
        "The two axes show 75 % of the variance of signatures.", "did not record its lists in full",
    )  # fmt: skip
    assert "What-if" not in words(page)
    assert page.query_params["run"] == run


def test_a_linked_run_is_offered_beside_the_newest_of_its_name(open_page: Open, store: Store, monkeypatch: Patch) -> None:
    monkeypatch.setattr(fields, "_OFFERED", 2)
    spec = replace(SPEC, scenario=Federated())
    oldest, *_, newest = [replay.fill(store, spec, SAID, name="thrice") for _ in range(3)]
    for run in (oldest, newest):
        page = open_page("explore", view="clients", run=run)
        assert page.selectbox[0].value == page.query_params["run"] == run
        assert len(set(page.selectbox[0].options)) == (3 if run == oldest else 2)


def test_every_picture_of_a_run_and_of_the_simulation_can_be_opened(open_page: Open, store: Store) -> None:
    query = {"run": replay.fill(store, SPEC, SAID), "t": "2", "e": "8", "s": "7"}
    for asked, seen in ((query, dict.fromkeys(TABS, "")), ({"w": "client", "n": "0"}, TABS)):
        page = open_page("explore", view="clients", **asked)
        for tab in TABS:
            open_tab(page, tab)
            assert seen[tab] in words(page), tab
            assert {key: page.query_params[key] for key in asked} == asked
            assert tab != "Matched and true" or asked != query or "75 % of entries" in words(page)


@pytest.mark.parametrize(("dataset", "said"), [("digits", "its method makes none"), ("own:diary", "may be private data")])
def test_a_run_without_lists_says_why(open_page: Open, store: Store, dataset: str, said: str, home: Path) -> None:
    (home / "data" / "diary").mkdir(parents=True)
    spec = replace(SPEC, data=replace(SPEC.data, dataset=dataset))
    assert said in words(open_page("explore", view="clients", run=replay.fill(store, spec, replay.recorded(SPEC))))


def test_noise_that_hides_a_list_leaves_nothing_to_match() -> None:
    said = anchor_source.event(replace(SETUP, side="client"))
    assert said.demanded["local"] == pytest.approx(20 * said.demanded["central"])
    assert said.noise["mean on all 384"] > said.signal["mean on all 384"]
    assert said.noise["second moments of 384"] > 10 * said.signal["second moments of 384"]


def test_the_longest_link_is_short_enough() -> None:
    values = {
        "show": "run", "kind": "fitted", "side": "client", "matcher": "transport", "m": 200, "noise": 0.4,
        "budget": 8.0, "round": 3, "clients": 200, "length": 32, "draw": 5, "run": "f" * 40, "epsilon": 0.123456,
        "seed": 2**31, "at": 100_000, "few": 25, "added": 0.1,
        "map": "both", "colour": "mode",
    }  # fmt: skip
    assert CODEC.read(CODEC.write(values)).values == values


@pytest.mark.parametrize("status", quick(1, ["running", "finished"]))
def test_anchors_and_noise_of_a_run_can_be_moved(open_page: Open, store: Store, status: Status) -> None:
    of, public = clients.stream(per_class=60)
    spec = clients.spec("cslr-server-head", params=FEW, seeds=[0, 7])
    run = replay.fill(store, spec, list(clients.run(spec, of, public)[2]), status=status)
    page = open_page("explore", view="clients", run=run, s="0")
    assert "What-if" not in words(page)
    sliders = {slider.label: slider for slider in page.select_slider}
    assert sliders["Anchors m"].options == ["2", "5", "10", "20"]
    sliders["Anchors m"].set_value(5).run()
    next(slider for slider in page.select_slider if slider.label == "Noise on the lists").set_value(0.4).run()
    said = words(page)
    includes(said, "What-if, not released by this run", "m = 5 of its 20 anchors and noise 0.4 on every list")
    assert (page.query_params["am"], page.query_params["an"]) == ("5", "0.4")
    for tab, sentence in {**TABS, "Signal": "mean of one entry, under this noise"}.items():
        open_tab(page, tab)
        assert sentence in words(page), tab
    other = open_page("explore", view="clients", run=run, s="7")
    assert "Anchors and noise can be changed for seed 0 only" in words(other)


def test_long_lists_of_clients_with_one_task_each_can_be_moved_and_it_says_what_was_compared(
    open_page: Open, store: Store, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(matching_log, "LONGEST", 7)
    monkeypatch.setattr(matching_log, "SUBSAMPLE_SIZE", 5)
    monkeypatch.setattr(matching, "MOST", 2 * 3 * 8)  # three of four clients of a task are recorded
    of, public = clients.stream(per_class=60, classes_per_task=2)
    spec = clients.spec("cslr-server-head", params=FEW)
    run = replay.fill(store, spec, list(clients.run(spec, clients.at_home(of), public)[2]))
    page = open_page("explore", view="clients", run=run)
    assert "The lists are long, so 30 of 64 entries were compared: from the first clients of every task" in words(page)
    assert "What-if" not in words(page)
    for tab in ("Noise", "Anchors"):
        open_tab(page, tab)
        assert words(page).count("The lists are long") == 2, tab
        assert TABS[tab] in words(page)
    page.select_slider[-2].set_value(5).run()
    includes(
        words(page), "Shown: the first clients of every task, 6 in all", "so 30 of 48 entries were compared",
        "of 48 entries of 6 clients found their group",
    )  # fmt: skip


def test_the_train_page_shows_the_newest_lists_live_and_every_round_afterwards(open_page: Open, store: Store) -> None:
    early = SAID[: SAID.index(TOLD_FIRST) + 1]
    page = open_page("train", run=replay.fill(store, SPEC, early, status="running"))
    assert "Which list entry is which?" in words(page)
    over = open_page("train", run=replay.fill(store, SPEC, SAID))
    slider = over.select_slider[0]
    newest = slider.value
    assert "Which list entry is which?" in words(over)
    moved = slider.set_value(0).run()
    assert slider.options[0] in words(moved)
    assert newest
    plain = open_page("train", run=replay.fill(store, SPEC, replay.recorded(SPEC)))
    assert "Which list entry is which?" not in words(plain)
