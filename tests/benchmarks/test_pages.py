"""Budgets of the pages in a real browser (`make bench`), warm: each page has been opened three times before it is timed.

Chromium keeps a script's compiled form from the second visit on and uses it from the third.

Bounds are those of two idle cores, with half as much again for noise.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_benchmark.fixture import BenchmarkFixture

from scripts.record_performance import PAGES
from tests.browser.conftest import App, ready
from tests.browser.test_playground import REDRAW, drawn

NOISE = 1.5


def time_opening(benchmark: BenchmarkFixture, context: BrowserContext, url: str, what: str = "h1") -> float:
    """Times visits in the browser, from the address until what the selector names is drawn; returns the median (s)."""

    def visited(is_awaited: Callable[[Page], object]) -> None:
        page = context.new_page()
        page.goto(url, wait_until="commit")
        is_awaited(page)
        page.close()

    for _ in range(3):
        visited(ready)
    times: list[float] = []
    benchmark.pedantic(lambda: visited(lambda page: times.append(page.evaluate("drawn", what))), rounds=7)
    noted(benchmark, times)
    return statistics.median(times) / 1000


def noted(benchmark: BenchmarkFixture, milliseconds: list[float]) -> None:
    """Keeps what was timed in the browser: the benchmark's own clock also measures how it is driven."""
    benchmark.extra_info |= {"median": statistics.median(milliseconds) / 1000, "worst": max(milliseconds) / 1000}


@pytest.mark.parametrize("name", PAGES)
def test_the_heading_is_there(name: str, app: App, context: BrowserContext, benchmark: BenchmarkFixture) -> None:
    """Within 1 s."""
    assert time_opening(benchmark, context, f"{app.url}/{'' if name == 'start' else name}") < 1.0 * NOISE


def test_the_hero_is_there(app: App, context: BrowserContext, benchmark: BenchmarkFixture) -> None:
    """The first picture within 1.5 s."""
    assert time_opening(benchmark, context, app.url, ".hero .finding:not(:empty)") < 1.5 * NOISE


def test_dragging_redraws_within_a_frame(app: App, browser: Browser, benchmark: BenchmarkFixture) -> None:
    """16 ms; the median of 64 redraws of the largest bundled stream, timed in the browser."""
    page = browser.new_page()
    page.goto(f"{app.url}/playground?t=10")
    drawn(page)
    times = benchmark.pedantic(lambda: page.evaluate(REDRAW), rounds=3)
    benchmark.extra_info["median_ms"] = statistics.median(times)
    assert statistics.median(times) < 16 * NOISE
    page.close()


LET_GO = """([stop, inBar, inSentence]) => new Promise(resolve => {
    const host = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
    const slider = host.querySelector('.slider');
    slider.value = stop;
    slider.dispatchEvent(new Event('input'));
    const start = performance.now();
    slider.dispatchEvent(new Event('change'));
    const look = () => {
        const bar = document.querySelector('.privacy-bar').textContent;
        const sentences = [...document.querySelectorAll('strong')].map(each => each.textContent);
        if (bar.includes(inBar) && sentences.some(each => each.startsWith('After 5 tasks') && each.includes(inSentence)))
            resolve(performance.now() - start);
        else requestAnimationFrame(look);
    };
    look();
})"""


def test_letting_go_brings_all_curves_and_sentences(app: App, browser: Browser, benchmark: BenchmarkFixture) -> None:
    """200 ms median from letting the slider go to the bar and the figure's sentence at the new budget."""
    page = browser.new_page()
    page.goto(f"{app.url}/playground")
    drawn(page)
    last = page.evaluate(
        "document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot.querySelector('.slider').max"
    )
    ends = iter([(0, "(epsilon 0.1)", "at ε = 0.1."), (int(last), "Not DP", "accuracy without noise is")] * 20)
    times: list[float] = []
    benchmark.pedantic(lambda: times.append(page.evaluate(LET_GO, list(next(ends)))), rounds=16, warmup_rounds=4)
    benchmark.extra_info["median_ms"] = statistics.median(times[4:])
    print(f"let go: median {statistics.median(times[4:]):.0f} ms, largest {max(times[4:]):.0f} ms")
    assert statistics.median(times[4:]) < 200 * NOISE
    page.close()
