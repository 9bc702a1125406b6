"""Client-level release of a mixture: one clipped vector per client, one Gaussian on the sum, and its decoding.

Only `released` and `by_…` read private data; everything after the mechanism is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.events import Fact
from dpcl_core.methods.common.classifier import Arrays, Rule, masked
from dpcl_core.methods.common.method import Observation, PublicContext, label_refusal, labelled
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Element, Floats, Ints, ListLearner, Lists, Reals, Singles, cholesky, simplex
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings, PublicView
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import REPLAY, Ledger
from dpcl_core.privacy.mechanisms import ClientVectors, noisy_client_sums
from dpcl_core.privacy.noise import Noise
from dpcl_core.privacy.sums import clipped_rows, row_blocks, unit_rows
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import RunSpec

_STDS_OF_NOISE = 2  # a share below this many standard deviations of its noise carries no information
_LEAST_SHARE = 1e-9  # avoids 0/0 without noise, for a label that no client has


@dataclass(frozen=True, slots=True, eq=False)
class Slotted:
    """n clients' shares of rows in K slots, [n, K] (each client's sum to 1, to 0 without data), and means [n, K, d].

    A client's mean of a slot is not read where its share is 0.
    """

    weights: Floats
    means: Floats


def by_label(z: Reals, labels: Ints, users: Ints, n_users: int, space: Sequence[int]) -> Slotted:
    """Every client's share and mean of each label in `space`, which are the slots. Other rows are left out.

    Args: z [n, d]; labels, users int64 [n], users in 0 ... n_users - 1.
    """
    slots = np.full(max(int(labels.max(initial=0)), *space) + 1, -1)
    slots[list(space)] = np.arange(len(space))
    rows = np.flatnonzero(slots[labels] >= 0)
    places = users[rows] * len(space) + slots[labels[rows]]
    rows, places = rows[order := np.argsort(places, kind="stable")], places[order]
    sums = np.zeros((n_users * len(space), z.shape[1]))
    for part in row_blocks(len(rows), z.shape[1]):
        cells, first = np.unique(places[part], return_index=True)
        sums[cells] += np.add.reduceat(z[rows[part]], first, axis=0, dtype=np.float64)
    counts = np.bincount(places.astype(np.intp), minlength=len(sums))
    means = (sums / np.maximum(counts, 1)[:, None]).reshape(n_users, len(space), -1)
    return Slotted(_shares(counts.reshape(n_users, -1).astype(np.float64)), means)


def by_matching(lists: Lists, ids: Ints, n_slots: int) -> Slotted:
    """Shares and means by a matcher's slot ids [n, L]; a client's entries in one slot are averaged by weight."""
    belongs = (ids[:, None, :] == np.arange(n_slots)[:, None]) * lists.weights[:, None, :]
    weights = belongs.sum(axis=2)
    return Slotted(_shares(weights), belongs @ lists.means / np.where(weights > 0, weights, 1)[:, :, None])


@dataclass(frozen=True, slots=True, eq=False)
class EvenSlots:
    """Layout for clients that hold every slot: residual means U^T(mu_k - m0) side by side, no shares.

    A slot in which a client has no rows is zero, so the mean is drawn towards m0 by the share of clients without it. The
    whole vector is clipped to B sqrt(K), which is the sensitivity.
    """

    view: PublicView
    n_slots: int = 1

    @property
    def sensitivity(self) -> float:
        """Largest norm of a client's vector: how far the sum moves when a client's contribution becomes zero."""
        return float(self.view.radius * np.sqrt(self.n_slots))

    @property
    def width(self) -> int:
        """Numbers in a client's vector."""
        return self.n_slots * int(self.view.axes.shape[1])

    def vectors(self, slotted: Slotted) -> Floats:
        """Client vectors [n, D], each of norm at most `sensitivity`."""
        residuals = np.where(slotted.weights[:, :, None] > 0, self.view.residuals(slotted.means), 0.0)
        return clipped_rows(side_by_side(residuals), self.sensitivity)

    def decoded(self, totals: Floats, expected: float, stds: Floats) -> tuple[Floats, Floats]:
        """Weights [E, K] and means [E, K, d] from noisy sums [E, D], divided by the public expected number of clients.

        `stds` [E]: public standard deviation of the noise on a coordinate of each sum.
        """
        residuals = totals.reshape(len(totals), self.n_slots, -1) / expected
        return np.full(residuals.shape[:2], 1 / self.n_slots), self.view.restored(residuals)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedSlots:
    """Layout for clients that may lack slots: block k is [a w_k ; w_k clip(U^T(mu_k - m0), B) / B], w_k the share of rows.

    A block's squared norm is at most w_k² (a² + 1). Shares are nonnegative and sum to at most 1, and so do their squares:
    the sensitivity is sqrt(1 + a²) for every K. Decoding divides by the noisy shares and caps residuals at B. Shares are
    raised to at least 1 / (4 K), or to two standard deviations of their noise where that is less, so that with little noise
    a rare label's mean is not drawn towards the centre.
    """

    view: PublicView
    n_slots: int
    share_scale: float = 0.5

    @property
    def sensitivity(self) -> float:
        return float(np.hypot(1.0, self.share_scale))

    @property
    def width(self) -> int:
        return self.n_slots * (1 + int(self.view.axes.shape[1]))

    def vectors(self, slotted: Slotted) -> Floats:
        shares = slotted.weights[:, :, None]
        residuals = clipped_rows(self.view.residuals(slotted.means), self.view.radius) / self.view.radius
        blocks = np.concatenate([self.share_scale * shares, np.where(shares > 0, shares * residuals, 0.0)], axis=2)
        return clipped_rows(side_by_side(blocks), self.sensitivity)

    def decoded(self, totals: Floats, expected: float, stds: Floats) -> tuple[Floats, Floats]:
        blocks = totals.reshape(len(totals), self.n_slots, -1) / expected
        noise_floor = _STDS_OF_NOISE * stds / expected / self.share_scale
        least = np.clip(noise_floor, _LEAST_SHARE, 1 / (4 * self.n_slots))
        shares = np.maximum(blocks[:, :, 0] / self.share_scale, least[:, None])
        residuals = clipped_rows(self.view.radius * blocks[:, :, 1:] / shares[:, :, None], self.view.radius)
        return simplex(shares), self.view.restored(residuals)


Layout = EvenSlots | WeightedSlots  # encodes a client's slots as a vector of bounded norm, and decodes a noisy sum


def release_vectors(
    vectors: Reals, layout: Layout, targets: Floats, multipliers: Sequence[float], noises: Sequence[Noise],
    ledgers: Sequence[Ledger], *, task: int, n_clients: int
) -> list[Replay]:
    """One release of the clients' vectors [n, D], a mixture for each budget: one Gaussian on the sum, division by constants.

    A client's vector is the layout's; whatever else arrives in its place is clipped to the same length by the mechanism.
    `multipliers`: noise over sensitivity, one per budget (0: none; the ledger records it). Targets [K, C] are public: slots
    are labels or parts of one. `n_clients`: the public number of clients, all of whom are in the sum, and which divides it.
    Components get the public covariance.

    Sensitivity: the layout's, provided a client's vector depends only on its own data, public facts and earlier releases.
    Raises BadInput for fewer than two clients.
    """
    stds = [multiplier * layout.sensitivity for multiplier in multipliers]
    part = ClientVectors(REPLAY, vectors, layout.sensitivity, stds)
    what = f"sum of clients' vectors of {layout.n_slots} slots"
    totals = noisy_client_sums([part], noises, ledgers, task=task, what=what)
    return decoded(totals[0], layout, targets, expected_clients(n_clients), stds)


def decoded(totals: Floats, layout: Layout, targets: Floats, expected: float, stds: Sequence[float]) -> list[Replay]:
    """The mixtures decoded from noisy sums [E, D], with noise of `stds` on each coordinate: post-processing of the sums."""
    weights, means = layout.decoded(totals, expected, np.array(stds))
    mixtures = zip(weights, means, totals, strict=True)
    return [Replay(shares, centres, layout.view.covariance, targets, sums) for shares, centres, sums in mixtures]


def side_by_side(values: Floats) -> Floats:
    """Clients' values [n, ...] flattened to [n, D]; n may be 0."""
    return values.reshape(len(values), math.prod(values.shape[1:]))


def expected_clients(n_clients: int, sample_rate: float = 1.0) -> float:
    """The divisor of sums: the expected number of clients in a sample.

    Raises BadInput for fewer than two clients: a sum over one client hides it among no others.
    """
    if n_clients < 2:
        raise BadInput("scenario.clients", n_clients, "must be at least 2: one client has no others to hide among")
    return sample_rate * n_clients


def spend_unbounded(ledger: Ledger, task: int, what: str, *channels: str) -> None:
    """Enters a use without noise, which no bound covers, for a task's clients and these channels."""
    clean = dp.NonPrivateDpEvent()
    ledger.spend(clean, task=task, what=what, channels=dict.fromkeys(channels, clean))


def _shares(weights: Floats) -> Floats:
    totals = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0))


# What a server asks its clients for, one vector each, where they are processes of their own as much as simulated.


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A vector of `width` numbers, wanted from each client in this round of a task, both counted from 0.

    `state`: what clients need beside public facts, itself released: the head's weights [P], or the means [S, M, d] of the
    groups that lists are matched to; empty where they need nothing.
    """

    task: int
    round: int
    width: int
    state: Reals


# The answers [n, width] of the clients with these numbers, in this order; a row of zeros for one that gives none. Private.
Collect = Callable[[Question, Ints], Reals]


@runtime_checkable
class OfClients(Protocol):
    """A learner whose clients' part can be computed apart from the server's, where the rows are."""

    def answers(self, task: Task, question: Question, clients: Ints) -> Reals:
        """These clients' vectors [n, width], each from its own rows in the task, public facts and the question.

        Private: for a mechanism alone. Raises BadInput for a question that this method does not ask.
        """


# A task's rows and labels for a federated method, and the labels that compete in its predictions.


def features(inputs: NDArray[np.generic]) -> Singles:
    """Embeddings [n, d] scaled to unit length: this bounds their norm and leaves unit vectors unchanged."""
    return unit_rows(inputs).astype(np.float32)


def clients_per_task(context: PublicContext) -> int:
    """Public number of clients in a task: all, or an equal share of them where each belongs to one task only."""
    n_users = context.n_users or 0
    return n_users if context.recurrence == "every" else max(1, n_users // context.n_tasks)


def clients_of_this_task(chosen: Ints, rows: TaskRows, context: PublicContext) -> Ints:
    """The round's clients that belong to the task: all of them, unless each client belongs to one task only.

    In that case a client's task is public, and each client holds rows of it. Clients of other tasks are left out: they would
    train on rehearsal alone, in rounds that the ledger does not charge to them, and would shrink the mean update.
    """
    return chosen if context.recurrence == "every" else chosen[np.isin(chosen, rows.users)]


class SeenLabels:
    """The labels of the tasks so far, all public. Under "prior-const" every public label competes from the start."""

    KEPT = ("_labels", "_n_learned", "_by_task")

    def __init__(self, spec: RunSpec, context: PublicContext) -> None:
        self._spec, self._context = spec, context
        self._labels: set[int] = set()
        self._n_learned = 0
        self._by_task: list[tuple[int, ...]] = []  # labels of each task, where a test example's task is given

    def rows(self, task: Task) -> TaskRows:
        """The task's private rows; its labels compete from now on.

        Raises BadInput for a task beyond the planned number, since the budget was divided among the planned tasks, and for a
        task without any public label.
        """
        n_tasks = self._context.n_tasks
        if task.index >= n_tasks:
            allowed = f"must be at most {n_tasks}: the budget was divided among {n_tasks} before the first; start a new run"
            raise BadInput("scenario.tasks", task.index + 1, allowed)
        space = self._space(task)
        if not space:
            raise label_refusal(self._spec, task.name)
        self._labels |= set(space)
        self._n_learned = task.index + 1
        self._by_task += [space] if task.task_id is not None else []
        train = labelled(task, space)
        assert train.users is not None, "a federated scenario assigns rows to clients"
        return TaskRows(features(train.inputs), train.labels, train.users, space, self._context.n_classes)

    def masked(self, logits: Reals, task: Task) -> Reals:
        """Logits [..., C] with -inf for labels that do not compete.

        If a test example's task is given, that task's labels compete; otherwise the labels of all tasks so far. For a task
        not yet learned, all public labels compete: among its own labels alone even an untrained model could be right.
        """
        known = self._labels if task.index < self._n_learned else self._context.public
        return masked(logits, self._space(task) if task.task_id is not None else sorted(known))

    def rule(
        self, name: str, arrays: tuple[str, ...], *, columns: Sequence[int] | None = None, public: Arrays | None = None,
        uses_all: bool = False, **facts: Fact
    ) -> Rule:
        """A rule under which the labels of all tasks so far compete. `columns`: None for one row a class."""
        columns = range(self._context.n_classes) if columns is None else columns
        return Rule(name, arrays, columns, sorted(self._labels), self._by_task, facts, public or {}, uses_all)

    def _space(self, task: Task) -> tuple[int, ...]:
        task_labels = task.prior if task.task_id is not None else ()
        released = label_space(self._spec.labels, task.prior, self._context.public, task.train.labels, [], task=task.index)
        if not task.prior:  # no class is at home in such a blurred task: any may come
            released = tuple(self._context.public)
        return tuple(label for label in released if not task_labels or label in task_labels)


# Assignment of a client's texts to slots: by label, and within a label by matching its list to groups.
#
# A client assigns slots from its own texts, public data and earlier releases only: no other client's data can change them,
# so one client's part of the sum stays bounded.


Draws = Callable[[int], np.random.Generator]


def draws_of(seed: int, purpose: str) -> Draws:
    """One generator per client, so that one client's draws do not affect another's."""
    return lambda client: generator(seed, f"{purpose}, client {client}")


_MOST_ROWS = 500  # that a list is fitted to


@dataclass(frozen=True, slots=True, eq=False)
class TaskRows:
    """A task's private rows: unit embeddings float32 [n, d], labels int64 [n] in `space`, and their clients int64 [n]."""

    z: Singles
    labels: Ints
    users: Ints
    space: tuple[int, ...]
    n_classes: int

    def of(self, user: int, label: int) -> Singles:
        """One client's rows with a label [m, d]."""
        return np.asarray(self.z[(self.users == user) & (self.labels == label)])

    @property
    def targets(self) -> Singles:
        """One-hot labels [n, C]."""
        return np.asarray(np.eye(self.n_classes, dtype=np.float32)[self.labels])


def user_lists(rows: TaskRows, users: Sequence[int], learner: ListLearner, draws: Draws, *, by_label: bool = True) -> Lists:
    """Every user's list: by label, `learner`'s entries for each label in turn, weighted by the label's share of the user's
    rows; otherwise its entries for all rows, whose targets are then label shares.

    Uses at most the first 500 rows of a client and label (or of a client); more rows cost time without a better fit.
    """
    if not by_label:
        places = {user: np.flatnonzero(rows.users == user)[:_MOST_ROWS] for user in users}
        return Lists.of([learner.fit(rows.z[of], rows.targets[of], draws(user)) for user, of in places.items()])

    def labelled(user: int) -> Iterator[Element]:
        of_label, random = [rows.of(user, label) for label in rows.space], draws(user)
        n_rows = max(1, sum(map(len, of_label)))
        for label, selected in zip(rows.space, of_label, strict=True):
            target = np.zeros((min(len(selected), _MOST_ROWS), rows.n_classes))
            target[:, label] = 1
            for entry in learner.fit(selected[:_MOST_ROWS], target, random):
                yield replace(entry, weight=len(selected) / n_rows * entry.weight)

    return Lists.of([list(labelled(user)) for user in users])


def matched(lists: Lists, matcher: EntryMatcher, prototypes: Floats, draws: Draws) -> Ints:
    """Slots int64 [n, S·L] of entries ordered by label: entries of label s are matched only to that label's groups.

    Args: prototypes [S, M, d], the groups' means, public or from earlier releases. A slot is s·M + group.
    """
    n_labels, n_groups, d = prototypes.shape
    ids, per_label = np.zeros(lists.weights.shape, dtype=np.int64), lists.weights.shape[1] // n_labels
    random = [draws(client) for client in range(len(lists))]
    for label in range(n_labels):
        places = slice(label * per_label, (label + 1) * per_label)
        groups = matcher.of_means(prototypes[label], np.full(d, 1 / d), np.zeros((n_groups, lists.targets.shape[2])))
        for client in range(len(lists)):
            entries, weights = lists.elements(client)[places], lists.weights[client, places]
            shares = weights / weights.sum() if weights.sum() > 0 else None
            assigned = matchers.assign(matcher.rule, matcher.features(entries), groups, shares, random[client])
            ids[client, places] = label * n_groups + assigned
    return ids


# The replayed mixture Q: Gaussians over embeddings, each with a target, computed from released numbers only.


@dataclass(frozen=True, eq=False)
class Replay:
    """A released mixture: weights [K] on the simplex, means [K, d], targets [K, C].

    `covariances`: [d, d] shared by all, or per component [K, d, d] or diagonal [K, 1, d]; positive semidefinite. `sums` [D]:
    the noisy sum of clients' vectors that it was decoded from, if any.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    targets: Floats
    sums: Floats | None = None

    def sample(self, n: int, generator: np.random.Generator) -> tuple[Singles, Singles, Ints]:
        """Sampled embeddings z [n, d], their targets y [n, C] and components k [n]."""
        k = generator.choice(len(self.weights), size=n, p=self.weights / self.weights.sum())
        drawn = generator.standard_normal((n, self.means.shape[1]), dtype=np.float32)
        roots = self._roots
        if roots.ndim == 2:
            z = drawn @ roots
        elif roots.shape[1] == 1:
            z = drawn * roots[k, 0]
        else:
            z = np.empty_like(drawn)
            for place in range(len(roots)):
                z[k == place] = drawn[k == place] @ roots[place]
        z += self.means.astype(np.float32)[k]
        return z, self.targets.astype(np.float32)[k], k

    def elements(self) -> list[Element]:
        """The components as list entries for a matcher. Raises ValueError for a covariance shared by all."""
        if self.covariances.ndim != 3:
            raise ValueError("elements: one covariance for all")
        covariances = self.covariances[:, 0] if self.covariances.shape[1] == 1 else self.covariances
        columns = zip(self.weights.tolist(), self.means, covariances, self.targets, strict=True)
        return [Element(*column) for column in columns]

    @cached_property
    def _roots(self) -> Singles:
        """R with Rᵀ R the covariance; draws are multiplied by it."""
        if self.covariances.ndim == 3 and self.covariances.shape[1] == 1:
            return np.sqrt(np.maximum(self.covariances, 0)).astype(np.float32)
        try:
            roots = cholesky(self.covariances)
        except np.linalg.LinAlgError:  # singular; eigh is twenty times slower
            values, vectors = np.linalg.eigh(self.covariances)
            roots = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
        return np.swapaxes(roots, -1, -2).astype(np.float32)


def join_mixtures(parts: Sequence[Replay]) -> Replay:
    """The mixtures of several tasks as one, each task with equal weight; at least one, with covariances of the same kind."""
    covariances = parts[0].covariances
    if covariances.ndim == 3:
        covariances = np.concatenate([part.covariances for part in parts])
    elif not all(part.covariances is covariances or np.array_equal(part.covariances, covariances) for part in parts):
        covariances = np.concatenate([np.repeat(part.covariances[None], len(part.weights), axis=0) for part in parts])
    return Replay(
        np.concatenate([part.weights / part.weights.sum() for part in parts]) / len(parts),
        np.concatenate([part.means for part in parts]),
        covariances,
        np.concatenate([part.targets for part in parts]),
    )


def sampled(
    parts: Sequence[Replay], n: int, generator: np.random.Generator, *, unit_length: bool
) -> tuple[Singles, Singles]:
    """Embeddings z [n, d] and targets [n, C] drawn from `joined(parts)`; `unit_length` scales the embeddings to length 1."""
    z, targets, _ = join_mixtures(parts).sample(n, generator)
    return unit_rows(z).astype(np.float32) if unit_length else z, targets


# Clients' clean lists, observed by the simulator for visualisation: never a release; the server does not receive them.


@dataclass(frozen=True, slots=True)
class NoiseStd:
    """Noise standard deviations per coordinate for one budget: `mean` of a group under central trust, its `second` moment if
    that were released too, and each client's own list under local trust (`local`).

    `released`: "axes" for means on the public axes only; "diagonal" or "full" for whole means and such second moments."""

    mean: float
    second: float
    local: float
    released: Literal["axes", "diagonal", "full"] = "axes"


@dataclass(frozen=True, slots=True)
class ListsObserved(Observation):
    """The clients' clean lists of a task, and each budget's releases so far.

    `lists`: returns them [N, entries], the same object each time; not called for a user's own data. `round`: from 0.
    `parts`: by budget, its mixtures so far, one per task; `stds`: by budget, the noise in the last of them. `public`: the
    method's public embeddings.
    """

    lists: Callable[[], Lists]
    task: int
    round: int
    parts: Sequence[Sequence[Replay]]
    stds: Sequence[NoiseStd]
    public: PublicEmbeddings
