"""Anchors in a real browser: a slider by keyboard on a phone moves what is found, and the page stays within its width."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, ready
from tests.browser.test_lessons import no_wider_than

pytestmark = pytest.mark.browser


def test_noise_by_keyboard_on_a_phone_and_its_link(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/anchors?n=0&x=axes", width=390, dark=True)
    expect(page.get_by_text("80 of 80 entries of 20 clients found their group")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)
    page.get_by_role("slider", name="Noise on the lists").focus()
    page.keyboard.press("End")
    page.wait_for_url(re.compile("n=0.8"))
    ready(page)
    expect(page.get_by_text("80 of 80 entries of 20 clients found their group")).to_have_count(0, timeout=PATIENCE_MS)
    page.get_by_role("tab", name="Cost").click()
    expect(page.get_by_text("the noise must hide a whole list")).to_be_visible(timeout=PATIENCE_MS)
    no_wider_than(page, 390)
