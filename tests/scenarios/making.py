"""Small tables whose inputs say which record each is."""

from collections.abc import Sequence

import numpy as np

from dpcl_core.data.dataset import Source
from dpcl_core.scenarios.stream import Examples, Table, Task


def examples(labels: Sequence[int], first: int = 0) -> Examples:
    """One example a label; its one feature is its number."""
    return Examples(np.arange(first, first + len(labels), dtype=np.float32)[:, None], np.asarray(labels, dtype=np.int64))


def table(train: Sequence[int], test: Sequence[int], n_classes: int) -> Table:
    classes = tuple(f"c{label}" for label in range(n_classes))
    return Table(examples(train), examples(test, 1000), classes, n_people=len(train))


def five(per_class: int = 2) -> Table:
    """Five sources of two classes each: source k has the classes 2k and 2k + 1."""
    labels = [label for label in range(10) for _ in range(per_class)]
    sources = np.asarray(labels) // 2
    held = tuple(Source(name, (2 * k, 2 * k + 1)) for k, name in enumerate("ABCDE"))
    classes = tuple(f"c{label}" for label in range(10))
    return Table(examples(labels), examples(labels, 1000), classes, sources, sources, held)


def records(task: Task) -> set[tuple[int, int]]:
    """The training records of a task: number and label."""
    return set(zip(task.train.inputs[:, 0].astype(int).tolist(), task.train.labels.tolist(), strict=True))
