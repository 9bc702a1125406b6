"""Fixed batches of a task, its number of steps, and draws from stored batches (Lai et al., Algorithm 2, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.lifelong.cards.network_params import BatchParams

Batch = TypeVar("Batch")


def fixed(n: int, size: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Indices of n examples, split at random into disjoint batches of exactly `size`; a remainder is left out.

    The batches of a task are the same in all its epochs.
    """
    order = generator.permutation(n).astype(np.int64)
    return [order[start : start + size] for start in range(0, n - size + 1, size)]


def schedule(params: BatchParams, task: int, n_batches: int) -> int:
    """Number of steps for a task of `n_batches`; `task` counts from 0 in the stream's order.

    Step i takes batch i modulo `n_batches`: "balanced" may stop within an epoch or start another.
    """
    if params.variant == "balanced":
        assert params.steps is not None
        return params.steps
    if params.variant == "heterogeneous":
        assert params.epochs_by_task is not None
        return params.epochs_by_task[task] * n_batches
    return params.epochs * n_batches


def drawn(stored: Sequence[Batch], at_most: int, generator: np.random.Generator) -> Sequence[Batch]:
    """A random sample of `at_most` stored batches without replacement; all of them if fewer are stored."""
    if at_most >= len(stored):
        return stored
    return [stored[place] for place in generator.choice(len(stored), at_most, replace=False)]


def picked(params: BatchParams, n_batches: int, generator: np.random.Generator) -> int:
    """Index of the batch to keep: random (as printed) or the last (as in code of the same group)."""
    return n_batches - 1 if params.memory_pick == "last" else int(generator.integers(n_batches))
