"""Class-incremental: the classes are dealt out evenly, in an order of the seed's own, through a map that no record moves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core.errors import BadInput
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.catalog import ClassIncremental
from dpcl_core.scenarios.central import open_stream
from tests.scenarios.making import examples, records, table

LABELS = st.lists(st.integers(0, 9), max_size=40)


def settings(tasks: int, classes_per_task: int | None = None) -> ClassIncremental:
    return ClassIncremental(tasks=tasks, classes_per_task=classes_per_task)


def order(seed: int, n_classes: int = 10) -> tuple[int, ...]:
    """The order of classes: with as many tasks as classes, each task has one."""
    stream = open_stream(settings(n_classes), table([], [], n_classes), seed)
    return tuple(task.prior[0] for task in stream.tasks)


def test_a_case_counted_by_hand() -> None:
    stream = open_stream(settings(2), table([0, 1, 1, 2, 3, 3, 3], [3, 2, 1, 0], 4), seed=0)
    assert sorted(label for task in stream.tasks for label in task.prior) == [0, 1, 2, 3]
    sizes = {0: 1, 1: 2, 2: 1, 3: 3}
    for index, task in enumerate(stream.tasks):
        assert (task.index, task.name, task.task_id, len(task.prior)) == (index, f"task {index + 1}", None, 2)
        assert len(task.train) == sum(sizes[label] for label in task.prior)
        assert sorted(task.test.labels) == list(task.prior)
        rows = {0: [0], 1: [1, 2], 2: [3], 3: [4, 5, 6]}
        assert task.train.inputs[:, 0].tolist() == sorted(row for label in task.prior for row in rows[label])
    assert (stream.recurrence, stream.unit, stream.classes) == ("once", "example", ("c0", "c1", "c2", "c3"))


@given(LABELS, LABELS, st.sampled_from([1, 2, 5, 10]), st.integers(0, 2**32 - 1))
def test_every_record_is_in_exactly_one_task_that_lists_its_class(
    train: list[int], test: list[int], tasks: int, seed: int
) -> None:
    stream = open_stream(settings(tasks), table(train, test, 10), seed)
    assert sorted(label for task in stream.tasks for label in task.prior) == list(range(10))
    seen = [record for task in stream.tasks for record in records(task)]
    assert sorted(seen) == list(enumerate(train))
    assert sum(len(task.test) for task in stream.tasks) == len(test)
    for task in stream.tasks:
        assert set(task.train.labels.tolist()) | set(task.test.labels.tolist()) <= set(task.prior)


@given(LABELS, st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_one_record_more_changes_one_task_by_that_record(labels: list[int], new: int, seed: int) -> None:
    before = open_stream(settings(5), table(labels, [], 10), seed)
    after = open_stream(settings(5), table([*labels, new], [], 10), seed)
    changes = [records(b) ^ records(a) for b, a in zip(before.tasks, after.tasks, strict=True)]
    assert [change for change in changes if change] == [{(len(labels), new)}]
    assert [task.prior for task in before.tasks] == [task.prior for task in after.tasks]


def test_a_class_without_records_keeps_its_place() -> None:
    stream = open_stream(settings(5), table([], [], 10), seed=3)
    assert [len(task.train) for task in stream.tasks] == [0] * 5
    assert stream.tasks[0].train.inputs.shape == (0, 1)
    assert sorted(label for task in stream.tasks for label in task.prior) == list(range(10))


def test_the_order_is_the_seeds_own_and_repeats() -> None:
    orders = [order(seed) for seed in range(200)]
    assert orders == [order(seed) for seed in range(200)]
    assert all(sorted(found) == list(range(10)) for found in orders)
    assert len(set(orders)) == 200
    bare = [tuple(np.random.default_rng(seed).permutation(10).tolist()) for seed in range(200)]
    assert not any(a == b for a, b in zip(orders, bare, strict=True))  # whoever seeds with the bare number draws others


def test_every_class_comes_first_equally_often() -> None:
    """A chi-square of 9 degrees of freedom exceeds 27.9 once in a thousand; a fixed order gives 18,000."""
    first = np.bincount([order(seed)[0] for seed in range(2000)], minlength=10)
    assert ((first - 200) ** 2 / 200).sum() < 27.9


def test_fewer_tasks_are_a_coarser_cut_of_the_same_order() -> None:
    fine, coarse = (open_stream(settings(tasks), table([], [], 10), 7).tasks for tasks in (10, 5))
    for index, task in enumerate(coarse):
        assert set(task.prior) == {*fine[2 * index].prior, *fine[2 * index + 1].prior}


def test_classes_per_task_leaves_the_rest_out() -> None:
    whole = open_stream(settings(5), table(range(10), range(10), 10), 11)
    part = open_stream(settings(3, 2), table(range(10), range(10), 10), 11)
    assert [task.prior for task in part.tasks] == [task.prior for task in whole.tasks[:3]]
    assert sum(len(task.train) for task in part.tasks) == 6
    assert len(part.classes) == 10


def test_users_travel_with_their_records() -> None:
    given_table = table([0, 1, 0, 1], [], 2)
    with_users = examples([0, 1, 0, 1])
    users = type(with_users)(with_users.inputs, with_users.labels, np.array([7, 8, 7, 9]))
    stream = open_stream(settings(2), type(given_table)(users, given_table.test, given_table.classes), 0)
    by_class = {task.prior[0]: task.train.users for task in stream.tasks}
    assert {label: found.tolist() for label, found in by_class.items() if found is not None} == {0: [7, 7], 1: [8, 9]}


@given(st.integers(1, 12), st.none() | st.integers(1, 12), st.integers(1, 12))
def test_what_check_allows_opens_with_so_many_tasks(tasks: int, per_task: int | None, n_classes: int) -> None:
    chosen = settings(tasks, per_task)
    try:
        count = catalog.number_of_tasks(chosen, n_classes, ())
    except BadInput:
        fits = tasks * (per_task or 1) <= n_classes and (per_task is not None or n_classes % tasks == 0)
        assert not fits
        return
    stream = open_stream(chosen, table([], [], n_classes), 1)
    assert len(stream.tasks) == count == tasks
    assert len({len(task.prior) for task in stream.tasks}) == 1
    assert all(a != b for task in stream.tasks for a, b in pairwise(task.prior))
