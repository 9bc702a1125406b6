"""How a client's texts of a task come into slots: by label, and within a label by matching its list to groups.

All of it happens on a client, from its own texts, public data and what was released before: nothing another client has can
change it, and so one client's part of the sum stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated import matchers
from dpcl_core.methods.federated.lists import Element, ListLearner, Lists
from dpcl_core.methods.federated.public_context import EntryMatcher

Draws = Callable[[int], np.random.Generator]  # of each client its own: what one draws must not move what another does


@dataclass(frozen=True, slots=True, eq=False)
class TaskRows:
    """A task's private rows: unit embeddings float32 [n, d], labels int64 [n] of `space`, and whose they are int64 [n]."""

    z: NDArray[np.float32]
    labels: NDArray[np.int64]
    users: NDArray[np.int64]
    space: tuple[int, ...]
    n_classes: int

    def of(self, user: int, label: int) -> NDArray[np.float32]:
        """One client's rows with a label [m, d]."""
        found: NDArray[np.float32] = self.z[(self.users == user) & (self.labels == label)]
        return found

    @property
    def targets(self) -> NDArray[np.float32]:
        """One-hot labels [n, C]."""
        found: NDArray[np.float32] = np.eye(self.n_classes, dtype=np.float32)[self.labels]
        return found


def listed(
    rows: TaskRows, users: Sequence[int], learner: ListLearner, draws: Draws, at_most: int, *, by_label: bool = True
) -> Lists:
    """Every client's list [n users]: `learner`'s entries of each label in turn, weighted by the label's share of its rows;
    or else its entries of all rows, whose targets are then shares of labels.

    `at_most`: rows of a client and label (or of a client) that are looked at, the first ones; a fit of more costs time and
    tells no more.
    """
    if by_label:
        return Lists.of([_list(rows, user, learner, draws(user), at_most) for user in users])
    own = {user: np.flatnonzero(rows.users == user)[:at_most] for user in users}
    return Lists.of([learner.fit(rows.z[own[user]], rows.targets[own[user]], draws(user)) for user in users])


def _list(rows: TaskRows, user: int, learner: ListLearner, random: np.random.Generator, at_most: int) -> list[Element]:
    of_label = [rows.of(user, label) for label in rows.space]
    n_rows = max(1, sum(map(len, of_label)))
    entries: list[Element] = []
    for label, own in zip(rows.space, of_label, strict=True):
        target = np.zeros((min(len(own), at_most), rows.n_classes))
        target[:, label] = 1
        share = len(own) / n_rows
        fitted = learner.fit(own[:at_most], target, random)
        entries += [Element(share * one.weight, one.mean, one.covariance, one.target) for one in fitted]
    return entries


def matched(lists: Lists, compared: EntryMatcher, prototypes: NDArray[np.float64], draws: Draws) -> NDArray[np.int64]:
    """Slots int64 [n, S·L] of entries that come label by label: those of label s are matched to its groups alone.

    Args: prototypes [S, M, d], the groups' means: public, or released before. Slots are s·M + group.
    """
    n_labels, n_groups, d = prototypes.shape
    variances = np.full(d, 1 / d)
    ids = np.zeros(lists.weights.shape, dtype=np.int64)
    per_label = lists.weights.shape[1] // n_labels
    random = [draws(client) for client in range(len(lists))]
    for label in range(n_labels):
        places = slice(label * per_label, (label + 1) * per_label)
        target = np.zeros((n_groups, lists.targets.shape[2]))
        groups = compared.of_means(prototypes[label], variances, target)
        for client in range(len(lists)):
            entries = lists.elements(client)[places]
            weights = lists.weights[client, places]
            shares = weights / weights.sum() if weights.sum() > 0 else None
            found, _ = matchers.assign(compared.rule, compared.features(entries), groups, shares, generator=random[client])
            ids[client, places] = label * n_groups + found
    return ids
