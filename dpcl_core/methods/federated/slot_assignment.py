"""Assignment of a client's texts to slots: by label, and within a label by matching its list to groups.

A client assigns slots from its own texts, public data and earlier releases only: no other client's data can change them, so
one client's part of the sum stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.learner import Observation
from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Element, ListLearner, Lists
from dpcl_core.methods.federated.matchers import EntryMatcher, PublicEmbeddings
from dpcl_core.privacy.sums import unit_rows

Draws = Callable[[int], np.random.Generator]  # one generator per client: one client's draws must not affect another's
_MOST_ROWS = 500  # that a list is fitted to


@dataclass(frozen=True, slots=True, eq=False)
class TaskRows:
    """A task's private rows: unit embeddings float32 [n, d], labels int64 [n] in `space`, and their clients int64 [n]."""

    z: NDArray[np.float32]
    labels: NDArray[np.int64]
    users: NDArray[np.int64]
    space: tuple[int, ...]
    n_classes: int

    def of(self, user: int, label: int) -> NDArray[np.float32]:
        """One client's rows with a label [m, d]."""
        rows: NDArray[np.float32] = self.z[(self.users == user) & (self.labels == label)]
        return rows

    @property
    def targets(self) -> NDArray[np.float32]:
        """One-hot labels [n, C]."""
        targets: NDArray[np.float32] = np.eye(self.n_classes, dtype=np.float32)[self.labels]
        return targets


def listed(rows: TaskRows, users: Sequence[int], learner: ListLearner, draws: Draws, *, by_label: bool = True) -> Lists:
    """Every user's list: by label, `learner`'s entries for each label in turn, weighted by the label's share of the user's
    rows; otherwise its entries for all rows, whose targets are then label shares.

    Uses at most the first 500 rows of a client and label (or of a client); more rows cost time without a better fit.
    """
    if by_label:
        return Lists.of([_list(rows, user, learner, draws(user)) for user in users])
    places = {user: np.flatnonzero(rows.users == user)[:_MOST_ROWS] for user in users}
    return Lists.of([learner.fit(rows.z[places[user]], rows.targets[places[user]], draws(user)) for user in users])


def _list(rows: TaskRows, user: int, learner: ListLearner, random: np.random.Generator) -> list[Element]:
    of_label = [rows.of(user, label) for label in rows.space]
    n_rows = max(1, sum(map(len, of_label)))
    entries: list[Element] = []
    for label, selected in zip(rows.space, of_label, strict=True):
        target = np.zeros((min(len(selected), _MOST_ROWS), rows.n_classes))
        target[:, label] = 1
        share = len(selected) / n_rows
        fitted = learner.fit(selected[:_MOST_ROWS], target, random)
        entries += [Element(share * entry.weight, entry.mean, entry.covariance, entry.target) for entry in fitted]
    return entries


def matched(lists: Lists, matcher: EntryMatcher, prototypes: NDArray[np.float64], draws: Draws) -> NDArray[np.int64]:
    """Slots int64 [n, S·L] of entries ordered by label: entries of label s are matched only to that label's groups.

    Args: prototypes [S, M, d], the groups' means, public or from earlier releases. A slot is s·M + group.
    """
    n_labels, n_groups, d = prototypes.shape
    variances = np.full(d, 1 / d)
    ids = np.zeros(lists.weights.shape, dtype=np.int64)
    per_label = lists.weights.shape[1] // n_labels
    random = [draws(client) for client in range(len(lists))]
    for label in range(n_labels):
        places = slice(label * per_label, (label + 1) * per_label)
        target = np.zeros((n_groups, lists.targets.shape[2]))
        groups = matcher.of_means(prototypes[label], variances, target)
        for client in range(len(lists)):
            entries = lists.elements(client)[places]
            weights = lists.weights[client, places]
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

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    targets: NDArray[np.float64]
    sums: NDArray[np.float64] | None = None

    def sample(
        self, n: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
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
    def _roots(self) -> NDArray[np.float32]:
        """R with Rᵀ R the covariance; draws are multiplied by it."""
        if self.covariances.ndim == 3 and self.covariances.shape[1] == 1:
            return np.sqrt(np.maximum(self.covariances, 0)).astype(np.float32)
        try:
            roots = np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError:  # singular; eigh is twenty times slower
            values, vectors = np.linalg.eigh(self.covariances)
            roots = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
        return np.swapaxes(roots, -1, -2).astype(np.float32)


def joined(parts: Sequence[Replay]) -> Replay:
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
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embeddings z [n, d] and targets [n, C] drawn from `joined(parts)`; `unit_length` scales the embeddings to length 1."""
    z, targets, _ = joined(parts).sample(n, generator)
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
