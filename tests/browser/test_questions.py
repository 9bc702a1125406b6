"""Questions in a browser: a set is started from the gallery and stopped as a whole; records answer without a run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dpcl_core import presets
from dpcl_core.runs.shards import Sets
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready

pytestmark = pytest.mark.browser


def test_a_set_is_started_from_the_gallery_and_stopped_as_a_whole_by_keyboard(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions")
    page.get_by_role("radio", name="what it shows").press("Space")
    page.wait_for_url(re.compile("by=shows"))
    ready(page)
    page.get_by_role("button", name=f"Start: {presets.about('blurry-digits').title}").press("Enter")
    expect(page.locator(".st-key-status-line")).to_be_visible()
    page.locator(".st-key-stop-set button").press("Enter")
    # Four runs take longer than a press; how many of them ended before it depends on the machine.
    expect(page.get_by_text(re.compile(r"^Stopped: [0-3] of 4 runs finished"))).to_be_visible()
    ended = Sets(app.store()).newest("blurry-digits")
    assert ended is not None
    assert ended.status == "cancelled"
    page.get_by_role("link", name="All questions").press("Enter")
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()


def test_a_card_opens_its_answer_in_this_tab_and_is_a_link_for_another(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions")
    opened = page.get_by_role("link", name=f"Open: {presets.about('digits-cosine').title}")
    opened.press("Enter")
    answer = page.get_by_role("heading", name=presets.about("digits-cosine").title, level=1)
    expect(answer).to_be_visible()
    page.wait_for_url(re.compile("question=digits-cosine"))
    page.go_back()
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()
    with page.context.expect_page() as other:
        opened.click(modifiers=["Control"])
    other.value.set_default_timeout(PATIENCE_MS)
    other.value.get_by_role("heading", name=presets.about("digits-cosine").title, level=1).wait_for()
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()


def test_records_answer_a_question_at_once(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions?question=cifar100-cosine", width=390)
    expect(page.get_by_text("The answer", exact=True)).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
