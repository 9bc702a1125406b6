"""The server asks no other host for anything: at its start, for a page, or where a page of another origin connects."""

from __future__ import annotations

import os
import socket
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import serving
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def asked() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that answers nobody, its address, and what it was asked."""
    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def listen() -> None:
            while True:
                try:
                    caller, _ = proxy.accept()
                except OSError:
                    return
                with caller:
                    lines.append(caller.recv(200).split(b"\r\n")[0])

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.getsockname()[1]}", lines
        proxy.shutdown(socket.SHUT_RDWR)


def test_a_server_for_everybody_asks_no_other_host(tmp_path: Path, asked: tuple[str, list[bytes]]) -> None:
    proxy, lines = asked
    environment = {name: value for name, value in os.environ.items() if name.lower() not in ("no_proxy", "dpcl_store")}
    environment |= {"http_proxy": proxy, "https_proxy": proxy}
    command = ("streamlit", "run", "app.py", "--server.headless=true", "--server.address=0.0.0.0", "--server.port={port}")
    with serving.serving(tmp_path, command, environment) as (port, _):
        assert serving.is_healthy(port)
        _connects_from_elsewhere(port)
        log_text = (tmp_path / "server.log").read_text
        until(lambda: f"http://localhost:{port}" in log_text())  # what is printed when the start is over
        assert "External" not in log_text()
        assert lines == []


def test_without_an_address_only_this_computer_is_served() -> None:
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["server"]["address"] == "localhost"


def _connects_from_elsewhere(port: int) -> None:
    """A page of another origin opens a connection, and is refused."""
    request = (
        f"GET /_stcore/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://example.org\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request.encode())
        assert b"403" in connection.recv(200)
