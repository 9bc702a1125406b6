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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Protocol, cast

import numpy as np
import psutil
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.checks import ResolvedRun
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import CellFinished, Event, Planned, of_kind
from dpcl_core.flower import participant
from dpcl_core.flower.participant import EVENTS, LOG, OUTCOME, SAID, SPENT, Participant, Record, Unusable
from dpcl_core.learning import Group
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import MakeLearner
from dpcl_core.methods.federated.client_release import OfClients, Question
from dpcl_core.version import __version__

# A client's side: answers the server's questions from its own rows, each at most once.


OVER = "over"  # a file that says that the server has ended the run


def reply(folder: Path, record: Mapping[str, object]) -> Record:
    """The answer to what the server sent; a refusal in one sentence where there is none to give.

    In a release a client answers a question once, whoever asks: the folder remembers it, restarts included. So no server can
    make it spend more than the budget that its own settings give.
    """
    try:
        part = participant.read_part(folder)
        if part.number is None:
            raise BadInput("folder", str(folder), "must be a client's, not the server's")
        if record.get("kind") == "hello":
            n_answered = len(list((folder / SPENT).glob("*")))
            return {"client": part.number, "key": part.key, "facts": participant.digest(part), "answered": n_answered}
        if record.get("kind") == "goodbye":
            (folder / OVER).touch()
            return {"refused": ""}
        return _answer(part, folder, participant.question_of(record))
    except BadInput as error:
        return {"refused": " ".join(str(error).split())}


def _answer(part: Participant, folder: Path, question: Question) -> Record:
    assert part.number is not None
    if not 0 <= question.task < part.context.n_tasks:
        raise BadInput("question.task", question.task, f"must be one of {part.context.n_tasks}, from 0")
    learner = methods.maker(part.spec.method)(part.spec, list(part.spec.cells()), part.context)
    vectors = cast(OfClients, learner).answers(part.stream.tasks[question.task], question, np.array([part.number]))
    if vectors.shape != (1, question.width):
        raise BadInput("question.width", question.width, f"must be {vectors.shape[1]}")
    if part.spec.privacy.noise == "release":
        _spend(folder, question)
    return participant.answered(part.key, question, vectors[0])


def _spend(folder: Path, question: Question) -> None:
    """Remembers the question, before its answer leaves, and through a power cut. Raises BadInput for one answered before."""
    (folder / SPENT).mkdir(exist_ok=True)
    name = f"round {question.round} of task {question.task}"
    again = BadInput("question", name, "must be new: it was answered before, and each answer spends budget")
    with instead_of(FileExistsError, say=again):
        os.close(os.open(folder / SPENT / f"{question.task}-{question.round}", os.O_CREAT | os.O_EXCL, 0o600))
    for changed in (folder / SPENT, folder):
        paths.keep_names(changed)


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
serverapp = "dpcl_core.flower.apps:server"
clientapp = "dpcl_core.flower.apps:client"

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
    is_here = host == "localhost"
    with suppress(ValueError):
        is_here = ip_address(host.strip("[]")).is_loopback
    if tls is None and not is_here:
        allowed = "must be on this computer, such as 127.0.0.1:9093, or certificates be given: vectors would be readable"
        raise BadInput(field, address, allowed)
    return host, int(port)


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
            _followed(["flwr", "run", str(app), "here", "--stream", "--run-config", config], home, written, log)


def join(folder: Path, server: str, tls: Tls | None, patience_seconds: float) -> None:
    """Answers the server of a run until that has ended it. Raises BadInput where the server is away for too long."""
    host, port = endpoint(server, "--server", tls)
    (folder / OVER).unlink(missing_ok=True)
    secured = ["--insecure"] if tls is None else ["--root-certificates", str(tls.authority)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port_of_node = str(free.getsockname()[1])
    node = ["flower-supernode", "--superlink", server, *secured, "--host", "127.0.0.1", "--port", port_of_node]
    node += ["--node-config", f"folder={json.dumps(str(folder.resolve()))}"]
    with (
        tempfile.TemporaryDirectory(prefix="dpcl-flower-") as made,
        (folder / LOG).open("wb") as written,
        _running(node, Path(made), written) as process,
    ):
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


def _is_there(host: str, port: int) -> bool:
    with suppress(OSError):
        socket.create_connection((host.strip("[]"), port), 1).close()
        return True
    return False


def _wait_for(host: str, port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if _is_there(host, port):
            return
        time.sleep(_LOOK_SECONDS)
    raise BadInput("--address", f"{host}:{port}", f"must be free for the server, which did not start; see {folder / LOG}")


# The server's side: knows clients by their keys, collects their vectors, and carries out the run as the simulation does.
#
# A vector that does not come, comes late or is unusable counts as zeros. The mechanism clips every vector before it adds
# them up, and sums are divided by public numbers, so none of this changes what the ledger records or what it is worth.


_MOST_TRIES = 3
# In place of what the card of a simulated method assumes.
ASSUMED = (
    "Clients are processes of their own. The server sees each client's vector before it adds them up and adds noise: it "
    "must be trusted with them, and so must everyone who can read its memory.",
    "Between client and server the vectors are encrypted, or never leave one computer.",
    "Who takes part in a round, and how long the server waits for whom, stays between clients and server.",
)


class Transport(Protocol):
    """Carries records to nodes, processes that may be clients, and brings their answers back."""

    def nodes(self) -> Sequence[int]:
        """The nodes that are connected now."""
        ...

    def ask(self, nodes: Sequence[int], record: Record) -> Iterable[tuple[int, Mapping[str, object]]]:
        """Sends a record to these nodes; answers that come in time, each with its node, in order of arrival."""
        ...

    def pause(self) -> None:
        """Waits a moment for other nodes to connect."""
        ...


class NobodyThere(RuntimeError):
    """A run cannot go on because clients are missing; one sentence."""


@dataclass
class Roll:
    """Which node is which client. A client's number belongs to the first node that shows its key, while it is connected."""

    part: Participant
    transport: Transport
    log: Callable[[str], None]
    node_of: dict[int, int] = field(default_factory=dict)
    n_answered: dict[int, int] = field(default_factory=dict)
    _tries: dict[int, int] = field(default_factory=dict)

    def greet(self) -> None:
        """Asks nodes that have not answered yet who they are, three times at most: who is silent delays every question."""
        connected = self.transport.nodes()
        fresh = [node for node in connected if self._tries.get(node, 0) < _MOST_TRIES]
        self._tries.update({node: self._tries.get(node, 0) + 1 for node in fresh})
        for node, record in self.transport.ask(fresh, {"kind": "hello"}) if fresh else ():
            try:
                if node not in fresh:
                    raise Unusable("nobody who was asked")
                self._tries[node] = _MOST_TRIES
                client, facts, n_answered = participant.present_of(record, self.part.keys)
                if facts != participant.digest(self.part):
                    raise Unusable(f"client {client} with a part of another split")
                if self.node_of.get(client, node) in connected and self.node_of.get(client, node) != node:
                    raise Unusable(f"client {client} a second time")
            except Unusable as error:
                self.log(f"left out a node: {error}")
                continue
            self.node_of[client] = node
            self.n_answered.setdefault(client, n_answered)
            self.log(f"client {client} is here")

    def wait(self, seconds: float) -> None:
        """Waits for all clients. Raises NobodyThere when time is up, and where their budget has been spent before."""
        n_clients, until = len(self.part.keys), time.monotonic() + seconds
        self.greet()
        while len(self.node_of) < n_clients and time.monotonic() < until:
            self.transport.pause()
            self.greet()
        missing = [str(client) for client in range(n_clients) if client not in self.node_of]
        if missing:
            raise NobodyThere(
                f"clients = {n_clients - len(missing)}: all {n_clients} must be connected before the first task, and "
                f"{', '.join(missing)} are missing; start them, or wait longer with --wait"
            )
        if any(self.n_answered.values()):
            raise NobodyThere(
                "clients: some have answered an earlier run, which spent their budget; `dpcl flower SPEC.toml --to DIR` "
                "makes parts for a new run, with a budget of its own"
            )

    def connected(self) -> dict[int, int]:
        """The clients' nodes that are connected now, by client, those that have come back included."""
        self.greet()
        now = set(self.transport.nodes())
        return {client: node for client, node in self.node_of.items() if node in now}

    def collect(self, question: Question, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """The vectors [n, width] of these clients, at most one from each that was asked, of the width asked for.

        Raises NobodyThere where no client at all is connected any more.
        """
        connected = self.connected()
        if not connected:
            raise NobodyThere(f"clients = 0: none is connected in task {question.task + 1}; nothing more is released")
        wanted = {connected[client]: client for client in clients.tolist() if client in connected}
        vectors: dict[int, NDArray[np.float64]] = {}
        for node, record in self.transport.ask(list(wanted), participant.question_record(question)) if wanted else ():
            client = wanted.get(node)
            try:
                if client is None:
                    raise Unusable("nobody who was asked")
                if client in vectors:
                    raise Unusable("a second answer")
                vectors[client] = participant.vector_of(record, question, self.part.keys[client])
            except Unusable as error:
                self.log(f"task {question.task + 1}, round {question.round + 1}: client {client}: {error}; not counted")
        for client in set(clients.tolist()) - set(vectors):
            self.log(f"task {question.task + 1}, round {question.round + 1}: client {client} counts as zeros")
        nothing = np.zeros(question.width)
        return np.array([vectors.get(client, nothing) for client in clients.tolist()]).reshape(len(clients), question.width)


def events(part: Participant, transport: Transport, wait_seconds: float, log: Callable[[str], None]) -> Iterator[Event]:
    """The events of the whole run, as `engine.run` yields them, but for assumptions of the guarantee and the clients' lists.

    `log`: lines for whoever runs the server; they say who answered, and are not for publication. Raises NobodyThere before
    anything is released where a client is missing at the start.
    """
    if part.number is not None:
        raise BadInput("folder", f"client {part.number}", "must be the server's")
    roll = Roll(part, transport, log)
    roll.wait(wait_seconds)
    yield from part.events
    spec, card = part.spec, methods.card(part.spec.method)
    (seed,), plan = spec.seeds, next(of_kind(part.events, Planned), None)
    make = cast(MakeLearner, partial(cast("Callable[..., object]", methods.maker(spec.method)), collect=roll.collect))
    run, cells = ResolvedRun.of(spec, part.context), list(spec.cells())
    group = Group(spec, run, cells, {seed: part.stream}, part.context, make=make, planned=plan)
    for event in group.events():
        if isinstance(event, CellFinished):
            simulated = card.assumes(spec.params)
            kept = tuple(sentence for sentence in event.guarantee.assumptions if sentence not in simulated)
            event = replace(event, guarantee=replace(event.guarantee, assumptions=(*ASSUMED, *kept)))
        yield event
