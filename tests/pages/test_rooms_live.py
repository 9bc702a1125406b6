"""What a room's browsers ask beside their page: who sees what, what is refused, and the cookie that tells visitors apart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from pages.parts import rooms as parts_rooms
from pages.parts import visitor

TEACHER, ANN, BEN = (letter * 32 for letter in "abc")


@pytest.fixture
def rooms(tmp_path, monkeypatch) -> Rooms:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.delenv("DPCL_STORE", raising=False)
    return Rooms(Store())


@pytest.fixture
def code(rooms) -> str:
    code = rooms.open("Monday", TEACHER)
    for token in (ANN, BEN):
        rooms.join(code, token)
    rooms.ask(code, TEACHER, "Noise hides a label?", ("Yes", "No"))
    return code


@pytest.fixture
def served(rooms):
    def page(_request: Request) -> HTMLResponse:
        return HTMLResponse("<h1>Page</h1>")

    app = Starlette(routes=[Route("/", page), *parts_rooms.routes()], middleware=[Middleware(visitor.GivesToken)])

    def of(token: str | None) -> TestClient:
        return TestClient(app, cookies={visitor.COOKIE: token} if token else {})

    return of


def test_an_answer_is_counted_and_seen_at_once_by_who_may_see_it(served, rooms, code):
    poll = rooms.state(code).poll.id
    ann, ben, teacher, stranger = (served(token) for token in (ANN, BEN, TEACHER, None))
    assert ben.get(f"/rooms/{code}").json()["poll"]["counts"] is None
    voted = ann.post(f"/rooms/{code}/vote", json={"poll": poll, "choice": 1})
    assert voted.json()["poll"]["counts"] == [0, 1]
    assert teacher.get(f"/rooms/{code}").json()["poll"]["counts"] == [0, 1]
    assert stranger.get(f"/rooms/{code}").json()["poll"]["counts"] is None
    assert voted.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("token", "body", "says"),
    [
        (ANN, b'{"poll": "x", "choice": 0}', "takes no more answers"),
        (ANN, b'{"choice": 0}', "must name the question"),
        (ANN, b'{"poll": "POLL", "choice": "many"}', "must name the question"),
        (ANN, b'{"poll": "POLL", "choice": 7}', "must be 0 to 1"),
        (ANN, b"[]", "must be a JSON object"),
        (ANN, b"{" * 900, "must be a JSON object"),
        (ANN, b" " * 1001, "at most 1000 bytes"),
        (None, b'{"poll": "POLL", "choice": 0}', "join it first"),
        ("not a token", b'{"poll": "POLL", "choice": 0}', "join it first"),
    ],
)
def test_a_bad_answer_is_one_sentence(served, rooms, code, token, body, says):
    body = body.replace(b"POLL", rooms.state(code).poll.id.encode())
    got = served(token).post(f"/rooms/{code}/vote", content=body, headers={"content-type": "application/json"})
    assert got.status_code == 400
    assert says in got.json()["error"]
    assert rooms.state(code).choices == {}


def _run(what: Coroutine):
    """What it gives. In a thread of its own: the browser's tests keep a loop in this one."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(asyncio.run, what).result()


def test_a_reading_under_way_is_no_answer_to_who_has_written_meanwhile():
    async def asked_while_somebody_reads() -> list[str]:
        begun, over = asyncio.Event(), asyncio.Event()
        written = "nothing"

        async def read(_code: str) -> str:
            found = written
            begun.set()
            await over.wait()
            return found

        latest = parts_rooms.Latest(read)
        first = asyncio.create_task(latest.of("BCDFGH", time.monotonic()))
        await begun.wait()
        written = "a vote"
        second = asyncio.create_task(latest.of("BCDFGH", time.monotonic()))
        over.set()
        return [await first, await second]

    assert _run(asked_while_somebody_reads()) == ["nothing", "a vote"]


def test_many_who_ask_at_once_read_once():
    async def asked_at_once() -> tuple[set[int], int]:
        n_read = 0

        async def read(_code: str) -> int:
            nonlocal n_read
            n_read += 1
            return n_read

        latest, now = parts_rooms.Latest(read), time.monotonic()
        return set(await asyncio.gather(*(latest.of("BCDFGH", now) for _ in range(40)))), n_read

    assert _run(asked_at_once()) == ({1}, 1)


def test_a_room_is_kept_for_a_moment_and_once_however_its_code_is_spelled(served, rooms, code, monkeypatch):
    read, state = list[str](), Rooms.state
    monkeypatch.setattr(Rooms, "state", lambda self, asked: (read.append(asked), state(self, asked))[1])
    monkeypatch.setattr(parts_rooms, "_FRESH_SECONDS", 1e9)
    client = served(ANN)
    for spelled in (code, code.lower(), f" {code}", f"{code[:3]} {code[3:]}"):
        assert client.get(f"/rooms/{spelled}").status_code == 200
    assert read == [code]

    async def kept() -> list[str]:
        async def found(code: str) -> str:
            return code

        monkeypatch.setattr(parts_rooms, "_FRESH_SECONDS", -1.0)
        latest = parts_rooms.Latest(found)
        for one in ("BCDFGH", "CDFGHJ"):
            await latest.of(one, 0.0)
        return list(latest._kept)

    assert _run(kept()) == ["CDFGHJ"], "nobody asks for a room that has ended, so it would be kept for ever"


def test_another_site_s_form_cannot_answer(served, rooms, code):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        content = f'{{"poll": "{rooms.state(code).poll.id}", "choice": 0}}'.encode()
        got = served(ANN).post(f"/rooms/{code}/vote", content=content, headers={"content-type": kind})
        assert "must come from the page of the room" in got.json()["error"]
    assert rooms.state(code).choices == {}


@pytest.mark.parametrize(("code", "says"), [("BCDFGH", "no such room"), ("x" * 5000, "six letters")])
def test_an_unknown_room_is_one_sentence(served, code, says):
    got = served(ANN).get(f"/rooms/{code}")
    assert (got.status_code, says in got.json()["error"]) == (400, True)


@pytest.mark.parametrize("foreign", ["a/b=1", "a>b=1", "x@y=2", '"', "=;="])
def test_a_cookie_of_somebody_else_hides_not_ours(served, foreign):
    """On one host the cookies of all its programs are sent; a strict reader refuses all of them for an odd name."""
    for sent, is_new in ((foreign, True), (f"{foreign}; {visitor.COOKIE}={'0' * 32}", False)):
        answer = served(None).get("/", headers={"cookie": sent})
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, is_new)


def test_a_browser_gets_its_cookie_with_its_first_page_and_keeps_it(served):
    client = served(None)
    given = client.get("/").headers["set-cookie"]
    assert "HttpOnly" in given
    assert "SameSite=Lax" in given
    assert "Secure" not in given, "over HTTP a browser would not keep it"
    for proxied in ("https", "https, http"):
        assert "; Secure" in served(None).get("/", headers={"x-forwarded-proto": proxied}).headers["set-cookie"]
    assert "; Secure" in served(None).get("https://testserver/").headers["set-cookie"]
    assert visitor.checked(client.cookies[visitor.COOKIE]) is not None
    assert "set-cookie" not in client.get("/").headers, "it has one"
    assert served(None).get("/").headers["set-cookie"] != given
    assert "set-cookie" not in served(None).get("/rooms/BCDFGH").headers, "not a page"
