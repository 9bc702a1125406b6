"""Lists of numbers that a person wrote and that must be a permutation: of tasks, or of the places in an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcl_core.errors import BadInput

ORDER = "scenario.order"


def of_tasks(order: Sequence[int] | None, n_tasks: int) -> list[int]:
    """Which task is learned first, second, ... counted from 0; `order` counts from 1, None: as they are numbered.

    Raises BadInput where the order does not name every task once.
    """
    if order is None:
        return list(range(n_tasks))
    if wrong := fault(order, first=1, n=n_tasks):
        raise BadInput(ORDER, ", ".join(map(str, order)), f"must name each task from 1 to {n_tasks} once, but {wrong}")
    return [number - 1 for number in order]


def fault(numbers: Sequence[int], *, first: int, n: int) -> str | None:
    """Why these are no permutation of the `n` whole numbers from `first` on; None where they are one."""
    found = np.asarray(numbers, dtype=object)  # a person may write numbers that no fixed width holds
    outside = [number for number in found if not first <= number < first + n]
    if outside:
        return f"{outside[0]} is none of them"
    times = np.bincount(found.astype(np.int64) - first, minlength=n)
    if (times > 1).any():
        return f"{first + int(np.flatnonzero(times > 1)[0])} occurs {times.max()} times"
    if (times == 0).any():
        return f"{first + int(np.flatnonzero(times == 0)[0])} is missing"
    return None
