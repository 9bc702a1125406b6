"""How well groups of list entries agree with what the entries really are of: known in simulations only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def confusion(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.int64]:
    """Counts [n_modes, n_groups] of entries by what they are of and what they were matched to; -1 in either is left out."""
    known = (groups >= 0) & (modes >= 0)
    counts = np.zeros((n_modes, n_groups), dtype=np.int64)
    np.add.at(counts, (modes[known], groups[known]), 1)
    return counts


def adjusted_rand(groups: NDArray[np.int64], modes: NDArray[np.int64]) -> float:
    """Adjusted Rand index of two labellings [n] (Hubert and Arabie 1985): 1 for the same partition, 0 on average by chance.

    Two partitions that both put everything into one part, or both everything apart, agree: 1. Labels may be any integers.
    """
    _, one = np.unique(groups, return_inverse=True)
    _, other = np.unique(modes, return_inverse=True)
    counts = np.zeros((one.max(initial=-1) + 1, other.max(initial=-1) + 1), dtype=np.int64)
    np.add.at(counts, (one, other), 1)
    together, by_group, by_mode = (_pairs(each) for each in (counts, counts.sum(axis=1), counts.sum(axis=0)))
    expected = by_group * by_mode / max(_pairs(np.array([len(groups)])), 1.0)
    most = (by_group + by_mode) / 2
    return 1.0 if most == expected else float((together - expected) / (most - expected))


def names(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.int64]:
    """The mode [n_groups] that each group stands for so that most entries are right, one group a mode; -1: none is left."""
    found = np.full(n_groups, -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(-confusion(groups, modes, n_groups, n_modes))
    found[columns] = rows
    return found


def right(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.bool_]:
    """Which entries [n] lie in the group that stands for their mode. The mean is slot accuracy, about 1/K by chance."""
    stands_for = np.append(names(groups, modes, n_groups, n_modes), -1)  # the last place: entries without a group
    found: NDArray[np.bool_] = (modes >= 0) & (stands_for[groups] == modes)
    return found


def _pairs(counts: NDArray[np.int64]) -> float:
    return float((counts.astype(np.float64) * (counts - 1) / 2).sum())
