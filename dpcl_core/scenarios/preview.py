"""Preview of a stream: which classes belong to which task, and how many examples of each class a task has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.data import labels
from dpcl_core.data.dataset import Source
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.stream import Examples, OpenStream, Table, Task, TaskStream, joined
from dpcl_core.spec import DataSpec, ScenarioSpec


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """The stream of one seed. `tasks`: their names; `homes`: class indices by task, a public plan independent of examples.

    `counts` int64 [tasks, classes]: numbers of training examples; None for the user's own data, where they are private.
    `held` int64 [clients]: how many distinct examples each client holds; None for own data and without clients.
    """

    classes: tuple[str, ...]
    tasks: tuple[str, ...]
    homes: tuple[tuple[int, ...], ...]
    counts: NDArray[np.int64] | None
    held: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is public of a dataset's stream; `n_people`: the nominal number of training examples."""

    classes: tuple[str, ...]
    sources: tuple[Source, ...]
    n_people: int


def preview(data: DataSpec, scenario: ScenarioSpec, seed: int) -> Preview | None:
    """The stream that a run would have, from the label columns alone; None where the dataset would have to be downloaded.

    Cached until a file changes. Raises BadInput as the scenario does for an unsuitable dataset, and as `labels.read` does
    for files that cannot be used.
    """
    is_own = datasets.card(data.dataset).is_own
    columns = labels.read(data, keyed=scenario.by_coin and not is_own)
    if columns is None:
        return None
    return planned(_plan(columns), scenario, seed) if is_own else _counted(columns, scenario, seed)


def plan(data: DataSpec) -> Plan | None:
    """A dataset's classes and sources; None where it would have to be downloaded.

    Raises BadInput as `preview` does.
    """
    columns = labels.read(data, keyed=False)
    return None if columns is None else _plan(columns)


def planned(of: Plan, scenario: ScenarioSpec, seed: int) -> Preview:
    """The stream that a `plan` has, from public facts alone. Raises BadInput for a scenario that does not fit."""
    stream = _opened(scenario, _table(of), seed)
    homes = tuple(tuple(np.unique(task.test.labels).tolist()) for task in stream.tasks)
    return Preview(stream.classes, tuple(task.name for task in stream.tasks), homes, None)


def tested(data: DataSpec, scenario: ScenarioSpec, seed: int, inputs: NDArray[np.generic] | None) -> TaskStream | None:
    """The stream with its real test labels and without a training example; None where the data would have to be downloaded.

    `inputs`: features [n, K] of the test examples, in the order of `data.load`; None: they have none. Raises BadInput as
    `preview` does.
    """
    columns = labels.read(data, keyed=False)
    if columns is None:
        return None
    read = np.empty((len(columns.test.labels), 0)) if inputs is None else inputs
    test = Examples(read, columns.test.labels, sentences=columns.test.sentences)
    table = _table(_plan(columns))
    if test.sentences is not None:  # words of sentences, whose score is the F1 of entities
        table = replace(table, train=replace(table.train, sentences=np.empty(0, dtype=test.sentences.dtype)))
    return _opened(scenario, replace(table, test=test, test_sources=columns.test.sources), seed)


def classes_per_task(data: DataSpec, scenario: ScenarioSpec, seed: int) -> float | None:
    """Mean number of labels per task; None where the dataset would have to be downloaded.

    Raises BadInput as `preview` does.
    """
    shown = preview(data, scenario, seed)
    return None if shown is None else float(np.mean([len(home) for home in shown.homes]))


@lru_cache(maxsize=64)
def _counted(columns: labels.Labels, scenario: ScenarioSpec, seed: int) -> Preview:
    shown = planned(_plan(columns), scenario, seed)
    train, test = (
        Examples(np.empty((len(split.labels), 0)), split.labels, sentences=split.sentences, keys=split.keys)
        for split in (columns.train, columns.test)
    )
    sources = columns.train.sources, columns.test.sources, columns.sources
    table = Table(train, test, columns.classes, *sources, n_people=columns.n_train)
    tasks = _opened(scenario, table, seed).tasks
    counts = np.array([np.bincount(task.train.labels, minlength=len(shown.classes)) for task in tasks])
    held = None if scenario.n_users is None else _held(tasks, scenario.n_users)
    return replace(shown, counts=counts, held=held)


def _held(tasks: Sequence[Task], n_users: int) -> NDArray[np.int64]:
    """Number of distinct examples of each client over all tasks."""
    all_examples = joined([task.train for task in tasks])
    assert all_examples.rows is not None  # a task is a selection of the table
    assert all_examples.users is not None  # of a stream with clients
    _, first = np.unique(all_examples.rows, return_index=True)
    return np.bincount(all_examples.users[first], minlength=n_users)


def _plan(columns: labels.Labels) -> Plan:
    return Plan(columns.classes, columns.sources, columns.n_train)


def _table(of: Plan) -> Table:
    """A table without data: no training examples, and one dummy test example of every class (of every source).

    A task is tested on its home classes, so the stream of this table shows the public plan.
    """
    classes, sources = of.classes, of.sources
    pairs = [(label, index) for index, source in enumerate(sources) for label in source.classes]
    tested = np.array([label for label, _ in pairs] if sources else range(len(classes)), dtype=np.int64)
    none = np.empty(0, dtype=np.int64)
    train, test = Examples(np.empty((0, 0)), none), Examples(np.empty((len(tested), 0)), tested)
    tested_sources = np.array([index for _, index in pairs], dtype=np.int64)
    train_sources, test_sources = (none, tested_sources) if sources else (None, None)
    return Table(train, test, classes, train_sources, test_sources, sources, n_people=of.n_people)


def _opened(scenario: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    return cast(OpenStream, import_module(catalog.card(scenario.kind).module).open_stream)(scenario, table, seed)
