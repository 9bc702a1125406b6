"""Logins in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from dpcl_core.runs import queue
from tests.browser.conftest import PATIENCE_MS, App, ready, serve
from tests.support import provider
from tests.support.provider import Provider

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def answering() -> Iterator[Provider]:
    """A provider of logins."""
    with provider.running() as running:
        yield running


@pytest.fixture(scope="module")
def app(answering: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A shared server that asks this provider."""
    home = tmp_path_factory.mktemp("home")
    (home / ".streamlit").mkdir()
    (home / ".streamlit" / "secrets.toml").write_text(answering.secrets("http://127.0.0.1:{port}"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(queue.VARIABLE, queue.USUAL)
        patch.setenv("HOME", str(home))
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield from serve(home)


def log_in(browser: Browser, app: App, person: str) -> Page:
    """A browser of its own in which the person has logged in."""
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{app.url}/runs")
    ready(page)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_role("button", name="Log in").press("Enter")
    page.get_by_role("link", name=person).click()
    page.wait_for_url(f"{app.url}/")
    ready(page)
    return page


def test_after_logging_out_the_login_is_asked_for_again(browser: Browser, app: App) -> None:
    page = log_in(browser, app, "ada")
    page.goto(f"{app.url}/about")
    ready(page)
    page.get_by_role("button", name="Help", exact=True).press("Enter")
    page.get_by_role("button", name="Log out").press("Enter")
    page.wait_for_url(f"{app.url}/")
    page.goto(f"{app.url}/runs")
    ready(page)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.context.close()


def slowly(route: Route) -> None:
    time.sleep(1)
    route.continue_()


def test_a_login_outlives_the_cookie_that_confirms_it(browser: Browser, app: App) -> None:
    """The login is kept for a month, the framework's cookie until the browser is closed."""
    page = log_in(browser, app, "ada")
    assert [each for each in page.context.cookies() if each["name"] == "_streamlit_xsrf"]
    page.context.clear_cookies(name="_streamlit_xsrf")
    page.route("**/_stcore/health", slowly)  # whose answer has the cookie
    page.goto(f"{app.url}/runs")
    ready(page)
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.context.close()


def test_a_provider_that_refuses_leaves_the_visitor_outside(browser: Browser, app: App, answering: Provider) -> None:
    answering.refuses = True
    try:
        page = log_in(browser, app, "ada")
    finally:
        answering.refuses = False
    page.goto(f"{app.url}/runs")
    ready(page)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert provider.SECRET not in (app.home / "server.log").read_text(encoding="utf-8")
    page.context.close()
