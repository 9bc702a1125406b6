"""Lessons in a real browser: lesson 1 by keyboard alone on a phone, its link in a fresh one; sliders of lessons 3 and 5."""

from __future__ import annotations

import csv
import re

import pytest
from playwright.sync_api import Page, expect

from dpcl_core.lessons import text
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready, tab_to

pytestmark = pytest.mark.browser
LESSON = text.load("label")


def predict(page: Page, step: text.Step) -> None:
    page.get_by_role("radio", name=step.choices[0]).press("Space")
    expect(page.get_by_role("heading", name="Do", exact=True)).to_be_visible()


def no_wider_than(page: Page, width: int) -> None:
    wide = page.evaluate(
        "Math.max(document.documentElement.scrollWidth, document.querySelector('[data-testid=stMain]').scrollWidth)"
    )
    assert wide <= width


def test_a_lesson_opens_on_its_task_where_the_choice_of_lessons_has_no_room_beside_it(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?lesson=5&step=2", width=1024)
    task = page.get_by_role("heading", name="Predict", exact=True).bounding_box()
    choice = page.get_by_role("link", name="To all lessons and steps").bounding_box()
    assert task is not None
    assert choice is not None
    assert choice["y"] < task["y"] < 500


def test_lesson_1_by_keyboard_on_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=label", width=390, dark=True)
    first, second, third, *_ = LESSON.steps

    predict(page, first)
    tab_to(page, "BUTTON", "Release both")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Labels of the classifier with her")).to_contain_text("9")
    expect(page.get_by_role("list", name="Labels of the classifier without her")).not_to_contain_text("9")
    expect(page.get_by_role("status")).to_contain_text("The result: “Yes, at one look”.")
    expect(page.get_by_role("img", name="With her a 9 is on it.")).to_be_visible()
    assert [heading.inner_text() for heading in page.locator("h1, h2, h3").all()] == [
        "Lessons", first.title, "Predict", "Do", "See", "Explain"
    ]  # fmt: skip
    no_wider_than(page, 390)

    tab_to(page, "BUTTON", "Next")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=second.title)).to_be_focused()
    predict(page, second)
    for number in range(1, 6):
        expect(page.get_by_text(f"Round {number} of 5.")).to_be_visible()
        chips = page.get_by_role("list", name="Labels of the classifier", exact=True)
        page.get_by_role("button", name="She is in" if "9" in chips.inner_text() else "She is out").press("Enter")
        expect(page.get_by_text(re.compile(f"^Round {number}: you guessed"))).to_be_visible()
    expect(page.get_by_text("You were right in 5 of 5 rounds.")).to_be_visible()

    tab_to(page, "BUTTON", "Next")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=third.title)).to_be_focused()
    predict(page, third)
    tab_to(page, "BUTTON", "Play")
    page.keyboard.press("Enter")
    expect(page.get_by_text("ε is at least 6.29, more than was promised")).to_be_visible()
    page.keyboard.press("Enter")  # the button keeps the focus
    expect(page.get_by_text("ε is at least 6.99, more than was promised")).to_be_visible()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").press("Enter")
    *_, last, _, promised = csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines())
    assert [round(float(last[2]), 2), promised[1:3]] == [6.99, ["4000", "1"]]
    no_wider_than(page, 390)

    page.wait_for_url(re.compile("d1=1%2C2%2C3"))
    fresh = visit(page.url)
    expect(fresh.get_by_text("Steps, 3 of 8 done")).to_be_visible()
    expect(fresh.get_by_role("heading", name=third.title)).to_be_visible()
    fresh.get_by_role("button", name="○ 5. The best attacker, held").click()
    fresh.get_by_role("radio", name="Like a coin", exact=True).check()
    fresh.get_by_role("button", name="Play 2 × 5,000 rounds").click()
    expect(fresh.get_by_role("img", name="No cut of it beats the best possible")).to_be_visible()
    expect(fresh.get_by_text("Steps, 4 of 8 done")).to_be_visible()
    no_wider_than(fresh, 1280)


@pytest.mark.slow
def test_the_slider_of_lesson_3_by_keyboard_on_a_phone(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=shared&s=2&b3=13&hide=prediction", width=390, dark=True)
    tab_to(page, "BUTTON", "Subtract")
    page.keyboard.press("Enter")
    exact = "With one noise for all, 1,346 of 1,346 other pictures come back exactly; with fresh noise 0 of 1,346."
    expect(page.get_by_text(exact)).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("b3=45"))
    ready(page)
    expect(page.get_by_text(exact)).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)


@pytest.mark.slow
def test_the_weight_of_lesson_5_by_keyboard_on_a_phone(app: App, visit: Visit) -> None:
    """λ is 10, where a random digit is still learned under the turned sign; at 12 it is unlearned."""
    page = visit(f"{app.url}/lessons?l=sign&s=2&hide=prediction", width=390, dark=True)
    tab_to(page, "BUTTON", "Turn the sign")
    page.keyboard.press("Enter")
    expect(page.get_by_text("its sign turned 0.16; hinge −0.84.")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("w5=12"))
    ready(page)
    expect(page.get_by_text("its sign turned −0.01; hinge −1.01.")).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)
