"""Checks of user-given permutations: of the tasks, or of the positions in an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcl_core.errors import BadInput


def of_tasks(order: Sequence[int] | None, n_tasks: int) -> list[int]:
    """The task numbers in the order of learning, from 0; `order` counts from 1, None: ascending.

    Raises BadInput where the order does not name every task exactly once.
    """
    if order is None:
        return list(range(n_tasks))
    if wrong := fault(order, first=1, n=n_tasks):
        raise BadInput(
            "scenario.order", ", ".join(map(str, order)), f"must name each task from 1 to {n_tasks} once, but {wrong}"
        )
    return [number - 1 for number in order]


def fault(numbers: Sequence[int], *, first: int, n: int) -> str | None:
    """The reason why these are no permutation of the `n` integers from `first` on; None where they are."""
    integers = np.asarray(numbers, dtype=object)  # user-given numbers may overflow any fixed width
    outside = [number for number in integers if not first <= number < first + n]
    if outside:
        return f"{outside[0]} is none of them"
    times = np.bincount(integers.astype(np.int64) - first, minlength=n)
    if (times > 1).any():
        return f"{first + int(np.flatnonzero(times > 1)[0])} occurs {times.max()} times"
    if (times == 0).any():
        return f"{first + int(np.flatnonzero(times == 0)[0])} is missing"
    return None
