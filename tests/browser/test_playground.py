"""The Playground in a real browser: exact and looked up, pinned, shared, undone, and as quick as it promises."""

from __future__ import annotations

import math
import re
import statistics

import pytest
from playwright.sync_api import Page, expect

from dpcl_core.elements import calculator
from pages.parts import state
from tests.browser.conftest import App, Visit
from tests.browser.test_drag import same_as_python, slider
from tests.support import replay
from tests.support.tiers import quick

pytestmark = pytest.mark.browser
REDRAW = """() => {
    const host = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
    const slider = host.querySelector('.slider'), times = [];
    for (let round = 0; round < 4; round++) for (let stop = 0; stop < 16; stop++) {
        slider.value = stop;
        const start = performance.now();
        slider.dispatchEvent(new Event('input'));
        times.push(performance.now() - start);
    }
    return times;
}"""


def drawn(page: Page) -> None:
    expect(page.locator(".drag.fed")).to_be_visible()
    expect(page.locator(".picture svg").first).to_be_visible()


@pytest.mark.parametrize(("labels", "tasks"), quick(1, [("prior", 2), ("prior-const", 10)]))
def test_browser_and_python_agree_on_every_panel(app: App, visit: Visit, labels: str, tasks: int) -> None:
    page = visit(f"{app.url}/playground?l={labels}&t={tasks}&e=2")
    source = calculator.digits(labels, tasks)  # type: ignore[arg-type]
    for key, epsilon in (("", 2.0), ("Home", 0.1), ("End", math.inf)):
        if key:
            slider(page).press(key)
        same_as_python(page, source, epsilon)
        accuracies = source.class_accuracies(epsilon)
        assert accuracies is not None
        bars = [int(text) for text in page.locator(".panel-classes text[text-anchor=start]").all_text_contents()]
        assert bars == pytest.approx(list(100 * accuracies.mean(axis=0)), abs=0.5001)


def test_a_page_sends_little_redraws_in_a_frame_and_sends_less_on_release(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/privacy")  # a page before, so that the sizes below are those of the playground alone
    sizes: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sizes.append(len(frame))))
    page.goto(f"{app.url}/playground?t=10")
    drawn(page)
    assert 50_000 < sum(sizes) <= 330_000  # figures included
    assert statistics.median(page.evaluate(REDRAW)) < 16  # one frame, at the largest of the bundled streams
    slider(page).press("Home")
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 0.1)")
    sizes.clear()
    slider(page).press("End")
    expect(page.locator(".privacy-bar")).to_contain_text("Not DP")
    expect(page.get_by_text(re.compile(r"After 10 tasks, accuracy without noise is"))).to_be_visible()
    assert sum(sizes) < 60_000  # the products are not sent again


def test_labels_from_the_data_flip_bar_and_odds_at_once(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/playground")
    page.get_by_text("From the data: not DP").click()
    expect(page.locator(".privacy-bar")).to_contain_text("Not DP")
    expect(page.locator(".drag .odds")).to_have_text("No bound: an attacker may be right every time.")
    page.wait_for_url(re.compile("l=data"))


def test_a_pinned_comparison_can_be_shared_and_undone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/playground")
    drawn(page)
    page.get_by_role("button", name="Pin this state").click()
    expect(page.get_by_role("button", name=re.compile("A: ε = 1"))).to_be_visible()
    slider(page).press("Home")
    finding = page.get_by_text(re.compile("Here now is ε = 0.1, 5 tasks, one list; A is ε = 1"))
    expect(finding).to_be_visible()
    page.wait_for_url(re.compile(r"e=0\.1&p="))
    fresh = visit(page.url)
    expect(fresh.get_by_text(finding.inner_text())).to_be_visible()
    same_as_python(fresh, calculator.digits("prior-const", 5), 0.1)
    before = calculator.digits("prior-const", 5).sentence(1.0)
    page.go_back()
    expect(page.locator(".drag .sentence").first).to_have_text(before)
    page.go_forward()
    expect(finding).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".drag .sentence").first).to_have_text(before)
    expect(page.locator(".drag .sentence")).to_have_count(1)


def test_a_stored_run_is_looked_up(app: App, visit: Visit) -> None:
    spec = replay.a_spec(epsilons=(0.5, 2.0, math.inf))
    events = replay.recorded(spec)
    run_id = replay.fill(app.store(), spec, events, name="for the playground")
    source = calculator.trained(state.Result(run_id, "", spec, tuple(events)))
    assert source is not None
    page = visit(f"{app.url}/playground?run={run_id}&e=0.5")
    expect(page.locator(".drag .badge")).to_have_text("looked up")
    same_as_python(page, source, 0.5)
    slider(page).press("ArrowRight")
    same_as_python(page, source, 2.0)
    expect(page.get_by_label("or type ε")).to_be_hidden()
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 2)")


@pytest.mark.slow
def test_a_phone_gets_the_answer_first_and_scrolls_one_way(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/playground?p=prior~5~1", width=390, dark=True)
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    answer, controls = (page.locator(f".st-key-{name}").bounding_box() for name in ("answer", "controls"))
    assert answer is not None
    assert controls is not None
    assert answer["y"] < controls["y"]
