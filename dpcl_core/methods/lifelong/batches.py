"""Fixed batches of a task and its number of steps (Lai et al., Algorithm 2 and section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.lifelong.cards.network_params import BatchParams


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
