"""Si-Blurry: i-Blurry with random task sizes; a task may be empty."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.scenarios import blurry
from dpcl_core.scenarios.catalog import SiBlurry
from dpcl_core.scenarios.stream import Table, TaskStream, generator
from dpcl_core.spec import ScenarioSpec


def n_tasks(settings: ScenarioSpec, n_classes: int, sources: tuple[str, ...] = ()) -> int:
    """The number of tasks. Raises BadInput where there are more of them than classes."""
    return blurry.check(cast(SiBlurry, settings), n_classes)


def open_stream(settings: ScenarioSpec, table: Table, seed: int) -> TaskStream:
    """The tasks of one seed: disjoint classes, blurry classes and the pool, each cut at uniformly drawn positions.

    A task may have no home classes (then it has no test examples), or nothing at all.
    """
    chosen = cast(SiBlurry, settings)
    draw = generator(seed, "si-blurry cuts")

    def anywhere(n: int) -> NDArray[np.int64]:
        places = np.sort(draw.integers(0, n, chosen.tasks - 1, endpoint=True))
        return np.diff(places, prepend=0, append=n)

    n_disjoint = len(table.classes) * chosen.disjoint_percent // 100
    return blurry.deal(chosen, table, seed, n_disjoint=n_disjoint, cut=anywhere)
