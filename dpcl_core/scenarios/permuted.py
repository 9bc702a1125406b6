"""Permuted: the same classes in every task, with the examples' values in a different order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import incremental
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.stream import Table, Task, TaskStream, generator

FIELD = "scenario.permutations"
BY_COIN = "which task an example is in is a public coin of its own bytes"
PUBLIC = "the order in which a task has the values of its examples was drawn without looking at them, and is public"


def n_tasks(settings: Permuted, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput for an order or a permutation that is none."""
    incremental.of_tasks(settings.order, settings.tasks)
    if settings.permutations is not None:
        if len(settings.permutations) != settings.tasks:
            raise BadInput(FIELD, f"{len(settings.permutations)} lists", f"must be {settings.tasks}, one for each task")
        for number, places in enumerate(settings.permutations, start=1):
            _check_permutation(places, len(places), number)
    return settings.tasks


def open_stream(settings: Permuted, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: permutation 1, 2, ... of the values, each drawn separately; learned in the given order.

    So a stream of fewer tasks is the beginning of a longer one. With a user-given order a task keeps the number of its
    permutation as its name. Under `images` = "same" a record is in every task, as published: its budgets add up. Under
    "disjoint" each record goes to one task, uniformly, by a public coin of its own bytes: parts are about equal, and no
    record moves another. Test examples are the same in all tasks, in each task's own order of values. Raises BadInput as
    `n_tasks` does, and for a permutation whose length differs from the examples'.
    """
    n_tasks(settings, len(table.classes))
    everything = tuple(range(len(table.classes)))
    part = None  # the task of each example; None where each task has all of them
    if settings.images == "disjoint":
        part = (table.train.tossed(generator(seed, "images of tasks")) * settings.tasks).astype(np.int64)
    tasks = []
    for index, number in enumerate(incremental.of_tasks(settings.order, settings.tasks)):
        columns = None if table.form is None else _columns(settings, table.form, number, seed)
        train = table.train if part is None else table.train.take(np.flatnonzero(part == number))
        permuted, test = (replace(examples, columns=columns) for examples in (train, table.test))  # copies no table
        tasks.append(Task(index, f"task {number + 1}", permuted, test, everything))
    assumed = (PUBLIC,) if part is None else (BY_COIN, PUBLIC)
    return TaskStream(tuple(tasks), table.classes, settings.recurrence, assumed=assumed)


def _columns(settings: Permuted, form: Form, number: int, seed: int) -> NDArray[np.int64]:
    """The order of an example's values in the task of this number (from 0), int64 [K]."""
    is_whole = settings.of == "pixels" and len(form.shape) > 1
    n_together = form.shape[-1] if is_whole else 1  # channels of one pixel, which stay adjacent
    n_places = math.prod(form.shape) // n_together
    if settings.permutations is None:
        places = generator(seed, f"permutation {number}").permutation(n_places)
    else:
        _check_permutation(settings.permutations[number], n_places, number + 1)
        places = np.asarray(settings.permutations[number], dtype=np.int64)
    return (places[:, None] * n_together + np.arange(n_together)).ravel()


def _check_permutation(places: Sequence[int], n_places: int, number: int) -> None:
    """Raises BadInput, naming the task, where `places` is not a permutation of `n_places` positions."""
    allowed = f"must have each place from 0 to {n_places - 1} once"
    if len(places) != n_places:
        raise BadInput(f"{FIELD} of task {number}", f"{len(places)} places", f"{allowed}, {n_places} in all")
    if wrong := incremental.fault(places, first=0, n=n_places):
        raise BadInput(f"{FIELD} of task {number}", f"{len(places)} places", f"{allowed}, but {wrong}")
