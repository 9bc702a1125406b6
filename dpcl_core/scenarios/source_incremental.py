"""Source-incremental: every task is one source of the dataset, such as one member set of 5-Datasets."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator
from dpcl_core.spec import ScenarioSpec


def n_tasks(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput for a dataset without sources, or an order that names another or one twice."""
    chosen = cast(SourceIncremental, settings)
    if not sources:
        allowed = "needs a dataset made of several sources, such as 5-datasets"
        raise BadInput("scenario.kind", chosen.kind, allowed)
    if chosen.order is None:
        return len(sources)
    if not chosen.order:
        raise BadInput("scenario.order", "()", f"must name at least one of {', '.join(sources)}")
    for name in chosen.order:
        if name not in sources:
            raise BadInput("scenario.order", name, f"must name sources of the dataset: {', '.join(sources)}")
        if chosen.order.count(name) > 1:
            raise BadInput("scenario.order", name, "must name each source at most once")
    return len(chosen.order)


def open_stream(settings: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: the sources in the given order, or in one drawn for the seed.

    A record goes to the task of its source, by a public map: adding or removing a record changes one task by that record, so
    each is in at most one task. A task's prior is the public list of its source's classes.
    """
    chosen = cast(SourceIncremental, settings)
    names = tuple(source.name for source in table.sources)
    n_tasks(chosen, len(table.classes), names)
    if chosen.order is None:
        order = generator(seed, "source order").permutation(len(names)).tolist()
    else:
        order = [names.index(name) for name in chosen.order]
    return TaskStream(
        tasks=tuple(_task(index, source, table) for index, source in enumerate(order)),
        classes=table.classes,
        recurrence="once",
    )


def _task(index: int, source: int, table: Table) -> Task:
    return Task(
        index=index,
        name=table.sources[source].name,
        train=_of_source(table.train, table.train_sources, source),
        test=_of_source(table.test, table.test_sources, source),
        prior=tuple(sorted(table.sources[source].classes)),
    )


def _of_source(examples: Examples, sources: NDArray[np.int64] | None, source: int) -> Examples:
    assert sources is not None  # a table with named sources has the source of each example
    return examples.take(np.flatnonzero(sources == source))
