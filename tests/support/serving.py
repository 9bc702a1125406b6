"""A server of the app in a process of its own, on a free port of this computer."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
STREAMLIT = ("streamlit", "run", "app.py", "--server.headless=true", "--server.address=127.0.0.1", "--server.port={port}")
COMMAND = ("dpcl_core", "app", "--no-browser", "--address=127.0.0.1", "--port={port}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def is_healthy(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/_stcore/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def serving(
    home: Path, command: tuple[str, ...] = STREAMLIT, environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """The port and the process of a server that answers until the block ends; what it says is in `home / "server.log"`."""
    port = free_port()
    words = [sys.executable, "-m", *(word.format(port=port) for word in command)]
    with (home / "server.log").open("w") as log:
        started = subprocess.Popen(
            words, cwd=ROOT, env={**environment, "DPCL_HOME": str(home)}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: started.poll() is not None or is_healthy(port))
        yield port, started
    finally:
        started.terminate()
        started.wait()
