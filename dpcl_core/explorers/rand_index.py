"""Agreement of groups of list entries with their true modes, which only a simulation has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def confusion(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.int64]:
    """Counts [n_modes, n_groups] of entries by true mode and matched group; entries with -1 in either are left out."""
    counted = (groups >= 0) & (modes >= 0)
    counts = np.zeros((n_modes, n_groups), dtype=np.int64)
    np.add.at(counts, (modes[counted], groups[counted]), 1)
    return counts


def adjusted_rand(groups: NDArray[np.int64], modes: NDArray[np.int64]) -> float:
    """Adjusted Rand index of two labellings [n] (Hubert and Arabie 1985): 1 for equal partitions, 0 on average by chance.

    Two partitions with a single part, or two with only singletons, are equal: 1. Labels may be any integers.
    """
    _, group = np.unique(groups, return_inverse=True)
    _, mode = np.unique(modes, return_inverse=True)
    counts = np.zeros((group.max(initial=-1) + 1, mode.max(initial=-1) + 1), dtype=np.int64)
    np.add.at(counts, (group, mode), 1)
    in_both, by_group, by_mode = (_pairs(sizes) for sizes in (counts, counts.sum(axis=1), counts.sum(axis=0)))
    expected = by_group * by_mode / max(_pairs(np.array([len(groups)])), 1.0)
    most = (by_group + by_mode) / 2
    return 1.0 if most == expected else float((in_both - expected) / (most - expected))


def group_modes(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.int64]:
    """The one-to-one assignment of groups to modes with most entries correct, [n_groups]; -1 for a group without a mode."""
    mode_of_group = np.full(n_groups, -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(-confusion(groups, modes, n_groups, n_modes))
    mode_of_group[columns] = rows
    return mode_of_group


def is_correct(groups: NDArray[np.int64], modes: NDArray[np.int64], n_groups: int, n_modes: int) -> NDArray[np.bool_]:
    """Mask [n] of the entries in the group of their mode. The mean is slot accuracy, about 1/K by chance."""
    mode_of_group = np.append(group_modes(groups, modes, n_groups, n_modes), -1)  # the last: entries without a group
    correct: NDArray[np.bool_] = (modes >= 0) & (mode_of_group[groups] == modes)
    return correct


def _pairs(counts: NDArray[np.int64]) -> float:
    return float((counts.astype(np.float64) * (counts - 1) / 2).sum())
