"""Presenter size on a projector, kept over pages and a reload, and in links; on a phone, a slider beside its picture."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import App, Visit, ready

pytestmark = pytest.mark.browser
TOGETHER = {
    "": (".hero .difference", ".hero .slider"),
    "playground": (".panel-accuracy svg", ".drag .slider"),
    "tokens": (".tk-text", ".tk-theta"),
    "anchors": (".an-map", ".an-noise"),
}
SIZE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"  # of letters, in pixels
USUAL, LARGE = 15, 19


def letters_of(page: Page, size: int) -> None:
    """Waits until the page's letters have that size: a switch's new name arrives before the page's new style."""
    page.wait_for_function(f"{SIZE} === {size}")


def seen(page: Page, *selectors: str) -> None:
    for selector in selectors:
        expect(page.locator(selector)).to_be_in_viewport(ratio=1)


def test_a_projector_shows_each_picture_with_its_slider_in_large_letters(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/?large=1", width=1024)
    page.set_viewport_size({"width": 1024, "height": 768})
    for name, together in TOGETHER.items():
        page.goto(f"{app.url}/{name}?large=1")
        ready(page)
        seen(page, *together)
        letters_of(page, LARGE)
        assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 1024


def test_presenter_size_is_switched_kept_over_pages_and_a_reload_and_shared(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons", width=1024)
    letters_of(page, USUAL)
    page.get_by_role("button", name="Help", exact=True).press("Enter")
    page.get_by_role("button", name="Presenter size").press("Enter")
    expect(page.get_by_role("button", name="Normal size")).to_be_visible()
    letters_of(page, LARGE)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="About", exact=True).click()
    expect(page.get_by_role("heading", name="About", exact=True)).to_be_visible()
    page.wait_for_url(re.compile(r"about\?large=1$"))
    page.reload()
    ready(page)
    letters_of(page, LARGE)
    page.go_back()
    if "/about" in page.url:  # which of a page and its parameters the browser is told first is open; either adds an entry
        ready(page)
        page.go_back()
    expect(page.get_by_role("heading", name="Lessons", exact=True)).to_be_visible()
    ready(page)
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.get_by_test_id("stPopoverBody").get_by_test_id("stCode")).to_contain_text(re.compile("large=1"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Help", exact=True).click()
    page.get_by_role("button", name="Normal size").click()
    expect(page.get_by_role("button", name="Presenter size")).to_be_visible()
    letters_of(page, USUAL)
    assert "large" not in page.url


@pytest.mark.slow
def test_a_phone_shows_a_slider_beside_its_picture(app: App, visit: Visit) -> None:
    page = visit(app.url, width=390)
    for name in ("", "playground", "anchors"):
        page.goto(f"{app.url}/{name}")
        ready(page)
        picture, slider = TOGETHER[name]
        page.locator(slider).scroll_into_view_if_needed()
        page.locator(picture).scroll_into_view_if_needed()
        seen(page, picture, slider)
