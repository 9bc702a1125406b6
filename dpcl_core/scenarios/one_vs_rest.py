"""One class against the rest: each task asks whether an example is of one class; a test example comes with its task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.scenarios.catalog import OneVsRest
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream, generator

BY_COIN = (
    "which task an example is in is a public function of that example alone: a coin of its own bytes sends it to the task "
    "of its own class, or among the rest of another class"
)


def n_tasks(settings: OneVsRest, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where there are fewer than two classes, or more tasks than classes."""
    if n_classes < 2:
        raise BadInput("scenario.kind", settings.kind, "needs a dataset of two classes or more")
    tasks = settings.tasks or n_classes
    if tasks > n_classes:
        allowed = f"must be at most {n_classes}, the number of classes"
        raise BadInput("scenario.tasks", tasks, allowed, {"scenario.tasks": n_classes})
    return tasks


def open_stream(settings: OneVsRest, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: the classes in the dataset's own order, each against the rest. Raises BadInput as `n_tasks`.

    Each training example is learned once. Two coins of its own bytes decide where: the first sends it with probability one
    half to the task of its own class, else the second among the rest of another class, each as likely. So a task expects as
    many examples of the rest as of its class where classes are equally large, and adding or removing a record changes one
    task by that record. An example that is sent to a class without a task is in none. Were a task's rest as many as its
    class has, one record more would bring another with it; were each record in all tasks, their costs would add up.

    A task is tested on all examples of its class and as many others: public ones, which several tasks may share.
    """
    n, n_classes, train = n_tasks(settings, len(table.classes)), len(table.classes), table.train
    is_away = train.tossed(generator(seed, "who is among the rest")) < 0.5
    drawn = train.tossed(generator(seed, "the rest of which class"))
    is_declared = train.labels < n_classes  # an undeclared label has no task of its own, and its number depends on others
    other = (train.labels + 1 + (drawn * (n_classes - 1)).astype(np.int64)) % n_classes
    away = np.where(is_declared, other, (drawn * n_classes).astype(np.int64))
    task_of = np.where(is_away, away, train.labels)
    tasks = tuple(
        Task(
            index, table.classes[index],
            _asked(train, np.flatnonzero(task_of == index), index, index),
            against_rest(table.test, index, index, generator(seed, f"rest of task {index}, test")),
            prior=(2 * index, 2 * index + 1), task_id=index,
        )
        for index in range(n)
    )  # fmt: skip
    return TaskStream(tasks, settings.label_names(table.classes), recurrence="once", assumed=(BY_COIN,))


def against_rest(examples: Examples, label: int, index: int, random: np.random.Generator) -> Examples:
    """The examples of a class and, for each client, as many others as it has of the class, or all if there are fewer.

    Others are taken in the order of public coins of their own bytes. A client's examples in the task are a function of its
    own examples: removing another client changes none of them. Examples without clients, such as the public test part, count
    as one client's.
    """
    users = np.zeros(len(examples), dtype=np.int64) if examples.users is None else examples.users
    is_label, tossed = examples.labels == label, examples.tossed(random)
    n_label = np.bincount(users[is_label].astype(np.intp), minlength=int(users.max(initial=0)) + 1)
    others = np.flatnonzero(~is_label)
    others = others[np.lexsort((others, tossed[others], users[others]))]
    first = np.searchsorted(users[others], users[others])  # where its client's others begin
    rest = others[np.arange(len(others)) - first < n_label[users[others]]]
    return _asked(examples, np.sort(np.concatenate([np.flatnonzero(is_label), rest])), label, index)


def _asked(examples: Examples, places: NDArray[np.int64], label: int, index: int) -> Examples:
    """The examples at these places with the task's two labels: 2 index, not of the class, and 2 index + 1."""
    return replace(examples.take(places), labels=2 * index + (examples.labels[places] == label).astype(np.int64))
