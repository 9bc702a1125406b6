"""Assignment of a client's texts to slots: by label, and within a label by matching its list to groups.

A client assigns slots from its own texts, public data and earlier releases only: no other client's data can change them, so
one client's part of the sum stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Element, ListLearner, Lists
from dpcl_core.methods.federated.public_context import EntryMatcher

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
