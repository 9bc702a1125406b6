"""Pictures that a slider moves, in a real browser: as wide as their place, drawn without the page, whose links follow."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.benchmarks.test_sliders import stored_lists
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready
from tests.browser.test_lessons import no_wider_than

pytestmark = pytest.mark.browser
STEP = 20  # pixels in which a picture's width follows its place


def drawn_width(picture: Locator) -> float:
    """What the figure was drawn for, by its own measure."""
    return float((picture.get_attribute("viewBox") or "").split()[2])


def moved(page: Page, slider: str, key: str, picture: Locator) -> None:
    """Presses a key on a slider and waits for another picture."""
    before = picture.inner_html()
    page.get_by_role("slider", name=slider).first.press(key)
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector).innerHTML !== before",
        arg=[".picture svg", before], timeout=PATIENCE_MS,
    )  # fmt: skip
    ready(page)


def shared_link(page: Page) -> str:
    """The link that the page offers under Share."""
    page.get_by_role("button", name="Share", exact=True).click()
    ready(page)
    link = page.get_by_test_id("stPopoverBody").get_by_test_id("stCode").inner_text()
    page.keyboard.press("Escape")
    ready(page)
    return link


@pytest.mark.parametrize("width", [390, 1280])
def test_a_lesson_draws_its_picture_for_its_place_and_follows_the_slider(app: App, visit: Visit, width: int) -> None:
    page = visit(f"{app.url}/lessons?l=surprise&s=4&hide=prediction", width=width)
    page.locator("[class*=go] button[kind=primary]").first.click()
    picture = page.locator(".picture svg").first
    picture.wait_for()
    place = page.locator(".picture").first.evaluate("place => place.clientWidth")
    page.wait_for_function(
        "([place, step]) => Math.abs(document.querySelector('.picture svg').viewBox.baseVal.width - place) <= step",
        arg=[place, STEP], timeout=PATIENCE_MS,
    )  # fmt: skip
    ready(page)
    no_wider_than(page, width)
    wide = drawn_width(picture)
    moved(page, "α: surprise", "ArrowLeft", picture)
    assert drawn_width(picture) == wide, "the next picture is drawn for the same place"
    page.wait_for_url(re.compile("a4="))
    assert shared_link(page) == page.url


def test_the_nearest_point_says_its_numbers(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/lessons?l=surprise&s=4&hide=prediction")
    page.locator("[class*=go] button[kind=primary]").first.click()
    words, mark = page.locator(".picture .said").first, page.locator(".picture svg circle").first
    mark.wait_for()
    ready(page)
    expect(words).to_be_hidden()
    mark.hover(force=True)
    expect(words).to_be_visible()
    expect(words).to_have_text(re.compile(r"\d"))
    page.get_by_role("heading", name="Lessons").hover()
    expect(words).to_be_hidden()


def test_a_run_is_matched_again_and_the_page_around_it_follows(app: App, visit: Visit) -> None:
    run = stored_lists(app)
    page = visit(f"{app.url}/explore?view=clients&v=1&sh=run&run={run}")
    picture, undo = page.locator(".picture svg").first, page.get_by_role("button", name="Undo")
    picture.wait_for(timeout=PATIENCE_MS)
    ready(page)
    expect(undo).to_be_disabled()
    moved(page, "Anchors m", "ArrowLeft", picture)
    expect(page.get_by_text("What-if, not released by this run")).to_be_visible()
    page.wait_for_url(re.compile("am="))
    expect(undo).to_be_enabled()  # the page was drawn again: it had nothing to undo before
    moved(page, "Noise on the lists", "ArrowRight", picture)
    page.wait_for_url(re.compile("an="))
    assert shared_link(page) == page.url
    undo.click()
    page.wait_for_url(re.compile("^(?!.*an=)"))
    expect(page.get_by_role("slider", name="Noise on the lists")).to_have_value("0")
