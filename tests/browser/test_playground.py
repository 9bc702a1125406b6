"""The playground in a real browser: what is dragged, and pictures that follow a slider."""

import math
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from dpcl_core.elements import calculator
from dpcl_core.explorers import cosine_replay
from pages.parts import state
from tests.browser.conftest import PATIENCE_MS, App, Visit
from tests.playground import arms
from tests.support import replay
from tests.support.tiers import quick


def drawn(page: Page) -> None:
    expect(page.locator(".drag.fed")).to_be_visible()
    expect(page.locator(".picture svg").first).to_be_visible()


@pytest.mark.parametrize(("labels", "tasks"), quick(1, [("prior", 2), ("prior-const", 10)]))
def test_browser_and_python_agree_on_every_panel(app: App, visit: Visit, labels: str, tasks: int) -> None:
    page = visit(f"{app.url}/explore?view=playground&l={labels}&t={tasks}&e=2")
    source = calculator.digits(labels, tasks)  # type: ignore[arg-type]
    page.get_by_text(PROMISE).click()
    for key, epsilon in (("", 2.0), ("ArrowRight", 3.0), ("Home", 0.1), ("End", math.inf)):
        if key:
            slider(page).press(key)
        expect(page.locator(".privacy-bar")).to_contain_text("Not DP" if key == "End" else f"(epsilon {epsilon:g},")
        assert key == "End" or f"{epsilon:g}" in (slider(page).get_attribute("aria-valuetext") or "")
        same_as_python(page, source, epsilon)
        accuracies = source.class_accuracies(epsilon)
        bars = [int(text) for text in page.locator(".panel-classes text[text-anchor=start]").all_text_contents()]
        assert bars == pytest.approx(list(100 * accuracies.mean(axis=0)), abs=0.5001)


def test_a_pinned_comparison_can_be_shared_and_undone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=playground")
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
    expect(finding).to_be_hidden()  # the whole page is drawn: a step taken sooner would be taken from the view before
    page.go_forward()
    expect(finding).to_be_visible()
    same_as_python(page, calculator.digits("prior-const", 5), 0.1)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".drag .sentence").first).to_have_text(before)
    expect(page.locator(".drag .sentence")).to_have_count(1)


def test_a_stored_run_is_looked_up(app: App, visit: Visit) -> None:
    spec = replay.a_spec(epsilons=(0.5, 2.0, math.inf))
    events = replay.recorded(spec)
    run_id = replay.fill(app.store(), spec, events, name="for the playground")
    source = calculator.finished_cells(state.Result(run_id, "", spec, tuple(events)))
    page = visit(f"{app.url}/explore?view=playground&run={run_id}&e=0.5")
    expect(page.locator(".drag .badge")).to_have_text("looked up")
    same_as_python(page, source, 0.5)
    slider(page).press("ArrowRight")
    same_as_python(page, source, 2.0)
    expect(page.get_by_label("or ε =")).to_be_hidden()
    expect(page.get_by_text("times likelier because of you")).to_be_visible()


# The ε-drag on the Playground in a real browser: by mouse, by keys and by typing, wide and narrow, light and dark.


SOURCE = calculator.digits("prior-const", 5)
PROMISE = "What this ε would promise"  # opens the statement


def slider(page: Page) -> Locator:
    return page.get_by_role("slider", name=re.compile("Privacy budget"))


def same_as_python(page: Page, source: calculator.Source, epsilon: float) -> None:
    """Sentence, odds and every cell of the matrix in the browser are what Python computes."""
    expect(page.locator(".drag .sentence")).to_have_text(source.sentence(epsilon))
    expect(page.locator(".drag .odds")).to_have_text(source.odds(epsilon))
    drawn = [int(cell) for cell in page.locator(".panel-matrix text.number").all_text_contents()]
    matrices = source.matrices(epsilon)
    ours = [
        100 * sum(matrix[k][i] for matrix in matrices) / len(matrices) for k in range(source.n_tasks) for i in range(k + 1)
    ]
    assert drawn == pytest.approx(ours, abs=0.5001)


def test_a_drag_redraws_before_it_is_let_go_and_reports_after(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=playground")
    expect(page.locator(".drag.fed")).to_be_visible()
    page.get_by_text(PROMISE).click()
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 1,")
    slider(page).hover()  # waits until it stands still
    box = slider(page).bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.4 * box["width"], y)
    page.mouse.down()
    sentence = page.locator(".drag .sentence")
    for share in (0.3, 0.2, 0.02):
        before = sentence.inner_text()
        page.mouse.move(box["x"] + share * box["width"], y)
        expect(sentence).not_to_have_text(before)
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 1,")  # the server has heard nothing yet
    page.mouse.up()
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 0.1,")


def test_a_typed_budget_is_taken_and_a_bad_one_refused_in_one_sentence(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/explore?view=playground")
    drawn(page)
    page.get_by_text(PROMISE).click()
    expect(page.locator(".privacy-bar")).to_be_visible()
    typed = page.get_by_label("or ε =")
    typed.fill("0,37")
    typed.press("Enter")
    same_as_python(page, SOURCE, 0.37)
    # No stop of the slider: the accountant is asked, and the first question loads it.
    expect(page.locator(".privacy-bar")).to_contain_text("(epsilon 0.37,", timeout=PATIENCE_MS)
    for bad in ("banana", "0", "-1", "17", ""):
        typed.fill(bad)
        typed.press("Enter")
        expect(page.locator(".drag .complaint")).to_have_text(f"ε = {bad}: must be a number from 0.1 to 16, or ∞.")
        expect(page.locator(".drag .sentence")).to_have_text(SOURCE.sentence(0.37))
    typed.fill("∞")
    typed.press("Enter")
    same_as_python(page, SOURCE, math.inf)
    expect(page.locator(".drag .complaint")).to_be_empty()


def test_four_ways_with_noise_follow_the_slider_and_their_own_switches(app: App, visit: Visit) -> None:
    """Ten digits cannot come in one task each of fifty; the numbers are those that Python computes."""
    page = visit(f"{app.url}/playground?e=0.5")
    told = page.locator(".drag .told")

    def same(n_tasks: int, returns: bool, epsilon: float) -> None:
        found = arms.accuracies(cosine_replay.digits(), n_tasks, returns, epsilon)
        ends = {arm: f"{100 * float(values[:, -1].mean()):.1f}" for arm, values in found.items()}
        sentence = calculator.DRAG_WORDS["arms_sentence" if math.isfinite(epsilon) else "arms_clean"]
        expect(told).to_have_text(sentence.format(epsilon=f"{epsilon:g}", tasks=n_tasks, **ends), timeout=PATIENCE_MS)

    page.locator(".drag .panel-arms").scroll_into_view_if_needed(timeout=PATIENCE_MS)
    same(5, False, 0.5)
    page.get_by_label("50", exact=True).check()
    same(50, True, 0.5)
    expect(page.get_by_label("in one task", exact=True)).to_be_disabled()
    page.get_by_label("remembered", exact=True).check()
    expect(page.locator("path.arm-remembered")).to_have_class(re.compile("chosen"))
    slider(page).focus()
    page.keyboard.press("End")
    same(50, True, math.inf)
    page.get_by_label("10", exact=True).last.check()
    expect(page.get_by_label("in one task", exact=True)).to_be_enabled()


def test_newcomers_of_a_stream_that_forgets_have_three_columns_beside_each_other(app: App, visit: Visit) -> None:
    """The numbers are those that Python computes; what is left of the sums has a slider of its own, which keys move."""
    page = visit(f"{app.url}/playground?e=2", width=390)
    rows = page.locator(".drag .panel-newcomers tbody tr")
    rows.first.scroll_into_view_if_needed(timeout=PATIENCE_MS)
    for decay in (1.0, 0.9):
        found = arms.forgetting(cosine_replay.digits(), decay, 2.0)
        told = [f"{way}{100 * right:.1f} %{newcomer:.2f}2.00" for way, (right, newcomer) in found.items()]
        expect(rows).to_have_text(told, timeout=PATIENCE_MS)
        page.locator("#left").focus()
        for _ in range(5):
            page.keyboard.press("ArrowLeft")
    expect(page.locator(".drag .came")).to_contain_text("Forgetting has two sides")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
