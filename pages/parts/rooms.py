"""What a room's browsers ask while their page stands still: the room as it is now, and a place for an answer.

These requests go beside the pages, which would draw themselves anew. However many ask, the store is read a few times a
second.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Final, TypeVar
from urllib.parse import urlsplit

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dpcl_core import unforeseen
from dpcl_core.data import own
from dpcl_core.errors import BadInput, StoreTrouble
from dpcl_core.lessons import text
from dpcl_core.runs.rooms import Room, Rooms, clean_code
from dpcl_core.runs.store import Store
from pages.parts import layout, link, state, visitor
from pages.parts.text import WORDS, labelled, plain

# Codes of rooms cannot be tried out: after so many that no room has, an address waits.


MOST: Final = 30  # within `SECONDS`: a class may mistype
SECONDS: Final = 60.0
_KNOWN: Final = 10_000  # that are remembered at a time
K = TypeVar("K")
V = TypeVar("V")
_misses: dict[str, dict[str, float]] = {}  # when an address tried each code
_hits: dict[tuple[str, str], None] = {}  # addresses with the codes that they know
_lock = threading.Lock()


@contextmanager
def counted(address: str, code: str) -> Iterator[None]:
    """Within this context a code is looked up from an address. Raises BadInput where it has tried too many others.

    A code that the address knew is always looked up: who guesses must not shut out a class that shares the address.
    """
    now = time.monotonic()
    with _lock:
        recent = {one: at for one, at in _misses.get(address, {}).items() if at > now - SECONDS}
        if len(recent) >= MOST and (address, code) not in _hits:
            wait = min(recent.values()) + SECONDS - now
            allowed = f"wait {wait:.0f} seconds: too many codes that no room has came from your address"
            raise BadInput("room", code[:20].strip() or "nothing", allowed)
    try:
        yield
    except BadInput:
        with _lock:
            _put(_misses, address, {code[:20]: now, **recent})  # the pages of a room that was closed ask on: that is one
        raise
    with _lock:
        _put(_hits, (address, code), None)


def _put(known: dict[K, V], key: K, value: V) -> None:
    known.pop(key, None)
    known[key] = value
    while len(known) > _KNOWN:
        del known[next(iter(known))]


PATH: Final = "/rooms"
_FRESH_SECONDS: Final = 0.2
_MOST_BYTES: Final = 1000
Answer = Callable[["Live", Request], Awaitable[dict[str, object]]]


def routes() -> list[Route]:
    """The addresses that the server adds to those of the pages."""
    live, room = Live(), f"{PATH}/{{code}}"
    return [Route(room, live.look, methods=["GET"]), Route(f"{room}/vote", live.vote, methods=["POST"])]


def _as_json(answer: Answer) -> Callable[[Live, Request], Awaitable[Response]]:
    """What a visitor gets: a document, or the one sentence of an error."""

    @wraps(answer)
    async def answered(live: Live, request: Request) -> Response:
        try:
            said, status = await answer(live, request), 200
        except (BadInput, StoreTrouble) as trouble:
            said, status = {"error": str(trouble)}, 400 if isinstance(trouble, BadInput) else 503
        except Exception as error:  # nobody foresaw it
            said, status = {"error": unforeseen.recorded(error)}, 500
        return JSONResponse(said, status_code=status, headers={"cache-control": "no-store"})

    return answered


class Latest:
    """Keeps what was just read of each room, while it answers anybody; of many who ask at once, one reads."""

    def __init__(self, read: Callable[[str], Awaitable[Room]]) -> None:
        self._read = read
        self._kept: dict[str, tuple[float, Room]] = {}
        self._lock = asyncio.Lock()

    async def of(self, code: str, since: float) -> Room:
        """What a reading gives that began no earlier than `since`: one under way may lack what was written meanwhile."""
        async with self._lock:
            began, room = self._kept.pop(code, (-math.inf, None))
            if room is None or began < since:
                began, room = time.monotonic(), await self._read(code)
            self._kept = {other: kept for other, kept in self._kept.items() if kept[0] >= began - _FRESH_SECONDS}
            self._kept[code] = (began, room)
        return room


class Live:
    """Answers from the last state of each room that somebody has asked for."""

    def __init__(self) -> None:
        self._rooms: Rooms | None = None
        self._latest = Latest(self._read)

    @_as_json
    async def look(self, request: Request) -> dict[str, object]:
        """The room as the visitor who asks may see it."""
        return await self._seen(request, time.monotonic() - _FRESH_SECONDS)

    @_as_json
    async def vote(self, request: Request) -> dict[str, object]:
        """Takes the visitor's answer; gives the room with it."""
        code, answer = request.path_params["code"], await _sent(request)
        try:
            poll, choice = str(answer["poll"]), int(str(answer["choice"]))
        except (ValueError, TypeError, KeyError):
            raise BadInput("answer", "", "must name the question and the number of an answer") from None
        await asyncio.to_thread((await self._open()).vote, code, _token(request), poll, choice)
        return await self._seen(request, time.monotonic())

    async def _seen(self, request: Request, since: float) -> dict[str, object]:
        with counted(request.client.host if request.client is not None else "", request.path_params["code"]):
            code = clean_code(request.path_params["code"])  # however it is spelled, it is one room
            return dict((await self._latest.of(code, since)).as_seen_by(_token(request)))

    async def _read(self, code: str) -> Room:
        return await asyncio.to_thread((await self._open()).state, code)

    async def _open(self) -> Rooms:
        if self._rooms is None:
            self._rooms = Rooms(await asyncio.to_thread(Store))
        return self._rooms


async def _sent(request: Request) -> dict[str, object]:
    if request.headers.get("content-type") != "application/json":  # which no other site's form can send
        raise BadInput("answer", request.headers.get("content-type"), "must come from the page of the room")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            raise BadInput("answer", len(body), f"must be at most {_MOST_BYTES} bytes")
    with suppress(ValueError, RecursionError):
        if isinstance(answer := json.loads(body), dict):
            return answer
    raise BadInput("answer", "", "must be a JSON object")


def _token(request: Request) -> str:
    return visitor.checked(request.cookies.get(visitor.COOKIE)) or ""


# The room that this visitor is in, and the runs started there.


FIELDS = {"title": "Title", "question": "Question", "answers": "Answers", "room": "Code"}  # labels, for refusals


def open_rooms() -> Rooms:
    """The rooms of the store; if it cannot be opened, shows the reason and ends the page."""
    return Rooms(state.store())


def room_of_code(code: str) -> Room:
    """The room with a code that somebody typed or has a link with. Raises BadInput where there is none."""
    with counted(visitor.host(), code):
        return open_rooms().state(code)


def share(run_ids: Iterable[str]) -> None:
    """Puts runs that this visitor has started on the plot of the room that the visitor is in, if any.

    Not runs on the visitor's own data, which the others must not see.
    """
    rooms, token = open_rooms(), visitor.token()
    code = rooms.room_of(token)
    for run_id in run_ids if code is not None else ():
        dataset = state.store().get(run_id).spec.data.dataset
        if not dataset.startswith("own:") or own.owner(dataset) == "":
            with suppress(BadInput):  # the room has ended in this moment
                rooms.add_run(str(code), token, run_id)


# What the one who opened a room does: shows the way in, asks, ends a question, shows a run, closes the room.


_SHOWN = "room-run"  # session key


def panel(view: state.View, room: Room) -> None:
    """Draws the teacher's side of a room."""
    way_in, ask, show = st.columns([1.1, 2, 1.3])
    with way_in:
        address = link.address(st.context.url or "", {**link.open_view(), "room": room.code})
        st.title(f"{room.code[:3]} {room.code[3:]}", anchor=False)
        st.image(_qr(address), width=180)
        st.code(address, language=None, wrap_lines=True)
        if urlsplit(address).hostname in visitor.HERE:
            st.warning(WORDS["rooms"]["way_in"])
    with ask, layout.card("room-ask"):
        _ask(room)
    with show, layout.card("room-show"):
        rooms, token = open_rooms(), visitor.token()
        names: dict[str | None, str] = {run_id: f"{name}, {run_id[:4]}" for run_id, name in room.runs.items()}

        def choose() -> None:
            with suppress(BadInput):  # run or room are gone in this moment, and the page then shows neither
                rooms.show(room.code, token, st.session_state[_SHOWN])

        def close() -> None:
            with suppress(BadInput):  # closed already, in another window
                rooms.close(room.code, token)
            view.go({"v": "1"})

        st.session_state[_SHOWN] = room.shown  # it may have been chosen in the teacher's other window
        st.selectbox(
            "Show a run to everybody", [None, *names], key=_SHOWN, on_change=choose,
            format_func=lambda run_id: names.get(run_id, "none"),
        )  # fmt: skip
        if st.button("Look for new runs", key="room-look"):
            st.rerun()
        with st.popover("Close the room"):
            st.markdown("Names, answers and the plot are deleted; the runs stay.")
            # A callback comes first; the choice above may start the page again, and the press would be lost.
            st.button("Close it", key="room-close", on_click=close)


@st.cache_data(max_entries=20, show_spinner=False)
def _qr(address: str) -> str:
    """The address as a picture: dark on white in both themes, as cameras expect it, with its quiet border."""
    import segno

    picture = io.BytesIO()
    segno.make(address, error="m").save(picture, kind="svg", scale=4, border=4, light="white", title=address)
    return picture.getvalue().decode()


def _ask(room: Room) -> None:
    rooms, token = open_rooms(), visitor.token()
    if room.poll is not None and room.poll.is_open:
        answers = list(room.poll.choices)
        right = st.selectbox("The right answer", answers, index=None, placeholder="not shown", key="room-truth")
        if st.button("End the question", type="primary", key="room-end"):
            attempt(lambda: rooms.end_poll(room.code, token, None if right is None else answers.index(right)))
        return
    predictions = {f"{lesson.title}: {step.title}": step for lesson in map(text.load, text.NAMES) for step in lesson.steps}
    picked = st.selectbox("Take it from", ["A question of my own", *predictions], key="room-question")
    step = predictions.get(picked)
    question = st.text_area("Question", "" if step is None else step.predict, key=f"room-ask-{picked}", max_chars=500)
    usual = "Yes\nNo" if step is None else "\n".join(step.choices)
    typed = st.text_area("Answers, one per line", usual, key=f"room-answers-{picked}")
    if st.button("Ask the class", type="primary", key="room-ask"):
        if not question.strip():
            st.error("Write your question first.")
            return
        attempt(lambda: rooms.ask(room.code, token, question, [line for line in typed.splitlines() if line.strip()]))


def attempt(act: Callable[[], None]) -> None:
    """Carries out what somebody has pressed and draws the page again, or says why that is refused."""
    try:
        act()
    except BadInput as refused:
        st.error(plain(labelled(refused, FIELDS)))
        return
    st.rerun()
