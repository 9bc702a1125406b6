"""Learners whose head the server trains on released mixtures only: the head is post-processing of the releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.cards.federated_params import ServerParams
from dpcl_core.methods.federated.head import Head, trained
from dpcl_core.methods.federated.observations import ListsObserved
from dpcl_core.methods.federated.questions import Collect
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.methods.federated.replay import Replay, sampled
from dpcl_core.methods.federated.slot_assignment import TaskRows
from dpcl_core.methods.federated.task_rows import SeenLabels, features
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec


class ServerHeadLearner(ABC):
    """The budgets of one seed: they share the clients' lists, never the noise.

    One head per budget, retrained from the same initial weights after every task. `received`: what the server trains on.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("_seen", "_releases", "_weights")
    received: ClassVar[str]

    def __init__(
        self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, collect: Collect | None = None
    ) -> None:
        assert isinstance(spec.params, ServerParams)
        self._params, self._cells, self._seed = spec.params, tuple(cells), cells[0].seed
        self._seen = SeenLabels(spec, context)
        self._releases = ReleaseSchedule(spec, cells, context, collect=collect)
        self._head = Head(context.n_inputs, context.n_classes, spec.params.hidden)
        self._first = np.stack([self._head.initial(generator(self._seed, "head"))] * len(cells))
        self._weights = self._first

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress | ListsObserved]:
        task = tasks[self._seed]
        rows = self._seen.rows(task)
        yield Progress("training", 0, 2, task.index, f"lists of {task.name}")
        observed = self._receive(rows, task.index, ledgers)
        if self._releases.is_simulated:
            yield observed
        yield Progress("training", 1, 2, task.index, f"head from the {self.received} up to {task.name}")
        self._train(observed.parts, task.index)
        yield Progress("training", 2, 2, task.index, f"{task.name} learned")

    @abstractmethod
    def _receive(self, rows: TaskRows, index: int, ledgers: Mapping[Cell, Ledger]) -> ListsObserved:
        """Makes a task's releases for every budget; the ledgers record each before it exists."""

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The head's logits [epsilons, n, classes], the only prediction rule."""
        return {"argmax": self._seen.masked(self._head.logits(self._weights, features(task.test.inputs)), task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The weights [P] of the cell's `head`, trained on the releases of all tasks."""
        return {"head": self._weights[self._cells.index(cell)].copy()}

    def rule(self, cell: Cell) -> Rule:
        """The head's largest logit."""
        return self._seen.rule("federated-head", ("head",), n_hidden=self._params.hidden)

    def _train(self, parts: Sequence[Sequence[Replay]], index: int) -> None:
        """Trains every budget's head on its mixtures of the tasks so far, all tasks with equal weight."""
        n_labels = max(1, len({int(target.argmax()) for part in parts[0] for target in part.targets}))
        n, units = self._params.samples * n_labels, self._params.unit_length
        samples = [sampled(mixtures, n, self._random("replay", index), unit_length=units) for mixtures in parts]
        z, targets = (np.stack(arrays) for arrays in zip(*samples, strict=True))
        steps, size, rate = self._params.steps, self._params.batch_size, self._params.learning_rate
        self._weights = trained(self._head, self._first, z, targets, steps, size, rate, self._random("steps", index))

    def _random(self, purpose: str, index: int) -> np.random.Generator:
        return generator(self._seed, f"{purpose} after task {index}")
