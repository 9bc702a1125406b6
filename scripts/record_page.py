"""Writes the table of "Train in this page" in `docs/performance.md`: what comes over the network, and how long things take.

The site is built with its engine and handed out by a static host of this computer. Run on a quiet machine with Chromium, and
Firefox if there is one: python -m scripts.record_page
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from dpcl_core import machine, paths
from dpcl_core.methods import catalog as methods
from dpcl_core.site import build, live
from scripts.record_performance import DOCUMENT
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.page import rooms
from tests.support.firefox import PROGRAM, firefox
from tests.support.static_host import Host, cut, hosted

START, END = "<!-- written by scripts/record_page.py -->", "<!-- end of the page -->"
PATIENCE_MS: Final = 600_000
_DIGITS: Final = {"data": {"dataset": "digits", "backbone": "pixels"}, "scenario": {"kind": "class-incremental", "tasks": 5}}
NINE: Final = {"method": "cosine", **_DIGITS, "privacy": {"epsilons": [0.5, 1, 8]}, "seeds": [0, 1, 2]}
HEADS: Final = {
    "method": "peft-ensemble", **_DIGITS, "privacy": {"epsilons": [1]}, "seeds": [0, 1, 2],
    "params": {"adapter": "head", "epochs": 40, "sample_rate": 0.1, "clip_norm": 1.0, "learning_rate": 0.003},
}  # fmt: skip
CLIENTS: Final = {
    "data": {"dataset": "news-features", "backbone": "pixels"}, "scenario": {"kind": "federated"}, "labels": "prior",
    "seeds": [0],
}  # fmt: skip
_SLIDER: Final = """() => {
    const slider = document.getElementById("first").shadowRoot.querySelector(".slider");
    const began = performance.now();
    slider.value = slider.value === slider.max ? slider.min : slider.max;
    slider.dispatchEvent(new Event("input"));
    slider.getBoundingClientRect();
    return performance.now() - began;
}"""
_MANY: Final = 40  # seeds of the run during which the slider is moved
_CSV_BYTES: Final = 49_000_000


def address(host: Host, settings: dict[str, Any]) -> str:
    """The page with these settings."""
    return f"http://127.0.0.1:{host.port}/site/train-here.html#run={quote(json.dumps(settings))}"


def state(page: Page, *names: str) -> None:
    """Waits until the page is in one of these states. Raises RuntimeError where it fails."""
    wanted = ", ".join(f"#train-here[data-state={name}]" for name in (*names, "failed"))
    page.wait_for_selector(wanted, timeout=PATIENCE_MS)
    if page.get_attribute("#train-here", "data-state") not in names:
        raise RuntimeError(page.inner_text("#trouble"))


def seconds(page: Page, name: str = "seconds") -> float:
    """What the page says that its last step took."""
    return float(page.get_attribute("#train-here", f"data-{name}") or "nan")


def peak() -> float:
    """The largest memory, in MB, that a renderer of a browser begun here has had."""
    told: dict[int, dict[str, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            lines = (line.partition(":") for line in (folder / "status").read_text(encoding="utf-8").splitlines())
            kind = {"is_renderer": "yes"} if b"--type=renderer" in (folder / "cmdline").read_bytes() else {}
            told[int(folder.name)] = {name: value.strip() for name, _, value in lines} | kind

    def is_ours(number: int) -> bool:
        return number == os.getpid() or (number in told and is_ours(int(told[number]["PPid"])))

    renderers = (one for number, one in told.items() if "is_renderer" in one and is_ours(number))
    return max(int(one["VmHWM"].split()[0]) for one in renderers) / 1000


def trained(page: Page) -> tuple[float, float]:
    """Seconds of the page's run, and to its first point."""
    page.click("#start")
    state(page, "finished")
    return seconds(page), seconds(page, "first")


def in_chromium(browser: Browser, host: Host, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Rows of the table: what, measured, and the budget."""
    context = browser.new_context(viewport={"width": 1360, "height": 860})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    began = host.sent
    page.goto(address(host, NINE))
    state(page, "ready")
    yield "first visit: from the host", f"{(host.sent - began) / 1e6:.1f} MB", "34 MB, aim 20"
    yield "first visit: to Start", f"{seconds(page):.1f} s", "12 s, aim 8"
    page.reload()
    state(page, "ready")
    yield "second visit: to Start", f"{seconds(page):.1f} s", "3 s"
    whole, first = trained(page)
    yield "nine cosine models on digits", f"{whole:.1f} s", "1.5 s"
    yield "their first point", f"{first:.2f} s", "0.5 s"
    page.goto(address(host, HEADS))
    page.reload()
    state(page, "ready")
    yield "heads of three models on digits", f"{trained(page)[0]:.1f} s", "8 s"
    yield "largest memory of the renderer until then", f"{peak():.0f} MB", "900 MB"
    page.goto(address(host, {**NINE, "seeds": list(range(_MANY))}))
    page.reload()
    state(page, "ready")
    page.click("#start")
    page.wait_for_selector("#train-here[data-first]", timeout=PATIENCE_MS)
    moves = [float(page.evaluate(_SLIDER)) for _ in range(20)]
    yield "the slider is moved while training: slowest of 20 redraws", f"{max(moves):.0f} ms", "50 ms"
    state(page, "finished")
    yield from own_table(page, folder)
    yield from with_clients(page, host)
    context.close()


def with_clients(page: Page, host: Host) -> Iterator[tuple[str, str, str]]:
    """One model of each method that clients train, at the settings that the form has at first; keeps how long it took."""
    took: dict[str, float] = {}
    for name in (card.name for card in methods.CARDS.values() if not card.packages and live.lighter(card)):
        epsilon = 8 if methods.card(name).guarantee != "none" else "inf"
        page.goto(address(host, {**CLIENTS, "method": name, "privacy": {"epsilons": [epsilon]}}))
        page.reload()
        state(page, "ready")
        took[name] = float(f"{trained(page)[0]:.2g}")
        yield f"one model of `{name}` on news", f"{took[name]:g} s", "none"
    text = json.dumps(took, indent=2)
    (paths.assets_dir() / live.SECONDS).write_text(f"{text}\n", encoding="utf-8")


def own_table(page: Page, folder: Path) -> Iterator[tuple[str, str, str]]:
    """A table of 50 MB, from the choice of the file to Start."""
    path, generator = folder / "large.csv", np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        print(",".join([*(f"x{k}" for k in range(32)), "label"]), file=file)
        while file.tell() < _CSV_BYTES:
            for row, label in zip(generator.normal(size=(1000, 32)), generator.integers(0, 6, 1000), strict=True):
                print(*(f"{one:.4f}" for one in row), f"c{label}", sep=",", file=file)
    page.select_option("[data-key='data.dataset']", "own")
    page.set_input_files("#own-file", path)
    state(page, "ready")
    yield "a table of one's own, 49 MB: read", f"{seconds(page):.0f} s", "none"


def in_firefox(host: Host) -> Iterator[tuple[str, str, str]]:
    """The same of Firefox, as far as it says it of itself."""
    read = "return document.getElementById('train-here').dataset"
    with tempfile.TemporaryDirectory() as home, firefox(Path(home)) as window:
        window.open(address(host, NINE))
        window.until("document.getElementById('train-here').dataset.state !== 'loading'")
        yield "Firefox, first visit: to Start", f"{float(window.run(f'{read}.seconds')):.1f} s", "12 s, aim 8"
        window.run("document.getElementById('start').click()")
        window.until("!['ready', 'running'].includes(document.getElementById('train-here').dataset.state)")
        if window.run(f"{read}.state") != "finished":
            raise RuntimeError(window.run("return document.getElementById('trouble').textContent"))
        yield "Firefox: nine cosine models on digits", f"{float(window.run(f'{read}.seconds')):.1f} s", "1.5 s"
        yield "Firefox: their first point", f"{float(window.run(f'{read}.first')):.2f} s", "0.5 s"


def measured() -> Iterator[tuple[str, str, str]]:
    """All rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build.build(folder / "site", live=True)
        with hosted(folder) as host:
            with sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                yield from in_chromium(chromium, host, folder)
                chromium.close()
            if PROGRAM:
                yield from in_firefox(host)
            cut(host)


def main() -> int:
    """Measures, and writes the table."""
    load = os.getloadavg()[0]
    about = f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}; load {load:.1f} when it began."
    lines = [about, "", "| what | measured | budget on two idle cores |", "| --- | ---: | ---: |"]
    for row in measured():
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as live_folder, tempfile.TemporaryDirectory() as folder:
        rooms.write_live(Path(live_folder))
        lines += ["", rooms.sentence(rooms.tested(Path(live_folder), Path(folder)))]
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    table = "\n".join(lines)
    DOCUMENT.write_text(f"{before}{START}\n{table}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
