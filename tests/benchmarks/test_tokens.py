"""Budget of Sensitive words in a real browser (`make bench`): shades move within 100 ms, a sentence is scored within 1 s.

The bounds are those of two idle cores, with half as much again for noise.
"""

from __future__ import annotations

import json
import statistics

from playwright.sync_api import Browser, expect
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import Texts
from dpcl_core.explorers import tokens
from dpcl_core.figures.tokens import NO_NUMBER
from pages.parts import token_heat
from pages.parts.token_text import PART_CHARACTERS
from tests.benchmarks.test_pages import NOISE
from tests.browser.conftest import PATIENCE_MS, App, ready

N_TOKENS = 2000
SENTENCE = "Grace Okafor paid 4711 for 23 of them in Basel on 05-11, card 4000 0012 3456 7890. "
MOVED = """([name, value]) => new Promise(resolve => {
    const field = document.querySelector(name), start = performance.now();
    field.value = value;
    field.dispatchEvent(new Event('input'));
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
})"""


def long_text() -> str:
    """At least 2,000 tokens that are shown at once."""
    encode, text = plain_language.load_tokenizer("lm-tiny").encode, SENTENCE
    while len(encode(text)[0]) < N_TOKENS:  # a sentence behind another has fewer tokens than alone
        text += SENTENCE
    assert len(text) <= PART_CHARACTERS
    return text


def test_a_typed_sentence_is_scored_and_repainted(app: App, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{app.url}/tokens?sh=own")
    ready(page)
    expect(page.locator(".tk-text [role=button]").first).to_be_visible(timeout=PATIENCE_MS)
    typed = [page.evaluate(MOVED, [".tk-typed", (SENTENCE * 8)[:600 - n]]) for n in range(5)]
    moved = [page.evaluate(MOVED, [".tk-upper", n % 10]) for n in range(20)]
    print(f"600 characters: {statistics.median(typed):.0f} ms; a slider: {statistics.median(moved):.0f} ms")
    assert statistics.median(typed) < 1000 * NOISE
    assert statistics.median(moved) < 100 * NOISE
    page.close()


def test_the_server_computes_a_layer_in_a_fraction_of_that(benchmark: BenchmarkFixture) -> None:
    """All that the server computes for a layer: numbers, shades, words."""
    (text,) = tokens.scored(Texts([long_text()]))
    told = benchmark(lambda: json.dumps(token_heat.document(text, "true", tokens.Dials(), "a text")))
    layer = json.loads(told)["layer"]
    assert len(layer["names"]) >= N_TOKENS
    assert NO_NUMBER in layer["numbers"]
    assert benchmark.stats.stats.median < 0.05 * NOISE
