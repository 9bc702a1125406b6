"""A classroom in two browsers: the teacher asks, a visitor answers on a phone, and both see it without a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from dpcl_core.runs.rooms import Rooms
from tests.browser.conftest import PATIENCE_MS, App, ready
from tests.support import replay

pytestmark = pytest.mark.browser


def _page(browser: Browser, width: int) -> Page:
    page = browser.new_context(viewport={"width": width, "height": 860}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    return page


def test_a_question_is_asked_answered_and_ended_and_a_run_is_shown(browser: Browser, app: App) -> None:
    teacher, visitor = _page(browser, 1280), _page(browser, 390)
    teacher.goto(f"{app.url}/room")
    ready(teacher)
    teacher.get_by_label("Title").fill("Monday")
    teacher.get_by_role("button", name="Open", exact=True).click()
    teacher.wait_for_url("**room=*")
    code = teacher.url.partition("room=")[2][:6]
    visitor.goto(f"{app.url}/room?room={code}")
    expect(visitor.get_by_text("You are")).to_be_visible()
    teacher.get_by_label("Ask", exact=True).fill("Does noise on the sums hide a label?")
    teacher.get_by_role("button", name="Ask", exact=True).press("Enter")
    visitor.get_by_role("button", name="No", exact=True).press("Enter")  # appears by itself
    expect(teacher.get_by_role("button", name="No 1 answer")).to_be_visible()
    expect(visitor.get_by_role("button", name="No 1 answer")).to_have_attribute("aria-pressed", "true")

    spec = replay.a_spec()
    run_id = replay.fill(app.store(), spec, replay.recorded(spec))
    token = next(one["value"] for one in visitor.context.cookies() if one["name"] == "dpcl-visitor")
    Rooms(app.store()).add_run(code, token, run_id)
    expect(visitor.get_by_text("One run. The best with privacy so far")).to_be_visible()
    teacher.get_by_role("button", name="Look for new runs").click()
    teacher.get_by_label("Show a run to everybody").click()
    teacher.get_by_role("option", name=run_id[:4]).click()
    expect(visitor.get_by_role("img", name="after the first task")).to_be_visible()

    teacher.get_by_role("button", name="End the question").click()
    expect(visitor.get_by_role("button", name="Yes")).to_be_disabled()
    visitor.get_by_role("button", name="Leave the room").click()
    expect(visitor.get_by_role("heading", name="Join a room")).to_be_visible()
    for page in (teacher, visitor):
        page.context.close()
