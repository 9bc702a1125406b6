"""What i-Blurry and Si-Blurry share: some classes belong to one task only, others bleed from their home into all tasks.

After the public code of Koh et al. 2022 and Moon et al. 2023, which differ in how things are cut into one part a task. Every
example is in exactly one task. Two things are our own: the examples that leave home are drawn at random, not taken from the
front of the file, and no class is left out where classes do not divide evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import Blurry
from dpcl_core.scenarios.stream import Table, Task, TaskStream, generator

Cut = Callable[[int], NDArray[np.int64]]  # n things in a row -> how many of them each task gets, int64 [tasks]

ASSIGNMENT = (
    "which task an example is in was drawn at random over all examples at once, as benchmarks do: the assignment is assumed "
    "given, for one example more or less would have moved others"
)
ORACLE = (
    "a task's own list of labels, where one is used, holds the labels that occur in the task and is taken as public "
    "beforehand (oracle prior)"
)


def check(settings: Blurry, n_classes: int) -> int:
    """The number of tasks. Raises BadInput where there are more of them than classes."""
    if settings.tasks > n_classes:
        raise BadInput("scenario.tasks", settings.tasks, f"must be at most {n_classes}, the number of classes")
    return settings.tasks


def deal(settings: Blurry, table: Table, seed: int, *, n_disjoint: int, cut: Cut) -> TaskStream:
    """The tasks of one seed: the first `n_disjoint` classes of the seed's order stay in one task, the others bleed.

    From the examples of each task's blurry classes, `blurry_percent` go into one pool, which is shuffled and cut over all
    tasks (a home task included). A task is tested on its home classes, those of both kinds that were dealt to it.
    """
    check(settings, len(table.classes))
    order = generator(seed, "class order").permutation(len(table.classes))
    disjoint = _parts(order[:n_disjoint], cut(n_disjoint))
    blurry = _parts(order[n_disjoint:], cut(len(order) - n_disjoint))
    home = np.empty(len(order), dtype=np.int64)  # of each class
    for index, classes in enumerate(zip(disjoint, blurry, strict=True)):
        home[np.concatenate(classes)] = index
    bleeds = np.isin(np.arange(len(order)), order[n_disjoint:])[table.train.labels]
    home_of_row = home[table.train.labels]
    draw = generator(seed, "blurry pool")
    groups = [draw.permutation(np.flatnonzero(bleeds & (home_of_row == index))) for index in range(settings.tasks)]
    leaving = [len(group) * settings.blurry_percent // 100 for group in groups]
    pool = draw.permutation(np.concatenate([group[:n] for group, n in zip(groups, leaving, strict=True)]))
    arriving = _parts(pool, cut(len(pool)))
    tasks = [
        _task(
            settings,
            table,
            index,
            rows=np.concatenate(
                [np.flatnonzero(~bleeds & (home_of_row == index)), groups[index][leaving[index] :], arriving[index]]
            ),
            home=np.flatnonzero(home == index),
        )
        for index in range(settings.tasks)
    ]
    return TaskStream(
        tasks=tuple(tasks),
        classes=table.classes,
        recurrence="once",
        assumed=(ASSIGNMENT, ORACLE) if settings.task_prior == "occurring" else (ASSIGNMENT,),
    )


def _task(settings: Blurry, table: Table, index: int, *, rows: NDArray[np.int64], home: NDArray[np.int64]) -> Task:
    train = table.train.take(np.sort(rows))  # in the order of the file: the place in a task tells nothing
    test = table.test.take(np.flatnonzero(np.isin(table.test.labels, home)))
    prior = np.unique(train.labels) if settings.task_prior == "occurring" else home
    return Task(index, f"task {index + 1}", train, test, prior=tuple(prior.tolist()))


def _parts(things: NDArray[np.int64], sizes: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
    """Consecutive parts of these sizes."""
    return np.split(things, np.cumsum(sizes)[:-1])
