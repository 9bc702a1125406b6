"""Anchors in a real browser: sliders move the lists on a phone, six lists are matched by hand, then by the machine."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, ready
from tests.browser.test_lessons import no_wider_than

pytestmark = pytest.mark.browser


def test_noise_by_keyboard_on_a_phone_moves_the_lists_and_its_link(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/anchors?n=0&x=axes", width=390, dark=True)
    finding, marks = page.locator(".an-finding"), page.locator(".an-map path")
    said = "“public axes” puts 80 of 80 entries in their group, agreement 1.00"
    expect(finding).to_contain_text(said, timeout=PATIENCE_MS)
    expect(marks).to_have_count(80)
    before = marks.evaluate_all("marks => marks.map(mark => mark.style.transform)")
    no_wider_than(page, 390)
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("slider", name="Noise on the lists").focus()
    page.keyboard.press("End")
    assert page.evaluate("document.getAnimations().length") == 0  # marks jump where no motion is wished for
    expect(finding).not_to_contain_text("80 of 80")
    assert before != marks.evaluate_all("marks => marks.map(mark => mark.style.transform)")
    page.wait_for_url(re.compile("n=0.4"))
    ready(page)
    page.get_by_role("radio", name="public axes").focus()
    page.keyboard.press("ArrowUp")
    expect(finding).to_contain_text("“anchors, centred” puts")
    page.wait_for_url(re.compile("^(?!.*x=axes)"))
    ready(page)
    page.get_by_role("radio", name="Cost").click()
    expect(page.get_by_text("the noise must hide a whole list")).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)


def test_six_lists_are_matched_by_hand_and_then_by_the_machine(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/anchors?n=0")
    page.get_by_role("radio", name="Match six lists by hand").click(timeout=PATIENCE_MS)
    entries = page.locator(".an-entry:enabled")
    expect(entries).to_have_count(20)
    expect(page.locator(".an-compare")).to_be_disabled()
    entries.first.focus()
    for number in range(20):
        page.keyboard.press(str(number % 4 + 1))
        page.keyboard.press("ArrowRight")
    expect(page.locator(".an-score")).to_have_text("0 of 20 entries left.")
    page.locator(".an-compare").press("Enter")
    expect(page.locator(".an-finding")).to_contain_text("The machine, “anchors, centred”: 20 of 20, 1.00.")
    expect(page.locator(".an-again")).to_be_focused()
    expect(entries.first).to_have_accessible_name(re.compile("truly ., machine ."))
    page.keyboard.press("Enter")
    expect(page.locator(".an-score")).to_have_text("20 of 20 entries left.")
    entries.first.click()
    expect(entries.first).to_have_accessible_name("List 2, entry 1: group 1")
    ready(page)
