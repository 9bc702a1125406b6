"""Writes the table of first visits in `docs/performance.md`: what each page sends, and how long a phone waits for two.

Every page is opened on a screen of 390 × 844 pixels by a browser that knows nothing yet. All that the server sends is
counted, with headers and websocket. The phone has 1.6 Mbit/s, 150 ms to the server and a processor four times slower than
this one. Run on a quiet machine with Chromium: python -m scripts.record_first_visit [PAGE …]
"""

import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from dpcl_core import machine
from pages.parts import served
from scripts.record_performance import DOCUMENT, PAGES
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.support.serving import serving

START, END = "<!-- written by scripts/record_first_visit.py -->", "<!-- end of first visits -->"
PHONE: Final = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
NETWORK: Final = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 93_750}
SLOWER: Final = 4
TIMED: Final = ("start", "train")
TRIES: Final = 3
WATCH: Final = """window.firsts = {};
const look = () => {
  for (const [name, what] of Object.entries({heading: "h1", chart: ".picture svg, .js-plotly-plot .main-svg"}))
    if (!(name in window.firsts) && document.querySelector(what)) window.firsts[name] = performance.now() / 1000;
  setTimeout(look, 50);
};
look();"""
DRAWN: Final = """() => document.querySelector('[data-test-script-state="notRunning"]')
    && !document.querySelector('[data-testid="stSkeleton"]') && document.fonts.status === 'loaded'"""


class Counted:
    """A way to the server that counts what comes back."""

    def __init__(self, port: int) -> None:
        self.port, self.bytes = port, 0
        self.door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address that a browser visits."""
        return f"http://127.0.0.1:{self.door.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self.door.accept()
            except OSError:  # closed
                return
            there = socket.create_connection(("127.0.0.1", self.port))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if source.getpeername()[1] == self.port:
                    self.bytes += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # one of both has gone
            pass


@contextmanager
def counted(port: int) -> Iterator[Counted]:
    """The way to a server, which is closed at the end."""
    way = Counted(port)
    try:
        yield way
    finally:
        way.door.close()


def visit(browser: Browser, port: int, name: str, *, is_slow: bool) -> tuple[float, dict[str, float]]:
    """kB of a first visit to a page, and seconds to its heading and to its first chart, if it has one."""
    context = browser.new_context(**PHONE)
    page = context.new_page()
    page.set_default_timeout(180_000)
    page.add_init_script(WATCH)
    if is_slow:
        devtools = context.new_cdp_session(page)
        devtools.send("Network.enable")
        devtools.send("Network.emulateNetworkConditions", NETWORK)
        devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    with counted(port) as way:
        page.goto(f"{way.url}/{'' if name == 'start' else name}", wait_until="commit")
        page.wait_for_selector("h1")
        page.wait_for_function(DRAWN)
        page.wait_for_timeout(2000)  # for what a page asks for when nothing else is left to do
        firsts = page.evaluate("window.firsts")
        size = way.bytes / 1000
    context.close()
    return size, firsts


def measured(names: Sequence[str], port: int) -> Iterator[str]:
    """The rows of the table; seconds are medians over the tries."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name in names or PAGES:
            size, _ = visit(browser, port, name, is_slow=False)
            tries = [visit(browser, port, name, is_slow=True)[1] for _ in range(TRIES if name in TIMED else 0)]
            columns = ([firsts[what] for firsts in tries if what in firsts] for what in ("heading", "chart"))
            seconds = " | ".join(f"{median(column):.1f} s" if column else "" for column in columns)
            yield f"| {PAGES[name]} | {size:,.0f} | {seconds} |"
        browser.close()


def main(names: Sequence[str]) -> int:
    """Measures, and writes the table, or prints it where pages are named."""
    served.fill()
    about = f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}; medians of {TRIES} visits."
    lines = [about, "", "| page | kB | heading on the phone | first chart |", "| --- | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as (port, _):
        for line in measured(names, port):
            lines.append(line)
            print(line, file=sys.stderr, flush=True)
    if not names:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
        after = rest.partition(END)[2]
        table = "\n".join(lines)
        DOCUMENT.write_text(f"{before}{START}\n{table}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
