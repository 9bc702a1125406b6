"""Who may talk to this server, and who may show its pages in a frame.

A page of another site cannot read the app's; but the owner of a name may lead it to this computer once a browser has loaded
a page from there (DNS rebinding), and to the browser that page is then of the same origin. So a server that listens on this
computer alone answers to this computer's names, and to those in `server.allowedHosts`.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Final

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from pages.parts.shell import received

FRAMES: Final = "DPCL_FRAMES"  # origins whose pages may show the app in a frame, such as https://example.org
_HOSTS: Final = "server.allowedHosts"
_HERE: Final = ("localhost", "127.0.0.1", "::1")
_REFUSED: Final = """This server answers to names of its own computer alone, such as localhost. To let it answer to another
name, start it with STREAMLIT_SERVER_ALLOWED_HOSTS=NAME."""


def listens_here_alone() -> bool:
    """Whether the server's address is one that only this computer reaches."""
    address = st.get_option("server.address") or ""
    try:
        return address in _HERE or ip_address(address).is_loopback
    except ValueError:
        return False


class Gate:
    """Refuses requests under a foreign name, and says on every answer what browsers may do with it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        if listens_here_alone() and not st.get_option(_HOSTS):
            config.set_option(_HOSTS, [*_HERE, st.get_option("server.address")])  # of which websockets ask, too

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] == "lifespan" or is_host_allowed(Headers(scope=scope).get("host")):
            await self.app(scope, receive, lambda message: send(_guarded(message)))
            if scope.get("method") == "PUT":  # an upload
                received.bound()
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse(_REFUSED, status_code=421)(scope, receive, send)


def _guarded(message: Message) -> Message:
    if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        frames = " ".join(["'self'", *os.environ.get(FRAMES, "").split()])
        headers["content-security-policy"] = f"frame-ancestors {frames}"
        headers["x-content-type-options"] = "nosniff"
        headers["referrer-policy"] = "same-origin"
    return message
