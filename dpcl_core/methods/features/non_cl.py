"""Non-CL baseline (Tobaben et al., Algorithm A3): everything seen so far is kept, and a fresh model trained on all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features.cards.non_cl import NonClParams
from dpcl_core.methods.features.trainer import Model, Trainer, Work
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task, joined
from dpcl_core.spec import Cell, RunSpec


class NonCl:
    """Keeps the examples of all tasks: no continual learner, and said to be none.

    Released at every task, the examples of the first task are used in every release, and the ledger adds that up for them;
    released once, after the last task, they are used once.
    """

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        assert isinstance(spec.params, NonClParams)
        self._once, self._known = spec.params.release == "once", known
        self._trainer = Trainer(spec, cells, known)
        self._seen: dict[int, list[Task]] = {seed: [] for seed in self._trainer.seeds}
        self._models: dict[int, Model] = {}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for seed, task in tasks.items():
            self._seen[seed].append(task)
        n_seen = max(map(len, self._seen.values()))
        if self._once and n_seen < self._known.n_tasks:
            return
        works = {seed: self._work(seen) for seed, seen in self._seen.items()}
        self._models = yield from self._trainer.told(works, ledgers)

    def _work(self, seen: Sequence[Task]) -> Work:
        together: Examples = joined([task.train for task in seen])
        prior = tuple(sorted({label for task in seen for label in task.prior}))
        return Work(together, prior, tuple(task.index for task in seen), len(seen) * self._known.task_size)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """By the one rule there is: the model's logits; nothing before the one release."""
        return {"argmax": self._models[seed].logits(task.test.inputs)} if seed in self._models else {}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The model of the last release; nothing before there is one."""
        return self._trainer.released(self._models[cell.seed], cell) if cell.seed in self._models else {}


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> NonCl:
    """The learner of a run's whole grid."""
    return NonCl(spec, cells, known)
