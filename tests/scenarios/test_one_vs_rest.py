"""One class against the rest: whom a task asks, how its halves compare, and that every example is learned once."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import checks, engine
from dpcl_core.errors import BadInput
from dpcl_core.events import Classifier, TaskLearned, of_kind
from dpcl_core.scenarios import central
from dpcl_core.scenarios.catalog import OneVsRest
from dpcl_core.scenarios.stream import Examples, Table
from tests.scenarios.making import examples, table

N_CLASSES, N = 5, 2000
WHOLE = table([row % N_CLASSES for row in range(N)], [row % N_CLASSES for row in range(60)], N_CLASSES)
OWN = {"dataset": "digits", "backbone": "pixels", "train_per_class": 60, "test_per_class": 20}


def test_a_task_asks_for_its_class_and_is_tested_on_as_many_others() -> None:
    stream = central.open_stream(OneVsRest(tasks=3), WHOLE, 0)
    assert stream.classes == ("not c0", "c0", "not c1", "c1", "not c2", "c2")
    assert stream.recurrence == OneVsRest().recurrence == "once"
    for k, task in enumerate(stream.tasks):
        assert (task.name, task.prior, task.task_id) == (f"c{k}", (2 * k, 2 * k + 1), k)
        for split, first in ((task.train, 0), (task.test, 1000)):
            numbers = split.inputs[:, 0].astype(int) - first
            np.testing.assert_array_equal(split.labels, 2 * k + (numbers % N_CLASSES == k))
        assert (len(task.test), np.mean(task.test.labels == 2 * k)) == (24, 0.5)


def test_every_example_is_learned_once_and_both_halves_are_as_large() -> None:
    """Of 400 of a class 200 stay on average, and of the 1,600 others one in eight comes: 200. Six deviations are 85."""
    for seed in range(3):
        tasks = central.open_stream(OneVsRest(), WHOLE, seed).tasks
        assert sorted(np.concatenate([task.train.inputs[:, 0] for task in tasks]).tolist()) == list(range(N))
        halves = np.array([np.bincount((task.train.labels - 2 * task.index).astype(np.intp), minlength=2) for task in tasks])
        assert (np.abs(halves - 200) < 85).all()
        rest = tasks[0].train.inputs[tasks[0].train.labels == 0, 0].astype(int) % N_CLASSES
        rest = np.bincount(rest.astype(np.intp), minlength=N_CLASSES)[1:]
        assert (np.abs(rest - 50) < 42).all()  # six deviations of 50 of 400


def test_an_undeclared_label_is_of_the_rest_whatever_its_number() -> None:
    numbers = np.arange(N)
    found = []
    for shift in (0, 3):  # another undeclared label would shift its number
        labels = np.where(numbers % 2, numbers % N_CLASSES, N_CLASSES + shift)
        train = Examples(numbers[:, None].astype(np.float32), labels)
        tasks = central.open_stream(OneVsRest(), replace(WHOLE, train=train, undeclared=("a", "b", "c", "d")), 1).tasks
        found.append([(task.train.inputs[:, 0].tolist(), task.train.labels.tolist()) for task in tasks])
        strays = [task.train.labels[task.train.inputs[:, 0] % 2 == 0] - 2 * task.index for task in tasks]
        assert all(len(of_task) > 50 and not of_task.any() for of_task in strays)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("chosen", "n_classes", "what"),
    [(OneVsRest(tasks=6), 5, "scenario.tasks = 6: must be at most 5"), (OneVsRest(), 1, "two classes or more")],
)
def test_what_does_not_fit_is_refused_in_a_sentence(chosen: OneVsRest, n_classes: int, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        central.open_stream(chosen, Table(examples([0]), examples([0]), tuple("abcde"[:n_classes])), 0)


@pytest.mark.parametrize("labels", ["prior", "prior-const", "data", "dp-learned"])
def test_only_the_two_answers_of_the_task_compete(labels: str) -> None:
    """Among the answers of all tasks an example of one class is of the rest of another one just as well."""
    asked = checks.parse({
        "method": "cosine", "labels": labels, "data": OWN, "seeds": [0],
        "scenario": {"kind": "one-vs-rest", "tasks": 3}, "privacy": {"epsilons": [math.inf], "delta": 1e-4},
    })  # fmt: skip
    events = list(engine.run(asked))
    *_, last = of_kind(events, TaskLearned)
    assert min(value for value in last.accuracy if value is not None) > 0.7
    *_, kept = of_kind(events, Classifier)
    assert kept.by_task == (("not 0", "0"), ("not 1", "1"), ("not 2", "2"))
