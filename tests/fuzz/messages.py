"""What a stranger may send to a running server: frames, messages and requests that no browser of ours would send."""

import random
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress

from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

_PATIENCE_SECONDS = 60.0
_SOON_SECONDS = 0.05
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PATHS = (
    "/", "/train", "/nothing", "/rooms/x", "/rooms/" + "y" * 3000, "/rooms/..%2f..%2fetc", "/rooms/a/vote",
    "/_stcore/health", "/_stcore/host-config", "/_stcore/upload_file/x/y", "/media/x", "/component/x/y",
    "/app/static/../../app.py", "/%00", "/%ff", "/..%2f..%2fetc/passwd", "/?" + "a" * 8000,
)  # fmt: skip
_VALUES = (
    ("int_value", -(2**63)), ("json_value", "{" * 5000), ("double_value", float("nan")), ("bytes_value", b"\xff" * 100),
    ("string_value", "x" * 100_000),
)  # fmt: skip
_COOKIES = (
    "dpcl-visitor=" + "0" * 32, "dpcl-visitor=é\x01;;=", "a=\"", "=;=", "x" * 4000, "a/b=1", "a>b=1", "x@y=2; dpcl-visitor=",
)  # fmt: skip


def frames(port: int, draw: random.Random) -> str:
    """Opens a connection for pages and sends bytes that are no frames; gives what a visitor should not be shown."""
    key = "MDEyMzQ1Njc4OWFiY2RlZg=="
    request = (
        f"GET /_stcore/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    if draw.random() < 0.3:  # not even a request
        request = _noise(request, draw)
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_SECONDS) as connection:
        try:
            connection.sendall(request)
            connection.sendall(draw.randbytes(draw.choice([1, 2, 14, 300, 70_000])))
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65_536):
                answer += piece
        except TimeoutError:
            return "the server neither answers nor hangs up"
        except OSError:  # it hung up
            pass
    return _shown(answer)


def messages(port: int, draw: random.Random) -> str:
    """Opens a connection as a browser does and sends messages that are wrong, huge, or of the wrong kind.

    Gives what a visitor should not be shown, as far as it comes at once.
    """
    answer = b""
    with suppress(WebSocketException, OSError), connect(
        f"ws://127.0.0.1:{port}/_stcore/stream", origin=f"http://127.0.0.1:{port}", subprotocols=["streamlit"],  # type: ignore[arg-type, list-item]
        open_timeout=_PATIENCE_SECONDS, close_timeout=_PATIENCE_SECONDS, max_size=None, proxy=None,
    ) as connection:  # fmt: skip
        for _ in range(draw.choice([1, 1, 3, 10])):
            connection.send(_message(draw))
        with suppress(TimeoutError):
            while isinstance(received := connection.recv(timeout=_SOON_SECONDS), bytes):
                answer += received
    return _shown(answer)


def requests(port: int, draw: random.Random) -> str:
    """Asks for an address; gives what a visitor should not be shown, empty if nothing is wrong with the answer."""
    path, data = draw.choice(_PATHS), None
    headers = {"cookie": draw.choice(_COOKIES)}
    if draw.random() < 0.5:  # with a body
        bodies = [b"", b"{", b"[" * 900, b'{"poll": 1, "choice": 1e999}', b"9" * 900, b"x" * 5000, draw.randbytes(300)]
        data = draw.choice(bodies)
        headers["content-type"] = draw.choice(["application/json", "text/plain", "multipart/form-data; boundary=x", ""])
    method = draw.choice([None, "PUT", "DELETE"])
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
    answer = b""
    try:
        with _LOCAL.open(asked, timeout=_PATIENCE_SECONDS) as response:
            answer = response.read(1_000_000)
    except urllib.error.HTTPError as refused:
        answer = refused.read(1_000_000)
        if refused.code >= 500:
            return f"{refused.code} for {path} with {data!r}"
    except (ConnectionError, ValueError):  # the server hung up; no such request can be made
        return ""
    return _shown(answer)


def _shown(answer: bytes) -> str:
    is_bare = b"Traceback (most" in answer or b'File "/' in answer
    return f"a traceback: {answer[:200]!r}" if is_bare else ""


SENDERS: dict[str, Callable[[int, random.Random], str]] = {"frames": frames, "messages": messages, "requests": requests}


def _message(draw: random.Random) -> bytes | str:
    good = BackMsg()
    good.rerun_script.query_string = "a=b&" * draw.choice([0, 1, 5000])
    good.rerun_script.page_name = draw.choice(["", "train", "../../etc", "\0", "x" * 10_000])
    good.rerun_script.page_script_hash = draw.choice(["", "nothing", "0" * 32])
    for _ in range(draw.choice([0, 0, 1, 50])):
        widget = good.rerun_script.widget_states.widgets.add()
        widget.id = draw.choice(["", "$$ID-x-y", "\u202e", "x" * 5000])
        setattr(widget, *draw.choice(_VALUES))
    whole = good.SerializeToString()
    return draw.choice(
        [whole, _noise(whole, draw), draw.randbytes(draw.choice([0, 1, 50, 100_000])), "text", "{" * 1000, b"\0" * 2_000_000]
    )


def _noise(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(draw.randint(1, 9)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)
