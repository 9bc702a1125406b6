"""A stream before it runs: which classes are at home in which task, and how many examples of each class a task gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog as datasets
from dpcl_core.data import labels
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.stream import Examples, OpenStream, Table, Task, TaskStream, joined
from dpcl_core.spec import DataSpec, ScenarioSpec


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """The stream of one seed. `tasks`: their names; `homes`: class indices by task, a public plan that no example changes.

    `counts` int64 [tasks, classes] are training examples; None for a person's own data, where they are private statistics.
    `held` int64 [clients]: how many of them each client holds, each counted once; None where there are no clients either.
    """

    classes: tuple[str, ...]
    tasks: tuple[str, ...]
    homes: tuple[tuple[int, ...], ...]
    counts: NDArray[np.int64] | None
    held: NDArray[np.int64] | None = None


def preview(data: DataSpec, scenario: ScenarioSpec, seed: int) -> Preview | None:
    """What a run would deal out, from the label columns alone; None where the dataset would have to be downloaded.

    Kept until a file changes. Raises BadInput as the scenario does for a dataset that it does not fit, and as
    `labels.read` does for files that cannot be used.
    """
    known = labels.read(data, keyed=scenario.by_coin and not datasets.card(data.dataset).is_own)
    return None if known is None else _preview(known, scenario, seed, datasets.card(data.dataset).is_own)


def classes_per_task(data: DataSpec, scenario: ScenarioSpec, seed: int) -> float | None:
    """Labels at home in a task, on average over the tasks; None where the dataset would have to be downloaded.

    Raises BadInput as `preview` does.
    """
    shown = preview(data, scenario, seed)
    return None if shown is None else float(np.mean([len(home) for home in shown.homes]))


@lru_cache(maxsize=64)
def _preview(known: labels.Labels, scenario: ScenarioSpec, seed: int, is_own: bool) -> Preview:
    plan = _opened(scenario, _plan(known), seed)
    counts, held = None, None
    if not is_own:
        train, test = (
            Examples(np.empty((len(split.labels), 0)), split.labels, sentences=split.sentences, keys=split.keys)
            for split in (known.train, known.test)
        )
        sources = known.train.sources, known.test.sources, known.sources
        table = Table(train, test, known.classes, *sources, n_people=known.n_train)
        tasks = _opened(scenario, table, seed).tasks
        counts = np.array([np.bincount(task.train.labels, minlength=len(plan.classes)) for task in tasks])
        held = None if scenario.n_users is None else _held(tasks, scenario.n_users)
    return Preview(
        classes=plan.classes,
        tasks=tuple(task.name for task in plan.tasks),
        homes=tuple(tuple(np.unique(task.test.labels).tolist()) for task in plan.tasks),
        counts=counts,
        held=held,
    )


def _held(tasks: Sequence[Task], n_users: int) -> NDArray[np.int64]:
    """Different examples of each client in all tasks together."""
    whole = joined([task.train for task in tasks])
    assert whole.rows is not None  # a task is a selection of the table
    assert whole.users is not None  # of a stream with clients
    _, first = np.unique(whole.rows, return_index=True)
    return np.bincount(whole.users[first], minlength=n_users)


def _plan(known: labels.Labels) -> Table:
    """A table without training examples and with one test example of every class (of every source): no data in it.

    A task is tested on the classes that are at home there, so the stream of this table shows its public plan.
    """
    classes, sources = known.classes, known.sources
    pairs = [(label, index) for index, source in enumerate(sources) for label in source.classes]
    tested = np.array([label for label, _ in pairs] if sources else range(len(classes)), dtype=np.int64)
    nothing = np.empty(0, dtype=np.int64)
    return Table(
        train=Examples(np.empty((0, 0)), nothing),
        test=Examples(np.empty((len(tested), 0)), tested),
        classes=classes,
        train_sources=nothing if sources else None,
        test_sources=np.array([index for _, index in pairs], dtype=np.int64) if sources else None,
        sources=sources,
        n_people=known.n_train,
    )


def _opened(scenario: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    catalog.check(scenario, len(table.classes), tuple(source.name for source in table.sources))
    return cast(OpenStream, import_module(catalog.card(scenario.kind).module).open_stream)(scenario, table, seed)
