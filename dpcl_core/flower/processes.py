"""Flower's processes: a SuperLink with the server's app, and a SuperNode with a client's.

Nothing leaves for other hosts: Flower's telemetry, its look for updates and its installing of packages are switched off.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import IO

import psutil

from dpcl_core import __version__
from dpcl_core.errors import BadInput
from dpcl_core.flower.client import OVER
from dpcl_core.flower.outcome import EVENTS, LOG, OUTCOME, SAID

_START_SECONDS, _END_SECONDS, _GRACE_SECONDS, _LOOK_SECONDS, _CHECK_SECONDS = 300.0, 10.0, 2.0, 0.2, 2.0
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
}
# The app that Flower hands from server to clients: the names of two modules that both have installed, and no code.
_APP = f"""[project]
name = "dpcl-clients"
version = "{__version__}"
description = "Differentially private continual learning with real clients"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "dpcl"

[tool.flwr.app.components]
serverapp = "dpcl_core.flower.server_app:app"
clientapp = "dpcl_core.flower.client_app:app"

[tool.flwr.app.config]
folder = ""
wait = 0.0
patience = 0.0
"""


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files: the authority that signed the server's certificate, and, on the server, certificate and key."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        for name, path in (("--authority", self.authority), ("--certificate", self.certificate), ("--key", self.key)):
            if path is not None and not path.is_file():
                raise BadInput(name, str(path), "must be a PEM file")


def endpoint(address: str, field: str, tls: Tls | None) -> tuple[str, int]:
    """Host and port. Raises BadInput for anything else, and, without encryption, for a host that is not this computer."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadInput(field, address, "must be HOST:PORT, such as 127.0.0.1:9093")
    if tls is None and not _is_loopback(host):
        allowed = "must be on this computer, such as 127.0.0.1:9093, or certificates be given: vectors would be readable"
        raise BadInput(field, address, allowed)
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    folder: Path, address: str, tls: Tls | None, wait_seconds: float, patience_seconds: float, log: Callable[[str], None]
) -> None:
    """Carries out the run of the server's part; `outcome` then reads what it left. Raises BadInput where it cannot start."""
    host, port = endpoint(address, "--address", tls)
    for name in (EVENTS, OUTCOME):
        (folder / name).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="dpcl-flower-") as made:
        home, app = Path(made) / "home", Path(made) / "app"
        home.mkdir()
        app.mkdir()
        (app / "pyproject.toml").write_text(_APP, encoding="utf-8")
        root = f"root-certificates = {json.dumps(str(tls.authority))}" if tls is not None else "insecure = true"
        reached = json.dumps(f"{host}:{port}")
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = {reached}\n{root}\n', encoding="utf-8"
        )
        secured = ["--insecure"]
        if tls is not None:
            secured = ["--ssl-certfile", str(tls.certificate), "--ssl-keyfile", str(tls.key)]
            secured += ["--ssl-ca-certfile", str(tls.authority)]
        link = ["flower-superlink", "--host", host, "--port", str(port), *secured]
        with (folder / LOG).open("wb") as written, _running(link, home, written) as process:
            _wait_for(host, port, process, folder)
            settings = {"folder": str(folder.resolve()), "wait": float(wait_seconds), "patience": float(patience_seconds)}
            config = " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
            run = ["flwr", "run", str(app), "here", "--stream", "--run-config", config]
            _followed(run, home, written, log)


def join(folder: Path, server: str, tls: Tls | None, patience_seconds: float) -> None:
    """Answers the server of a run until that has ended it. Raises BadInput where the server is away for too long."""
    host, port = endpoint(server, "--server", tls)
    (folder / OVER).unlink(missing_ok=True)
    secured = ["--insecure"] if tls is None else ["--root-certificates", str(tls.authority)]
    with (
        tempfile.TemporaryDirectory(prefix="dpcl-flower-") as made,
        (folder / LOG).open("wb") as written,
        _running(
            [
                "flower-supernode", "--superlink", server, *secured, "--host", "127.0.0.1", "--port", str(_free_port()),
                "--node-config", f"folder={json.dumps(str(folder.resolve()))}",
            ],
            Path(made),
            written,
        ) as process,
    ):  # fmt: skip
        seen = looked = time.monotonic()
        while not (folder / OVER).exists():
            if time.monotonic() > looked + _CHECK_SECONDS:  # Flower's own process would try for ever, and say nothing
                looked = time.monotonic()
                seen = looked if _is_there(host, port) else seen
            if process.poll() is not None or time.monotonic() > seen + patience_seconds:
                reason = f"must be the address of a running server; there was none for {patience_seconds:g} seconds"
                raise BadInput("--server", server, f"{reason}, see {folder / LOG}")
            time.sleep(_LOOK_SECONDS)


@contextmanager
def _running(command: Sequence[str], home: Path, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Flower, and its end with all that it has started: asked to, then forced."""
    process = subprocess.Popen(_installed(command), env=_environment(home), stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        family = []
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for left in psutil.wait_procs(family, _GRACE_SECONDS)[1]:
            with suppress(psutil.NoSuchProcess):
                left.kill()


def _followed(command: Sequence[str], home: Path, written: IO[bytes], log: Callable[[str], None]) -> None:
    """Runs a command to its end; passes on the lines that are for the reader, and keeps the others."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        _installed(command), env=_environment(home), stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                _, mark, said = line.partition(SAID)
                if mark:
                    log(said.rstrip())
                else:
                    written.write(line.encode())
                    written.flush()
        except BaseException:
            process.terminate()
            raise


def _installed(command: Sequence[str]) -> list[str]:
    return [str(Path(sys.executable).parent / command[0]), *command[1:]]


def _environment(home: Path) -> dict[str, str]:
    # Flower starts further commands of its own by name.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **_QUIET, "FLWR_HOME": str(home), "PATH": path}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _is_there(host: str, port: int) -> bool:
    try:
        socket.create_connection((host.strip("[]"), port), 1).close()
    except OSError:
        return False
    return True


def _wait_for(host: str, port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if _is_there(host, port):
            return
        time.sleep(_LOOK_SECONDS)
    raise BadInput("--address", f"{host}:{port}", f"must be free for the server, which did not start; see {folder / LOG}")
