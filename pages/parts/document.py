"""The document that a browser gets first: the framework's own, with what a browser would otherwise have to find out.

It has the page's title, so that a tab and the preview of a link name it before any script runs; the server's address, for
which the framework would ask first at the page's own address; the scripts that every page needs soon; the app's style;
and a history of one entry for each act of the visitor.
"""

import json
import logging
import os
import re
import traceback
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from gzip import compress
from html import escape
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.session_state import Serialized, WStates
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from dpcl_core import unforeseen
from pages.parts import fields, served, state
from pages.parts.text import WORDS, in_document, plain
from pages.parts.visitor import HERE

WITHOUT_SCRIPTS: Final = "This app needs JavaScript."
_STATIC: Final = Path(st.__file__).parent / "static"
# The parts of the framework that draw HTML: found by name only once the first message with some comes.
_PRELOADED: Final = ("Html", "purify.es")
_FONT: Final = re.compile(r'<link\s+rel="preload"[^>]*as="font"[^>]*>')
# Three scripts of each document. A proxy may serve the app below a path of its own, which only the browser sees: with the
# configuration at hand it connects without asking, but an account is believed only together with the cookie of an answer, so
# without it, it asks. And the framework adds an entry to the history for every address that a page writes: one for a link,
# one more for the view that the page behind it begins with. Here what follows one act of the visitor is one entry, so that
# Back undoes one act. The last makes grey what a list of choices says is "not here": the framework has no such options.
_NAMES: Final = ("address.js", "history.js", "options.js")
_SCRIPTS: Final = tuple(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _NAMES)

# Pages of earlier days: the page that has each as a view, and the parameters of an address that open it there.
MOVED: Final[Mapping[str, tuple[str, str]]] = {
    "playground": ("explore", "view=playground"),
    "tokens": ("explore", "view=words"),
    "anchors": ("explore", "view=clients"),
    "compare": ("runs", "view=compare"),
    "edges": ("lessons", "view=edges"),
    "exercises": ("teach", "view=exercises"),
    "teacher": ("teach", "view=plan"),
    "room": ("teach", "view=classroom"),
    "published": ("questions", "w=paper"),
}


def title(page: str) -> str:
    """What a tab is called that shows a page."""
    return f"{page} · DP continual learning"


def routes(pages: Iterable[tuple[str, str]]) -> list[Route]:
    """The addresses of pages, each by name and title; the name of the first leads to the server's own address.

    What somebody adds to a page's address, as in /lessons/3, leads to the page: the framework's document would stay empty.
    Only one part, since the framework looks for its server at a page's address, too, and must not find it there. Addresses
    of earlier days lead to the views that these pages are now, with all that they say.
    """
    named = [(f"/{name}", title(called)) for name, called in pages]
    base = f"/{st.get_option('server.baseUrlPath').strip('/')}".rstrip("/")
    away = [_leading(base + named[0][0], "./"), *(_leading(f"{base}{path}/{{more}}", f"..{path}") for path, _ in named)]
    away += [_leading(f"{base}/{old}", f"./{page}", opened) for old, (page, opened) in MOVED.items()]
    return [*away, *(_route(base + path, of_page(path, called)) for path, called in [("/", named[0][1]), *named[1:]])]


def of_page(path: str, called: str) -> str:
    """The document of the page at an address below the server's own."""
    text = (_STATIC / "index.html").read_text(encoding="utf-8")
    loaded = [f"./static/js/{file.name}" for name in _PRELOADED for file in (_STATIC / "static/js").glob(f"{name}.*.js")]
    preloads = "".join(f'<link rel="modulepreload" crossorigin href="{each}">\n' for each in loaded)
    if (style := served.style()) is not None:  # a script that is loaded later looks for the framework's own
        linked = '<link rel="stylesheet" crossorigin{} href="{}">'
        text = text.replace(linked.format("", style[0]), linked.format(" disabled", style[0]) + linked.format("", style[1]))
    text = text.replace("<title>Streamlit</title>", f"<title>{escape(called)}</title>")
    text = re.sub("<noscript>.*?</noscript>", f"<noscript>{WITHOUT_SCRIPTS}</noscript>", text, flags=re.DOTALL)
    letters = "".join(_FONT.findall(text))  # after the scripts: a page is there as soon, its letters a moment later
    own = "".join(f"<script>\n{script}</script>\n" for script in _SCRIPTS).replace("PAGE", json.dumps(path))
    text = _FONT.sub("", text).replace("</head>", f"{preloads}{letters}{own}</head>")
    # After the framework's rules, which are in the head, and before a page's own, such as those of the presenter's size.
    return text.replace("<body>", f"<body>{in_document()}")


def is_own(url: str | None, names: Collection[str]) -> bool:
    """Whether a visit that began at this address got one of these documents: not where no page has its name."""
    return url is not None and urlsplit(url).path.rpartition("/")[2] in ("", *names)


def _leading(path: str, to: str, more: str = "") -> Route:
    """Leads an address elsewhere, with its query and the parameters `more`, which count where it has them already."""

    def lead(request: Request) -> Response:
        query = "&".join(filter(None, [request.url.query, more]))
        return RedirectResponse(f"{to}?{query}" if query else to)

    return Route(path, lead)


def _route(path: str, text: str) -> Route:
    whole, packed = text.encode(), compress(text.encode())

    async def answer(request: Request) -> Response:
        headers = {"cache-control": "no-cache", "vary": "Accept-Encoding"}
        if "gzip" not in served.accepted(request.headers.get("accept-encoding", "")):
            return HTMLResponse(whole, headers=headers)
        return HTMLResponse(packed, headers={**headers, "content-encoding": "gzip"})

    return Route(path, answer)


# Messages that no page of this app could have sent: whoever speaks to the server by hand forges them.
#
# A value of another type than its widget's is dropped before anything reads it. One that its widget does not offer ends the
# page with a sentence, and is no error of the program. What would clear the memory that all visitors share is dropped.


SENTENCE: Final = "This page was sent a value that it does not offer. Reload it."
_set_state, _set_metadata = WStates.set_widget_from_proto, WStates.set_widget_metadata
_request = AppSession.request_rerun


def install() -> None:
    """Lets every session of this server drop values of a wrong type and the wish to clear its caches, and keep a Back."""
    AppSession.request_rerun = _with_history  # type: ignore[method-assign, assignment]
    AppSession._handle_clear_cache_request = lambda self: None  # type: ignore[method-assign]
    WStates.set_widget_from_proto = _with_state  # type: ignore[method-assign, assignment]
    WStates.set_widget_metadata = _with_metadata  # type: ignore[method-assign, assignment]


def _with_history(session: AppSession, sent: ClientState | None) -> None:
    if sent is not None and sent.is_history_navigation and state.LED_TO in session.session_state:
        session.session_state[state.LED_TO][:] = [sent.query_string]
    _request(session, sent)


def _with_state(states: WStates, sent: WidgetState) -> None:
    _set_state(states, sent)
    _drop(states, sent.id)


def _with_metadata(states: WStates, metadata: WidgetMetadata[object]) -> None:
    if metadata.value_type is None:  # so the framework writes after it read an empty field, until the widget is drawn again
        metadata = replace(metadata, value_type=states.widget_metadata[metadata.id].value_type)
    _set_metadata(states, metadata)
    _drop(states, metadata.id)


def _drop(states: WStates, widget: str) -> None:
    kept, metadata = states.states.get(widget), states.widget_metadata.get(widget)
    if not isinstance(kept, Serialized) or metadata is None:
        return
    sent = kept.value.WhichOneof("value")
    # A browser sends a whole number as one, though its field may take others, too.
    if sent is not None and sent.replace("int_", "double_") != metadata.value_type.replace("int_", "double_"):
        del states.states[widget]


# What a visitor sees of an error that nobody foresaw: one sentence with a number, under which the log has the rest.


def show_break(error: Exception) -> bool:
    """Shows the sentence where the page broke off; True: the framework need show nothing more."""
    frames = traceback.extract_tb(error.__traceback__)
    is_reading = any(frame.name == "deserialize" and "streamlit" in frame.filename for frame in frames)  # a widget's value
    st.error(plain(SENTENCE if is_reading else unforeseen.recorded(error)))
    return True


class Masking(logging.Filter):
    """Takes secrets out of the tracebacks that the framework writes on standard error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record; none is dropped."""
        if record.exc_info and record.exc_info[1] is not None:
            record.msg, record.args = f"{record.getMessage()}\n{unforeseen.trace(record.exc_info[1])}", ()
            record.exc_info = None
        return True


# Who may talk to this server, and who may show its pages in a frame.
#
# A page of another site cannot read the app's; but the owner of a name may lead it to this computer once a browser has
# loaded a page from there (DNS rebinding), and to the browser that page is then of the same origin. So a server that listens
# on this computer alone answers to this computer's names, and to those in `server.allowedHosts`.


FRAMES: Final = "DPCL_FRAMES"  # origins whose pages may show the app in a frame, such as https://example.org
_HOSTS: Final = "server.allowedHosts"


def listens_here_alone() -> bool:
    """Whether the server's address is one that only this computer reaches."""
    address = st.get_option("server.address") or ""
    try:
        return address in HERE or ip_address(address).is_loopback
    except ValueError:
        return False


class Gate:
    """Refuses requests under a foreign name, and says on every answer what browsers may do with it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        if listens_here_alone() and not st.get_option(_HOSTS):
            config.set_option(_HOSTS, [*HERE, st.get_option("server.address")])  # of which websockets ask, too

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["type"] == "lifespan" or is_host_allowed(Headers(scope=scope).get("host")):
            await self.app(scope, receive, lambda message: send(_guarded(message)))
            if scope.get("method") == "PUT":  # an upload
                fields.bound()
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse(WORDS["document"]["refused"], status_code=421)(scope, receive, send)


def _guarded(message: Message) -> Message:
    if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        frames = " ".join(["'self'", *os.environ.get(FRAMES, "").split()])
        headers["content-security-policy"] = f"frame-ancestors {frames}"
        headers["x-content-type-options"] = "nosniff"
        headers["referrer-policy"] = "same-origin"
    return message
