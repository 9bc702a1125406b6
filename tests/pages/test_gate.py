"""The server answers to its own names, and no foreign page shows it in a frame."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket
from streamlit import config, runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from pages.parts import document, fields


async def _accepts(socket: WebSocket) -> None:
    await socket.accept()


INSIDE = Starlette(routes=[Route("/", lambda _: PlainTextResponse("inside")), WebSocketRoute("/", _accepts)])


@pytest.fixture(autouse=True)
def as_configured() -> Iterator[None]:
    before = {name: st.get_option(name) for name in ("server.address", "server.allowedHosts")}
    yield
    for name, value in before.items():
        config.set_option(name, value)


def answers(kind: str, host: str | None, address: str, hosts: list[str] | None = None) -> list[Message]:
    """What a server at this address, with these allowed hosts, sends to a request under this name."""
    config.set_option("server.address", address)
    config.set_option("server.allowedHosts", hosts or [])
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"} if kind == "websocket" else {"type": "http.request", "body": b""}

    headers = [] if host is None else [(b"host", host.encode())]
    scope = {"type": kind, "path": "/", "method": "GET", "headers": headers, "query_string": b"", "subprotocols": []}
    asyncio.run(document.Gate(INSIDE)(scope, receive, send))
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("host", "address", "hosts", "is_let_in"),
    [
        ("localhost:8501", "localhost", None, True),
        ("127.0.0.1:8501", "127.0.0.1", None, True),
        ("[::1]:8501", "localhost", None, True),
        ("LOCALHOST.", "localhost", None, True),
        ("127.0.0.2", "127.0.0.2", None, True),
        ("rebound.example:8501", "localhost", None, False),
        ("rebound.example", "127.0.0.2", None, False),
        ("localhost.rebound.example", "localhost", None, False),
        ("localhost@rebound.example", "localhost", None, False),
        (None, "localhost", None, False),
        ("runs.example", "127.0.0.1", ["runs.example"], True),  # behind a proxy
        ("localhost", "127.0.0.1", ["runs.example"], False),
        ("anything.example", "0.0.0.0", None, True),  # who serves a network names the hosts
        ("anything.example", "0.0.0.0", ["runs.example"], False),
    ],
)
def test_a_server_on_this_computer_answers_to_its_names_alone(
    kind: str, host: str | None, address: str, hosts: list[str] | None, *, is_let_in: bool
) -> None:
    first = answers(kind, host, address, hosts)[0]
    if kind == "http":
        assert first["status"] == (200 if is_let_in else 421)
    else:
        assert first["type"] == ("websocket.accept" if is_let_in else "websocket.close")


@pytest.mark.parametrize(
    ("frames", "policy"),
    [
        (None, "frame-ancestors 'self'"),
        ("https://a.example https://b.example", "frame-ancestors 'self' https://a.example https://b.example"),
    ],
)
def test_every_answer_says_what_browsers_may_do_with_it(
    frames: str | None, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(document.FRAMES, raising=False)
    if frames is not None:
        monkeypatch.setenv(document.FRAMES, frames)
    headers = dict(answers("http", "localhost", "localhost")[0]["headers"])
    assert headers[b"content-security-policy"].decode() == policy
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"referrer-policy"] == b"same-origin"


def test_uploads_that_no_page_knows_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody whose page is open may send as many as they like."""
    manager = MemoryUploadedFileManager("/upload")
    monkeypatch.setattr(runtime, "get_instance", lambda: SimpleNamespace(uploaded_file_mgr=manager))
    monkeypatch.setattr(fields, "_MOST_BYTES", 500)

    def held() -> dict[str, list[str]]:
        return {session: list(files) for session, files in manager.file_storage.items() if files}

    for number in range(5):
        manager.add_file("one", UploadedFileRec(f"{number}", "x.csv", "", bytes(100)))
    fields.bound()
    assert held() == {"one": ["3", "4"]}
    for session in ("two", "three", "four"):
        manager.add_file(session, UploadedFileRec(session, "x.csv", "", bytes(150)))
    fields.bound()
    assert held() == {"two": ["two"], "three": ["three"], "four": ["four"]}
