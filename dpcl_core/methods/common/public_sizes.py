"""Public sizes of a run's data, on which cards and learners base their checks and noise; empty lists of labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpcl_core.data import catalog
from dpcl_core.data.catalog import DatasetFacts
from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import Recurrence, RunSpec


def check_public_labels(spec: RunSpec, tasks: Iterable[tuple[str, Sequence[int]]], public: Sequence[int]) -> None:
    """Raises BadInput if a task has labels of its own and none of them is public.

    `tasks`: each task's name and its own labels.
    """
    for name, home in tasks:
        if home and not set(home) & set(public):
            raise refusal(spec, name)


def refusal(spec: RunSpec, task: str) -> BadInput:
    """The error for a task without a public label."""
    labels = ", ".join(spec.public_labels or ())
    return BadInput("public_labels", labels, f"must name a label of every task: {task} would have none")


def refuse_budgets(spec: RunSpec, why: str) -> None:
    """Raises BadInput with this reason for a finite budget: the method adds no noise."""
    for epsilon in spec.privacy.epsilons:
        if math.isfinite(epsilon):
            raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", f"must be inf: {why}", {"privacy.epsilons": (math.inf,)})


@dataclass(frozen=True, slots=True)
class PublicSizes:
    """Public sizes of a run's data: numbers of training examples, tasks and classes, and whether people recur.

    `n_people`: nominal number of training examples in all tasks. `recurrence`: whether one person can be in several tasks,
    as in `TaskStream`. `n_users`: clients that hold the examples if the unit of protection is a client, else None.
    `source_sizes`: nominal numbers of training examples by task name, if tasks are a dataset's sources.
    """

    n_people: int
    n_tasks: int
    n_classes: int
    recurrence: Recurrence = "once"
    n_users: int | None = None
    source_sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def task_size(self) -> float:
        """Nominal number of training examples of a task: all tasks are taken as equal, whatever their actual sizes.

        If one person can be in every task, each task is as large as the dataset.
        """
        return self.n_people / self.n_tasks if self.recurrence == "once" else float(self.n_people)

    @property
    def n_recurring(self) -> int:
        """The number of tasks that one person can be in."""
        return self.n_tasks if self.recurrence == "every" else 1

    def check_sampled(self, sample_rate: float) -> None:
        """Raises BadInput for a rate of Poisson sampling under which a batch has less than one example on average."""
        if sample_rate * self.task_size < 1:
            least = f"must be at least {1 / self.task_size:.3g}, one of the {self.task_size:.0f} examples"
            raise BadInput("params.sample_rate", sample_rate, f"{least} that a task has on average")


def run_sizes(spec: RunSpec, dataset: DatasetFacts, n_tasks: int) -> PublicSizes:
    """Public sizes of a run, before its data are read; `n_tasks` from the scenario's settings."""
    n_labels = len(spec.scenario.label_names(dataset.classes or tuple(map(str, range(dataset.n_classes)))))
    sizes = source_sizes(spec)
    return PublicSizes(dataset.n_train, n_tasks, n_labels, spec.scenario.recurrence, spec.scenario.n_users, sizes)


def of_spec(spec: RunSpec) -> PublicSizes:
    """Public sizes of a run from dataset cards and file headers.

    Raises BadInput for unknown data and for scenario settings that do not fit the data.
    """
    dataset = catalog.facts_of(spec.data)
    return run_sizes(spec, dataset, scenarios.number_of_tasks(spec.scenario, dataset.n_classes, dataset.sources))


def source_sizes(spec: RunSpec) -> Mapping[str, int]:
    """Nominal sizes of a run's tasks by name, if tasks are sources whose sizes a card gives; else empty."""
    if spec.scenario.kind != "source-incremental":
        return {}
    sizes = catalog.source_sizes(spec.data)
    return {name: sizes[name] for name in spec.scenario.sources_used(tuple(sizes))}
