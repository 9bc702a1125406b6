"""Explore without a browser: sensitive words, every layer and own texts refused until marked; and matching clients."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpcl_core.data.texts import Texts
from dpcl_core.events import ScoredText
from dpcl_core.explorers import tokens
from dpcl_core.lessons import modes
from dpcl_core.runs.run import Status
from dpcl_core.runs.store import Store
from dpcl_core.scenarios.catalog import Federated
from pages.parts import anchor_source, fields, matching_clients, sensitive_words, token_heat
from tests.pages.conftest import Open, Patch, address, box, drawings, told, turned, words
from tests.support import clients, replay
from tests.support.asserting import includes
from tests.support.signatures import TOLD, with_lists
from tests.support.texts import SCORED, with_texts
from tests.support.tiers import quick

SPEC = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0,), tasks=3)
SAID = with_texts(replay.recorded(SPEC, n_tasks=3))


def heatmap(page: AppTest) -> Any:
    """What the explorer, or the text of a run on Train, is drawn from; None where there is none."""
    return next(iter(told(page, "tokens")), None)


def text_of(told: Any) -> str:
    return "".join("".join(token) for token in told["text"]["tokens"])


@pytest.fixture
def read_by_big(monkeypatch: Patch) -> None:
    """Own texts that the server scores, as with the big model, which the bundled one stands in for."""
    corpus = modes.texts()

    class Stand:
        def scored(self, texts: Texts, labels: object, tasks: object) -> list[ScoredText]:
            return tokens.scored(texts, corpus.score2)

        def read(self, text: str, ratios: list[float], n_releases: int) -> None:
            return None

    monkeypatch.setattr(sensitive_words, "_reader", lambda view: token_heat.BIG)
    monkeypatch.setattr(token_heat, "big", Stand)
    monkeypatch.setattr(sensitive_words, "everything", lambda reader: (corpus.text(1, 0),))


def write(page: AppTest, text: str, *, is_public: bool) -> AppTest:
    box(page, "segmented_control", "Text").set_value("own").run()
    page.text_area[0].set_value(text).run()
    if is_public:
        page.checkbox[0].check().run()
    return page


@pytest.mark.parametrize("layer", tokens.SHOWN)
def test_every_layer_has_its_edges_and_words_and_is_in_the_link(open_page: Open, layer: str) -> None:
    page = open_page("explore", view="words", l=layer)
    assert not page.warning
    drawn = heatmap(page)
    assert len(text_of(drawn)) > 20
    assert (drawn["layer"], [each["name"] for each in drawn["layers"]]) == (layer, list(tokens.SHOWN))
    for each in drawn["layers"]:
        assert (len(each["edges"]), len(each["ranges"])) == (4, 5)
        assert all((each["title"], each["means"]))
    assert page.query_params.get("l", ["score"]) in ([layer], layer)


def test_the_page_opens_on_an_example_with_its_findings(open_page: Open) -> None:
    page = open_page("explore", view="words")
    said = words(page)
    includes(said, "Which words does the method think are private?", "nothing is protected. True ε for this text: 111.")
    drawn = heatmap(page)
    assert any(drawn["text"]["kinds"])
    assert (drawn["dials"]["threshold"], drawn["dials"]["upper"]) == (0.6, 10)
    assert len(json.dumps(drawn)) < 1_000_000, "it must fit into a page of 1.5 MB"
    assert "An attacker reads" not in said, "nothing is decoded until it is asked for"
    reads = r"An attacker reads \d+ of \d+ word pieces that have noise\."
    assert re.search(reads, words(turned(page, "tokens-read-1")))
    includes(said, "AUROC of the score for personal tokens: all tokens 0.", "against look-alikes")
    assert address(page) == {"view": "words", "v": "1"}


def test_no_epsilon_stands_there_without_nominal_and_no_guarantee(open_page: Open) -> None:
    """Card check 23, block by block: whatever prints a number of ε says that it is nominal or whose noise it is of."""
    page = open_page("explore", view="words", l="nominal", lo="0.5", up="50")
    blocks = [element.value for kind in ("markdown", "caption") for element in page.get(kind)]
    blocks += [html.proto.body for html in page.get("html") if "<style>" not in html.proto.body]
    printed = [str(block).replace("\\", "").lower() for block in blocks]
    named = [plain for plain in printed if re.search(r"(nominal|printed) ε|ε printed", plain)]
    for said in [*named, *(slider.label.lower() for slider in page.select_slider if "ε" in slider.label)]:
        includes(said, "nominal", "no guarantee")
    assert re.search(r"nominal ε 0\.5 to \d\d\.?\d?, no guarantee", words(page))


def test_a_budget_above_its_range_is_explained_where_the_range_is_printed(open_page: Open) -> None:
    most = np.nanmax(tokens.values(modes.texts().text(1, 0), "nominal", tokens.Dials()))
    assert most > tokens.Dials().upper
    page = turned(open_page("explore", view="words", l="nominal"), "tokens-read-1")
    includes(words(page), "above the upper end of its range, 10", f"as published, nominal ε 1 to {most:.3g}, no guar")
    assert "upper end of its range" not in words(open_page("explore", view="words")), "not beside every layer"
    within = words(open_page("explore", view="words", l="nominal", a="1"))  # the surprise alone, which is never below 0
    assert "upper end of its range" not in within
    assert "nominal ε 1 to 10, no guarantee" in within


def test_settings_travel_in_the_link(open_page: Open) -> None:
    query = {"k": "6", "n": "3", "l": "hinge", "a": "0.2", "th": "0.3", "lo": "0.5", "up": "100", "la": "10", "lf": "full"}
    page = open_page("explore", view="words", **query)
    assert not page.warning
    assert (address(page), heatmap(page)["dials"]["threshold"]) == ({"view": "words", "v": "1", **query}, 0.3)


def test_a_sentence_of_ones_own_stays_in_the_browser(open_page: Open) -> None:
    page = open_page("explore", view="words")
    box(page, "segmented_control", "Text").set_value("own").run()
    assert heatmap(page)["text"] is None
    assert not page.text_area
    assert "scored in your browser and sent nowhere" in words(page)


@pytest.mark.usefixtures("read_by_big")
def test_own_text_is_refused_until_it_is_marked_and_the_page_says_why(open_page: Open) -> None:
    page = write(open_page("explore", view="words"), "  \n ", is_public=False)
    assert "Type or paste a text above" in words(page)
    page.text_area[0].set_value("Grace Okafor lives in Tartu.").run()
    said = words(page)
    assert "A picture of exact scores leaks the whole text" in said
    assert not heatmap(page)
    assert "Okafor" not in said
    page.checkbox[0].check().run()
    assert text_of(heatmap(page)) == "Grace Okafor lives in Tartu."
    assert "Okafor" not in str(dict(page.query_params)), "a text of one's own is never in the link"
    page.checkbox[0].uncheck().run()
    assert not heatmap(page)


@pytest.mark.usefixtures("read_by_big")
def test_a_long_text_is_shown_in_parts(open_page: Open) -> None:
    text = ("The quick brown fox jumps over the lazy dog. " * 3000)[: sensitive_words.MAX_CHARACTERS]
    parts = sensitive_words.in_parts(text)
    assert "".join(parts) == text
    assert max(map(len, parts)) <= sensitive_words.PART_CHARACTERS
    assert [len(part) for part in sensitive_words.in_parts("x" * 12_000)] == [5000, 5000, 2000]
    page = write(open_page("explore", view="words"), text, is_public=True)
    assert f"100,000 characters are shown in {len(parts)} parts; the model reads each by itself." in words(page)
    assert text_of(heatmap(page)) == parts[0]
    part = next(number for number in page.number_input if number.label.startswith("Part"))
    part.set_value(2).run()
    assert text_of(heatmap(page)) == parts[1]


@pytest.mark.parametrize("status", ["finished", "running", "failed", "cancelled", "lost"])
def test_a_run_in_any_state_shows_what_it_has_told(open_page: Open, store: Store, status: Status) -> None:
    run = replay.fill(store, SPEC, SAID, status=status)
    page = open_page("explore", view="words", run=run, t="2", m="current", e="8")
    assert not page.warning
    assert text_of(heatmap(page)) == "".join(SCORED.tokens)
    includes(
        words(page), "11.5 bits of exposure after task 3 (1.8 before training)", "ordinary words (0.60 nats)",
        "AUROC of the score for personal tokens",
    )  # fmt: skip
    assert address(page) == {"view": "words", "v": "1", "sh": "run", "run": run, "t": "2", "m": "current", "e": "8"}


@pytest.mark.parametrize(("dataset", "status", "said"), [
    ("digits", "running", "This run has not scored a text yet"), ("digits", "finished", "This run recorded no texts"),
    ("own:diary", "running", "an empty file public.txt"), ("dreaddit", "running", "accounts of distress"),
])  # fmt: skip
def test_no_text_has_a_reason(open_page: Open, store: Store, home: Path, dataset: str, status: Status, said: str) -> None:
    assert "No run has scored texts yet" in words(open_page("explore", view="words", sh="run"))
    (home / "data" / "diary").mkdir(parents=True)
    spec = replace(SPEC, data=replace(SPEC.data, dataset=dataset))
    page = open_page("explore", view="words", run=replay.fill(store, spec, replay.recorded(SPEC), status=status))
    assert not heatmap(page)
    assert said in words(page)


def test_a_finished_run_shows_its_tokens_whatever_is_refused_today(open_page: Open, store: Store) -> None:
    with_tokens = open_page("train", run=replay.fill(store, SPEC, SAID))
    includes(words(with_tokens), "must divide the 10 classes", "**Planted secrets**", "**What the model remembers**")
    assert "**Planted secrets**" not in words(open_page("train", run=replay.finished(store, SPEC)))
    early = SAID[: next(place for place, event in enumerate(SAID) if type(event).__name__ == "TokensScored") + 1]
    live = open_page("train", run=replay.fill(store, SPEC, early, status="running"))  # before a model is tested
    includes(words(live), "hich words are treated as sensitive?", "scored by the frozen public model")
    assert text_of(heatmap(live)) == "".join(SCORED.tokens)


# Matching clients: a simulation first, then runs in every state, and never a list of private data.


FEW = {"dimensions": 4, "anchors": 20, "restarts": 1, "steps": 5, "samples": 20, "hidden": 4}

CLIENTS = replay.a_spec(epsilons=(4.0, 8.0), seeds=(0, 7), tasks=3)
LISTED = with_lists(replay.recorded(CLIENTS, n_tasks=3))

SETUP = anchor_source.Setup("exact", "server", "centred", 50, 0.1, 4.0, 4, 20, 384, 1)
TABS = {
    "Margins": "close.", "Matched and true": "of entries lie in the group of their mode", "Noise": "The budget requires",
    "Anchors": "Theorem 2 requires", "Signal": "second moment",
}  # fmt: skip


def played(page: AppTest) -> Any:
    """What the element is drawn from; None where there is none."""
    return next(iter(told(page, "anchors")), None)


def test_it_opens_on_a_finished_simulation(open_page: Open) -> None:
    page = open_page("explore", view="clients")
    assert (page.title[0].value, len(page.warning)) == ("Explore", 0)
    assert played(page)["start"] == {"m": 50, "noise": 0.1, "matcher": "anchors, centred"}
    assert len(played(page)["lists"]["modes"]) == 80
    assert "found their group" not in words(page)  # the browser draws the map, the server does not draw it again
    assert address(page) == {"view": "clients", "v": "1"}
    assert drawings(page)


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
    run = replay.fill(store, CLIENTS, LISTED, status=status)
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
    spec = replace(CLIENTS, scenario=Federated())
    oldest, *_, newest = [replay.fill(store, spec, LISTED, name="thrice") for _ in range(3)]
    for run in (oldest, newest):
        page = open_page("explore", view="clients", run=run)
        assert page.selectbox[0].value == page.query_params["run"] == run
        assert len(set(page.selectbox[0].options)) == (3 if run == oldest else 2)


def test_every_picture_of_a_run_and_of_the_simulation_can_be_opened(open_page: Open, store: Store) -> None:
    query = {"run": replay.fill(store, CLIENTS, LISTED), "t": "2", "e": "8", "s": "7"}
    for asked, seen in ((query, dict.fromkeys(TABS, "")), ({"w": "client", "n": "0"}, TABS)):
        page = open_page("explore", view="clients", **asked)
        for tab in TABS:
            assert seen[tab] in words(turned(page, "anchor-views", tab)), tab
            assert {key: page.query_params[key] for key in asked} == asked
            assert tab != "Matched and true" or asked != query or "75 % of entries" in words(page)


@pytest.mark.parametrize(("dataset", "said"), [("digits", "its method makes none"), ("own:diary", "may be private data")])
def test_a_run_without_lists_says_why(open_page: Open, store: Store, dataset: str, said: str, home: Path) -> None:
    (home / "data" / "diary").mkdir(parents=True)
    spec = replace(CLIENTS, data=replace(CLIENTS.data, dataset=dataset))
    assert said in words(open_page("explore", view="clients", run=replay.fill(store, spec, replay.recorded(CLIENTS))))


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
    includes(words(page), "What-if, not released by this run", "m = 5 of its 20 anchors and noise 0.4 on every list")
    assert (page.query_params["am"], page.query_params["an"]) == ("5", "0.4")
    for tab, sentence in {**TABS, "Signal": "mean of one entry, under this noise"}.items():
        assert sentence in words(turned(page, "anchor-views", tab)), tab
    other = open_page("explore", view="clients", run=run, s="7")
    assert "Anchors and noise can be changed for seed 0 only" in words(other)


def test_the_train_page_shows_the_newest_lists_live_and_every_round_afterwards(open_page: Open, store: Store) -> None:
    first = next(event for event in LISTED if type(event) is type(TOLD) and event.cell.epsilon == 8.0)
    early = LISTED[: LISTED.index(first) + 1]
    for events, status in ((early, "running"), (replay.recorded(CLIENTS), "finished"), (LISTED, "finished")):
        page = open_page("train", run=replay.fill(store, CLIENTS, events, status=status))  # type: ignore[arg-type]
        assert ("Which list entry is which?" in words(page)) is (first in events)
    slider = page.select_slider[0]
    assert slider.value
    assert slider.options[0] in words(slider.set_value(0).run())
