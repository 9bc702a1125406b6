"""Writes docs/visitors.md: how long pages take when many visitors open them at once, with machine, date and commit.

Run on a quiet machine: python -m scripts.record_visitors
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from dpcl_core import machine
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "visitors.md"
VISITORS, EVERY_SECONDS, ROUNDS = 50, 10.0, 6
PAGES = (
    "", "playground", "tokens", "anchors", "privacy", "lessons", "questions", "train", "runs", "compare", "published",
    "about",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds from asking for a page until the server has sent all of it, and the server's processor time for each page."""

    seconds: Sequence[float]
    processor: float

    def row(self, what: str) -> str:
        """As a row of the table."""
        cuts = statistics.quantiles(self.seconds, n=20)
        return f"| {what} | {len(self.seconds)} | {cuts[9]:.2f} s | {cuts[18]:.2f} s | {self.processor:.3f} s |"


def main() -> None:
    """Starts a server, plays the visitors and writes the page."""
    with tempfile.TemporaryDirectory() as home:
        port = _free_port()
        environment = {**os.environ, "DPCL_HOME": home, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.headless=true"]
        run = [sys.executable, "-m", "dpcl_core", "run", "--preset", "digits-cosine", "--json"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(run, cwd=ROOT, env=environment, check=True, **quiet)  # for the pages that show a run
        server = subprocess.Popen(command, cwd=ROOT, env=environment, **quiet)
        try:
            _wait(port)
            rows = asyncio.run(_played(port, psutil.Process(server.pid)))
        finally:
            server.terminate()
            server.wait()
    DOCUMENT.write_text(_page(rows), encoding="utf-8")
    print(DOCUMENT.read_text(encoding="utf-8"))


async def _played(port: int, server: psutil.Process) -> list[str]:
    visitors = [await _connected(port) for _ in range(VISITORS)]
    for page in PAGES:  # libraries are loaded, and what pages keep is computed
        await _opened(visitors[0], page)
    everybody = [(number, 0.0, PAGES[number % len(PAGES)]) for number in range(VISITORS)]
    steady = [
        (number, EVERY_SECONDS * (turn + number / VISITORS), PAGES[(number + turn) % len(PAGES)])
        for turn in range(ROUNDS) for number in range(VISITORS)
    ]  # fmt: skip
    rows = []
    for page in PAGES:
        alone = await _measured(visitors, server, [(0, 2.0 * turn, page) for turn in range(5)])
        rows.append(alone.row(f"one visitor opens {page or 'start'} again"))
    rows.append((await _measured(visitors, server, steady)).row(f"{VISITORS} visitors, each another page every 10 s"))
    rows.append((await _measured(visitors, server, everybody)).row(f"{VISITORS} visitors, each another page, all at once"))
    for visitor in visitors:
        await visitor.close()
    rows.append((await _measured(port, server, steady)).row(f"{VISITORS} browsers that open a page anew, each every 10 s"))
    rows.append((await _measured(port, server, everybody)).row(f"{VISITORS} browsers that open a page anew, all at once"))
    return rows


async def _measured(
    visitors: Sequence[ClientConnection] | int, server: psutil.Process, visits: Sequence[tuple[int, float, str]]
) -> Measured:
    """Opens pages: which visitor, after how many seconds, which page. A port: each with a connection of its own."""
    begun, spent = time.monotonic(), sum(server.cpu_times()[:2])
    busy = [asyncio.Lock() for _ in range(VISITORS)]

    async def visit(number: int, after: float, page: str) -> float:
        await asyncio.sleep(begun + after - time.monotonic())
        asked = time.monotonic()
        if isinstance(visitors, int):
            async with await _connected(visitors) as visitor:
                await _opened(visitor, page)
                return time.monotonic() - asked
        async with busy[number]:
            await _opened(visitors[number], page)
        return time.monotonic() - asked

    seconds = await asyncio.gather(*(visit(*one) for one in visits))
    return Measured(seconds, (sum(server.cpu_times()[:2]) - spent) / len(seconds))


async def _connected(port: int) -> ClientConnection:
    where = f"ws://127.0.0.1:{port}/_stcore/stream"
    origin = f"http://127.0.0.1:{port}"
    return await connect(where, origin=origin, subprotocols=["streamlit"], max_size=None, proxy=None)  # type: ignore[arg-type, list-item]


async def _opened(visitor: ClientConnection, page: str) -> None:
    """Asks for a page and waits until the server has sent all of it."""
    asked = BackMsg()
    asked.rerun_script.page_name = page
    await visitor.send(asked.SerializeToString())
    while True:
        received = ForwardMsg.FromString(await asyncio.wait_for(visitor.recv(decode=False), PATIENCE_SECONDS))
        if received.WhichOneof("type") == "script_finished" and received.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
            return


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
    return port


def _wait(port: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=PATIENCE_SECONDS)
            return
        time.sleep(0.1)
    raise SystemExit("the server does not answer")


def _page(rows: Sequence[str]) -> str:
    here = f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}"
    return "\n".join(
        [
            "# Many visitors",
            "",
            "How long a page takes when others open pages, too: from the request until the server has sent all of it, over",
            "websockets on one computer, one app process. Written by `python -m scripts.record_visitors`.",
            "",
            f"{here}.",
            "",
            "| what | pages | median | 95 % within | processor, each |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
