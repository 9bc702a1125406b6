"""i-Blurry and Si-Blurry: some classes occur in one task only, others have a home task and occur in all.

After the public code of Koh et al. 2022 (i-Blurry) and Moon et al. 2023 (Si-Blurry). They differ in how they cut classes and
the pool of stray examples into one part per task: evenly, or at uniformly drawn positions. Every example is in exactly one
task. Two deviations: which examples leave home, and where they go, are public coins of their own bytes, whereas the public
code cuts the file and then a shuffled pool, so that an added row would move others; and no class is left out where classes
do not divide evenly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import Blurry, IBlurry
from dpcl_core.scenarios.stream import Table, Task, TaskStream, generator

_POOL = 2**32  # items to cut: so many that the sizes of the parts give shares
Cut = Callable[[int], NDArray[np.int64]]  # number of items -> how many of them each task gets, int64 [tasks]

BY_COIN = (
    "which task an example is in is a public function of that example alone: the home of its label, or a coin of its own "
    "bytes"
)


def n_tasks(settings: Blurry, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where there are more of them than classes."""
    if settings.tasks > n_classes:
        allowed = f"must be at most {n_classes}, the number of classes"
        raise BadInput("scenario.tasks", settings.tasks, allowed, {"scenario.tasks": n_classes})
    return settings.tasks


def open_stream(settings: Blurry, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: a share of the classes, the first of the seed's order, stay in one task; the others are blurry.

    i-Blurry: the number of disjoint classes is the largest multiple of the number of tasks that `disjoint_percent` allows,
    or all classes at 100. Tasks have equal sizes where their number divides the classes, classes are equally large and the
    pool can be cut evenly; otherwise the first tasks get one more item. Si-Blurry: a task may have no home classes (then it
    has no test examples), or nothing at all.

    Each example of a blurry class leaves home with probability `blurry_percent`, and is then in any task (home included)
    with probability equal to the task's share of the pool. A task is tested on its home classes of both kinds. An undeclared
    label stays in the task that a coin of its own name gives.
    """
    n_tasks(settings, len(table.classes))
    n_disjoint = len(table.classes) * settings.disjoint_percent // 100
    if isinstance(settings, IBlurry) and settings.disjoint_percent < 100:
        n_disjoint -= n_disjoint % settings.tasks
    cut = _cut(settings, seed)
    order = generator(seed, "class order").permutation(len(table.classes))
    home = np.empty(len(order), dtype=np.int64)  # of each class
    for classes in (order[:n_disjoint], order[n_disjoint:]):  # disjoint, then blurry
        home[classes] = np.repeat(np.arange(settings.tasks), cut(len(classes)).astype(np.intp))
    task_of = np.append(home, table.homes(settings.tasks, seed))[table.train.labels]
    leaves = np.isin(table.train.labels, order[n_disjoint:])
    leaves &= table.train.tossed(generator(seed, "who leaves home")) < settings.blurry_percent / 100
    ends = np.cumsum(cut(_POOL)) / _POOL
    arrives = np.searchsorted(ends, table.train.tossed(generator(seed, "blurry pool")), side="right")
    task_of = np.where(leaves, arrives, task_of)
    tasks = tuple(
        _task(settings, table, index, rows=np.flatnonzero(task_of == index), home=np.flatnonzero(home == index))
        for index in range(settings.tasks)
    )
    return TaskStream(tasks, table.classes, recurrence="once", assumed=(BY_COIN,))


def _cut(settings: Blurry, seed: int) -> Cut:
    """Into equal parts, the first ones larger by one where need be; under Si-Blurry at uniformly drawn positions."""
    if isinstance(settings, IBlurry):
        return lambda n: (n + np.arange(settings.tasks, dtype=np.int64)[::-1]) // settings.tasks
    draw = generator(seed, "si-blurry cuts")

    def cut(n: int) -> NDArray[np.int64]:
        places = np.sort(draw.integers(0, n, settings.tasks - 1, endpoint=True))
        return np.diff(places, prepend=0, append=n)

    return cut


def _task(settings: Blurry, table: Table, index: int, *, rows: NDArray[np.int64], home: NDArray[np.int64]) -> Task:
    train = table.train.take(rows)  # in file order: the position in a task carries no information
    test = table.test.take(np.flatnonzero(np.isin(table.test.labels, home)))
    prior = np.unique(train.labels) if settings.reads_lists else home
    return Task(index, f"task {index + 1}", train, test, prior=tuple(prior.tolist()))
