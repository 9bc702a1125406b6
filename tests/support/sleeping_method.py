"""A method that releases noisy class sums and sleeps for every task: `DPCL_METHODS=tests.support.sleeping_method`.

Sleeping needs no processor, so that parts of a run on one computer's two cores show what as many machines would.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.method import MethodCard, PublicContext
from dpcl_core.privacy.accounting import training_budget
from dpcl_core.privacy.labels import in_label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import noise_of
from dpcl_core.published import ADDED
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, Params, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class SleepingParams(Params):
    seconds: float = parameter(1.0, ge=0, description="Sleep of a task.")


class Sleeping:
    KEPT = ("_sums", "_noise")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        (self._cell,) = cells
        assert isinstance(spec.params, SleepingParams)
        self._seconds, self._space = spec.params.seconds, list(context.public)
        epsilon, delta = training_budget(spec.privacy, spec.labels, self._cell.epsilon)
        self._std = class_sums_std(epsilon, delta, spec.privacy.adjacency)
        self._noise = noise_of(spec.privacy.noise, self._cell, "class sums")
        self._sums = np.zeros((context.n_classes, context.n_inputs))

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task = tasks[self._cell.seed]
        yield Progress("training", 0, 1, task.index, "sleeping")
        end = time.monotonic() + self._seconds
        while (left := end - time.monotonic()) > 0:  # in short naps, so that a stop is heard
            time.sleep(min(left, 0.2))
            yield Progress("training", 0, 1, task.index, "sleeping")
        rows = task.train.take(np.flatnonzero(in_label_space(task.train.labels, self._space)))
        self._sums = self._sums + noisy_class_sums(
            rows.inputs, rows.labels, self._space, len(self._sums), [self._std], [self._noise], [ledgers[self._cell]],
            task=task.index,
        )[0]  # fmt: skip

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        scores = np.full((1, len(task.test), len(self._sums)), -np.inf)
        scores[0][:, self._space] = task.test.inputs @ self._sums[self._space].T
        return {"sums": scores}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.floating]]:
        return {"sums": self._sums}


make_learner = Sleeping
CARD = MethodCard(
    name="sleeping", title="Sleeping class sums", summary="Noisy class sums, and a sleep for every task.",
    source="tests", params=SleepingParams, module="tests.support.sleeping_method", cells_per_learner="cell",
    labels=("prior-const",), scenarios=("class-incremental",), printed=ADDED,
    planned="dpcl_core.methods.features.cosine:planned",
)  # fmt: skip
