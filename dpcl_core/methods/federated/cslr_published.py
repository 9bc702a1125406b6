"""CSLR as printed: each round some clients' lists are clustered by the server and averaged group by group under the noise of
Table 5, and rehearsed while a head is averaged without noise.

What the paper leaves open is chosen here: lists are fitted once a task, each task's last mixture is kept for good, groups
are K = `modes_per_task` of a task or of each of its labels, and groups of a round are named after the average so far of what
was released. Where print does not work, settings have it either way: lists of a whole task or of each label, noised
before they are matched or not, averages by Eq. 2 or by shares, a round's own release or a running average, raw targets or
ones on the simplex.

The whole has no bound. Lists that are clean when the server clusters them let one client move what others are counted as,
so that not even the replay has one; with one group a label nothing is clustered, and the replay has, unless its sums are
divided by how many clients came. Lists noised at home have a bound of their own, and all that is made of them keeps it. What
the noise would cost if the printed sensitivity held stands in the claim as accounted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Claim, Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated import matchers, published_release
from dpcl_core.methods.federated.cards.cslr_published import CslrPublishedParams
from dpcl_core.methods.federated.client_training import Chosen, RoundHead
from dpcl_core.methods.federated.lists import ListLearner, Lists
from dpcl_core.methods.federated.observations import ListsObserved, NoiseStd
from dpcl_core.methods.federated.pooling import pooled
from dpcl_core.methods.federated.public_context import EntryMatcher, PublicEmbeddings
from dpcl_core.methods.federated.public_view import PublicView
from dpcl_core.methods.federated.published_release import Aggregation, SlotSums
from dpcl_core.methods.federated.replay import Replay
from dpcl_core.methods.federated.slot_assignment import TaskRows, listed
from dpcl_core.methods.federated.task_rows import SeenLabels, clients_of_a_task, features
from dpcl_core.privacy import cslr_accounting, cslr_claim
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

_AT_MOST = 500  # rows of a client that a list is fitted to
_N_AXES = 2  # of the view that names groups and draws maps


@dataclass(slots=True, eq=False)
class _Now:
    """A task while it is learned: its clients' lists, and of its groups the running averages of what was released.

    `named`: the one that groups are named after; `sums`: the one that is replayed.
    """

    index: int
    ledger: Ledger
    lists: Lists
    features: NDArray[np.float64]
    n_groups: int
    random: np.random.Generator
    named: SlotSums | None = None
    sums: SlotSums | None = None


class CslrPublished:
    """One cell's mixtures, one part a task, and its head."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        params = spec.params
        assert isinstance(params, CslrPublishedParams)
        (self._cell,) = cells
        self._params, self._seen, self._n_users = params, SeenLabels(spec, known), known.n_users or 0
        self._by_label = params.lists == "label"
        self._n_clients = clients_of_a_task(known)
        self._public = PublicEmbeddings.of(
            known.anchors, self._cell.seed, params.dimensions or _N_AXES, None, params.anchors
        )
        self._axes: PublicView | None = None  # of which everything below sees the coordinates alone
        if params.dimensions is not None:
            self._axes, self._public = self._public.view, _on_axes(self._public)
            known = replace(known, n_inputs=params.dimensions)
        self._compared = EntryMatcher.of(params, self._public)
        self._sigma = cslr_claim.printed_multiplier(self._cell.epsilon) if math.isfinite(self._cell.epsilon) else 0.0
        self._noise = noise_of(spec.privacy.noise, self._cell, "replay")
        self._head = RoundHead(spec, self._cell, known, self._n_clients, 0.0)
        self._parts: list[Replay] = []
        self._aggregation = Aggregation(params.aggregation == "shares", params.targets == "simplex")
        self._spec, self._known = spec, known

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task, ledger = tasks[self._cell.seed], ledgers[self._cell]
        rows = self._seen.rows(task)
        rows = replace(rows, z=self._seen_on_axes(rows.z))
        total, text = self._params.rounds, f"rounds on {task.name}"
        yield Progress("training", 0, total, task.index, f"lists of {task.name}")
        n_lists = len(rows.space) if self._by_label else 1
        n_groups = n_lists * self._params.modes_per_task
        ledger.claimed = self._claimed(n_lists * self._params.list_size, n_groups) if self._sigma > 0 else None
        if what := self._without_bound():
            unbounded = dp.NonPrivateDpEvent()
            ledger.spend(unbounded, task=task.index, what=what, channels={REPLAY: unbounded})
        lists = self._lists(rows, task.index)
        now = _Now(
            task.index,
            ledger,
            lists,
            matchers.list_features(lists, self._compared.features),
            n_groups,
            generator(self._cell.seed, f"matching of task {task.index}"),
        )
        rounds = self._head.trained(
            rows, task.index, ledger, mixtures=lambda: self._parts, before=lambda chosen: self._average(now, chosen)
        )
        for done in rounds:
            yield Progress("training", done, total, task.index, text)
            if done in (1, total):
                z = self._sigma / (self._params.participation * self._n_clients)
                std = NoiseStd(z, z, self._sigma, self._params.second_moments)
                yield ListsObserved(lambda: now.lists, task.index, done - 1, [self._parts], [std], self._public)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """By the one rule there is: the head's logits [1, n, classes]."""
        z = self._seen_on_axes(features(task.test.inputs))
        return {"argmax": self._seen.masked(self._head.logits(z)[None], task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """What of the last task's averages the server keeps, `weights`, `means` and `targets`, and the head as it is."""
        kept = self._parts[-1]
        return {"weights": kept.weights, "means": kept.means, "targets": kept.targets, **self._head.released()}

    def _seen_on_axes(self, z: NDArray[np.float32]) -> NDArray[np.float32]:
        """Embeddings [n, d], or their coordinates [n, dimensions] on the public axes where these are all that is used."""
        return z if self._axes is None else self._axes.residuals(z).astype(np.float32)

    def _lists(self, rows: TaskRows, index: int) -> Lists:
        learner = ListLearner(self._params.list_size, self._params.restarts, form=self._params.second_moments)
        seed = self._cell.seed

        def draws(client: int) -> np.random.Generator:
            return generator(seed, f"list of task {index}, client {client}")

        return listed(rows, range(self._n_users), learner, draws, _AT_MOST, by_label=self._by_label)

    def _without_bound(self) -> str:
        """Why the replay has no bound; empty where it has one."""
        if self._params.noisy_lists:
            return ""
        if self._params.modes_per_task > 1:
            return "lists clustered together: one client can move the entries of others"
        return "" if self._aggregation.by_shares else "sums divided by how many clients came, a private number"

    def _average(self, now: _Now, chosen: Chosen) -> None:
        """Clusters and averages the lists of a round's clients; an empty round releases noise alone.

        Groups keep their names from round to round by matching to the running average of what was released.
        """
        lists = now.lists.take(chosen)
        expected = self._params.participation * self._n_clients
        if self._params.noisy_lists:
            (received,) = published_release.sent(lists, [self._sigma], [self._noise], [now.ledger], task=now.index)
            ids = self._ids(now, received.lists())
            sums = published_release.averaged(
                received, ids, now.n_groups, self._sigma, self._noise, expected=expected, rule=self._aggregation
            )
        else:
            (sums,) = published_release.published(
                lists,
                self._ids(now, lists, now.features[chosen]),
                now.n_groups,
                [self._sigma],
                [self._noise],
                [now.ledger],
                task=now.index,
                sample_rate=self._params.participation,
                n_clients=self._n_clients,
                pooled=self._params.modes_per_task > 1,
                rule=self._aggregation,
            )
        now.named = sums if now.named is None else now.named.mixed(sums)
        now.sums = sums if now.sums is None else now.sums.mixed(sums, self._params.averaging)
        self._parts[now.index :] = [now.sums.replay(rule=self._aggregation)]

    def _ids(self, now: _Now, lists: Lists, features: NDArray[np.float64] | None = None) -> NDArray[np.int64]:
        """Groups int64 [n, L] of a round's lists, of whose entries `features` [n, L, f] may be known already.

        With one group a list nothing is clustered: entries come list by list, and a client knows its own.
        """
        n, n_entries = lists.weights.shape
        if not n:
            return np.zeros((0, n_entries), dtype=np.int64)
        if self._params.modes_per_task == 1:
            return np.tile(np.repeat(np.arange(now.n_groups), n_entries // now.n_groups), (n, 1))
        seen = matchers.list_features(lists, self._compared.features) if features is None else features
        first = self._public.view.residuals(lists.means)[..., 0]
        released = None
        if now.named is not None:
            released = self._compared.features(now.named.replay(rule=self._aggregation).elements())
        return pooled(seen, now.n_groups, self._compared.rule, first, released, lists.weights, now.random).ids

    def _claimed(self, n_entries: int, n_groups: int) -> Claim:
        """The paper's number, and what its noise costs over all rounds of this run under the premises that it prints.

        What does not follow from a premise is counted as it is: lists beside the sums, and entries that are clipped one by
        one, sqrt(L) of a client's `n_entries` L and sqrt(K) of K groups.
        """
        params, privacy = self._params, self._spec.privacy
        longest = max(n_entries if params.noisy_lists else 1, n_groups if params.aggregation == "entries" else 1)
        n_tasks = self._known.n_tasks if self._known.recurrence == "every" else 1
        reading = cslr_accounting.Reading(
            self._sigma,
            n_rounds=n_tasks * params.rounds,
            sampling="poisson" if params.participation < 1 else "everyone",
            sample_rate=params.participation,
            n_clients=self._n_users,
            delta=privacy.delta,
            adjacency=privacy.adjacency,
            sensitivity=math.sqrt(longest),
            with_list=params.noisy_lists,
        )
        claim = cslr_accounting.nominal_claim(self._cell.epsilon, reading)
        return replace(claim, accounted=cslr_accounting.costs(reading).pld)


def _on_axes(public: PublicEmbeddings) -> PublicEmbeddings:
    """The same sentences by their coordinates on the public axes."""
    anchors, others = (public.view.residuals(rows) for rows in (public.anchors, public.others))
    return PublicEmbeddings(anchors, others, PublicView.of(others, _N_AXES))


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> CslrPublished:
    """The learner of one cell."""
    return CslrPublished(spec, cells, known)
