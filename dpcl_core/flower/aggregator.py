"""The server's side: knows clients by their keys, collects their vectors, and carries out the run as the simulation does.

A vector that does not come, comes late or is unusable counts as zeros. The mechanism clips every vector before it adds them
up, and sums are divided by public numbers, so none of this changes what the ledger records or what it is worth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Planned, of_kind
from dpcl_core.flower import participant, wire
from dpcl_core.flower.participant import Participant
from dpcl_core.flower.wire import Record, Unusable
from dpcl_core.learning import Group
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.card import MakeLearner
from dpcl_core.methods.federated.questions import Question

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
        for node, record in self.transport.ask(fresh, wire.hello()) if fresh else ():
            try:
                if node not in fresh:
                    raise Unusable("nobody who was asked")
                self._tries[node] = _MOST_TRIES
                shown = wire.present_of(record, self.part.keys)
                if shown.facts != participant.digest(self.part):
                    raise Unusable(f"client {shown.client} with a part of another split")
                if self.node_of.get(shown.client, node) in connected and self.node_of.get(shown.client, node) != node:
                    raise Unusable(f"client {shown.client} a second time")
            except Unusable as error:
                self.log(f"left out a node: {error}")
                continue
            self.node_of[shown.client] = node
            self.n_answered.setdefault(shown.client, shown.n_answered)
            self.log(f"client {shown.client} is here")

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
                "clients: some have answered an earlier run, which spent their budget; `dpcl flower split` makes parts for "
                "a new run, with a budget of its own"
            )

    def connected(self) -> dict[int, int]:
        """The clients' nodes that are connected now, by client, those that have come back included."""
        self.greet()
        now = set(self.transport.nodes())
        return {client: node for client, node in self.node_of.items() if node in now}


@dataclass
class Collector:
    """Collects the answers to a question: at most one vector from each client that was asked, of the width asked for."""

    roll: Roll

    def __call__(self, question: Question, clients: NDArray[np.int64]) -> NDArray[np.float64]:
        """The vectors [n, width] of these clients. Raises NobodyThere where no client at all is connected any more."""
        roll, log = self.roll, self.roll.log
        connected = roll.connected()
        if not connected:
            raise NobodyThere(f"clients = 0: none is connected in task {question.task + 1}; nothing more is released")
        wanted = {connected[client]: client for client in clients.tolist() if client in connected}
        vectors: dict[int, NDArray[np.float64]] = {}
        for node, record in roll.transport.ask(list(wanted), wire.asked(question)) if wanted else ():
            client = wanted.get(node)
            try:
                if client is None:
                    raise Unusable("nobody who was asked")
                if client in vectors:
                    raise Unusable("a second answer")
                vectors[client] = wire.vector_of(record, question, roll.part.keys[client])
            except Unusable as error:
                log(f"task {question.task + 1}, round {question.round + 1}: client {client}: {error}; not counted")
        for client in set(clients.tolist()) - set(vectors):
            log(f"task {question.task + 1}, round {question.round + 1}: client {client} counts as zeros")
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
    make = cast(MakeLearner, partial(cast("Callable[..., object]", methods.maker(spec.method)), collect=Collector(roll)))
    group = Group(spec, spec, list(spec.cells()), {seed: part.stream}, part.context, make=make, planned=plan)
    for event in group.events():
        if isinstance(event, CellFinished):
            simulated = card.assumes(spec.params)
            kept = tuple(sentence for sentence in event.guarantee.assumptions if sentence not in simulated)
            event = replace(event, guarantee=replace(event.guarantee, assumptions=(*ASSUMED, *kept)))
        yield event
