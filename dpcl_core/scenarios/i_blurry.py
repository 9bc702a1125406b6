"""i-Blurry: tasks of equal size; some of the classes also occur outside their home task."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.scenarios import blurry
from dpcl_core.scenarios.catalog import IBlurry
from dpcl_core.scenarios.stream import Table, TaskStream
from dpcl_core.spec import ScenarioSpec


def n_tasks(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where there are more of them than classes."""
    return blurry.check(cast(IBlurry, settings), n_classes)


def open_stream(settings: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: disjoint classes, blurry classes and the pool of leaving examples, each cut evenly.

    The number of disjoint classes is the largest multiple of the number of tasks that `disjoint_percent` allows, or all
    classes at 100. Tasks have equal sizes where their number divides the classes, classes are equally large and the pool can
    be cut evenly; otherwise the first tasks get one more item.
    """
    chosen, n_classes = cast(IBlurry, settings), len(table.classes)
    allowed = n_classes * chosen.disjoint_percent // 100
    n_disjoint = n_classes if chosen.disjoint_percent == 100 else allowed - allowed % chosen.tasks

    def evenly(n: int) -> NDArray[np.int64]:
        return (n + np.arange(chosen.tasks)[::-1]) // chosen.tasks

    return blurry.deal(chosen, table, seed, n_disjoint=n_disjoint, cut=evenly)
