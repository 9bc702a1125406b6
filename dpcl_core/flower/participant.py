"""What one process of a run with real clients holds, as a folder: public facts, and its own rows; and Flower's processes."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core import arrays, checks, paths
from dpcl_core.documents import Document
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import Event, Progress, from_json, plain, to_json
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext
from dpcl_core.scenarios.stream import Examples, TaskStream
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:  # a client, which starts anew for each question, need not load the engine
    from dpcl_core.engine import Opened

FACTS, ROWS, SPEC, EVENTS = "facts.json", "rows.safetensors", "spec.toml", "events.jsonl"


class Participant(Document, arbitrary_types_allowed=True):
    """What one process knows.

    `stream`: the tasks; a client has its own training rows in them, the server the public test rows, and neither has more.
    `number`: the client's, from 0; None: the server. `keys`: SHA-256 of every client's key, for the server; a client has its
    `key`. `events`: what is public of the run before its first task, for the server, each as a JSON document.
    """

    spec: RunSpec
    context: PublicContext
    stream: TaskStream
    number: int | None = None
    keys: tuple[str, ...] = ()
    key: str = ""
    events: tuple[Mapping[str, Any], ...] = ()


def refuse(spec: RunSpec) -> None:
    """Raises BadInput for a run that cannot have real clients: a method that does not ask them, several models, no noise."""
    if not methods.card(spec.method).asks_clients:
        able = ", ".join(name for name, card in methods.CARDS.items() if card.asks_clients)
        raise BadInput("method", spec.method, f"must be one whose clients can be processes of their own: {able}")
    if spec.n_cells != 1:
        allowed = "must be one budget with one seed: what clients hold is released once, and models would add up"
        raise BadInput("privacy.epsilons x seeds", spec.n_cells, allowed)
    if spec.labels in ("data", "dp-learned"):
        allowed = "must be prior or prior-const: no round asks real clients for the labels that they hold"
        raise BadInput("labels", spec.labels, allowed, {"labels": "prior-const"})
    if not np.isfinite(spec.privacy.epsilons[0]):
        raise BadInput("privacy.epsilons", "inf", "must be finite: real clients release nothing without noise")


def parts(spec: RunSpec, of: Opened, events: Sequence[Event]) -> dict[str, Participant]:
    """The server's part of an opened run, and then each client's, by the name of its folder."""
    streams, context = of.of_cells(list(spec.cells()))
    (stream,) = streams.values()
    context = replace(context, form=None, texts=None, canaries=(), undeclared=())  # clients' methods ask for none of these
    keys = [secrets.token_hex(16) for _ in range(context.n_users or 0)]
    digests = tuple(sha256(key.encode()).hexdigest() for key in keys)
    public = tuple(to_json(event) for event in events if not isinstance(event, Progress))
    part = partial(Participant, spec=spec, context=context)
    clients = {f"client-{n}": part(stream=_with_rows(stream, n), number=n, key=key) for n, key in enumerate(keys)}
    return {"server": part(stream=_with_rows(stream, None), keys=digests, events=public), **clients}


def _with_rows(stream: TaskStream, number: int | None) -> TaskStream:
    """The stream with one client's training rows alone, or, for the server, with the test rows alone."""
    tasks = []
    for task in stream.tasks:
        assert task.train.users is not None
        own, test = np.flatnonzero(task.train.users == number), np.arange(len(task.test) if number is None else 0)
        tasks.append(replace(task, train=_alone(task.train, own), test=_alone(task.test, test)))
    return replace(stream, tasks=tuple(tasks))


def _alone(of: Examples, places: NDArray[np.intp]) -> Examples:
    """The examples at these places, without the table of all that they come from."""
    of = of.take(places)
    return Examples(np.ascontiguousarray(of.inputs), of.labels, of.users, sentences=of.sentences)


def write(part: Participant, folder: Path) -> None:
    """Writes a part into a new folder that only its owner can read. Raises BadInput where there is one already."""
    if folder.exists():
        raise BadInput("--to", str(folder), "must be a new folder: parts of another run must not be mixed with these")
    folder.mkdir(parents=True, mode=0o700)
    rows: dict[str, NDArray[Any]] = {}

    def as_place(array: NDArray[Any]) -> dict[str, str]:
        rows[name := str(len(rows))] = array
        return {"array": name}

    facts = json.dumps(plain({name: value for name, value in part if name != "spec"}), default=as_place)
    contents = {SPEC: checks.to_toml(part.spec).encode(), FACTS: facts.encode(), ROWS: arrays.save(rows)}
    for name, content in contents.items():
        with open(paths.open_file(folder / name, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(content)


def read_part(folder: Path) -> Participant:
    """The part in a folder that `write` made. Raises BadInput for any other, and for a client in two tasks of a stream in
    which each client belongs to one alone: its guarantee would not hold.
    """
    spec = checks.parse(checks.read_toml(paths.read_file(folder / SPEC, "folder").decode("utf-8", "replace")))
    refuse(spec)
    allowed = "must be a folder that `dpcl flower SPEC.toml --to DIR` wrote, with all its files as they were"
    with instead_of(OSError, ValueError, KeyError, TypeError, say=BadInput("folder", str(folder), allowed)):
        rows = arrays.load((folder / ROWS).read_bytes())
        facts = json.loads((folder / FACTS).read_bytes(), object_hook=lambda of: rows[of["array"]] if "array" in of else of)
        part = Participant(spec=spec, **facts)
    n_tasks = sum(len(task.train) > 0 for task in part.stream.tasks)
    if part.stream.recurrence == "once" and part.number is not None and n_tasks > 1:
        raise BadInput("folder", str(folder), "must hold rows of one task only: the budget counts each client in one task")
    return part


# Flower's processes on this computer: a SuperLink with the server's app, or a SuperNode with a client's.
#
# Nothing leaves for other hosts: Flower's telemetry, its look for updates and its installing of packages are switched off.


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
