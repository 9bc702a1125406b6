"""The digits in T tasks under one public list and under a list per task, released and learned for real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpcl_core import engine
from dpcl_core.backbones import pixels
from dpcl_core.data import load
from dpcl_core.events import Guarantee
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.runs import frames
from dpcl_core.scenarios import class_incremental
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.stream import Examples, Table, TaskStream
from dpcl_core.spec import Adjacency, DataSpec, LabelSetting, PrivacySpec, RunSpec

DELTA = 1e-5
N_TASKS = 10  # one digit a task
CUTS = (1, 2, 5, 10)  # into how many tasks the ten digits can be dealt
SEEDS = tuple(range(10))
PUBLIC: tuple[LabelSetting, LabelSetting] = ("prior-const", "prior")
_ADJACENCY: Adjacency = "add-remove"


def n_people() -> int:
    """The number of pictures that the classifiers learn from."""
    return len(load.load(DataSpec(dataset="digits")).train)


def stream(n_tasks: int = N_TASKS, seed: int = 0) -> TaskStream:
    """The bundled digits, split into tasks."""
    dataset = load.load(DataSpec(dataset="digits"))
    train, test = (Examples(pixels.rows(split.images), split.labels) for split in (dataset.train, dataset.test))
    return class_incremental.open_stream(ClassIncremental(tasks=n_tasks), Table(train, test, dataset.classes), seed)


@cache
def unit_digits() -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Unit rows [n, K] and labels [n] of the bundled training digits, and of the test digits."""
    task = stream(1).tasks[0]
    train, test = (unit_rows(part.inputs).astype(np.float64) for part in (task.train, task.test))
    return train, task.train.labels, test, task.test.labels


def first_class(tasks: TaskStream) -> int:
    """The observed class: the first of the stream."""
    return tasks.tasks[0].prior[0]


def sums_over_tasks(tasks: TaskStream, setting: LabelSetting, epsilon: float, n: int) -> NDArray[np.float64]:
    """Released sums [tasks, n, K] of the first class in n independent classifiers, after every task.

    The loop of the cosine classifier (Algorithm 1) with one class looked at; epsilon = inf gives the sum without noise,
    which only public teaching data may show.
    """
    watched, n_classes = first_class(tasks), len(tasks.classes)
    ledgers = [Ledger(DELTA, _ADJACENCY, tasks.recurrence) for _ in range(n)]
    noises = [ReleaseNoise() for _ in range(n)]
    stds = [class_sums_std(epsilon, DELTA, _ADJACENCY)] * n
    held = np.zeros((n, tasks.tasks[0].train.inputs.shape[1]))
    after = []
    for task in tasks.tasks:
        labels = task.train.labels
        space = label_space(setting, task.prior, range(n_classes), labels, ledgers, task=task.index)
        train = task.train.take(np.flatnonzero(in_label_space(labels, space)))
        released = noisy_class_sums(train.inputs, train.labels, space, n_classes, stds, noises, ledgers, task=task.index)
        held = held + released[:, watched]
        after.append(held)
    return np.stack(after)


def measured_std(tasks: TaskStream, setting: LabelSetting, epsilon: float, n: int) -> NDArray[np.float64]:
    """Standard deviation [tasks] of the noise in n released sums: distance to the sum without noise, over all numbers.

    Each of the n K numbers has its own draw, so the relative standard error is 1 / sqrt(2 n K).
    """
    clean = sums_over_tasks(tasks, setting, np.inf, 1)
    spread: NDArray[np.float64] = np.sqrt(((sums_over_tasks(tasks, setting, epsilon, n) - clean) ** 2).mean(axis=(1, 2)))
    return spread


def learned(
    setting: LabelSetting, n_tasks: int, epsilons: Sequence[float], seeds: Sequence[int] = SEEDS
) -> tuple[pd.DataFrame, Mapping[float, Guarantee]]:
    """Real runs of the cosine classifier with fresh noise: accuracies as `runs.frames.accuracy`, and their guarantees."""
    spec = RunSpec(
        method="cosine",
        data=DataSpec(dataset="digits"),
        scenario=ClassIncremental(tasks=n_tasks),
        labels=setting,
        privacy=PrivacySpec(epsilons=tuple(epsilons), delta=DELTA, noise="release"),
        seeds=tuple(seeds),
    )
    run_events = list(engine.run(spec))
    return frames.accuracy(run_events), frames.guarantees(run_events)


def final_accuracies(accuracy: pd.DataFrame) -> dict[float, list[float]]:
    """By epsilon: mean accuracy over the tasks after the last one, one number a seed. Columns as `learned` gives them."""
    last = accuracy[accuracy["after_task"] == accuracy["after_task"].max()]
    means = last.groupby(["epsilon", "seed"])["accuracy"].mean()
    return {float(epsilon): [float(v) for v in rows] for epsilon, rows in means.groupby(level="epsilon")}
