"""The app in a real headless Chromium: a server of its own in a home of its own, and pages that must stay clean.

The browser is the one that `DPCL_CHROMIUM` names, else `/usr/bin/chromium`. A visited page fails its test for an error on
the console, a failed request, a request to anywhere else, a WebGL canvas, or letters in place of an icon. A failed test
leaves a screenshot.
"""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect, sync_playwright

from dpcl_core.runs.store import Store

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("DPCL_CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 240_000  # of a page on a busy machine
# A link to a page makes the framework look for its server below the page's path first; it then finds it above.
_HARMLESS = re.compile(r"/[a-z]+/_stcore/(health|host-config)$")
_READY = """() => document.querySelector('[data-test-script-state="notRunning"]')
    && !document.querySelector('[data-testid="stSkeleton"]') && document.fonts.status === 'loaded'"""
WIDTH = "Math.max(document.documentElement.scrollWidth, document.querySelector('[data-testid=stMain]')?.scrollWidth ?? 0)"
_FOCUSED = """() => { const at = document.activeElement;
    return [at.tagName, at.getAttribute('aria-label') || at.closest('label')?.innerText || at.innerText || '']; }"""
_WITHOUT_ICON = """[...document.querySelectorAll('[data-testid="stIconMaterial"]')]
    .filter(icon => icon.scrollWidth > 1.5 * parseFloat(getComputedStyle(icon).fontSize)).map(icon => icon.textContent)"""
Visit = Callable[..., Page]


@dataclass(frozen=True)
class App:
    """A running app: its address and the home it writes to."""

    url: str
    home: Path

    def store(self) -> Store:
        """The store that the app uses."""
        return Store(f"sqlite:///{self.home / 'store.sqlite'}")


def serve(home: Path, script: Path = ROOT / "app.py") -> Iterator[App]:
    """Starts the app, or another script of Streamlit, on a free port and ends it afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "DPCL_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    environment.pop("DPCL_STORE", None)
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--browser.serverAddress", "127.0.0.1", "--server.headless", "true"]
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_healthy(url, server)
            yield App(url, home)
        finally:
            server.terminate()
            server.wait(PATIENCE_MS / 1000)


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """One app for the whole session."""
    yield from serve(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the whole session."""
    if not Path(CHROMIUM).exists():
        pytest.fail(f"no browser at {CHROMIUM}: install Chromium or name it in DPCL_CHROMIUM")
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)  # its own five seconds are too few on a busy machine
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Opens an address in a fresh context and waits until the page is drawn; checks at the end that it stayed clean."""
    troubles: list[str] = []
    pages: list[Page] = []

    def opened(url: str, *, width: int = 1280, height: int = 860, dark: bool = False) -> Page:
        page = new_page(browser, width, height, color_scheme="dark" if dark else "light")
        _listen(page, "/".join(url.split("/")[:3]), troubles)
        pages.append(page)
        go(page, url)
        return page

    yield opened
    failed = getattr(request.node, "failed", False)
    for number, page in enumerate(pages):
        if failed:
            folder = ROOT / "test-results"
            folder.mkdir(exist_ok=True)
            page.screenshot(path=folder / f"{request.node.name}-{number}.png", full_page=True)
        elif page.evaluate("[...document.querySelectorAll('canvas')].some(c => c.getContext('webgl') !== null)"):
            troubles.append(f"WebGL on {page.url}")
        elif letters := page.evaluate(_WITHOUT_ICON):
            troubles.append(f"letters in place of icons on {page.url}: {letters}")
        page.close()
    assert failed or not troubles, "\n".join(troubles)


def new_page(browser: Browser, width: int = 1280, height: int = 860, **options: Any) -> Page:
    """An empty page in a context of its own, which waits as long as a busy machine needs."""
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    page.set_default_timeout(PATIENCE_MS)
    return page


def go(page: Page, url: str) -> None:
    """Opens an address and waits until its page is drawn."""
    page.goto(url)
    ready(page)


def ready(page: Page) -> None:
    """Waits until the page's script has run, nothing is a placeholder any more and the fonts are there."""
    page.wait_for_selector("h1")
    page.wait_for_function(_READY)


def no_wider_than(page: Page, width: int) -> None:
    """Asserts that nothing of a page reaches out of a screen of so many pixels."""
    assert page.evaluate(WIDTH) <= width


def tab_to(page: Page, tag: str, words: str) -> None:
    """Walks with the Tab key until something of that kind that begins with these words has the focus."""
    if tag == "BUTTON":
        expect(page.locator("button", has_text=words).first).to_be_visible(timeout=PATIENCE_MS)
    for _ in range(80):
        page.keyboard.press("Tab")
        at, said = page.evaluate(_FOCUSED)
        if at == tag and said.strip().startswith(words):
            return
    raise AssertionError(f"{words!r} cannot be reached by the Tab key")


def walk_and_press(page: Page, words: str) -> None:
    """Presses a button that begins with these words by the keyboard alone."""
    tab_to(page, "BUTTON", words)
    page.keyboard.press("Enter")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all that stands in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Lets fixtures know that their test failed."""
    outcome = yield
    item.failed = getattr(item, "failed", False) or outcome.get_result().failed  # type: ignore[attr-defined]


def _listen(page: Page, origin: str, troubles: list[str]) -> None:
    def console(message: ConsoleMessage) -> None:
        if message.type == "error" and not _HARMLESS.search(message.location.get("url", "")):
            troubles.append(f"console: {message.text} ({message.location.get('url')})")

    def asked(request: Request) -> None:
        if not request.url.startswith((origin, origin.replace("http", "ws", 1), "data:", "blob:")):
            troubles.append(f"request to elsewhere: {request.url}")

    def answered(response: Response) -> None:
        if response.status >= 400 and not _HARMLESS.search(response.url):
            troubles.append(f"{response.status} for {response.url}")

    page.on("console", console)
    page.on("request", asked)
    page.on("response", answered)
    page.on("pageerror", lambda error: troubles.append(f"script error: {error}"))


def _wait_until_healthy(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise RuntimeError(f"the app ended at once with status {server.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the app did not start within a minute")
