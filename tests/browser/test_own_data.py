"""A table of one's own in a browser: mapped, kept, set up for a run, and deleted with everything made of it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import App, Visit, ready

pytestmark = pytest.mark.browser
ROWS = "".join(f"p{row % 150},{20 + row % 60},{('home', 'ward')[row % 2]}\n" for row in range(600))


def test_a_table_is_mapped_kept_and_deleted(app: App, visit: Visit, tmp_path) -> None:
    table = tmp_path / "visits.csv"
    table.write_text(f"patient,age,<b>outcome</b>\n{ROWS}", encoding="utf-8")
    page = visit(f"{app.url}/data")
    page.locator("input[type=file]").set_input_files(table)
    expect(page.get_by_text("The first line may be a row of data.")).to_be_visible()
    expect(page.get_by_text("<b>outcome</b>")).to_have_count(0)
    page.get_by_text("names the columns", exact=True).click()
    expect(page.get_by_text("Choose the target: the column to predict.")).to_be_visible()
    for role, column in (("Target", "<b>outcome</b>"), ("Person", "patient")):
        page.get_by_label(role, exact=True).click()
        page.get_by_role("option", name=column, exact=True).click()
    expect(page.get_by_text("The privacy unit is a person")).to_be_visible()
    expect(page.get_by_role("cell", name="<b>outcome</b>")).to_be_visible()
    page.get_by_role("button", name="Keep these data for runs").click()
    expect(page.get_by_text("Kept as visits (own data).")).to_be_visible()
    assert not list((app.home / "uploads").rglob("*.csv")), "the upload itself is gone"

    page.get_by_role("link", name="Set up a run with this stream").click()
    expect(page.get_by_role("heading", name="Train", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("own(:|%3A)visits"))
    page.goto(f"{app.url}/data")
    ready(page)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete all of it").click()
    expect(page.get_by_text("own:visits")).to_have_count(0)
    assert not (app.home / "data" / "visits").exists()
