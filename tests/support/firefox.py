"""Firefox, driven by its own protocol (Marionette): no package and no driver beside it is needed.

A message is its length, a colon, and JSON: [0, number, command, parameters] there, [1, number, error, result] back.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.serving import free_port
from tests.support.waiting import PATIENCE_SECONDS, until

PROGRAM = os.environ.get("DPCL_FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """One window of a headless Firefox."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._number = connection, 0
        self._read()  # a greeting
        self._ask("WebDriver:NewSession")
        for kind in ("script", "pageLoad"):
            self._ask("WebDriver:SetTimeouts", **{kind: int(1000 * PATIENCE_SECONDS)})

    def open(self, address: str) -> None:
        """Opens an address, and waits until it is loaded."""
        self._ask("WebDriver:Navigate", url=address)

    def run(self, script: str) -> Any:
        """What a script returns, as JSON."""
        return self._ask("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def until(self, condition: str) -> None:
        """Waits for an expression of JavaScript to be true."""
        until(lambda: self.run(f"return Boolean({condition})"))

    def _ask(self, command: str, **parameters: object) -> Any:
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(f"{len(message)}:".encode() + message)
        _, _, error, result = json.loads(self._read())
        assert not error, error
        return result

    def _read(self) -> bytes:
        length = b""
        while not length.endswith(b":"):
            length += self._some(1)
        return self._some(int(length[:-1]))

    def _some(self, n: int) -> bytes:
        read = b""
        while len(read) < n:
            part = self._connection.recv(n - len(read))
            assert part, "Firefox ended"
            read += part
        return read


@contextmanager
def firefox(home: Path) -> Iterator[Firefox]:
    """A Firefox with a new profile in this folder."""
    assert PROGRAM
    port = free_port()
    (home / "user.js").write_text(f'user_pref("marionette.port", {port});\n')
    command = [PROGRAM, "--headless", "--marionette", "--no-remote", "--profile", str(home)]
    quiet = subprocess.DEVNULL
    program = subprocess.Popen(command, env={**os.environ, "MOZ_CRASHREPORTER_DISABLE": "1"}, stdout=quiet, stderr=quiet)
    try:
        connections: list[socket.socket] = []

        def connected() -> bool:
            assert program.poll() is None, "Firefox did not start"
            with suppress(ConnectionRefusedError):
                connections.append(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS))
            return bool(connections)

        until(connected)
        with connections[0]:
            yield Firefox(connections[0])
    finally:
        program.terminate()
        program.wait(PATIENCE_SECONDS)
