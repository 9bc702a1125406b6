"""Test scores of a seed's models on tasks: accuracy, or micro-F1 of entities. Test data count as public."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import tags
from dpcl_core.methods.common.learner import Learner
from dpcl_core.metrics import mean
from dpcl_core.scenarios.stream import Examples, Task, TaskStream

# By rule: points reached and points possible for each budget's model, int64 [epsilons, 2]. For both metrics, their sums over
# tasks give the score over all of them.
Marks = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Result:
    """Accuracy by task and over all test examples; None if there was nothing to evaluate. `ahead`: on the next task."""

    by_task: tuple[float | None, ...]
    pooled: float | None
    by_rule: Mapping[str, tuple[float | None, ...]]
    ahead: float | None


def evaluated(learner: Learner, seed: int, stream: TaskStream, step: int, n_cells: int) -> list[Result]:
    """Results of the seed's models on the tasks seen so far, one per budget; also on the next if the stream looks ahead."""
    marks = [_marks(learner, seed, stream, task) for task in stream.tasks[: step + 1]]
    rules = next((tuple(of_task) for of_task in marks if of_task), ())
    next_task = stream.tasks[step + 1 : step + 2] if stream.looks_ahead else ()
    ahead = [_marks(learner, seed, stream, task) for task in next_task]

    def by_task(rule: str, cell: int) -> tuple[float | None, ...]:
        return tuple(_score([of_task], rule, cell) for of_task in marks)

    return [
        Result(
            by_task=by_task(rules[0], cell) if rules else (None,) * len(marks),
            pooled=_score(marks, rules[0], cell) if rules else None,
            by_rule={rule: by_task(rule, cell) for rule in rules} if len(rules) > 1 else {},
            ahead=_score(ahead, rules[0], cell) if rules else None,
        )
        for cell in range(n_cells)
    ]


def untrained(learner: Learner, seed: int, stream: TaskStream, n_cells: int) -> list[tuple[float | None, ...]]:
    """Scores of the untrained models on each task, one row per budget; None if the method has no untrained model."""
    marks = [_marks(learner, seed, stream, task) for task in stream.tasks]
    rule = next((next(iter(of_task)) for of_task in marks if of_task), "")
    return [tuple(_score([of_task], rule, cell) for of_task in marks) for cell in range(n_cells)]


def zero_shot(streams: Sequence[TaskStream], scores: Callable[[Task], NDArray[np.floating]]) -> float | None:
    """Accuracy of a model that has seen no training example: mean over tasks, then over streams; None without a test.

    A model that names no label is wrong. `scores`: gives [n, classes] for `task.test`, asked once for what seeds share.
    """
    known: dict[tuple[str, tuple[int, ...], bytes], float] = {}
    means = []
    for stream in streams:
        found = []
        for task in (task for task in stream.tasks if len(task.test)):
            key = task.name, task.prior, b"" if task.test.rows is None else task.test.rows.tobytes()
            if key not in known:
                known[key] = _score([{"": _right(scores(task)[None], task.test.labels)}], "", 0) or 0.0
            found.append(known[key])
        means.append(mean(found))
    return mean(means)


def _marks(learner: Learner, seed: int, stream: TaskStream, task: Task) -> Marks:
    scores = learner.scores(seed, task) if len(task.test) else {}
    if stream.metric == "entity-f1":
        return {rule: _entity_marks(of_rule, task.test, stream.classes) for rule, of_rule in scores.items()}
    return {rule: _right(of_rule, task.test.labels) for rule, of_rule in scores.items()}


def _score(marks: Sequence[Marks], rule: str, cell: int) -> float | None:
    """Points reached over points possible, summed over the evaluated tasks; None if there were none."""
    reached, possible = np.sum([of_task[rule][cell] for of_task in marks if of_task] or [[0, 0]], axis=0).tolist()
    return reached / possible if possible else None


def _right(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Right answers and number of answers [epsilons, 2]; a model without any label, such as an empty learned list, has none.

    Counting them as wrong would score below a guess, and equally after every task, which would look like perfect memory.
    """
    has_labels = np.isfinite(scores).any(axis=2)
    right = ((scores.argmax(axis=2) == labels) & has_labels).sum(axis=1)
    return np.stack([right, len(labels) * has_labels.any(axis=1)], axis=1)


def _entity_marks(scores: NDArray[np.floating], test: Examples, classes: Sequence[str]) -> NDArray[np.int64]:
    """Twice the true positives, and predicted plus actual entities [epsilons, 2], after decoding by the rules of BIO."""
    assert test.sentences is not None  # streams of tagged words have sentence boundaries
    decoded = [tags.decode(of_budget, test.sentences, classes) for of_budget in scores]
    return np.array([tags.f1_counts(one, test.labels, test.sentences, classes) for one in decoded], dtype=np.int64)
