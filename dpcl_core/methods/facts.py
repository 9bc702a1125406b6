"""Public numbers of what a run will learn on: what cards and learners judge settings by."""

from __future__ import annotations

from dataclasses import dataclass

from dpcl_core.data.catalog import DatasetFacts
from dpcl_core.spec import Recurrence, RunSpec


@dataclass(frozen=True, slots=True)
class Facts:
    """Public numbers of what a run will learn on: training examples, tasks, classes, and whether examples come again.

    `n_users`: clients that hold the examples, where what is protected is a client; None else.
    """

    n_people: int
    n_tasks: int
    n_classes: int
    recurrence: Recurrence = "once"
    n_users: int | None = None

    @property
    def task_size(self) -> float:
        """Nominal number of training examples of a task: tasks count as equal, whatever a stream really deals out.

        Where one person can be in every task, each is as large as the dataset.
        """
        return self.n_people / self.n_tasks if self.recurrence == "once" else float(self.n_people)


def of_run(spec: RunSpec, found: DatasetFacts, n_tasks: int) -> Facts:
    """What is public about a run before its data are read; `n_tasks` as the scenario's settings give it."""
    classes = found.classes or tuple(map(str, range(found.n_classes)))
    n_labels = len(spec.scenario.label_names(classes))
    return Facts(found.n_train, n_tasks, n_labels, spec.scenario.recurrence, spec.scenario.n_users)
