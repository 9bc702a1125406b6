"""Elements as plain files: opened without a server, they answer, and nothing is asked of anybody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dpcl_core.elements import calculator
from dpcl_core.elements.element import CALCULATOR, LESSON
from dpcl_core.lessons import in_browser

pytestmark = pytest.mark.browser
RELOADS = 120


def opened(browser: Browser, path: Path, inline: str, width: int) -> tuple[Page, list[str]]:
    """The page and, from then on, its errors and its requests for anything but itself."""
    path.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><body>{inline}</body></html>', encoding="utf-8")
    page = browser.new_context(viewport={"width": width, "height": 860}).new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda request: troubles.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    return page, troubles


def ticked(page: Page, n_ticks: int) -> None:
    """Opens the page's file a second time, beside it, until its lesson has so many ticks.

    Another process of the browser keeps what a page writes, and hears of it late on a busy computer. A page that is loaded
    again at once may end before it has told: the first page therefore stays open.
    """
    beside = page.context.new_page()
    beside.goto(page.url)
    ticks = beside.get_by_role("button", name=", done")
    for _ in range(RELOADS):
        beside.get_by_role("heading", level=2).wait_for()
        if ticks.count() == n_ticks:
            break
        beside.wait_for_timeout(250)
        beside.reload()
    expect(ticks).to_have_count(n_ticks)
    beside.close()


def test_calculators_and_lessons_work_from_a_file(browser: Browser, tmp_path: Path) -> None:
    inline = CALCULATOR.inline(calculator.document(), name="calculator")
    page, troubles = opened(browser, tmp_path / "calculator.html", inline, 390)
    expect(page.get_by_role("status")).to_have_text("σ = 3.7307")
    page.get_by_role("radio", name="DP-SGD: noise on random batches").check()
    page.get_by_role("radio", name="ε, from σ and δ").check()
    page.get_by_label("σ (noise multiplier)", exact=True).fill("1")
    page.get_by_label("steps", exact=True).fill("1000")
    expect(page.get_by_role("status")).to_have_text("ε = 2.1078")  # dp_accounting's, in tests/elements/test_calculator.py
    page.get_by_role("slider", name="Tasks with the same person").press("End")
    expect(page.get_by_role("row", name="in 50 tasks (sequential, exact)")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not troubles
    page.context.close()
    lessons = (("label", "Release both", "With her a 9 is on it."), ("noise", "Learn ten tasks", "in this one draw."))
    for name, button, found in lessons:
        page, troubles = opened(browser, tmp_path / f"{name}.html", LESSON.inline(in_browser.document(name), name=name), 390)
        page.get_by_role("radio").first.press("Space")
        page.get_by_role("button", name=button).press("Enter")
        expect(page.get_by_role("img")).to_have_accessible_name(re.compile(found))
        expect(page.get_by_role("status")).to_contain_text("You predicted")
        page.get_by_role("button", name="Next").press("Enter")
        expect(page.get_by_role("heading", level=2)).to_be_focused()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not troubles
        ticked(page, n_ticks=1)
        page.get_by_role("button", name="Start again").press("Enter")
        ticked(page, n_ticks=0)
        page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } });")
        page.reload()
        page.get_by_role("radio").first.press("Space")
        page.get_by_role("button", name=button).press("Enter")
        expect(page.get_by_role("button", name=", done")).to_have_count(1)
        assert not [one for one in troubles if not one.startswith("file:")]
        page.context.close()
