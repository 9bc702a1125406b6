"""Whoever tries out codes of rooms waits; a class that mistypes does not."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from dpcl_core.errors import BadInput
from dpcl_core.runs.rooms import Rooms
from dpcl_core.runs.store import Store
from pages.parts import rooms as parts_rooms
from pages.parts.rooms import Live
from tests.pages.conftest import Open, words

CODES = [f"BCDF{first}{second}" for first in "GHJKLM" for second in "NPQRST"]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(parts_rooms.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(parts_rooms, "_misses", {})
    monkeypatch.setattr(parts_rooms, "_hits", {})
    return now


def tried(live: Live, code: str, host: str) -> dict[str, object]:
    scope = {"type": "http", "path_params": {"code": code}, "headers": [], "client": (host, 1)}
    return asyncio.run(live._seen(Request(scope), 0.0))


def test_an_address_that_tries_codes_waits_and_others_do_not(store: Store, clock: list[float]) -> None:
    live, code = Live(), Rooms(store).open("Monday", "teacher")
    for other in [one for one in CODES if one != code][: parts_rooms.MOST]:
        with pytest.raises(BadInput, match="no such room is open"):
            tried(live, other, "there")
    with pytest.raises(BadInput, match="wait 60 seconds"):
        tried(live, code, "there")
    assert tried(live, code, "here")["title"] == "Monday"
    clock[0] += parts_rooms.SECONDS
    assert tried(live, code, "there")["title"] == "Monday"


def test_who_is_in_a_room_may_look_as_often_as_the_page_does(store: Store) -> None:
    live, code = Live(), Rooms(store).open("Monday", "teacher")
    for _ in range(3 * parts_rooms.MOST):
        tried(live, code, "here")


def test_who_guesses_does_not_shut_out_a_class_on_the_same_address(store: Store) -> None:
    live, code = Live(), Rooms(store).open("Monday", "teacher")
    tried(live, code, "school")
    for other in [one for one in CODES if one != code][: parts_rooms.MOST]:
        with pytest.raises(BadInput, match="no such room is open"):
            tried(live, other, "school")
    assert tried(live, code, "school")["title"] == "Monday"


def test_the_pages_of_a_room_that_was_closed_are_no_guesses(store: Store) -> None:
    live, rooms = Live(), Rooms(store)
    closed, code = rooms.open("Monday", "teacher"), rooms.open("Tuesday", "teacher")
    rooms.close(closed, "teacher")
    for _ in range(2 * parts_rooms.MOST):
        with pytest.raises(BadInput, match="no such room is open"):
            tried(live, closed, "school")
    assert tried(live, code, "school")["title"] == "Tuesday"


def test_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_rooms, "_KNOWN", 3)
    for number in range(9):
        with pytest.raises(BadInput), parts_rooms.counted(str(number), "x"):
            raise BadInput("room", "x", "no such room")
    assert list(parts_rooms._misses) == ["6", "7", "8"]


def test_the_page_counts_too_and_says_that_a_device_is_a_vote(store: Store, open_page: Open) -> None:
    for number in range(parts_rooms.MOST):
        with pytest.raises(BadInput), parts_rooms.counted("127.0.0.1", str(number)):
            raise BadInput("room", "x", "no such room")
    page = open_page("room", room=Rooms(store).open("Monday", "teacher"))
    assert "wait 60 seconds" in page.error[0].value
    assert "Monday" not in words(page)
