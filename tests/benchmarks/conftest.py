"""The app and the browser of the browser tests, once for all benchmarks: two of a session would not live side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.conftest import CHROMIUM, FLAGS, PATIENCE_MS, app, browser, visit

__all__ = ["app", "browser", "visit"]
# `drawn(selector)`: milliseconds from the visit until what it names, also within an element, is on the screen.
DRAWN = """window.drawn = selector => new Promise(resolve => {
    const roots = () => [document, ...[...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')]
        .flatMap(each => each.shadowRoot ?? [])];
    const look = () => requestAnimationFrame(roots().some(root => root.querySelector(selector))
        ? () => setTimeout(() => resolve(performance.now())) : look);
    look();
});"""


@pytest.fixture(scope="session")
def context(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A visitor's browser, which keeps compiled scripts on the disk; a context of `browser` keeps none."""
    kept = browser.browser_type.launch_persistent_context(
        tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, args=FLAGS, viewport={"width": 1280, "height": 860}
    )
    kept.set_default_timeout(PATIENCE_MS)
    kept.add_init_script(DRAWN)
    yield kept
    kept.close()
