"""Noisy class means, the baseline of the list methods: one release per task, keyed by label, and no training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcl_core.events import Progress
from dpcl_core.methods.common import stream_noise
from dpcl_core.methods.common.classifier import Arrays, Rule
from dpcl_core.methods.common.method import PublicContext, PublicSizes
from dpcl_core.methods.common.stream_noise import PredictionParams, RememberedParams
from dpcl_core.methods.federated import params as federated
from dpcl_core.methods.federated.client_release import Collect, Question, Replay, SeenLabels, features
from dpcl_core.methods.federated.lists import Floats, Ints, Reals
from dpcl_core.methods.federated.release_schedule import ReleaseSchedule
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.published import ADDED
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


@dataclass(frozen=True, kw_only=True)
class LabelMeansParams(PredictionParams, RememberedParams, federated.ReleaseParams):
    """The statistics released of every class; nothing is trained."""


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where clients and axes do not fit the data, or where noise cannot be remembered."""
    federated.check_federated(spec, facts)
    stream_noise.check_remembered(spec, facts)


def _derived(params: LabelMeansParams, facts: PublicSizes) -> str:
    said = f"{facts.n_tasks} releases in all, of every client each; nothing is trained."
    return f"{said} {stream_noise.derived(params, facts)}".rstrip()


CARD = federated.card(
    name="label-means", title="Noisy class means",
    summary="Each client sends the clipped mean of each of its classes once per task, and the sum gets noise. A text gets "
    "the class with the nearest mean. No lists, no matching, no training: the baseline that a method with lists must "
    "beat.",
    source="Nearest class mean, released once a task under user-level privacy",
    params=LabelMeansParams, key_settings=("dimensions", "radius", "slots"), module=__name__,
    planned="dpcl_core.methods.federated.release_schedule:releases", cells_per_learner="epsilons",
    refuses=check, derived=_derived,
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
        self._remembers = stream_noise.remembers(spec)
        self._has_shrunk = stream_noise.has_shrunk(spec, context.n_tasks)
        self._is_shrunk = stream_noise.predicts_shrunk(spec, context.n_tasks)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        task = tasks[self._seed]
        self._releases.of_task(self._seen.rows(task), task.index, ledgers)
        yield Progress("training", 1, 1, task.index, f"class means of {task.name}")

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """With remembered noise adds the clean sums of earlier tasks again: they are in no checkpoint."""
        for tasks in learned if self._remembers else ():
            task = tasks[self._seed]
            self._releases.recall(self._seen.rows(task), task.index)

    def answers(self, task: Task, question: Question, clients: Ints) -> Reals:
        """The clients' class means, as vectors of the task's release."""
        return self._releases.answers(self._seen.rows(task), question)[clients]

    def longest(self, task: Task) -> float:
        """The length to which a client's vector of this task is clipped: the sensitivity of the task's sum."""
        return self._releases.layout(len(self._seen.rows(task).space)).sensitivity

    def scores(self, seed: int, task: Task) -> Mapping[str, Reals]:
        """Nearness of each class's mean [epsilons, n, classes] by rule, the run's own first.

        Where one list stands for several tasks: of the nearest mean of any task, or of the running sums' where noise is
        remembered; and of the mean of all tasks' releases, shrunk.
        """
        z, places = self._releases.public.view.residuals(features(task.test.inputs)), range(len(self._cells))
        found = {"nearest": np.stack([self._nearness(z, self._parts(place)) for place in places])}
        if self._has_shrunk:
            found["shrunk"] = np.stack([self._nearness(z, self._shrunk(place) or self._parts(place)) for place in places])
        return {rule: self._seen.masked(found[rule], task) for rule in sorted(found, reverse=self._is_shrunk)}

    def released(self, cell: Cell) -> Arrays:
        """The noisy sums of the last task, or of all with remembered noise, and the `means` [labels, d] decoded from them.

        `shrunk` [labels, d]: the means of all tasks' releases, shrunk, of the labels that anything is left of.
        """
        place = self._cells.index(cell)
        parts, left = self._parts(place), self._shrunk(place) if self._has_shrunk else ()
        means = {"means": parts[-1].means} if parts else {}
        return {**self._releases.released(cell), **means, **({"shrunk": left[0].means} if left else {})}

    def rule(self, cell: Cell) -> Rule | None:
        """The nearest mean of any task along the public axes, or of the mixture of all; None before the first release."""
        view, place = self._releases.public.view, self._cells.index(cell)
        parts, left = self._parts(place), self._shrunk(place) if self._is_shrunk else ()
        if not parts:
            return None
        columns, public = (left or parts)[-1].targets.argmax(axis=1).tolist(), {"centre": view.centre, "axes": view.axes}
        array, uses_all = "shrunk" if left else "means", not left and not self._remembers
        return self._seen.rule("nearest-mean", (array,), columns=columns, public=public, uses_all=uses_all)

    def _parts(self, place: int) -> Sequence[Replay]:
        """A budget's mixtures so far, one a task; with remembered noise the last, which is of all tasks."""
        parts = self._releases.parts[place]
        return parts[-1:] if self._remembers else parts

    def _shrunk(self, place: int) -> tuple[Replay, ...]:
        """One mixture of all of a budget's releases so far, shrunk; none where nothing would be left.

        A label's blocks are averaged over the tasks in which anything is left of them.
        """
        parts = self._releases.parts[place]
        blocks = self._releases.shrunk(place)
        if not any(one.any() for one in blocks):
            return ()
        totals = np.zeros((self._n_classes, blocks[0].shape[1]))
        counts = np.zeros(self._n_classes)
        for part, of_task in zip(parts, blocks, strict=True):
            labels = part.targets.argmax(axis=1)
            totals[labels] += of_task
            counts[labels] += of_task.any(axis=1)
        # Decoded in the layout of a release, which has all labels of the list; a label without a block has no mean.
        space = parts[-1].targets.argmax(axis=1)
        averages = totals[space] / np.maximum(counts[space], 1)[:, None]
        decoded, kept = self._releases.decoded(averages, parts[-1].targets, place), counts[space] > 0
        return (replace(decoded, weights=decoded.weights[kept], means=decoded.means[kept], targets=decoded.targets[kept]),)

    def _nearness(self, z: Floats, parts: Sequence[Replay]) -> Floats:
        """Minus half the squared distance [n, C] of residuals [n, d'] to a label's mean, the nearest of all tasks'."""
        nearness = np.full((len(z), self._n_classes), _FAR)
        for part in parts:
            means = self._releases.public.view.residuals(part.means)
            for mean, label in zip(means, part.targets.argmax(axis=1), strict=True):
                nearness[:, label] = np.maximum(nearness[:, label], -((z - mean) ** 2).sum(axis=1) / 2)
        return nearness


make_learner = LabelMeans
