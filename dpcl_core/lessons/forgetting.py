"""Why models forget: a linear classifier learns the digits two at a time by gradient steps; a classifier of sums only adds.

Public digits, without noise unless it says so: what is shown here is forgetting, not privacy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.lessons import noise
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.sums import unit_rows

Way = Literal["plain", "own labels", "replay", "sums"]
DELTA = 1e-5
N_TASKS = 5
_STEPS, _RATE = 60, 20.0  # full-batch gradient steps a task, of a softmax on rows of length 1
_DRAWS = 10

Matrix = NDArray[np.float64]  # [tasks, tasks]: accuracy on task j after task i; nan for j > i


@lru_cache(maxsize=1)
def _tasks() -> tuple[tuple[Matrix, NDArray[np.int64], Matrix, NDArray[np.int64]], ...]:
    """Per task: unit rows and labels of its training digits, and of its test digits."""
    return tuple(
        (unit_rows(task.train.inputs).astype(np.float64), task.train.labels,
         unit_rows(task.test.inputs).astype(np.float64), task.test.labels)
        for task in noise.stream(N_TASKS).tasks
    )  # fmt: skip


def gradient(weights: Matrix, rows: Matrix, labels: NDArray[np.int64], listed: NDArray[np.bool_]) -> Matrix:
    """Gradient [classes, K] of the mean cross-entropy of softmax(rows weights^T) over the listed classes [classes] alone."""
    logits = np.where(listed, rows @ weights.T, -np.inf)
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    pulled: Matrix = chances.T @ rows / len(rows)
    return pulled


@lru_cache(maxsize=16)
def learned(way: Way, n_kept: int = 0) -> Matrix:
    """Accuracies while five tasks of two digits are learned.

    "plain": gradient steps on the task's pictures, all ten digits compete. "own labels": only the task's two digits compete
    in training. "replay": the first `n_kept` pictures of each earlier digit are mixed in, as heavy as the task's own digits.
    "sums": each digit's pictures are added up.
    """
    tasks = _tasks()
    n_classes, width = 10, tasks[0][0].shape[1]
    weights, found = np.zeros((n_classes, width)), np.full((len(tasks), len(tasks)), np.nan)
    for now, (rows, labels, _, _) in enumerate(tasks):
        if way == "sums":
            for label in np.unique(labels):
                total = rows[labels == label].sum(axis=0)
                weights[label] = total / np.linalg.norm(total)
        else:
            listed = np.isin(np.arange(n_classes), labels) if way == "own labels" else np.ones(n_classes, dtype=np.bool_)
            kept = [_first(*tasks[past][:2], n_kept) for past in range(now)] if way == "replay" and n_kept else []
            for _ in range(_STEPS):
                pull = gradient(weights, rows, labels, listed)
                for old_rows, old_labels in kept:
                    pull = pull + gradient(weights, old_rows, old_labels, listed)
                weights = weights - _RATE * pull / (1 + len(kept))
        for past in range(now + 1):
            found[now, past] = _accuracy(weights, *tasks[past][2:])
    return found


def forgotten(found: Matrix) -> float:
    """Mean over tasks but the last: the best accuracy it ever had, less that after the last task."""
    return float(np.mean([np.nanmax(found[:, task]) - found[-1, task] for task in range(len(found) - 1)]))


@lru_cache(maxsize=16)
def of_noise(epsilon: float) -> tuple[float, float]:
    """Mean accuracy after the last task and forgetting of the classifier of sums with Gaussian noise, teaching draws.

    Noise is added once to each digit's sum, in its own task: a public list of labels for each task.
    """
    std, random = gaussian.sigma(epsilon, DELTA), np.random.default_rng(7)
    finals, losses = [], []
    for _ in range(_DRAWS):
        weights, found = np.zeros((10, _tasks()[0][0].shape[1])), np.full((N_TASKS, N_TASKS), np.nan)
        for now, (rows, labels, _, _) in enumerate(_tasks()):
            for label in np.unique(labels):
                total = rows[labels == label].sum(axis=0) + std * random.standard_normal(rows.shape[1])
                weights[label] = total / np.linalg.norm(total)
            for past in range(now + 1):
                found[now, past] = _accuracy(weights, *_tasks()[past][2:])
        finals.append(found[-1].mean())
        losses.append(forgotten(found))
    return float(np.mean(finals)), float(np.mean(losses))


def _first(rows: Matrix, labels: NDArray[np.int64], n: int) -> tuple[Matrix, NDArray[np.int64]]:
    places = np.concatenate([np.flatnonzero(labels == label)[:n] for label in np.unique(labels)])
    return rows[places], labels[places]


def _accuracy(weights: Matrix, rows: Matrix, truth: NDArray[np.int64]) -> float:
    """Accuracy among the digits that have been learned; an untouched row of weights is none of them."""
    scores = np.where(np.any(weights != 0, axis=1), rows @ weights.T, -np.inf)
    return float((scores.argmax(axis=1) == truth).mean())
