"""Exercises in a real browser: answers on a phone, the code that they give, and what the teacher's page reads in it."""

from __future__ import annotations

import csv

import pytest
from playwright.sync_api import expect

from dpcl_core.lessons import exercises
from tests.browser.conftest import App, Visit

pytestmark = pytest.mark.browser


def test_answers_become_a_code_that_the_teacher_reads(app: App, visit: Visit) -> None:
    asked = exercises.sheet("Many releases", "amber fox")
    page = visit(f"{app.url}/exercises?part=2", width=390, dark=True)
    page.get_by_label("Your invented name", exact=True).fill("Amber Fox")
    page.keyboard.press("Enter")
    for one in asked:
        page.get_by_label(f"Answer 2{one.letter}, {one.wanted}").fill("999" if one.letter == "c" else str(one.answer))
    page.get_by_role("button", name="Check").press("Enter")
    expect(page.get_by_role("status")).to_contain_text(f"{len(asked) - 1} of {len(asked)} right.")
    code = page.get_by_text("amber-fox-2").inner_text()
    page.goto(f"{app.url}/teacher?part=2")
    page.get_by_role("radio", name="Codes").click()
    page.get_by_label("Codes, with blanks or new lines between them").fill(f"{code}\n{code.replace('abd', 'abcd')}")
    page.get_by_role("button", name="Check the codes").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 of 2 valid.")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").press("Enter")
    _, first, second = csv.reader(waiting.value.path().read_text(encoding="utf-8").splitlines())
    assert first == ["amber fox", "Many releases", f"{len(asked) - 1} of {len(asked)}", "abd", "yes", ""]
    assert second[4] == "no"
