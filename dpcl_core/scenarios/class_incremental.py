"""Class-incremental: every task brings classes that no other task has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import ClassGroups, ClassIncremental
from dpcl_core.scenarios.stream import Table, Task, TaskStream, generator


def n_tasks(settings: ClassIncremental, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where there are too few classes, or they do not divide evenly."""
    per_task(settings, n_classes)
    return settings.tasks


def open_stream(settings: ClassIncremental, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: equally many classes each, in an order drawn for the seed.

    A record goes to the task of its class, by a public map from classes to tasks that is drawn before any record is read:
    adding or removing a record changes one task by that record, so each is in at most one task. If `tasks` times
    `classes_per_task` is less than the number of classes, the others occur in no task. An undeclared label is in the task
    that a coin of its own name gives.
    """
    size = per_task(settings, len(table.classes))
    order = generator(seed, "class order").permutation(len(table.classes)).tolist()
    homes = table.homes(settings.tasks, seed)
    tasks = tuple(
        task(index, f"task {index + 1}", order[index * size : (index + 1) * size], table, homes)
        for index in range(settings.tasks)
    )
    return TaskStream(tasks, table.classes, recurrence="once")


def task(index: int, name: str, classes: Sequence[int], table: Table, homes: NDArray[np.int64] | None = None) -> Task:
    """The task of these classes: all examples with one of them; `homes`: the task of each undeclared label."""
    strays = [] if homes is None else (len(table.classes) + np.flatnonzero(homes == index)).tolist()
    train, test = (
        examples.take(np.flatnonzero(np.isin(examples.labels, chosen)))
        for examples, chosen in ((table.train, [*classes, *strays]), (table.test, list(classes)))
    )
    return Task(index=index, name=name, train=train, test=test, prior=tuple(sorted(classes)))


def per_task(settings: ClassGroups, n_classes: int) -> int:
    """Classes in each task. Raises BadInput where there are too few classes, or they do not divide evenly."""
    if settings.tasks > n_classes:
        allowed = f"must be at most {n_classes}, the number of classes"
        raise BadInput("scenario.tasks", settings.tasks, allowed, {"scenario.tasks": n_classes})
    if settings.classes_per_task is not None:
        if settings.classes_per_task > n_classes:
            raise BadInput("scenario.classes_per_task", settings.classes_per_task, f"must be at most {n_classes}")
        if settings.tasks * settings.classes_per_task > n_classes:
            most = n_classes // settings.classes_per_task
            allowed = f"must be at most {most}, as each takes {settings.classes_per_task} of the {n_classes} classes"
            raise BadInput("scenario.tasks", settings.tasks, allowed, {"scenario.tasks": most})
        return settings.classes_per_task
    if n_classes % settings.tasks:
        allowed = (
            f"must divide the {n_classes} classes evenly ({divisors(n_classes)}), or scenario.classes_per_task be given"
        )
        nearest = max(n for n in range(1, settings.tasks) if n_classes % n == 0)
        raise BadInput("scenario.tasks", settings.tasks, allowed, {"scenario.tasks": nearest})
    return n_classes // settings.tasks


def divisors(n: int) -> str:
    """The divisors of a number, for messages: "1, 2, 5, 10"."""
    return ", ".join(str(divisor) for divisor in range(1, n + 1) if n % divisor == 0)
