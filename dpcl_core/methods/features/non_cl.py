"""Non-CL baseline (Tobaben et al., Algorithm A3): keeps all data seen so far and trains a fresh model on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.common.state import Records
from dpcl_core.methods.features.cards.non_cl import NonClParams
from dpcl_core.methods.features.trainer import Model, Trainer, Work, planned_on
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Examples, Task, joined
from dpcl_core.spec import Cell, RunSpec


class NonCl:
    """Keeps the examples of all tasks, so it is no continual learner.

    If a model is released after every task, the first task's examples are used in every release, and the ledger composes
    these. If one is released after the last task only, they are used once.
    """

    KEPT = ("_models",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        assert isinstance(spec.params, NonClParams)
        self._once, self._context = spec.params.release == "once", context
        self._trainer = Trainer(spec, cells, context)
        self._seen: dict[int, list[Task]] = {seed: [] for seed in self._trainer.seeds}
        self._models: dict[int, Model] = {}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for seed, task in tasks.items():
            self._seen[seed].append(task)
        n_seen = max(map(len, self._seen.values()))
        if self._once and n_seen < self._context.n_tasks:
            return
        works = {seed: self._work(seen) for seed, seen in self._seen.items()}
        self._models = yield from self._trainer.train_with_progress(works, ledgers)

    @property
    def kept_records(self) -> Records:
        """The classes of its models."""
        return self._trainer.kept_records

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Keeps the tasks so far again; lays the networks under the adapters."""
        self._seen = {seed: [tasks[seed] for tasks in learned] for seed in self._seen}
        self._models = {seed: self._trainer.completed(model) for seed, model in self._models.items()}

    def _work(self, seen: Sequence[Task]) -> Work:
        examples: Examples = joined([task.train for task in seen])
        prior = tuple(sorted({label for task in seen for label in task.prior}))
        return Work(examples, prior, tuple(task.index for task in seen), len(seen) * self._context.task_size)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The model's logits, the method's only rule; nothing before the first release."""
        return {"argmax": self._models[seed].logits(task.test.inputs)} if seed in self._models else {}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last released model; nothing before the first release."""
        return self._trainer.released(self._models[cell.seed], cell) if cell.seed in self._models else {}

    def rule(self, cell: Cell) -> Rule | None:
        """The largest logit; None before the first release."""
        return self._trainer.rule([self._models[cell.seed]], cell) if cell.seed in self._models else None


make_learner = NonCl


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.planned`): a training on all tasks so far after each, or one after the last."""
    assert isinstance(spec.params, NonClParams)
    so_far = [tuple(range(n)) for n in range(1, facts.n_tasks + 1)]
    planned_on(so_far[-1:] if spec.params.release == "once" else so_far, spec, facts, epsilon, ledger)
