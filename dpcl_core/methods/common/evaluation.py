"""How good a seed's models are on tasks: share of right answers, or micro-F1 of entities. Test data count as public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import tags
from dpcl_core.methods.common.learner import Learner
from dpcl_core.scenarios.stream import Examples, Task, TaskStream

# By rule: what each budget's model reached and what there was to reach, int64 [epsilons, 2]. Their sums over tasks give
# the score over all of them, for both metrics.
Marks = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Result:
    """Accuracy by task and over all test examples; None where nothing could be evaluated. `ahead`: on the next task."""

    by_task: tuple[float | None, ...]
    pooled: float | None
    by_rule: Mapping[str, tuple[float | None, ...]]
    ahead: float | None


def evaluated(learner: Learner, seed: int, stream: TaskStream, step: int, n_cells: int) -> list[Result]:
    """What the seed's models reach on the tasks seen so far, one result a budget; on the next too where a stream looks
    ahead."""
    marks = [_marks(learner, seed, stream, task) for task in stream.tasks[: step + 1]]
    rules = next((tuple(found) for found in marks if found), ())
    next_task = stream.tasks[step + 1 : step + 2] if stream.looks_ahead else ()
    ahead = [_marks(learner, seed, stream, task) for task in next_task]

    def by_task(rule: str, cell: int) -> tuple[float | None, ...]:
        return tuple(_score([found], rule, cell) for found in marks)

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
    """What models that have learned nothing reach on each task, one row a budget; None where there is no such model."""
    marks = [_marks(learner, seed, stream, task) for task in stream.tasks]
    rule = next((next(iter(found)) for found in marks if found), "")
    return [tuple(_score([found], rule, cell) for found in marks) for cell in range(n_cells)]


def _marks(learner: Learner, seed: int, stream: TaskStream, task: Task) -> Marks:
    scores = learner.scores(seed, task) if len(task.test) else {}
    if stream.metric == "entity-f1":
        return {rule: _entity_marks(found, task.test, stream.classes) for rule, found in scores.items()}
    return {rule: _right(found, task.test.labels) for rule, found in scores.items()}


def _score(marks: Sequence[Marks], rule: str, cell: int) -> float | None:
    """What was reached of what there was, over tasks that were evaluated; None where there was nothing."""
    reached, there_was = np.sum([found[rule][cell] for found in marks if found] or [[0, 0]], axis=0).tolist()
    return reached / there_was if there_was else None


def _right(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Right answers, and answers: none of a model that knows no label at all, as one whose learned list is empty.

    Wrong answers would be worse than a guess, and as many after every task: perfect memory of nothing.
    """
    knows = np.isfinite(scores).any(axis=2)
    right = ((scores.argmax(axis=2) == labels) & knows).sum(axis=1)
    return np.stack([right, len(labels) * knows.any(axis=1)], axis=1)


def _entity_marks(scores: NDArray[np.floating], test: Examples, classes: Sequence[str]) -> NDArray[np.int64]:
    """Twice the entities found, and those predicted plus those there, after decoding by the rules of BIO."""
    assert test.sentences is not None  # streams of tagged words say where sentences end
    told = [tags.decode(found, test.sentences, classes) for found in scores]
    return np.array([tags.f1_counts(one, test.labels, test.sentences, classes) for one in told], dtype=np.int64)
