"""Writes docs/visitors.md: how long pages take when many visitors open them at once, and votes in a class of forty.

Run on a quiet machine: python -m scripts.record_visitors [pages] [votes]
"""

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
from itertools import pairwise
from pathlib import Path

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from dpcl_core import machine
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from tests.support import pace
from tests.support.classroom import N_VISITORS, TEACHER, TOKENS, waits
from tests.support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "visitors.md"
VISITORS, EVERY_SECONDS, ROUNDS = 50, 10.0, 6
IDLE_SECONDS = 20.0
PARTS = ("pages", "votes")
QUESTIONS, WITHIN_SECONDS = 10, 0.5
PAGES = (
    "", "explore?view=playground", "explore?view=words", "explore?view=clients", "privacy", "lessons", "questions", "train",
    "runs", "runs?view=compare", "about",
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


def main(parts: Sequence[str]) -> None:
    """Starts a server, plays the visitors and writes these parts of the page anew."""
    with tempfile.TemporaryDirectory() as home:
        port = _free_port()
        environment = {**os.environ, "DPCL_HOME": home, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.headless=true"]
        run = [sys.executable, "-m", "dpcl_core", "run", "--preset", "digits-cosine", "--json"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(run, cwd=ROOT, env=environment, check=True, **quiet)  # for the pages that show a run
        server = subprocess.Popen(command, cwd=ROOT, env=environment, **quiet)
        play = {
            "pages": lambda: _pages(asyncio.run(_played(port, psutil.Process(server.pid)))),
            "votes": lambda: _votes(asyncio.run(_voted(port, Rooms(Store(f"sqlite:///{home}/store.sqlite"))))),
        }
        try:
            _wait(port)
            written = {part: play[part]() for part in parts}
        finally:
            server.terminate()
            server.wait()
    kept = dict(zip(PARTS, DOCUMENT.read_text(encoding="utf-8").split("\n## ")[1:], strict=True))
    DOCUMENT.write_text("\n## ".join(["# Many visitors\n", *(kept | written).values()]), encoding="utf-8")
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
    idle = await _idle(server)
    known = {pace.TITLE: f"{_pace():.2f} s", "nobody opens a page, a second": f"{idle:.3f} s"}
    rows = [f"| {what} | – | – | – | {seconds} |" for what, seconds in known.items()]
    for page in PAGES:
        alone = await _measured(visitors, server, [(0, 1.0 * turn, page) for turn in range(20)], idle)
        rows.append(alone.row(f"one visitor opens {page or 'start'} again"))
    for who, those in ((f"{VISITORS} visitors, each another page", visitors), (f"{VISITORS} browsers, a page anew", port)):
        rows.append((await _measured(those, server, steady, idle)).row(f"{who} every 10 s"))
        rows.append((await _measured(those, server, everybody, idle)).row(f"{who}, all at once"))
    for visitor in visitors:
        await visitor.close()
    return rows


def _pace() -> float:
    """The median of three."""
    ends = [time.perf_counter()]
    for _ in range(3):
        pace.counted()
        ends.append(time.perf_counter())
    return statistics.median(after - before for before, after in pairwise(ends))


async def _idle(server: psutil.Process) -> float:
    """Processor time a second while no page is opened: the server looks at its queue."""
    await asyncio.sleep(5.0)  # a waiting process may still load what the next run needs
    spent = sum(server.cpu_times()[:2])
    await asyncio.sleep(IDLE_SECONDS)
    return (sum(server.cpu_times()[:2]) - spent) / IDLE_SECONDS


async def _voted(port: int, rooms: Rooms) -> str:
    """A class opens its room and answers questions: a row on how long a vote takes to everybody else."""
    code = rooms.open("Privacy, Monday at ten", TEACHER)
    class_ = [await _connected(port, token) for token in TOKENS]
    await asyncio.gather(*(_opened(visitor, f"teach?view=classroom&room={code}") for visitor in class_))
    if len(rooms.state(code).names) < N_VISITORS:
        raise SystemExit("not all visitors are in the room")
    seconds: list[float] = []
    for _ in range(QUESTIONS):
        rooms.ask(code, TEACHER, "Does noise hide a label?", ("Yes", "No"))
        poll = rooms.state(code).poll
        assert poll is not None
        seconds += await asyncio.to_thread(waits, f"http://127.0.0.1:{port}", code, poll.id, WITHIN_SECONDS)
    for visitor in class_:
        await visitor.close()
    if len(seconds) < QUESTIONS * N_VISITORS**2:
        raise SystemExit("not every vote was seen by everybody")
    cuts = statistics.quantiles(seconds, n=20)
    return f"| {QUESTIONS} | {len(seconds)} | {cuts[9]:.2f} s | {cuts[18]:.2f} s | {max(seconds):.2f} s |"


async def _measured(
    visitors: Sequence[ClientConnection] | int, server: psutil.Process, visits: Sequence[tuple[int, float, str]], idle: float
) -> Measured:
    """Opens pages: which visitor, after how many seconds, which page. A port: each with a connection of its own.

    `idle`: the server's processor time a second without any page, which is left out.
    """
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
    taken = sum(server.cpu_times()[:2]) - spent - idle * (time.monotonic() - begun)
    return Measured(seconds, taken / len(seconds))


async def _connected(port: int, token: str = "") -> ClientConnection:
    where = f"ws://127.0.0.1:{port}/_stcore/stream"
    origin = f"http://127.0.0.1:{port}"
    cookie = {"Cookie": f"dpcl-visitor={token}"} if token else {}
    return await connect(  # type: ignore[arg-type, list-item]
        where, origin=origin, subprotocols=["streamlit"], additional_headers=cookie, max_size=None, proxy=None
    )


async def _opened(visitor: ClientConnection, address: str) -> None:
    """Asks for a page, by its address, and waits until the server has sent all of it."""
    page, _, query = address.partition("?")
    asked = BackMsg()
    asked.rerun_script.page_name = page
    asked.rerun_script.query_string = query
    asked.rerun_script.context_info.url = f"http://127.0.0.1/{page}"  # as a browser says; the page has its style already
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


def _pages(rows: Sequence[str]) -> str:
    return "\n".join(
        [
            "Pages",
            "",
            "How long a page takes when others open pages, too: from the request until the server has sent all of it, over",
            "websockets on one computer, one app process. The last column is the server's processor time for a page,",
            "without what it spends on its queue when nobody opens one. A browser's first page has a pause after its",
            "heading ([why](performance.md)). Written by `python -m scripts.record_visitors pages`.",
            "",
            _here(),
            "",
            "| what | pages | median | 95 % within | processor, each |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _votes(row: str) -> str:
    return "\n".join(
        [
            "Votes in a class",
            "",
            f"{N_VISITORS} visitors of one room ask for it twice a second, as its page does, and answer a question within",
            f"{WITHIN_SECONDS} s of each other. How long after a vote was sent a visitor's page has it, over all votes and",
            "visitors; the time until that page asks again is in it, and the time of the visitors' program, which runs on",
            "the same computer. Written by `python -m scripts.record_visitors votes`.",
            "",
            _here(),
            "",
            "| questions | votes as seen by each | median | 95 % within | longest |",
            "| --- | --- | --- | --- | --- |",
            row,
            "",
        ]
    )


def _here() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}, commit `{machine.commit()}`, {machine.machine()}."


if __name__ == "__main__":
    main(sys.argv[1:] or PARTS)
