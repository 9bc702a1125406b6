"""Whose task it is: clients who belong to one task alone are in no round of another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.events import Signatures
from dpcl_core.methods.federated import client_training
from dpcl_core.methods.federated.client_release import TaskRows, clients_of_this_task
from dpcl_core.scenarios.stream import TaskStream
from tests.support import clients
from tests.support.watching import watched

EVERY, PUBLIC = clients.stream(per_class=40)


def once() -> TaskStream:
    """The same tasks, each with two of the eight clients."""
    tasks = []
    for task in EVERY.tasks:
        train = task.train
        assert train.users is not None
        tasks.append(replace(task, train=replace(train, users=4 * (train.users % 2) + task.index)))
    return replace(EVERY, tasks=tuple(tasks), recurrence="once")


def test_of_a_round_those_stay_whose_task_it_is() -> None:
    z, users = np.zeros((3, 2), dtype=np.float32), np.array([1, 5, 5])
    rows = TaskRows(z, np.zeros(3, dtype=np.int64), users, (0,), 1)
    chosen = np.array([0, 1, 4, 5])
    assert clients_of_this_task(chosen, rows, clients.known(once(), None)).tolist() == [1, 5]
    assert clients_of_this_task(chosen, rows, clients.known(EVERY, None)).tolist() == chosen.tolist()  # with or without rows
    assert clients_of_this_task(chosen[:1], rows, clients.known(once(), None)).tolist() == []


@pytest.mark.parametrize("method", ["dp-fedavg", "cslr-central", "cslr-published"])
def test_no_client_of_another_task_sends_what_rehearsal_alone_makes(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger has its own task alone, and so its updates must not be in the sums of others."""
    seen: list[set[int]] = []

    watched(monkeypatch, client_training, "local_updates", lambda found, given: seen.append(set(given[3].tolist())))
    few: dict[str, object] = {"rounds": 3, "local_steps": 2, "hidden": 8, "participation": 1.0}
    if method != "dp-fedavg":
        few |= {"anchors": 20, "restarts": 1} | ({"dimensions": 4} if method == "cslr-central" else {})
    clients.run(clients.spec(method, params=few), once(), PUBLIC)
    assert seen == [{index, index + 4} for index in range(4) for _ in range(3)]


def test_lists_are_told_of_the_clients_of_tasks_so_far() -> None:
    """Each client's own list and no longer one, without the empty lists of tasks that it is not in."""
    few = {"rounds": 2, "local_steps": 2, "hidden": 8, "anchors": 20, "restarts": 1, "participation": 1.0}
    _, _, said, _ = clients.run(clients.spec("cslr-published", params=few), once(), PUBLIC)
    told = [event for event in said if isinstance(event, Signatures)]
    assert {event.task for event in told} == {0, 1, 2, 3}
    for event in told:
        assert set(event.entries.client) == {client for client in range(8) if client % 4 <= event.task}
        assert max(map(event.entries.client.count, event.entries.client)) <= 4
        if event.lists is not None:  # in full, of the clients of this very task
            assert event.lists.client == (event.task, event.task + 4)


@pytest.mark.parametrize("method", ["cslr-central", "cslr-published"])
def test_rounds_that_lists_are_told_of_are_counted_from_zero(method: str) -> None:
    few: dict[str, object] = {"rounds": 3, "local_steps": 2, "hidden": 8, "anchors": 20, "restarts": 1, "participation": 1.0}
    few |= {"dimensions": 4, "releases": "round"} if method == "cslr-central" else {}
    _, _, said, _ = clients.run(clients.spec(method, params=few), once(), PUBLIC)
    told = [(event.task, event.round) for event in said if isinstance(event, Signatures)]
    assert told == [(task, round) for task in range(4) for round in (0, 2)]
