"""Tasks and the stream they arrive in: the common ground of every scenario and every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Inputs [n, ...] (features float32, or rows of an image table), labels int64 [n], users int64 [n] where a unit is a person."""

    inputs: NDArray[np.generic]
    labels: NDArray[np.int64]
    users: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.int64]) -> Examples:
        """The examples of these rows, in this order."""
        return Examples(self.inputs[rows], self.labels[rows], None if self.users is None else self.users[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One task of a stream. Everything but `train` (and `test`, a public benchmark) is public.

    `prior` is the public label set of the task under task-wise priors (ascending class indices); `source` says which member
    set or domain it comes from; `task_id` is given only where the scenario tells the model at test time.
    """

    index: int
    name: str
    train: Examples
    test: Examples
    prior: tuple[int, ...]
    task_id: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TaskStream:
    """The tasks of one seed, in order, with what is public about all of them.

    `recurrence` says whether a privacy unit can occur in more than one task: "once" (tasks share no unit, so their budgets
    compose in parallel) or "every" (a unit may be in each task: sequential composition). It is a property of the scenario,
    decided before any data is seen, never counted from the data.
    """

    tasks: tuple[Task, ...]
    classes: tuple[str, ...]
    recurrence: Literal["once", "every"]
    unit: Literal["example", "user"] = "example"
