"""A classroom: its page, what its browsers ask meanwhile, and who guesses codes."""

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

from dpcl_core.errors import BadInput
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from pages.parts import rooms as parts_rooms
from pages.parts import visitor
from tests.pages.conftest import Open, Patch, press, words
from tests.support import replay
from tests.support.asserting import includes, refuses

TEACHER, ANN, BEN = (letter * 32 for letter in "abc")


@pytest.fixture
def rooms(store) -> Rooms:
    return Rooms(store)


@pytest.fixture
def code(rooms) -> str:
    code = rooms.open("Monday", TEACHER)
    for token in (ANN, BEN):
        rooms.join(code, token)
    rooms.ask(code, TEACHER, "Noise hides a label?", ("Yes", "No"))
    return code


@pytest.fixture
def served(rooms):
    page = Route("/", lambda _request: HTMLResponse("<h1>Page</h1>"))
    app = Starlette(routes=[page, *parts_rooms.routes()], middleware=[Middleware(visitor.GivesToken)])
    return lambda token: TestClient(app, cookies={visitor.COOKIE: token} if token else {})


def test_an_answer_is_counted_and_seen_at_once_by_who_may_see_it(served, rooms, code):
    def seen(token: str | None) -> list[int] | None:
        return served(token).get(f"/rooms/{code}").json()["poll"]["counts"]

    assert seen(BEN) is None
    voted = served(ANN).post(f"/rooms/{code}/vote", json={"poll": rooms.state(code).poll.id, "choice": 1})
    assert voted.json()["poll"]["counts"] == seen(TEACHER) == [0, 1]
    assert seen(None) is None
    assert voted.headers["cache-control"] == "no-store"


JSON = "application/json"


@pytest.mark.parametrize(("token", "kind", "body", "says"), [
    (ANN, JSON, b'{"poll": "x", "choice": 0}', "takes no more answers"),
    (ANN, JSON, b'{"choice": 0}', "must name the question"),
    (ANN, JSON, b'{"poll": "POLL", "choice": "many"}', "must name the question"),
    (ANN, JSON, b'{"poll": "POLL", "choice": 7}', "must be 0 to 1"),
    (ANN, JSON, b"[]", "must be a JSON object"),
    (ANN, JSON, b"{" * 900, "must be a JSON object"),
    (ANN, JSON, b" " * 1001, "at most 1000 bytes"),
    (None, JSON, b'{"poll": "POLL", "choice": 0}', "join it first"),
    ("not a token", JSON, b'{"poll": "POLL", "choice": 0}', "join it first"),
    *((ANN, kind, b'{"poll": "POLL", "choice": 0}', "must come from the page of the room")  # another site's form
      for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")),
])  # fmt: skip
def test_a_bad_answer_is_one_sentence(served, rooms, code, token, kind, body, says):
    body = body.replace(b"POLL", rooms.state(code).poll.id.encode())
    got = served(token).post(f"/rooms/{code}/vote", content=body, headers={"content-type": kind})
    assert got.status_code == 400
    assert says in got.json()["error"]
    assert rooms.state(code).choices == {}


def _run(what: Coroutine):
    """What it gives. In a thread of its own: the browser's tests keep a loop in this one."""
    with ThreadPoolExecutor() as pool:
        return pool.submit(asyncio.run, what).result()


def test_many_who_ask_at_once_read_once_and_never_what_began_before_somebody_wrote():
    async def asked() -> tuple[list[str], set[str], int]:
        begun, over = asyncio.Event(), asyncio.Event()
        written, n_read = "nothing", 0

        async def read(_code: str) -> str:
            nonlocal n_read
            found, n_read = written, n_read + 1
            begun.set()
            await over.wait()
            return found

        latest = parts_rooms.Latest(read)
        first = asyncio.create_task(latest.of("BCDFGH", time.monotonic()))
        await begun.wait()
        written = "a vote"
        now = time.monotonic()
        others = [asyncio.create_task(latest.of("BCDFGH", now)) for _ in range(40)]
        over.set()
        return [await first], set(await asyncio.gather(*others)), n_read

    assert _run(asked()) == (["nothing"], {"a vote"}, 2)


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


@pytest.mark.parametrize(("code", "says"), [("BCDFGH", "no such room"), ("x" * 5000, "six letters")])
def test_an_unknown_room_is_one_sentence(served, code, says, open_page):
    got = served(ANN).get(f"/rooms/{code}")
    assert (got.status_code, says in got.json()["error"]) == (400, True)
    page = open_page("teach", view="classroom")
    page.text_input[0].set_value("ABCDEF")
    assert "Code = ABCDEF: must be the six letters that your teacher shows" in words(press(page, "Join"))


@pytest.mark.parametrize("foreign", ["a/b=1", "a>b=1", "x@y=2", '"', "=;="])
def test_a_cookie_of_somebody_else_hides_not_ours(served, foreign):
    """On one host the cookies of all its programs are sent; a strict reader refuses all of them for an odd name."""
    for sent, is_new in ((foreign, True), (f"{foreign}; {visitor.COOKIE}={'0' * 32}", False)):
        answer = served(None).get("/", headers={"cookie": sent})
        assert (answer.status_code, "set-cookie" in answer.headers) == (200, is_new)


def test_a_browser_gets_its_cookie_with_its_first_page_and_keeps_it(served):
    def given(address: str = "/", proxied: str = "http") -> str:
        answer = served(None).get(address, headers={"x-forwarded-proto": proxied} if proxied != "http" else {})
        return answer.headers.get("set-cookie", "")

    client = served(None)
    first = client.get("/").headers["set-cookie"]
    includes(first, "HttpOnly", "SameSite=Lax")
    assert visitor.checked(client.cookies[visitor.COOKIE]) is not None
    assert "set-cookie" not in client.get("/").headers, "it has one"
    assert given() not in ("", first)
    assert given("/rooms/BCDFGH") == "", "not a page"
    over = [given(), given("/", "https"), given("/", "https, http"), given("https://testserver/")]
    assert ["; Secure" in one for one in over] == [False, True, True, True], "over HTTP a browser would not keep it"


# The page of a room: what it refuses is said with the labels of its fields.


@pytest.mark.parametrize(("question", "answers", "said"), [
    ("Why?", "a\nb\nc\nd\ne", "Answers = 5 answers: must be two to four"),
    ("", "Yes\nNo", "Write your question first."),
])  # fmt: skip
def test_a_refused_question_is_one_sentence_for_a_teacher(
    question: str, answers: str, said: str, open_page: Open, rooms: Rooms, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(visitor, "token", lambda: TEACHER)
    page = open_page("teach", view="classroom", room=rooms.open("Monday", TEACHER))
    for place, text in enumerate((question, answers)):
        page.text_area[place].set_value(text)
    assert said in words(press(page, "Ask the class"))


def test_a_second_window_leaves_the_shown_run_alone(open_page: Open, store: Store, rooms: Rooms, monkeypatch: Patch) -> None:
    monkeypatch.setattr(visitor, "token", lambda: TEACHER)
    code = rooms.open("Monday", TEACHER)
    rooms.join(code, BEN)
    run_id = replay.fill(store, replay.a_spec(), replay.recorded(replay.a_spec()))
    rooms.add_run(code, BEN, run_id)
    first, second = (open_page("teach", view="classroom", room=code) for _ in range(2))
    first.selectbox(key="room-run").select(run_id).run()
    assert rooms.state(code).shown == run_id
    press(second, "Look for new runs")
    assert rooms.state(code).shown == second.selectbox(key="room-run").value == run_id
    second.selectbox(key="room-run").select_index(0).run()
    assert rooms.state(code).shown is None


# Whoever tries out codes of rooms waits; a class that mistypes does not.


def test_who_tries_codes_waits(live: parts_rooms.Live, monday: str, rooms: Rooms, clock: list[float]) -> None:
    tried(live, monday, "school")
    for host in ("there", "school"):
        guessed(live, host)
    assert tried(live, monday, "school")["title"] == "Monday", "who guesses does not shut out a class on the same address"
    refuses("wait 60 seconds", tried, live, monday, "there")
    for _ in range(3 * parts_rooms.MOST):  # who is in a room may look as often as the page does
        assert tried(live, monday, "here")["title"] == "Monday"
    clock[0] += parts_rooms.SECONDS
    assert tried(live, monday, "there")["title"] == "Monday"


def test_the_pages_of_a_room_that_was_closed_are_no_guesses(live: parts_rooms.Live, monday: str, rooms: Rooms) -> None:
    closed = rooms.open("Sunday", TEACHER)
    rooms.close(closed, TEACHER)
    guessed(live, "school", *[closed] * (2 * parts_rooms.MOST))
    assert tried(live, monday, "school")["title"] == "Monday"


@pytest.fixture
def clock(monkeypatch: Patch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(parts_rooms.time, "monotonic", lambda: now[0])
    for kept in ("_misses", "_hits"):
        monkeypatch.setattr(parts_rooms, kept, {})
    return now


@pytest.fixture
def live(clock: list[float], rooms: Rooms) -> parts_rooms.Live:
    """What answers browsers, with a room of this name that is open."""
    return parts_rooms.Live()


@pytest.fixture
def monday(rooms: Rooms) -> str:
    return rooms.open("Monday", TEACHER)


def tried(live: parts_rooms.Live, code: str, host: str) -> dict[str, object]:
    scope = {"type": "http", "path_params": {"code": code}, "headers": [], "client": (host, 1)}
    return asyncio.run(live._seen(Request(scope), 0.0))


def guessed(live: parts_rooms.Live, host: str, *codes: str) -> None:
    """As many other codes from this address as may be tried, or these ones, of which none is a room's."""
    for code in codes or [f"BCDF{first}{second}" for first in "GHJKLM" for second in "NPQRST"][: parts_rooms.MOST]:
        refuses("no such room is open", tried, live, code, host)


@pytest.mark.usefixtures("clock")
def test_addresses_are_forgotten(monkeypatch: Patch) -> None:
    monkeypatch.setattr(parts_rooms, "_KNOWN", 3)
    for number in range(9):
        with pytest.raises(BadInput), parts_rooms.counted(str(number), "x"):
            raise BadInput("room", "x", "no such room")
    assert list(parts_rooms._misses) == ["6", "7", "8"]


@pytest.mark.usefixtures("clock")
def test_the_page_counts_too(monday: str, open_page: Open) -> None:
    for number in range(parts_rooms.MOST):
        with pytest.raises(BadInput), parts_rooms.counted("127.0.0.1", str(number)):
            raise BadInput("room", "x", "no such room")
    page = open_page("teach", view="classroom", room=monday)
    assert "wait 60 seconds" in page.error[0].value
    assert "Monday" not in words(page)
