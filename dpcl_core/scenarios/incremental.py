"""Every task brings something new: classes in an order drawn for the seed or in the dataset's own, or a source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import ClassGroups, SourceIncremental, Split
from dpcl_core.scenarios.stream import Table, Task, TaskStream, generator


def n_tasks(settings: ClassGroups | SourceIncremental, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks.

    Raises BadInput where there are too few classes, where they do not divide evenly, and for a dataset without sources; also
    for an order of groups that is no permutation, and one of sources that names another or one twice.
    """
    if isinstance(settings, ClassGroups):
        per_task(settings, n_classes)
        of_tasks(settings.order if isinstance(settings, Split) else None, settings.tasks)
        return settings.tasks
    if not sources:
        allowed = "needs a dataset made of several sources, such as 5-datasets"
        raise BadInput("scenario.kind", settings.kind, allowed, {"scenario": {"kind": "class-incremental"}})
    if settings.order is None:
        return len(sources)
    if not settings.order:
        raise BadInput("scenario.order", "()", f"must name at least one of {', '.join(sources)}")
    for name in settings.order:
        if name not in sources:
            raise BadInput("scenario.order", name, f"must name sources of the dataset: {', '.join(sources)}")
        if settings.order.count(name) > 1:
            raise BadInput("scenario.order", name, "must name each source at most once")
    return len(settings.order)


def open_stream(settings: ClassGroups | SourceIncremental, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: equally many classes each, or one source each.

    A record goes to the task of its class or source, by a public map that is drawn before any record is read: adding or
    removing a record changes one task by that record, so each is in at most one task. An undeclared label is in the task
    that a coin of its own name gives.

    Classes come in an order drawn for the seed; under `split` in the dataset's own order, the same for every seed, and with
    a user-given order of tasks a task keeps the number of its group as its name. If `tasks` times `classes_per_task` is less
    than the number of classes, the others occur in no task. Sources come in the given order, or in one drawn for the seed; a
    task's prior is the public list of its source's classes.
    """
    names = tuple(source.name for source in table.sources)
    n = n_tasks(settings, len(table.classes), names)
    if isinstance(settings, SourceIncremental):
        drawn = generator(seed, "source order").permutation(len(names)).tolist()
        places = drawn if settings.order is None else [names.index(name) for name in settings.order]
        tasks = [source_task(index, place, table) for index, place in enumerate(places)]
        return TaskStream(tuple(tasks), table.classes, recurrence="once")
    size, is_split = per_task(settings, len(table.classes)), isinstance(settings, Split)
    order = np.arange(len(table.classes)) if is_split else generator(seed, "class order").permutation(len(table.classes))
    homes = table.homes(n, 0 if is_split else seed)
    parts = of_tasks(settings.order if isinstance(settings, Split) else None, n)
    tasks = [
        class_task(index, f"task {part + 1}", order[part * size : (part + 1) * size].tolist(), table, homes)
        for index, part in enumerate(parts)
    ]
    return TaskStream(tuple(tasks), table.classes, recurrence="once")


def class_task(index: int, name: str, classes: Sequence[int], table: Table, homes: NDArray[np.int64] | None = None) -> Task:
    """The task of these classes: all examples with one of them; `homes`: the task of each undeclared label."""
    strays = [] if homes is None else (len(table.classes) + np.flatnonzero(homes == index)).tolist()
    train, test = (
        examples.take(np.flatnonzero(np.isin(examples.labels, chosen)))
        for examples, chosen in ((table.train, [*classes, *strays]), (table.test, list(classes)))
    )
    return Task(index=index, name=name, train=train, test=test, prior=tuple(sorted(classes)))


def source_task(index: int, source: int, table: Table) -> Task:
    """The task of this source: all its examples."""
    assert table.train_sources is not None  # a table with named sources has the source of each example
    assert table.test_sources is not None
    train = table.train.take(np.flatnonzero(table.train_sources == source))
    test = table.test.take(np.flatnonzero(table.test_sources == source))
    where = table.sources[source]
    return Task(index, where.name, train, test, prior=tuple(sorted(where.classes)))


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
    times = np.bincount((integers.astype(np.int64) - first).astype(np.intp), minlength=n)
    if (times > 1).any():
        return f"{first + int(np.flatnonzero(times > 1)[0])} occurs {times.max()} times"
    if (times == 0).any():
        return f"{first + int(np.flatnonzero(times == 0)[0])} is missing"
    return None
