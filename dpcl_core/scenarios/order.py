"""Checks of user-given permutations: of the tasks, or of the positions in an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcl_core.errors import BadInput
from dpcl_core.scenarios import class_incremental
from dpcl_core.scenarios.catalog import Split
from dpcl_core.scenarios.stream import Table, TaskStream


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


# Split: the classes in the dataset's order, cut into tasks; the same tasks for every seed.


def n_tasks(settings: Split, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where classes do not divide evenly, or the order is not a permutation."""
    class_incremental.per_task(settings, n_classes)
    of_tasks(settings.order, settings.tasks)
    return settings.tasks


def open_stream(settings: Split, table: Table, seed: int) -> TaskStream:
    """The tasks of any seed: consecutive groups of equally many classes, learned in the given order.

    With a user-given order a task keeps the number of its group as its name. A record goes to the task of its class, by a
    public map: adding or removing a record changes one task by that record, so each is in at most one task; an undeclared
    label has a task by a coin of its own name. If `tasks` times `classes_per_task` is less than the number of classes, the
    others occur in no task.
    """
    per_task = class_incremental.per_task(settings, len(table.classes))
    parts = of_tasks(settings.order, settings.tasks)
    homes = table.homes(settings.tasks, 0)  # the same for every seed
    tasks = tuple(
        class_incremental.task(index, f"task {part + 1}", range(part * per_task, (part + 1) * per_task), table, homes)
        for index, part in enumerate(parts)
    )
    return TaskStream(tasks, table.classes, recurrence="once")
