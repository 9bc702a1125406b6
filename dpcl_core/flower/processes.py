"""Flower's processes on this computer: a SuperLink with the server's app, or a SuperNode with a client's.

Nothing leaves for other hosts: Flower's telemetry, its look for updates and its installing of packages are switched off.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpcl_core.errors import BadInput
from dpcl_core.events import Event, from_json
from dpcl_core.flower.participant import EVENTS, Participant

_LOOK_SECONDS = 0.5
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_LOG_LEVEL": "WARNING",
}


def endpoint(address: str) -> tuple[str, int]:
    """Host and port. Raises BadInput for a host that is not this computer: here nothing is encrypted."""
    if not (found := re.fullmatch(r"(127\.0\.0\.1|localhost):([1-9][0-9]{0,4})", address)):
        allowed = "must be 127.0.0.1:PORT, on this computer: for others run these apps in Flower's own deployment, with TLS"
        raise BadInput("--address", address, f"{allowed} (docs/guides/real_clients.md)")
    return found[1], int(found[2])


def serve(part: Participant, folder: Path, address: str) -> tuple[Event, ...]:
    """The events of the run of the server's part in this folder, without an end where it failed, as Flower then has said.

    `folder`: a full path. Raises BadInput where the run cannot start, and in a release for a folder that was used: its
    clients would not answer again.
    """
    host, port = endpoint(address)
    if (found := folder / EVENTS).exists() and found.stat().st_size and part.spec.privacy.noise == "release":
        raise BadInput("folder", str(folder), "must be new: its clients have answered a run, which spent their budget")
    if _is_there(host, port):
        raise BadInput("--address", address, "must be free: another server is there")
    found.write_bytes(b"")
    with _running(address, "flower-superlink", "--insecure", "--host", host, "--port", str(port)) as link:
        _wait_until(True, host, port, link)
        app, named = str(Path(__file__).parent / "app"), f"folder={json.dumps(str(folder))}"
        with _running(address, "flwr", "run", app, "here", "--stream", "--run-config", named) as run:
            run.wait()
    return tuple(from_json(json.loads(line)) for line in found.read_text(encoding="utf-8").splitlines())


def join(folder: Path, address: str) -> None:
    """Waits for the server of a run, and answers it until it has ended. `folder`: a full path. Raises BadInput."""
    host, port = endpoint(address)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = ["--host", "127.0.0.1", "--port", str(free.getsockname()[1])]
    given = ["--superlink", address, "--node-config", f"folder={json.dumps(str(folder))}"]
    with _running(address, "flower-supernode", "--insecure", *given, *own) as node:
        _wait_until(True, host, port, node)
        _wait_until(False, host, port, node)  # Flower's own process would go on looking for a server


@contextmanager
def _running(address: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Flower, and its end. What it says goes to standard error: standard output has results alone."""
    programs = str(Path(sys.executable).parent)  # Flower starts further commands of its own by name
    with tempfile.TemporaryDirectory(prefix="dpcl-flower-", ignore_cleanup_errors=True) as home:
        server = f'[superlink.here]\naddress = "{address}"\ninsecure = true\n'
        Path(home, "config.toml").write_text(server, encoding="utf-8")
        path = os.pathsep.join([programs, os.environ.get("PATH", "")])
        environment = {**os.environ, **_QUIET, "FLWR_HOME": home, "PATH": path}
        with subprocess.Popen([f"{programs}/{command[0]}", *command[1:]], env=environment, stdout=sys.stderr) as process:
            try:
                yield process
            finally:
                process.terminate()


def _wait_until(is_there: bool, host: str, port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits for a server to be there, or gone. Raises BadInput where Flower's own process ends before."""
    while _is_there(host, port) is not is_there:
        if process.poll() is not None:
            raise BadInput("--address", f"{host}:{port}", "must be one that Flower can use, but its process has ended")
        time.sleep(_LOOK_SECONDS)


def _is_there(host: str, port: int) -> bool:
    with suppress(OSError, OverflowError), socket.create_connection((host, port), 1):
        return True
    return False
