"""Releases of each task as noisy mixtures, one per budget: once per task, or in every round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.common import stream_noise
from dpcl_core.methods.common.dpsgd import each_task
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.federated import client_release
from dpcl_core.methods.federated.client_release import ListsObserved, NoiseStd, Question, Replay, TaskRows
from dpcl_core.methods.federated.lists import Floats, ListLearner, Lists, Reals
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings, public_modes
from dpcl_core.methods.federated.params import ListParams, ReleaseParams, RoundParams
from dpcl_core.privacy import accounting
from dpcl_core.privacy.accounting import noise_multiplier, subsampled_gaussian
from dpcl_core.privacy.continual import Stream, check_size, noisy_stream_sums, shrunk
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.spec import Adjacency, Cell, RunSpec

# Noise calibration for replay and head under one budget: privacy losses are composed, epsilons never added.


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise over sensitivity of one replay release and of one round of the head; 0: none. Each is one Gaussian on a joint
    vector."""

    release: float = 0.0
    head: float = 0.0


@dataclass(frozen=True, slots=True)
class Horizon:
    """The number of uses of a client's data over the whole run: fixed before the first task, and charged in full.

    `n_tasks`: tasks that a client may be in; `rounds`: rounds of the head per task; `rate`: chance to be in a round. All
    noise multipliers are 0 for epsilon = inf.
    """

    n_tasks: int
    rounds: int
    rate: float
    delta: float
    adjacency: Adjacency

    @classmethod
    def of(cls, spec: RunSpec, facts: PublicSizes, params: RoundParams | None = None) -> Horizon:
        """Horizon of a run: one task where each client belongs to one task only, else all. `params`: of a run in rounds."""
        n_tasks = facts.n_tasks if facts.recurrence == "every" else 1
        rounds, rate = (1, 1.0) if params is None else (params.rounds, params.participation)
        return cls(n_tasks, rounds, rate, spec.privacy.delta, spec.privacy.adjacency)

    def rounds_of(self, *multipliers: float) -> dp.DpEvent:
        """The event of a task's rounds, in which the same clients answer with as many vectors as there are multipliers."""
        return subsampled_gaussian(1 / math.hypot(*(1 / one for one in multipliers)), self.rate, self.rounds)

    def releases(self, epsilon: float) -> float:
        """Noise multiplier at which one release per task, over all clients, spends epsilon."""
        return replace(self, rounds=1, rate=1.0).one_per_round(epsilon)

    def one_per_round(self, epsilon: float) -> float:
        """Noise multiplier at which one release per round, over the round's clients, spends epsilon."""
        if math.isinf(epsilon):
            return 0.0
        return noise_multiplier(epsilon, self.delta, self.rate, self.n_tasks * self.rounds, self.adjacency)

    def beside_releases(self, epsilon: float, share: float) -> Noises:
        """Noise for one release per task, calibrated alone to `share` * epsilon, and for head rounds that spend the rest."""
        release = self.releases(share * epsilon)
        return Noises(release, _head_beside(self, epsilon, release) if math.isfinite(epsilon) else 0.0)

    def in_rounds(self, epsilon: float, share: float) -> Noises:
        """Noise where every round sends the replay's vector and the head's update of the same clients: one event.

        `share`: the replay's part of 1/z² = 1/z_release² + 1/z_head², which determines a round's privacy loss.
        """
        both = self.one_per_round(epsilon)
        return Noises(both / math.sqrt(share), both / math.sqrt(1 - share))


@lru_cache(maxsize=256)
def _head_beside(horizon: Horizon, epsilon: float, release: float) -> float:
    releases = subsampled_gaussian(release, 1.0, horizon.n_tasks)
    n_rounds = horizon.n_tasks * horizon.rounds

    def events(head: float) -> list[dp.DpEvent]:
        return [releases, subsampled_gaussian(head, horizon.rate, n_rounds)]

    return accounting.calibrated(events, epsilon, horizon.delta, horizon.adjacency)


def releases(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """A plan (`methods.references`): one vector of every client a task, or one mechanism for all tasks."""
    event = subsampled_gaussian(Horizon.of(spec, facts).releases(epsilon), 1.0, 1)
    if stream_noise.remembers(spec):
        ledger.spend(event, task=0, what="planned", people_of=tuple(range(facts.n_tasks)))
    else:
        each_task(ledger, facts, event)


def rounds(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """A plan (`methods.references`): one update of every sampled client a round, of one network or of two as one event."""
    horizon = Horizon.of(spec, facts, settings_of(spec, RoundParams))
    each_task(ledger, facts, horizon.rounds_of(horizon.one_per_round(epsilon)))


class ReleaseSchedule:
    """The released mixtures of one seed's budgets. Keeps only releases and public facts; with remembered noise the clean
    sums of all tasks stay in memory, and in no checkpoint (`recall`), and a task's mixture is of all tasks so far.

    `multipliers`: noise over sensitivity of each release, one per budget (0: none); by default one release per task spends
    the budget. `public`: the method's public embeddings; `n_groups`: of every label. `collect`: asks clients that are
    processes of their own; None: they are simulated here (`is_simulated`), from the rows of the task.
    """

    KEPT, kept_records = ("_noises", "_latest", "parts"), (Replay,)
    matcher: EntryMatcher  # where the settings have lists

    def __init__(
        self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, multipliers: Sequence[float] | None = None,
        collect: client_release.Collect | None = None
    ) -> None:
        params, self._seed = settings_of(spec, ReleaseParams), cells[0].seed
        self._params, self._lists = params, params if isinstance(params, ListParams) else None
        self.multipliers = multipliers or [Horizon.of(spec, context).releases(cell.epsilon) for cell in cells]
        n_anchors, self.n_groups = (0, 1) if self._lists is None else (self._lists.anchors, self._lists.modes_per_task)
        self.public = PublicEmbeddings.of(
            context.anchors, self._seed, params.dimensions, params.radius, n_anchors, params.axes_of
        )
        self._collect, self.is_simulated = collect, collect is None
        self._n_users, self._n_clients = context.n_users or 0, client_release.clients_per_task(context)
        self._cells = tuple(cells)
        self._noises = [noise_of(spec.privacy.noise, cell, "releases") for cell in cells]
        if self._lists is not None:
            self.matcher = EntryMatcher.of(self._lists, self.public)
        self._latest: dict[tuple[int, int], Floats] = {}  # (budget, label): groups' means, latest release
        self._fresh = public_modes(self.public.others, self.n_groups) if self.n_groups > 1 else np.zeros(0)
        self.parts: list[list[Replay]] = [[] for _ in cells]  # by budget, one mixture per task
        self._stream: Stream | None = None
        if stream_noise.remembers(spec):  # one list of labels, and so one layout, for all tasks
            layout, factorisation = self.layout(len(context.public)), stream_noise.chosen(context).factorisation
            check_size(8 * context.n_tasks * layout.width)
            what = "sums of clients' vectors, over all tasks with remembered noise"
            self._stream = Stream(factorisation, 1, layout.width, bound=layout.sensitivity, what=what, channel=REPLAY)

    def layout(self, n_labels: int) -> client_release.Layout:
        """The layout of a client's vector in the sum of a task with so many labels: a single slot needs no shares."""
        n_slots = n_labels * self.n_groups
        if n_slots == 1 or self._params.slots == "even":
            return client_release.EvenSlots(self.public.view, n_slots)
        return client_release.WeightedSlots(self.public.view, n_slots)

    def of_task(
        self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger], lists: Callable[[], Lists] | None = None
    ) -> None:
        """Releases one mixture of all clients for every budget; the ledgers record it before it exists.

        `lists`: returns the clients' lists of the task; called only where a label has several groups.
        """
        layout, targets = self.layout(len(rows.space)), self.targets(rows)
        if self._stream is not None:  # every budget's mixture is read off the running sum of all tasks
            self.recall(rows, index)
            of, expected = self._stream.factorisation, client_release.expected_clients(self._n_clients) * (index + 1)
            entered = [ledgers[cell] for cell in self._cells]
            released = noisy_stream_sums(self._stream, self.multipliers, self._noises, entered, task=index)
            for budget, one in enumerate(released):
                totals = of.running_sums([*of.releases(self._totals(budget)), one[0]])
                std = self.multipliers[budget] * layout.sensitivity * of.sensitivity() * float(of.prefix_noise[index])
                (mixture,) = client_release.decoded(totals[None], layout, targets, expected, [std])
                self.keep(budget, index, rows, mixture)
            return
        for budget, cell in enumerate(self._cells):
            vectors = self._vectors(rows, index, budget, lists)
            multiplier, noise, n = [self.multipliers[budget]], [self._noises[budget]], self._n_clients
            (mixture,) = client_release.release_vectors(
                vectors, layout, targets, multiplier, noise, [ledgers[cell]], task=index, n_clients=n
            )
            self.keep(budget, index, rows, mixture)

    def _vectors(self, rows: TaskRows, index: int, budget: int, lists: Callable[[], Lists] | None = None) -> Reals:
        """Every client's vector for a budget's sum. Private."""
        question = Question(index, 0, self.layout(len(rows.space)).width, self.prototypes(budget, rows.space))
        if self._collect is not None:
            return self._collect(question, np.arange(self._n_users))
        return self.answers(rows, question, lists)

    def recall(self, rows: TaskRows, index: int) -> None:
        """Adds a task's clean sum to the stream: again for an earlier one, as clean sums are in no checkpoint."""
        if self._stream is not None:
            self._stream.add_vectors(self._vectors(rows, index, 0))

    def _totals(self, budget: int) -> list[Floats]:
        """The noisy sums [D] of a budget's mixtures so far."""
        return [part.sums for part in self.parts[budget] if part.sums is not None]

    def shrunk(self, budget: int) -> list[Floats]:
        """What each task added to a budget's sums, in blocks [K, B] of its slots, each shrunk (`continual.shrunk`)."""
        found, before = list[Floats](), np.zeros(1)
        for index, (part, after) in enumerate(zip(self.parts[budget], self._totals(budget), strict=True)):
            std = self.multipliers[budget] * self.layout(len(part.targets) // self.n_groups).sensitivity
            if self._stream is not None:
                of = self._stream.factorisation
                std, after, before = std * of.sensitivity() * of.step_noise(index), after - before, after
            found.append(shrunk(after.reshape(len(part.targets), -1), std))
        return found

    def decoded(self, blocks: Floats, targets: Floats, budget: int) -> Replay:
        """The mixture of blocks [K, B] of the slots with these targets; a slot of zeros has no weight."""
        layout = self.layout(len(targets) // self.n_groups)
        stds, expected = [self.multipliers[budget] * layout.sensitivity], client_release.expected_clients(self._n_clients)
        (mixture,) = client_release.decoded(blocks.reshape(1, -1), layout, targets, expected, stds)
        return replace(mixture, weights=mixture.weights * blocks.any(axis=1))

    def released(self, cell: Cell) -> dict[str, NDArray[np.generic]]:
        """The last task's noisy `sums` [D], from which a cell's mixture is decoded; empty before the first release."""
        mixtures = self.parts[self._cells.index(cell)]
        return {"sums": mixtures[-1].sums} if mixtures and mixtures[-1].sums is not None else {}

    def keep(self, budget: int, index: int, rows: TaskRows, mixture: Replay) -> None:
        """Stores a released mixture of the task in place of an earlier one of the same task."""
        self.parts[budget][index:] = [mixture]
        for place, label in enumerate(rows.space):
            self._latest[budget, label] = mixture.means.reshape(len(rows.space), self.n_groups, -1)[place]

    def lists(self, rows: TaskRows, index: int) -> Lists:
        """Every client's list of the task, by label. Private: never leaves the clients, except for the simulator's view."""
        assert self._lists is not None
        learner = ListLearner(self._lists.list_size, self._lists.restarts)
        draws = client_release.draws_of(self._seed, f"list of task {index}")
        return client_release.user_lists(rows, range(self._n_users), learner, draws)

    def answers(self, rows: TaskRows, question: Question, lists: Callable[[], Lists] | None = None) -> Floats:
        """Every client's vector [n, D] for the task's sum. Private. `lists`: as in `of_task`; None: fitted here.

        Raises BadInput for a second round, which no budget is for, and for groups that are not the task's.
        """
        if question.round != 0:
            raise BadInput("question.round", question.round, "must be 0: a task has one release")
        expected = (len(rows.space), self.n_groups, rows.z.shape[1]) if self.n_groups > 1 else (0,)
        if question.state.shape != expected:
            raise BadInput("question.state", question.state.shape, f"must be the means of the task's groups, {expected}")
        fitted = (lists or partial(self.lists, rows, question.task))() if self.n_groups > 1 else None
        return self.layout(len(rows.space)).vectors(self.slotted(rows, fitted, question.state, question.task))

    def slotted(self, rows: TaskRows, lists: Lists | None, prototypes: Reals, index: int) -> client_release.Slotted:
        """Every client's shares and means of the task's slots, matched to `prototypes` [S, M, d]. Private."""
        if self.n_groups == 1 or lists is None:
            return client_release.by_label(rows.z, rows.labels, rows.users, self._n_users, rows.space)
        draws = client_release.draws_of(self._seed, f"matching of task {index}")
        ids = client_release.matched(lists, self.matcher, np.asarray(prototypes, np.float64), draws)
        return client_release.by_matching(lists, ids, len(rows.space) * self.n_groups)

    def observed(self, rows: TaskRows, lists: Callable[[], Lists], index: int, round: int) -> ListsObserved:
        """The simulator's view of the task's lists and of all releases so far.

        Each budget's noise is that of a release of such a task in which all slots have equal shares.
        """
        layout, radius = self.layout(len(rows.space)), self.public.view.radius
        is_even = isinstance(layout, client_release.EvenSlots)
        scale = layout.sensitivity / self._n_clients * (1 if is_even else radius * layout.n_slots)
        stds = [NoiseStd(z * scale, z / self._n_clients, z * radius) for z in self.multipliers]
        return ListsObserved(lists, index, round, self.parts, stds, self.public)

    def targets(self, rows: TaskRows) -> Floats:
        """One-hot targets [K, C] of the task's slots, which are labels or groups within one. Public."""
        return np.repeat(np.eye(rows.n_classes)[list(rows.space)], self.n_groups, axis=0)

    def prototypes(self, budget: int, space: Sequence[int]) -> Floats:
        """Means [S, M, d] to which a budget's lists are matched: a label's latest release if any, else public modes.

        Empty where a label has one group only, so that there is nothing to match.
        """
        if self.n_groups == 1:
            return np.zeros(0)
        return np.stack([self._latest.get((budget, label), self._fresh) for label in space])
