"""A task's rows and labels for a federated method, and the labels that compete in its predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.events import Fact
from dpcl_core.methods.common import empty_label_space
from dpcl_core.methods.common.classifier import Arrays, Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.slot_assignment import TaskRows
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import RunSpec


def features(inputs: NDArray[np.generic]) -> NDArray[np.float32]:
    """Embeddings [n, d] scaled to unit length: this bounds their norm and leaves unit vectors unchanged."""
    return unit_rows(inputs).astype(np.float32)


def clients_per_task(context: PublicContext) -> int:
    """Public number of clients in a task: all, or an equal share of them where each belongs to one task only."""
    n_users = context.n_users or 0
    return n_users if context.recurrence == "every" else max(1, n_users // context.n_tasks)


def clients_of_this_task(chosen: NDArray[np.int64], rows: TaskRows, context: PublicContext) -> NDArray[np.int64]:
    """The round's clients that belong to the task: all of them, unless each client belongs to one task only.

    In that case a client's task is public, and each client holds rows of it. Clients of other tasks are left out: they would
    train on rehearsal alone, in rounds that the ledger does not charge to them, and would shrink the mean update.
    """
    if context.recurrence == "every":
        return chosen
    members: NDArray[np.int64] = chosen[np.isin(chosen, rows.users)]
    return members


class SeenLabels:
    """The labels of the tasks so far, all public. Under "prior-const" every public label competes from the start."""

    KEPT = ("_labels", "_n_learned", "_by_task")

    def __init__(self, spec: RunSpec, context: PublicContext) -> None:
        self._spec, self._context = spec, context
        self._labels: set[int] = set()
        self._n_learned = 0
        self._by_task: list[tuple[int, ...]] = []  # labels of each task, where a test example's task is given

    def rows(self, task: Task) -> TaskRows:
        """The task's private rows; its labels compete from now on.

        Raises BadInput for a task beyond the planned number, since the budget was divided among the planned tasks, and for a
        task without any public label.
        """
        n_tasks = self._context.n_tasks
        if task.index >= n_tasks:
            allowed = f"must be at most {n_tasks}: the budget was divided among {n_tasks} before the first; start a new run"
            raise BadInput("scenario.tasks", task.index + 1, allowed)
        space = self._space(task)
        if not space:
            raise empty_label_space.refusal(self._spec, task.name)
        self._labels |= set(space)
        self._n_learned = task.index + 1
        self._by_task += [space] if task.task_id is not None else []
        train = task.train.take(np.flatnonzero(in_label_space(task.train.labels, space)))
        assert train.users is not None, "a federated scenario assigns rows to clients"
        return TaskRows(features(train.inputs), train.labels, train.users, space, self._context.n_classes)

    def masked(self, logits: NDArray[np.floating], task: Task) -> NDArray[np.floating]:
        """Logits [..., C] with -inf for labels that do not compete.

        If a test example's task is given, that task's labels compete; otherwise the labels of all tasks so far. For a task
        not yet learned, all public labels compete: among its own labels alone even an untrained model could be right.
        """
        competing: tuple[int, ...] = tuple(sorted(self._labels))
        if task.task_id is not None:
            competing = self._space(task)
        elif task.index >= self._n_learned:
            competing = self._context.public
        masked = np.full_like(logits, -np.inf)
        masked[..., competing] = logits[..., competing]
        return masked

    def rule(
        self,
        name: str,
        arrays: tuple[str, ...],
        *,
        columns: Sequence[int] | None = None,
        public: Arrays | None = None,
        uses_all: bool = False,
        **facts: Fact,
    ) -> Rule:
        """A rule under which the labels of all tasks so far compete. `columns`: None for one row a class."""
        rows = range(self._context.n_classes) if columns is None else columns
        return Rule(name, arrays, rows, sorted(self._labels), self._by_task, facts, public or {}, uses_all)

    def _space(self, task: Task) -> tuple[int, ...]:
        task_labels = task.prior if task.task_id is not None else ()
        released = label_space(self._spec.labels, task.prior, self._context.public, task.train.labels, [], task=task.index)
        return tuple(label for label in released if not task_labels or label in task_labels)
