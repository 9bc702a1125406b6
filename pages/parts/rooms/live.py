"""What a room's browsers ask while their page stands still: the room as it is now, and a place for an answer.

These requests go beside the pages, which would draw themselves anew. However many ask, the store is read a few times a
second.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dpcl_core import unforeseen
from dpcl_core.errors import BadInput, StoreTrouble
from pages.parts.rooms import guessing
from pages.parts.shell import visitor

if TYPE_CHECKING:
    from dpcl_core.runs.rooms import Room, Rooms

PATH: Final = "/rooms"
_FRESH_SECONDS: Final = 0.2
_MOST_BYTES: Final = 1000
Answer = Callable[["Live", Request], Awaitable[dict[str, object]]]


def routes() -> list[Route]:
    """The addresses that the server adds to those of the pages."""
    live = Live()
    return [
        Route(f"{PATH}/{{code}}", live.look, methods=["GET"]),
        Route(f"{PATH}/{{code}}/vote", live.vote, methods=["POST"]),
    ]


def _as_json(answer: Answer) -> Callable[[Live, Request], Awaitable[Response]]:
    """What a visitor gets: a document, or the one sentence of an error."""

    @wraps(answer)
    async def answered(live: Live, request: Request) -> Response:
        headers = {"cache-control": "no-store"}
        try:
            return JSONResponse(await answer(live, request), headers=headers)
        except (BadInput, StoreTrouble) as trouble:
            status = 400 if isinstance(trouble, BadInput) else 503
            return JSONResponse({"error": str(trouble)}, status_code=status, headers=headers)
        except Exception as error:  # nobody foresaw it
            return JSONResponse({"error": unforeseen.recorded(error)}, status_code=500, headers=headers)

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
        from dpcl_core.runs.rooms import clean_code

        host = request.client.host if request.client is not None else ""
        with guessing.counted(host, request.path_params["code"]):
            code = clean_code(request.path_params["code"])  # however it is spelled, it is one room
            return dict((await self._latest.of(code, since)).as_seen_by(_token(request)))

    async def _read(self, code: str) -> Room:
        return await asyncio.to_thread((await self._open()).state, code)

    async def _open(self) -> Rooms:
        if self._rooms is None:
            from dpcl_core.runs.rooms import Rooms
            from dpcl_core.runs.store import Store

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
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise BadInput("answer", "", "must be a JSON object")
    return answer


def _token(request: Request) -> str:
    return visitor.checked(request.cookies.get(visitor.COOKIE)) or ""
