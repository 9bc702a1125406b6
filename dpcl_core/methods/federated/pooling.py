"""Clustering of all clients' lists on the server: our reference form of the paper's "deterministic stable rule"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule as classifier_Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.client_release import Collect, SeenLabels, features
from dpcl_core.methods.federated.client_training import Head, trained
from dpcl_core.methods.federated.matchers import Rule, margins, slots, squared_distances
from dpcl_core.methods.federated.params import ServerParams
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.methods.federated.slot_assignment import ListsObserved, Replay, TaskRows, sampled
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

_ROUNDS = 15


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """Groups of pooled lists: `ids` int64 [n, L], `prototypes` [K, f], `margins` [n, L], total squared distance `cost`."""

    ids: NDArray[np.int64]
    prototypes: NDArray[np.float64]
    margins: NDArray[np.float64]
    cost: float


def pooled(
    features: NDArray[np.float64],
    n_groups: int,
    rule: Rule,
    coordinates: NDArray[np.float64],
    previous: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    generator: np.random.Generator | None = None,
    n_starts: int | None = None,
) -> Pooled:
    """Alternates assignment and averaging, at most 15 times from each client's list, and keeps the lowest total cost.

    `n_starts`: use at most this many lists as starts, evenly spaced among the sorted ones (None: every list, the reference
    rule).

    Groups are numbered by matching to the `previous` prototypes [K, f]; the first time, by ascending mean of `coordinates`
    [n, L] (each element's first public principal coordinate). The order of clients and of elements has no effect: both are
    sorted by their values first. "random" assigns each list once.

    Removing one client can move other clients' elements to other groups: one client's influence on a sum over groups has no
    proven bound, so no epsilon follows.

    Args: features [n, L, f], n >= 1; weights [n, L], of elements in averages and costs (None: equal).
    """
    n, length, width = features.shape
    elements, clients = _order(features)
    sorted_features = np.take_along_axis(features, elements[:, :, None], axis=1)[clients]
    shares = np.ones((n, length)) if weights is None else weights
    shares = np.take_along_axis(shares, elements, axis=1)[clients]
    if rule == "random":
        starts = sorted_features.reshape(1, -1, width)[:, :1].repeat(n_groups, axis=1)
    else:
        chosen = sorted_features if n_starts is None else sorted_features[:: -(-n // n_starts)]
        starts = np.stack([_start(row, sorted_features.reshape(-1, width), n_groups) for row in chosen])
    ids, prototypes, cost = _alternated(sorted_features, shares, starts, rule, generator)
    place = np.take_along_axis(coordinates, elements, axis=1)[clients]
    renamed = _group_order(ids, prototypes, shares, place, previous)
    group_ids = np.empty((n, length), dtype=np.int64)
    np.put_along_axis(unsorted := np.empty_like(group_ids), elements[clients], renamed[ids], axis=1)
    group_ids[clients] = unsorted
    ordered = prototypes[np.argsort(renamed)]
    return Pooled(group_ids, ordered, margins(features, ordered), cost)


def _order(features: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorting permutations by value: [n, L] of each list's elements, and [n] of the lists."""
    elements = np.stack([_sorted(rows) for rows in features])
    lists = np.take_along_axis(features, elements[:, :, None], axis=1)
    return elements, _sorted(lists.reshape(len(lists), -1))


def _sorted(rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Permutation [n] that sorts rows [n, w] lexicographically; equal rows keep their order."""
    order = np.argsort(rows[:, 0], kind="stable")
    before, after = rows[order[:-1]], rows[order[1:]]
    if (before != after)[before[:, 0] == after[:, 0]].any():  # rare, and a hundred times slower
        order = np.lexsort(rows.T[::-1])
    return order.astype(np.int64)


def _start(entries: NDArray[np.float64], pool: NDArray[np.float64], n_groups: int) -> NDArray[np.float64]:
    """Initial prototypes [K, f] from a client's list [L, f]: its most distant ones, or all and the pool's most distant."""
    if len(entries) == n_groups:
        return entries
    furthest = squared_distances(entries, entries.mean(axis=0)[None])[:, 0].argmax()
    chosen = entries if len(entries) < n_groups else entries[[furthest]]
    among = pool if len(entries) < n_groups else entries
    while len(chosen) < n_groups:
        chosen = np.concatenate([chosen, among[[squared_distances(among, chosen).min(axis=1).argmax()]]])
    return chosen


def _alternated(
    features: NDArray[np.float64],
    weights: NDArray[np.float64],
    prototypes: NDArray[np.float64],
    rule: Rule,
    generator: np.random.Generator | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Ids [n, L], prototypes [K, f] and cost from the cheapest of the starts [S, K, f]; ties go to the first."""
    (n, length, _), (n_starts, n_groups, _) = features.shape, prototypes.shape
    ids, prototypes = np.full((n_starts, n, length), -1), prototypes.copy()
    moving = np.arange(n_starts)  # starts whose assignment still changes; the others are final
    for _ in range(_ROUNDS):
        costs = squared_distances(features[None], prototypes[moving, None])
        repeated = np.broadcast_to(weights, (len(moving), n, length)).reshape(-1, length)
        assigned = slots(rule, costs.reshape(-1, length, n_groups), repeated, generator)
        assigned = assigned.reshape(len(moving), n, length)
        changed = (assigned != ids[moving]).any(axis=(1, 2))
        moving, assigned = moving[changed], assigned[changed]
        if not len(moving):
            break
        ids[moving] = assigned
        belongs = (assigned[..., None] == np.arange(n_groups)) * weights[None, :, :, None]
        totals = belongs.sum(axis=(1, 2))
        sums = belongs.reshape(len(moving), -1, n_groups).transpose(0, 2, 1) @ features.reshape(n * length, -1)
        stayed = prototypes[moving]  # a group without weight keeps its prototype
        prototypes[moving] = np.divide(sums, totals[:, :, None], out=stayed, where=totals[:, :, None] > 0)
        if rule == "random":
            break
    costs = squared_distances(features[None], prototypes[:, None])
    total = (np.take_along_axis(costs, ids[..., None], axis=3)[..., 0] * weights).sum(axis=(1, 2))
    best = int(total.argmin())
    return ids[best], prototypes[best], float(total[best])


def _group_order(
    ids: NDArray[np.int64],
    prototypes: NDArray[np.float64],
    weights: NDArray[np.float64],
    coordinates: NDArray[np.float64],
    previous: NDArray[np.float64] | None,
) -> NDArray[np.int64]:
    """The canonical number of each group, [K]."""
    if previous is not None:
        matched: NDArray[np.int64] = linear_sum_assignment(squared_distances(prototypes, previous))[1]
        return matched
    belongs = (ids[..., None] == np.arange(len(prototypes))) * weights[..., None]
    totals = belongs.sum(axis=(0, 1))
    places = np.full(len(prototypes), np.inf)  # groups without weight come last
    np.divide((belongs * coordinates[..., None]).sum(axis=(0, 1)), totals, out=places, where=totals > 0)
    return np.argsort(np.argsort(places, kind="stable"), kind="stable")


# Learners whose head the server trains on released mixtures only: the head is post-processing of the releases.


class ServerHeadLearner(ABC):
    """The budgets of one seed: they share the clients' lists, never the noise.

    One head per budget, retrained from the same initial weights after every task. `received`: what the server trains on.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("_seen", "_releases", "_weights")
    received: ClassVar[str]

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, collect: Collect | None = None) -> None:
        assert isinstance(spec.params, ServerParams)
        self._params, self._cells, self._seed = spec.params, tuple(cells), cells[0].seed
        self._seen = SeenLabels(spec, context)
        self._releases = ReleaseSchedule(spec, cells, context, collect=collect)
        self._head = Head(context.n_inputs, context.n_classes, spec.params.hidden)
        self._first = np.stack([self._head.initial(generator(self._seed, "head"))] * len(cells))
        self._weights = self._first

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task = tasks[self._seed]
        rows = self._seen.rows(task)
        yield Progress("training", 0, 2, task.index, f"lists of {task.name}")
        observed = self._receive(rows, task.index, ledgers)
        if self._releases.is_simulated:
            yield observed
        yield Progress("training", 1, 2, task.index, f"head from the {self.received} up to {task.name}")
        self._train(observed.parts, task.index)
        yield Progress("training", 2, 2, task.index, f"{task.name} learned")

    @abstractmethod
    def _receive(self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger]) -> ListsObserved:
        """Makes a task's releases for every budget; the ledgers record each before it exists."""

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The head's logits [epsilons, n, classes], the only prediction rule."""
        return {"argmax": self._seen.masked(self._head.logits(self._weights, features(task.test.inputs)), task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The weights [P] of the cell's `head`, trained on the releases of all tasks."""
        return {"head": self._weights[self._cells.index(cell)].copy()}

    def rule(self, cell: Cell) -> classifier_Rule:
        """The head's largest logit."""
        return self._seen.rule("federated-head", ("head",), n_hidden=self._params.hidden)

    def _train(self, parts: Sequence[Sequence[Replay]], index: int) -> None:
        """Trains every budget's head on its mixtures of the tasks so far, all tasks with equal weight."""
        n_labels = max(1, len({int(target.argmax()) for part in parts[0] for target in part.targets}))
        n, units = self._params.samples * n_labels, self._params.unit_length
        samples = [sampled(mixtures, n, self._random("replay", index), unit_length=units) for mixtures in parts]
        z, targets = (np.stack(arrays) for arrays in zip(*samples, strict=True))
        steps, size, rate = self._params.steps, self._params.batch_size, self._params.learning_rate
        self._weights = trained(self._head, self._first, z, targets, steps, size, rate, self._random("steps", index))

    def _random(self, purpose: str, index: int) -> np.random.Generator:
        return generator(self._seed, f"{purpose} after task {index}")
