"""Noisy class means, the baseline of the list methods: one release per task, keyed by label, and no training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.layers import ADDED
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import Collect, Question, Replay, SeenLabels, features
from dpcl_core.methods.federated.lists import Floats, Ints, Reals
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


@dataclass(frozen=True, kw_only=True)
class LabelMeansParams(federated.ReleaseParams):
    """The statistics released of every class; nothing is trained."""


CARD = federated.card(
    name="label-means", title="Noisy class means",
    summary="Each client sends the clipped mean of each of its classes once per task, and the sum gets noise. A text gets "
    "the class with the nearest mean. No lists, no matching, no training: the baseline that a method with lists must "
    "beat.",
    source="Nearest class mean, released once a task under user-level privacy",
    params=LabelMeansParams, matters=("dimensions", "radius", "slots"), module=__name__,
    planned="dpcl_core.methods.federated.release_schedule:releases", shares="epsilons",
    derived=lambda params, facts: f"{facts.n_tasks} releases in all, of every client each; nothing is trained.",
    needs_anchors=True, asks_clients=True, printed=ADDED,
    table_names=lambda spec: ("Added: class means", federated.axes(spec)),
)

_FAR = -1e6  # score of labels without a release so far: below all others, and tied


class LabelMeans:
    """The budgets of one seed. Keeps only released means."""

    KEPT = ("_seen", "_releases")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, collect: Collect | None = None) -> None:
        self._cells, self._seed, self._n_classes = tuple(cells), cells[0].seed, context.n_classes
        self._seen = SeenLabels(spec, context)
        self._releases = ReleaseSchedule(spec, cells, context, collect=collect)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task = tasks[self._seed]
        self._releases.of_task(self._seen.rows(task), task.index, ledgers)
        yield Progress("training", 1, 1, task.index, f"class means of {task.name}")

    def answers(self, task: Task, question: Question, clients: Ints) -> Reals:
        """The clients' class means, as vectors of the task's release."""
        return self._releases.answers(self._seen.rows(task), question)[clients]

    def scores(self, seed: int, task: Task) -> Mapping[str, Reals]:
        """Nearness of each class's mean [epsilons, n, classes], the only prediction rule."""
        z = self._releases.public.view.residuals(features(task.test.inputs))
        scores = np.stack([self._nearness(z, parts) for parts in self._releases.parts])
        return {"nearest": self._seen.masked(scores, task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The noisy sums of the last task, and the `means` [labels, d] decoded from them."""
        parts = self._parts(cell)
        return {**self._releases.released(cell), **({"means": parts[-1].means} if parts else {})}

    def rule(self, cell: Cell) -> Rule | None:
        """The nearest mean of any task along the public axes; None before the first release."""
        view, parts = self._releases.public.view, self._parts(cell)
        if not parts:
            return None
        columns, public = parts[-1].targets.argmax(axis=1).tolist(), {"centre": view.centre, "axes": view.axes}
        return self._seen.rule("nearest-mean", ("means",), columns=columns, public=public, uses_all=True)

    def _parts(self, cell: Cell) -> Sequence[Replay]:
        """The cell's mixtures so far, one a task."""
        return self._releases.parts[self._cells.index(cell)]

    def _nearness(self, z: Floats, parts: Sequence[Replay]) -> Floats:
        """Minus half the squared distance [n, C] of residuals [n, d'] to a label's mean, the nearest of all tasks'."""
        nearness = np.full((len(z), self._n_classes), _FAR)
        for part in parts:
            means = self._releases.public.view.residuals(part.means)
            for mean, label in zip(means, part.targets.argmax(axis=1), strict=True):
                nearness[:, label] = np.maximum(nearness[:, label], -((z - mean) ** 2).sum(axis=1) / 2)
        return nearness


make_learner = LabelMeans
