"""Split: the classes in the dataset's order, cut into tasks; the same tasks for every seed."""

from __future__ import annotations

from dpcl_core.scenarios import class_incremental, order
from dpcl_core.scenarios.catalog import Split
from dpcl_core.scenarios.stream import Table, TaskStream


def n_tasks(settings: Split, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where classes do not divide evenly, or the order is not a permutation."""
    class_incremental.per_task(settings, n_classes)
    order.of_tasks(settings.order, settings.tasks)
    return settings.tasks


def open_stream(settings: Split, table: Table, seed: int) -> TaskStream:
    """The tasks of any seed: consecutive groups of equally many classes, learned in the given order.

    With a user-given order a task keeps the number of its group as its name. A record goes to the task of its class, by a
    public map: adding or removing a record changes one task by that record, so each is in at most one task; an undeclared
    label has a task by a coin of its own name. If `tasks` times `classes_per_task` is less than the number of classes, the
    others occur in no task.
    """
    per_task = class_incremental.per_task(settings, len(table.classes))
    parts = order.of_tasks(settings.order, settings.tasks)
    homes = table.homes(settings.tasks, 0)  # the same for every seed
    tasks = tuple(
        class_incremental.task(index, f"task {part + 1}", range(part * per_task, (part + 1) * per_task), table, homes)
        for index, part in enumerate(parts)
    )
    return TaskStream(tasks, table.classes, recurrence="once")
