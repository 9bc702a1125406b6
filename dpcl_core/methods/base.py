"""What every method promises the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell


class Learner(Protocol):
    """Learns tasks one after another for a group of cells that may share work, never noise. Keeps no examples.

    Streams differ by seed (class order), so a step hands over one task a seed; budgets of one seed see the same task.
    """

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        """Learns the next task of every seed; each touch of private data is in the cell's ledger before it returns."""
        ...

    def scores(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.float64]:
        """Scores [epsilons, n, classes] of `inputs` [n, ...] under the seed's models; -inf: a label never released."""
        ...
