"""What every method of clients does with a task: its rows, its labels, and which labels compete when it is tested."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.common import empty_label_space
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated.slot_assignment import TaskRows
from dpcl_core.privacy.labels import kept, label_space
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import RunSpec


def features(inputs: NDArray[np.generic]) -> NDArray[np.float32]:
    """Embeddings [n, d] at unit length: what clips them at radius 1, and does nothing to those that are that long."""
    return unit_rows(inputs).astype(np.float32)


def clients_of_a_task(known: PublicContext) -> int:
    """A public number: all clients, or an equal share of them where each belongs to one task alone."""
    n_users = known.n_users or 0
    return n_users if known.recurrence == "every" else max(1, n_users // known.n_tasks)


def of_this_task(chosen: NDArray[np.int64], rows: TaskRows, known: PublicContext) -> NDArray[np.int64]:
    """Those of a round's clients whom the task is about: all, or where each belongs to one task alone, its own.

    Which task a client belongs to is public then, and each holds rows of it. The others would send what rehearsal alone
    makes of a model, in rounds that the ledger does not charge to them, and make a mean of updates that much smaller.
    """
    if known.recurrence == "every":
        return chosen
    found: NDArray[np.int64] = chosen[np.isin(chosen, rows.users)]
    return found


class SeenLabels:
    """The labels of the tasks so far, all public. Under "prior-const" every public label competes from the start."""

    def __init__(self, spec: RunSpec, known: PublicContext) -> None:
        self._spec, self._known = spec, known
        self._labels: set[int] = set()
        self._n_learned = 0

    def rows(self, task: Task) -> TaskRows:
        """The task's private rows; its labels compete from now on.

        Raises BadInput for a task more than was planned: noise was shared out among the planned ones before the first; and
        for a task without any public label.
        """
        n_tasks = self._known.n_tasks
        if task.index >= n_tasks:
            allowed = f"must be at most {n_tasks}: the budget was shared out among as many before the first; start a new run"
            raise BadInput("scenario.tasks", task.index + 1, allowed)
        space = self._space(task)
        if not space:
            raise empty_label_space.refusal(self._spec, task.name)
        self._labels |= set(space)
        self._n_learned = task.index + 1
        train = task.train.take(np.flatnonzero(kept(task.train.labels, space)))
        assert train.users is not None, "the scenario says who holds what"
        return TaskRows(features(train.inputs), train.labels, train.users, space, self._known.n_classes)

    def masked(self, logits: NDArray[np.floating], task: Task) -> NDArray[np.floating]:
        """Logits [..., C] with -inf where a label does not compete.

        Of a task whose name is told at test time its own labels compete. Else those of all tasks so far do, and of a task
        that is still to come all public ones: with its own alone a model that knows nothing would be right.
        """
        competing: tuple[int, ...] = tuple(sorted(self._labels))
        if task.task_id is not None:
            competing = self._space(task)
        elif task.index >= self._n_learned:
            competing = self._known.public
        found = np.full_like(logits, -np.inf)
        found[..., competing] = logits[..., competing]
        return found

    def _space(self, task: Task) -> tuple[int, ...]:
        own = task.prior if task.task_id is not None else ()
        given = label_space(self._spec.labels, task.prior, self._known.public, task.train.labels, [], task=task.index)
        return tuple(label for label in given if not own or label in own)
