"""Source-incremental: every task is one source of the dataset, such as one member set of 5-Datasets."""

from __future__ import annotations

import numpy as np

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.scenarios.stream import Table, Task, TaskStream, generator


def n_tasks(settings: SourceIncremental, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput for a dataset without sources, or an order that names another or one twice."""
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


def open_stream(settings: SourceIncremental, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: the sources in the given order, or in one drawn for the seed.

    A record goes to the task of its source, by a public map: adding or removing a record changes one task by that record, so
    each is in at most one task. A task's prior is the public list of its source's classes.
    """
    names = tuple(source.name for source in table.sources)
    n_tasks(settings, len(table.classes), names)
    if settings.order is None:
        order = generator(seed, "source order").permutation(len(names)).tolist()
    else:
        order = [names.index(name) for name in settings.order]
    tasks = tuple(task(index, source, table) for index, source in enumerate(order))
    return TaskStream(tasks, table.classes, recurrence="once")


def task(index: int, source: int, table: Table) -> Task:
    """The task of this source: all its examples."""
    assert table.train_sources is not None  # a table with named sources has the source of each example
    assert table.test_sources is not None
    train = table.train.take(np.flatnonzero(table.train_sources == source))
    test = table.test.take(np.flatnonzero(table.test_sources == source))
    where = table.sources[source]
    return Task(index, where.name, train, test, prior=tuple(sorted(where.classes)))
