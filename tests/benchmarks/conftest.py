"""The app and the browser of the browser tests, once for all benchmarks: two of a session would not live side by side."""

from tests.browser.conftest import app, browser, visit

__all__ = ["app", "browser", "visit"]
