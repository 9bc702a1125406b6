"""Questions in a browser: a set is started from the gallery and stopped as a whole; records answer without a run."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dpcl_core.runs.sets import Sets
from tests.browser.conftest import App, Visit, ready

pytestmark = pytest.mark.browser


def test_a_set_is_started_from_the_gallery_and_stopped_as_a_whole_by_keyboard(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions")
    page.get_by_role("radio", name="what it shows").press("Space")
    page.wait_for_url(re.compile("by=shows"))
    start = page.locator(".st-key-start-blurry-digits button")
    ready(page)
    expect(start).to_have_count(1)  # while the groups change, it is in the old one and in the new one
    start.press("Enter")
    expect(page.locator(".st-key-status-line")).to_be_visible()
    page.locator(".st-key-stop-set button").press("Enter")
    # Four runs take longer than a press; how many of them ended before it depends on the machine.
    expect(page.get_by_text(re.compile(r"^Stopped: [0-3] of 4 runs finished"))).to_be_visible()
    ended = Sets(app.store()).newest("blurry-digits")
    assert ended is not None
    assert ended.status == "cancelled"
    page.get_by_role("link", name="All questions").press("Enter")
    expect(page.get_by_role("heading", name="Questions", exact=True)).to_be_visible()


def test_records_answer_a_question_at_once(app: App, visit: Visit) -> None:
    page = visit(f"{app.url}/questions?question=cifar100-cosine", width=390)
    expect(page.get_by_text("The answer", exact=True)).to_be_visible()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
