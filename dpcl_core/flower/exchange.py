"""What travels between server and clients, flat records of numbers, texts and bytes, and what either side makes of it.

A vector that does not come, comes late or is unusable counts as zeros. The mechanism clips every vector before it adds
them up, and sums are divided by public numbers, so none of this changes what the ledger records or what it is worth.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.checks import ResolvedRun
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.events import CellFinished, Event, Planned, from_json, of_kind
from dpcl_core.flower.participant import Participant, read_part
from dpcl_core.learning import Group
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import MakeLearner
from dpcl_core.methods.federated.client_release import OfClients, Question

SPENT = "answered"  # a client's folder of the questions that it has answered
# In place of what the card of a simulated method assumes.
ASSUMED = (
    "Clients are processes of their own. The server sees each client's vector before it adds them up and adds noise: it "
    "must be trusted with them, and so must everyone who can read its memory.",
    "Between client and server the vectors are encrypted, or never leave one computer.",
    "Who takes part in a round, and how long the server waits for whom, stays between clients and server.",
)
_LOOK_SECONDS = 1.0  # between two looks for clients that join
Record = dict[str, int | str | bytes | list[int]]


def reply(folder: Path, record: Mapping[str, Any]) -> Record:
    """A client's answer to what the server sent. Raises BadInput for a question that its own settings do not ask.

    In a release a client answers a question once, whoever asks: the folder remembers it, restarts included. So no server can
    make it spend more than the budget that its own settings give.
    """
    part = read_part(folder)
    if record["kind"] == "hello":
        return {"key": part.key}
    state = np.frombuffer(record["state"], "<f8").reshape(record["shape"])
    question = Question(int(record["task"]), int(record["round"]), int(record["width"]), state)
    if not 0 <= question.task < part.context.n_tasks:
        raise BadInput("question.task", question.task, f"must be one of {part.context.n_tasks}, from 0")
    learner = cast(OfClients, methods.maker(part.spec.method)(part.spec, list(part.spec.cells()), part.context))
    vectors = learner.answers(part.stream.tasks[question.task], question, np.array([part.number]))
    if part.spec.privacy.noise == "release":
        _spend(folder, question)
    return {"key": part.key, "vector": vectors.astype("<f8").tobytes()}


def _spend(folder: Path, question: Question) -> None:
    """Remembers the question, before its answer leaves, and through a power cut. Raises BadInput for one answered before."""
    (folder / SPENT).mkdir(exist_ok=True)
    name, allowed = f"{question.task}-{question.round}", "must be new: it was answered before, and each answer spends budget"
    with instead_of(FileExistsError, say=BadInput("question", name, allowed)):
        (folder / SPENT / name).touch(mode=0o600, exist_ok=False)
    for changed in (folder / SPENT, folder):
        paths.keep_names(changed)


class Transport(Protocol):
    """Carries records to nodes, processes that may be clients, and brings their answers back."""

    def nodes(self) -> Sequence[int]:
        """The nodes that are connected now."""

    def ask(self, nodes: Sequence[int], record: Record) -> Iterable[tuple[int, Mapping[str, Any]]]:
        """Sends a record to these nodes; answers that come in time, each with its node, in order of arrival."""


@dataclass
class Roll:
    """Which node is which client, for the server. A client's number belongs to the first node that shows its key."""

    part: Participant
    transport: Transport
    log: Callable[[str], None]
    node_of: dict[int, int] = field(default_factory=dict)

    def gather(self) -> None:
        """Waits until every client has joined, however long that takes; until then nothing else is asked of anyone."""
        asked: set[int] = set()
        while len(self.node_of) < len(self.part.keys):
            if not (fresh := [node for node in self.transport.nodes() if node not in asked]):
                time.sleep(_LOOK_SECONDS)
            asked.update(fresh)
            for node, record in self.transport.ask(fresh, {"kind": "hello"}) if fresh else ():
                if (client := self._sender(record)) is not None and self.node_of.setdefault(client, node) == node:
                    self.log(f"client {client} is here")

    def collect(self, question: Question, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """The vectors [n, width] of these clients, at most one from each, of the width asked for.

        Raises BadInput where no client at all is connected any more.
        """
        connected, vectors = set(self.transport.nodes()), np.zeros((len(clients), question.width))
        if connected.isdisjoint(self.node_of.values()):
            raise BadInput("clients", 0, f"must be more: none is connected in task {question.task + 1}, which ends the run")
        waiting = {client: place for place, client in enumerate(clients.tolist())}
        nodes = [node for client in waiting if (node := self.node_of[client]) in connected]
        numbers: Record = {"kind": "question", "task": question.task, "round": question.round, "width": question.width}
        # As little-endian doubles, which hold single precision exactly.
        state: Record = {"shape": list(question.state.shape), "state": question.state.astype("<f8").tobytes()}
        for _, record in self.transport.ask(nodes, numbers | state) if nodes else ():
            client, sent = self._sender(record), record.get("vector")
            if client not in waiting or not isinstance(sent, bytes) or len(sent) != 8 * question.width:
                continue
            if np.isfinite(vector := np.frombuffer(sent, "<f8")).all():  # however long it is: the mechanism clips it
                vectors[waiting.pop(client)] = vector
        for client in waiting:
            self.log(f"task {question.task + 1}, round {question.round + 1}: client {client} counts as zeros")
        return vectors

    def _sender(self, record: Mapping[str, Any]) -> int | None:
        """The client whose key the record has, if there is one."""
        digest = sha256(str(record.get("key")).encode("utf-8", "replace")).hexdigest()
        return self.part.keys.index(digest) if digest in self.part.keys else None


def events(part: Participant, transport: Transport, log: Callable[[str], None]) -> Iterator[Event]:
    """The events of the server's run, as `engine.run` yields them, but for assumptions of the guarantee and clients' lists.

    `log`: lines for whoever runs the server; they say who answered, and are not for publication. Nothing is released before
    all clients are there. Raises BadInput where all have left.
    """
    spec, roll = part.spec, Roll(part, transport, log)
    roll.gather()
    yield from (before := [from_json(event) for event in part.events])
    simulated = methods.card(spec.method).assumes(spec.params)
    (seed,), plan = spec.seeds, next(of_kind(before, Planned), None)
    make = cast(MakeLearner, partial(cast("Callable[..., object]", methods.maker(spec.method)), collect=roll.collect))
    run, cells = ResolvedRun.of(spec, part.context), list(spec.cells())
    for event in Group(spec, run, cells, {seed: part.stream}, part.context, make=make, planned=plan).events():
        if isinstance(event, CellFinished):
            kept = tuple(sentence for sentence in event.guarantee.assumptions if sentence not in simulated)
            event = replace(event, guarantee=replace(event.guarantee, assumptions=(*ASSUMED, *kept)))
        yield event
