"""Chance: what a stream's test part gives to answers that ignore the example. From public facts alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import tags
from dpcl_core.scenarios.stream import Task, TaskStream


def chance(streams: Sequence[TaskStream], answers: Sequence[int], *, is_task_given: bool = False) -> float:
    """The score in [0, 1] of the best single answer to every test example: mean over tasks, then over streams (seeds).

    `answers`: the labels that may be given, ascending. The best answer is the most frequent label of the public test part,
    each task counting the same; where an example comes with its task, the most frequent one there. With equally frequent
    labels that is one over their number, as a random guess gives; else it is more, and nothing that ignores the example can
    expect more. Entity F1: every word gets the same tag, the best of O and the B- tags (no name begins with I-).

    A task without test examples does not count; 0 if no task has any. Nothing here reads a training example.
    """
    return float(np.mean([_of_stream(stream, answers, is_task_given) for stream in streams]))


def n_tested(streams: Sequence[TaskStream]) -> float | None:
    """The number of equally weighted test examples behind the mean over tasks and streams; None for entity F1.

    It is 1 / w for the largest weight w of a row of the test part: a row counts 1 / n in each of its tasks (of n examples),
    and tasks and streams count the same. Rows that several tasks or seeds share are one example: they are not independent.
    """
    if any(stream.metric == "entity-f1" for stream in streams):
        return None
    weights = np.zeros(max(len(task.test.table) for stream in streams for task in stream.tasks))
    for stream in streams:
        tested = _tested(stream)
        for task in tested:
            weights[_rows(task)] += 1 / (len(streams) * len(tested) * len(task.test))
    return float(1 / weights.max()) if weights.any() else None


def _of_stream(stream: TaskStream, answers: Sequence[int], is_task_given: bool) -> float:
    tested = _tested(stream)
    if not tested or not len(answers):
        return 0.0
    by_task = np.stack([_of_task(task, stream, answers) for task in tested])
    if is_task_given or any(task.task_id is not None for task in tested):
        return float(by_task.max(axis=1).mean())
    return float(by_task.mean(axis=0).max())


def _of_task(task: Task, stream: TaskStream, answers: Sequence[int]) -> NDArray[np.float64]:
    """The score on the task's test part of giving each of the answers to all of it."""
    if stream.metric == "entity-f1":
        return np.array([_f1_of(task, stream, label) for label in answers])
    counts = np.bincount(task.test.labels, minlength=len(stream.classes))
    shares: NDArray[np.float64] = counts[list(answers)] / len(task.test)
    return shares


def _f1_of(task: Task, stream: TaskStream, label: int) -> float:
    if stream.classes[label].startswith(tags.INSIDE):
        return 0.0
    assert task.test.sentences is not None  # streams of tagged words have sentence boundaries
    same = np.full(len(task.test), label, dtype=np.int64)
    reached, possible = tags.f1_counts(same, task.test.labels, task.test.sentences, stream.classes)
    return reached / possible if possible else 0.0


def _tested(stream: TaskStream) -> list[Task]:
    return [task for task in stream.tasks if len(task.test)]


def _rows(task: Task) -> NDArray[np.int64]:
    """The rows of the shared table, each of them once."""
    rows = np.arange(len(task.test)) if task.test.rows is None else task.test.rows
    return np.unique(rows)
