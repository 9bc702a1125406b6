"""A page's document in a real browser: whom it asks, and for what."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Route, expect

from pages.parts import document
from tests.browser.conftest import PATIENCE_MS, App, Visit, ready

pytestmark = pytest.mark.browser


def test_a_page_does_not_ask_where_its_server_is(browser: Browser, app: App) -> None:
    """A browser without the framework's cookie asks the server for it; one that has it waits for no answer."""
    context = browser.new_context()
    for visit in range(2):
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        if visit:
            page.route("**/_stcore/health", lambda _: None)  # never answered
        page.goto(f"{app.url}/lessons")
        ready(page)
        assert f"{app.url}/_stcore/health" in asked
        assert not [url for url in asked if url.startswith(f"{app.url}/lessons/")]
    context.close()


@pytest.mark.parametrize(
    ("path", "page_path", "server"),
    [
        ("/lessons", "/lessons", ""), ("/class/lessons", "/lessons", "/class"), ("/", "/", ""), ("/class/", "/", "/class"),
        ("/class", "/", None), ("/lessons", "/runs", None),
    ],
)  # fmt: skip
def test_the_server_is_where_the_page_is(browser: Browser, path: str, page_path: str, server: str | None) -> None:
    """Its address is the page's without the name, also below a proxy's path; where it is unclear, the framework asks."""

    def served(route: Route) -> None:
        is_page = route.request.resource_type == "document"
        text = document.of_page(page_path, "Page") if is_page else ""
        route.fulfill(status=200 if is_page else 404, content_type="text/html", body=text)

    page = browser.new_page()
    page.route("**/*", served)
    page.goto(f"http://dpcl.test{path}")
    told = page.evaluate("window.__streamlit ?? null")
    assert told == (None if server is None else {"BACKEND_BASE_URL": f"http://dpcl.test{server}"})
    page.close()


def test_one_back_undoes_one_link(app: App, visit: Visit) -> None:
    """Train writes its whole view into the address: no entry of its own, and none at the address of the page before."""
    question, train = f"{app.url}/questions?v=1&question=digits-cosine", re.compile(r"/train\?.*&e=")
    page = visit(question)
    heading = page.get_by_role("heading", level=1)
    asked = heading.inner_text()
    for name, url in (("Change its settings", train), ("Its answer", question)):
        page.get_by_role("link", name=name).click()
        expect(page).to_have_url(url, timeout=PATIENCE_MS)
        ready(page)
    for url, title in ((train, "Train"), (question, asked)):
        page.go_back()
        expect(page).to_have_url(url, timeout=PATIENCE_MS)
        expect(heading).to_have_text(title, timeout=PATIENCE_MS)
        ready(page)
        expect(page.get_by_text("The link also has")).to_have_count(0)


@pytest.mark.parametrize("path", ["/runs", "/nowhere"])
def test_a_page_has_the_apps_style_also_at_an_address_that_no_page_has(app: App, browser: Browser, path: str) -> None:
    page = browser.new_page()
    page.goto(app.url + path)
    # Waited for: where no page is, the style is a message, which a browser may draw after the heading.
    expect(page.locator("h1")).to_have_css("padding-top", "0px")  # the framework's is larger
    page.close()
