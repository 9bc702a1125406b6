"""Sensitive words without a browser: every layer, every state, own texts refused until marked, no bare ε beside a claim."""

from __future__ import annotations

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
from pages.parts import sensitive_words, token_heat
from pages.parts.sensitive_words import CODEC
from tests.pages.conftest import Open, Patch, address, box, told, words
from tests.support import replay
from tests.support.asserting import includes
from tests.support.texts import SCORED, with_texts

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
    assert drawn["layer"] == layer
    assert [each["name"] for each in drawn["layers"]] == list(tokens.SHOWN)
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
    page.session_state["tokens-read-1"] = True
    assert re.search(r"An attacker reads \d+ of \d+ word pieces that have noise\.", words(page.run()))
    includes(said, "AUROC of the score for personal tokens: all tokens 0.", "against look-alikes")
    for chart in page.get("plotly_chart"):
        assert chart.proto.alt
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
    budgets = tokens.values(modes.texts().text(1, 0), "nominal", tokens.Dials())
    most = np.nanmax(budgets)
    assert most > tokens.Dials().upper
    page = open_page("explore", view="words", l="nominal")
    page.session_state["tokens-read-1"] = True
    includes(words(page.run()), "above the upper end of its range, 10", f"as published, nominal ε 1 to {most:.3g}, no guar")
    assert "upper end of its range" not in words(open_page("explore", view="words")), "not beside every layer"
    within = words(open_page("explore", view="words", l="nominal", a="1"))  # the surprise alone, which is never below 0
    assert "upper end of its range" not in within
    assert "nominal ε 1 to 10, no guarantee" in within


def test_settings_travel_in_the_link(open_page: Open) -> None:
    query = {
        "k": "6", "n": "3", "l": "hinge", "a": "0.2", "th": "0.3", "lo": "0.5", "up": "100", "la": "10", "lf": "full",
        "r": "30",
    }  # fmt: skip
    page = open_page("explore", view="words", **query)
    assert not page.warning
    assert address(page) == {"view": "words", "v": "1", **query}
    assert heatmap(page)["dials"]["threshold"] == 0.3


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


STRANGE = [
    "x", "one", "😀👩‍👩‍👧 and 🏳️‍🌈", "שלום עולם, زهرة في الحديقة", "<script>alert(1)</script> & \"quotes\"", "a\n\nb\tc",
]  # fmt: skip


@pytest.mark.usefixtures("read_by_big")
@pytest.mark.parametrize("text", STRANGE)
def test_any_text_is_shown_as_it_is(open_page: Open, text: str) -> None:
    page = write(open_page("explore", view="words"), text, is_public=True)
    assert text_of(heatmap(page)) == text


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


@pytest.mark.parametrize(
    ("dataset", "status", "said"),
    [
        ("digits", "running", "This run has not scored a text yet"), ("digits", "finished", "This run recorded no texts"),
        ("own:diary", "running", "an empty file public.txt"), ("dreaddit", "running", "accounts of distress"),
    ],
)  # fmt: skip
def test_a_run_that_shows_no_text_says_why(
    open_page: Open, store: Store, home: Path, dataset: str, status: Status, said: str
) -> None:
    assert "No run has scored texts yet" in words(open_page("explore", view="words", sh="run"))
    (home / "data" / "diary").mkdir(parents=True)
    spec = replace(SPEC, data=replace(SPEC.data, dataset=dataset))
    page = open_page("explore", view="words", run=replay.fill(store, spec, replay.recorded(SPEC), status=status))
    assert not heatmap(page)
    assert said in words(page)


def test_a_finished_run_shows_its_tokens_whatever_is_refused_today(open_page: Open, store: Store) -> None:
    with_tokens = open_page("train", run=replay.fill(store, SPEC, SAID))
    includes(words(with_tokens), "must divide the 10 classes", "**Planted secrets**", "**What the model remembers**")
    without = open_page("train", run=replay.fill(store, SPEC, replay.recorded(SPEC)))
    assert "**Planted secrets**" not in words(without)
    early = SAID[: next(place for place, event in enumerate(SAID) if type(event).__name__ == "TokensScored") + 1]
    live = open_page("train", run=replay.fill(store, SPEC, early, status="running"))  # before a model is tested
    includes(words(live), "hich words are treated as sensitive?", "scored by the frozen public model")
    assert text_of(heatmap(live)) == "".join(SCORED.tokens)


def test_the_longest_link_is_short_enough() -> None:
    values = {
        "reader": "smollm2", "show": "run", "source": 6, "number": 1000,
        "run": "f" * 40, "task": 100, "model": "current", "epsilon": 0.123456,
        "layer": "nominal", "alpha": 0.35, "threshold": 0.35, "lower": 0.5, "upper": 500.0, "strength": 99.5, "loss": "full",
        "releases": 100,
    }  # fmt: skip
    assert CODEC.read(CODEC.write(values)).values == values
