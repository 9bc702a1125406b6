"""Compare by keyboard alone: a group by its tag, one more run by name, and the settings beside the accuracies."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE_MS, App, Visit, ready, tab_to
from tests.support import replay

pytestmark = pytest.mark.browser


def test_a_group_a_filter_and_the_settings_by_keyboard(app: App, visit: Visit) -> None:
    names = ["first #pair", "second #pair", "another", "quiet", "lone", "extra", "zebra"]  # a search needs more than six
    for number, name in enumerate(names):
        spec = replay.a_spec(epsilons=(1.0, 8.0), tasks=2 + number % 2)
        replay.fill(app.store(), spec, replay.recorded(spec), name=name)
    page = visit(f"{app.url}/compare")
    tags = page.locator("[data-tag-index]")

    tab_to(page, "INPUT", "Search")
    page.keyboard.type("zebra")
    page.keyboard.press("Enter")
    ready(page)  # a menu that is open while its choices change closes
    tab_to(page, "BUTTON", "#pair · 2")
    page.keyboard.press("Enter")
    expect(tags).to_have_count(2)
    expect(tags.nth(0)).to_contain_text("second #pair")
    ready(page)

    tab_to(page, "INPUT", "Runs")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="zebra")).to_be_visible()
    expect(page.get_by_role("option", name="quiet")).to_have_count(0)  # the search has not found it
    page.keyboard.press("Enter")
    expect(tags).to_have_count(3)
    page.keyboard.press("Escape")
    ready(page)

    tab_to(page, "BUTTON", "Paired difference")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_text("From settings to accuracy")).to_be_visible(timeout=PATIENCE_MS)
    tab_to(page, "BUTTON", "Save")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Numbers (CSV)")).to_be_visible(timeout=PATIENCE_MS)
