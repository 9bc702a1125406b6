"""Clients that are processes of their own: the run is the simulation's, whatever some of them do. Here over a fake network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from dpcl_core.engine import Opened
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Classifier, Event, JsonValue, Note, Progress, TaskLearned, to_json
from dpcl_core.flower import aggregator, client, participant, wire
from dpcl_core.flower.wire import Record
from dpcl_core.learning import Group
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios.stream import Table
from dpcl_core.spec import RunSpec
from tests.support import clients

N = 5
OF, PUBLIC = clients.stream(per_class=20, n_clients=N, classes_per_task=2)
METHODS = [name for name, card in methods.CARDS.items() if card.asks_clients]


def asked(method: str, noise: str = "seeded", **changes: object) -> RunSpec:
    changes = {"privacy": {"epsilons": [4.0], "noise": noise}, "scenario": {"kind": "federated", "clients": N}, **changes}
    return clients.small(method, **changes)


def opened(spec: RunSpec, of: object = OF) -> Opened:
    """What the engine would give of the small stream."""
    table = Table(OF.tasks[0].train, OF.tasks[0].test, OF.classes)
    return Opened(spec, table, {0: of}, clients.known(of, PUBLIC, N), None)  # type: ignore[arg-type, dict-item]


def parts(spec: RunSpec, folder: Path, of: object = OF) -> list[Path]:
    """The folders of the server and of each client."""
    folders = [folder / "server", *(folder / f"client-{number}" for number in range(N))]
    for part, target in zip(participant.parts(spec, opened(spec, of), [Note("info", "public")]), folders, strict=True):
        participant.write(part, target)
    return folders


Lie = Callable[[Record, Record], Iterable[Record]]  # from what it was asked, and the honest answer


@dataclass
class Wire:
    """Nodes without a network: node 100 + k answers from the folder of client k, unless it is dead or lies."""

    folders: Mapping[int, Path]
    lies: Mapping[int, Lie] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    dies_after: dict[int, int] = field(default_factory=dict)
    asked: list[tuple[int, Record]] = field(default_factory=list)

    def nodes(self) -> Sequence[int]:
        return [node for node in self.folders if node not in self.dead]

    def ask(self, nodes: Sequence[int], record: Record) -> Iterator[tuple[int, Mapping[str, object]]]:
        for node in nodes:
            self.asked.append((node, record))
            if node in self.dies_after:
                self.dies_after[node] -= 1
                if self.dies_after[node] < 0:
                    self.dead.add(node)
            if node in self.dead:
                continue
            honest = client.reply(self.folders[node], record)
            for answer in self.lies[node](record, honest) if node in self.lies else (honest,):
                yield node, answer

    def pause(self) -> None:
        raise AssertionError("waits though nobody is missing")


def network(folders: Sequence[Path]) -> Wire:
    return Wire({100 + number: folder for number, folder in enumerate(folders[1:])})


def carried_out(folders: Sequence[Path], over: Wire | None = None) -> tuple[list[Event], list[str]]:
    log: list[str] = []
    part = participant.read(folders[0])
    return list(aggregator.events(part, over or network(folders), 0, log.append)), log


def compared(events: Iterable[Event]) -> list[Mapping[str, JsonValue]]:
    """The events but for times, assumptions, and the lists that only a simulator sees."""
    found = []
    for event in events:
        if isinstance(event, CellFinished):
            event = replace(event, seconds=0.0, guarantee=replace(event.guarantee, assumptions=()))
        if isinstance(event, Progress | TaskLearned | CellFinished | Classifier):
            found.append(to_json(event))
    return found


def simulated(spec: RunSpec, of: object = OF) -> list[Event]:
    given = opened(spec, of)
    return list(Group(spec, spec, list(spec.cells()), given.streams, given.context).events())


@pytest.mark.parametrize("method", METHODS)
def test_real_clients_give_the_simulations_run_to_the_last_bit(method: str, tmp_path: Path) -> None:
    """Ledger, accuracies and released arrays: a client's vector does not depend on who is computed beside it."""
    spec = asked(method)
    events, log = carried_out(parts(spec, tmp_path))
    assert events[0] == Note("info", "public")
    ours, theirs = compared(events), compared(simulated(spec))
    assert any(isinstance(event, Classifier) for event in events)
    assert ours == theirs
    assert sorted(log) == [f"client {number} is here" for number in range(N)]


def test_several_groups_are_matched_to_what_was_released(tmp_path: Path) -> None:
    """The question holds the groups' means, and a later task of the same labels is matched to its earlier release."""
    again = replace(OF, tasks=(OF.tasks[0], replace(OF.tasks[0], index=1, name="again")))
    spec = asked("cslr-server-head", params={"modes_per_task": 3, "list_size": 3})
    over = network(folders := parts(spec, tmp_path, again))
    events, _ = carried_out(folders, over)
    assert compared(events) == compared(simulated(spec, again))
    first, second = (wire.question_of(record).state for _, record in over.asked if record["kind"] == "question" and _ == 100)
    assert first.shape == (2, 3, clients.WIDTH)
    assert not np.array_equal(first, second)
