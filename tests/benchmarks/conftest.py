"""The app and the browser of the browser tests, once for all benchmarks: two of a session would not live side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.conftest import app, browser, visit

__all__ = ["app", "browser", "visit"]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 860})
    yield found
    found.close()
