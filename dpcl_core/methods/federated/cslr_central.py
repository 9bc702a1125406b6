"""CSLR with a trusted sum: noisy mixtures of what clients have, and a head that clients train while they rehearse from them.

Matching happens on the client, with public prototypes or ones released before, so that one client's vector moves the sum by
its clipping norm and nothing else. Replay and head are two ways out of the same data: where both travel in a round, the same
coins decide over both, and they are one event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated import client_release
from dpcl_core.methods.federated.budget import Horizon, Noises
from dpcl_core.methods.federated.cards.cslr_central import CslrCentralParams
from dpcl_core.methods.federated.client_training import Chosen, RoundHead
from dpcl_core.methods.federated.lists import Lists
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.methods.federated.public_context import PublicEmbeddings
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.methods.federated.replay import Replay
from dpcl_core.methods.federated.slot_assignment import TaskRows
from dpcl_core.methods.federated.task_rows import SeenLabels, clients_of_a_task, features
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


def noises(spec: RunSpec, params: CslrCentralParams, horizon: Horizon, epsilon: float) -> Noises:
    """What replay and head need to keep the budget: both together, or the replay alone where the head is clean."""
    if math.isinf(epsilon):
        return Noises()
    if params.releases == "round":
        if params.head == "private":
            return horizon.in_rounds(epsilon, params.replay_share)
        return Noises(release=horizon.head_alone(epsilon))  # as many sampled rounds, of the replay alone
    if params.head == "private":
        return horizon.beside_releases(epsilon, params.replay_share)
    return Noises(release=horizon.releases(epsilon))


class CslrCentral:
    """One cell's mixtures and head."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        params = spec.params
        assert isinstance(params, CslrCentralParams)
        (self._cell,) = cells
        self._params, self._seen, self._n_clients = params, SeenLabels(spec, known), clients_of_a_task(known)
        public = PublicEmbeddings.of(known.anchors, self._cell.seed, params.dimensions, params.radius, params.anchors)
        horizon = Horizon.of(spec.privacy, known.n_tasks, known.recurrence, params.rounds, params.participation)
        noise = noises(spec, params, horizon, self._cell.epsilon)
        self._releases = ReleaseSchedule(spec, cells, known, public, [noise.release])
        self._head = RoundHead(spec, self._cell, known, self._n_clients, noise.head)
        self._public = public

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows = self._seen.rows(task)
        total, text = self._params.rounds, f"rounds on {task.name}"
        yield Progress("training", 0, total, task.index, f"lists of {task.name}")
        lists = cache(partial(self._releases.lists, rows, task.index))
        if self._params.releases == "task":
            self._releases.of_task(rows, task.index, ledgers, lists)
            yield self._observed(rows, lists, task.index, 0)
            for done in self._head.trained(rows, task.index, ledger, mixtures=self._mixtures):
                yield Progress("training", done, total, task.index, text)
            return
        sums = _RoundSums(self._releases, rows, lists, task.index, self._params.participation * self._n_clients)
        steps = self._head.trained(rows, task.index, ledger, mixtures=self._mixtures, beside=sums.vectors, took=sums.took)
        for done in steps:
            yield Progress("training", done, total, task.index, text)
            if done == 1 or done == total:
                yield self._observed(rows, lists, task.index, done - 1)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """By the one rule there is: the head's logits [1, n, classes]."""
        return {"argmax": self._seen.masked(self._head.logits(features(task.test.inputs))[None], task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last task's noisy sums, as far as its rounds have come, and the head as it is."""
        return {**self._releases.released(cell), **self._head.released()}

    def _mixtures(self) -> Sequence[Replay]:
        return self._releases.parts[0]

    def _observed(self, rows: TaskRows, lists: Callable[[], Lists], index: int, round: int) -> ListsObserved:
        return ListsObserved(lists, index, round, self._releases.parts, self._releases.stds(rows), self._public)


class _RoundSums:
    """The replay's part of a task's rounds: each adds a noisy sum to the average that the mixture is read from."""

    def __init__(
        self, releases: ReleaseSchedule, rows: TaskRows, lists: Callable[[], Lists], index: int, expected: float
    ) -> None:
        self._releases, self._rows, self._index = releases, rows, index
        self._lists = lists() if releases.n_groups > 1 else None
        self._layout, self._expected = releases.layout(rows), expected
        self._total, self._n_rounds = np.zeros((1, 1)), 0

    def vectors(self, chosen: Chosen) -> list[ClientVectors]:
        """What the round's clients send for the replay, matched to what was released before it."""
        slotted = self._releases.slotted(self._rows, self._lists, 0, self._index)
        own, bound = self._layout.vectors(slotted)[chosen], self._layout.sensitivity
        return [ClientVectors(REPLAY, own, bound, client_release.stds_of(self._releases.multipliers, bound))]

    def took(self, sums: Sequence[NDArray[np.float64]]) -> None:
        """Post-processing: the average of the task's noisy sums so far, as a mixture."""
        self._n_rounds += 1
        self._total = self._total + sums[0]
        targets = self._releases.targets(self._rows)
        (std,) = client_release.stds_of(self._releases.multipliers, self._layout.sensitivity)
        average, left = self._total / self._n_rounds, std / math.sqrt(self._n_rounds)  # noise of each round is its own
        (found,) = client_release.decoded(average, self._layout, targets, self._expected, [left])
        self._releases.take(0, self._index, self._rows, found)


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> CslrCentral:
    """The learner of one cell."""
    return CslrCentral(spec, cells, known)
