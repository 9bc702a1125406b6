"""Tasks of new classes or a new source: an order of the seed's own or one's own, through a map that no record moves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, engine
from dpcl_core.data.dataset import Source
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Started, TaskLearned
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.catalog import ClassIncremental, SourceIncremental, Split
from dpcl_core.scenarios.central import open_stream
from dpcl_core.scenarios.stream import Examples
from tests.scenarios.making import examples, five, records, table

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


# Split: the classes in their own order, the same for every seed, learned in any order of tasks.


def test_the_classes_are_cut_in_their_own_order_whatever_the_seed() -> None:
    for seed in (0, 1, 99):
        stream = open_stream(Split(tasks=5), table([0, 1, 9, 4], [1, 2, 3, 9], 10), seed)
        assert [task.prior for task in stream.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
        assert [task.name for task in stream.tasks] == [f"task {k}" for k in range(1, 6)]
        assert [sorted(records(task)) for task in stream.tasks] == [[(0, 0), (1, 1)], [], [(3, 4)], [], [(2, 9)]]
        assert [task.test.labels.tolist() for task in stream.tasks] == [[1], [2, 3], [], [], [9]]
        assert (stream.recurrence, stream.unit, stream.assumed) == ("once", "example", ())


@given(st.permutations(range(1, 6)))
def test_an_order_changes_when_a_task_comes_and_nothing_else(order: list[int]) -> None:
    given_table = table(list(range(10)) * 2, range(10), 10)
    plain = {task.name: task for task in open_stream(Split(tasks=5), given_table, 0).tasks}
    ordered = open_stream(Split(tasks=5, order=tuple(order)), given_table, 0).tasks
    assert [task.name for task in ordered] == [f"task {number}" for number in order]
    assert [task.index for task in ordered] == [0, 1, 2, 3, 4]
    for task in ordered:
        assert task.prior == plain[task.name].prior
        assert records(task) == records(plain[task.name])


def test_eleven_tasks_of_ten_classes() -> None:
    stream = open_stream(Split(tasks=11), table([], [], 110), 0)
    assert [task.prior for task in stream.tasks] == [tuple(range(10 * k, 10 * k + 10)) for k in range(11)]


def test_classes_per_task_leaves_the_last_out() -> None:
    stream = open_stream(Split(tasks=2, classes_per_task=3), table(range(10), [], 10), 0)
    assert [task.prior for task in stream.tasks] == [(0, 1, 2), (3, 4, 5)]


@pytest.mark.parametrize("method", ["cosine", "peft-ensemble", "naive", "non-cl"])
def test_a_run_learns_each_pair_of_digits_once(method: str) -> None:
    params = {} if method == "cosine" else {"epochs": 2, "sample_rate": 0.2}
    raw = {
        "method": method,
        "params": params | ({"release": "once"} if method == "non-cl" else {}),
        "data": {"dataset": "digits", "train_per_class": 50},
        "scenario": {"kind": "split", "order": [3, 1, 2, 5, 4]},
        "privacy": {"epsilons": [1.0], "delta": 1e-4},
        "seeds": [0, 1],
    }
    events = list(engine.run(checks.parse(raw)))
    assert next(event.task_names for event in events if isinstance(event, Started)) == tuple(
        f"task {number}" for number in (3, 1, 2, 5, 4)
    )
    for event in events:
        if isinstance(event, TaskLearned):
            assert event.epsilon <= 1 + 1e-6
        if isinstance(event, CellFinished):
            assert not event.guarantee.composition.startswith("sequential")


# Source-incremental: each source is a task, in the order given or the seed's own, with the labels it is known to have.


NAMES = ("A", "B", "C", "D", "E")


def names(seed: int, order: tuple[str, ...] | None = None) -> tuple[str, ...]:
    return tuple(task.name for task in open_stream(SourceIncremental(order=order), five(), seed).tasks)


def test_sources_counted_by_hand() -> None:
    stream = open_stream(SourceIncremental(order=("C", "A")), five(), seed=0)
    assert [(task.index, task.name, task.prior) for task in stream.tasks] == [(0, "C", (4, 5)), (1, "A", (0, 1))]
    assert [task.train.inputs[:, 0].tolist() for task in stream.tasks] == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert stream.tasks[0].test.inputs[:, 0].tolist() == [1008, 1009, 1010, 1011]
    assert [task.train.labels.tolist() for task in stream.tasks] == [[4, 4, 5, 5], [0, 0, 1, 1]]
    assert (stream.recurrence, stream.unit, len(stream.classes)) == ("once", "example", 10)


@pytest.mark.parametrize("order", list(permutations(NAMES)))
def test_all_120_orders_can_be_asked_for(order: tuple[str, ...]) -> None:
    assert names(0, order) == order


def test_all_120_orders_are_drawn_by_some_seed_and_each_about_as_often() -> None:
    """4,000 seeds over 120 orders: chi-square of 119 degrees of freedom exceeds 175 once in two thousand."""
    drawn = [names(seed) for seed in range(4000)]
    counts = np.array([drawn.count(order) for order in permutations(NAMES)])
    assert counts.min() > 0
    assert ((counts - 4000 / 120) ** 2 / (4000 / 120)).sum() < 175
    assert names(5) == drawn[5]


def test_one_record_more_changes_the_task_of_its_source_by_that_record() -> None:
    before = five()
    assert before.train_sources is not None
    grown = Examples(np.concatenate([before.train.inputs, [[99.0]]]).astype(np.float32), np.append(before.train.labels, 6))
    after = replace(before, train=grown, train_sources=np.append(before.train_sources, 3))
    for seed in range(10):
        pairs = [open_stream(SourceIncremental(), given, seed).tasks for given in (before, after)]
        changes = [(b.name, records(b) ^ records(a)) for b, a in zip(*pairs, strict=True)]
        assert [change for change in changes if change[1]] == [("D", {(99, 6)})]


def test_a_source_without_records_keeps_its_place_and_its_labels() -> None:
    given = five()
    empty = given.train.take(np.array([], dtype=np.int64))
    stream = open_stream(SourceIncremental(order=NAMES), replace(given, train=empty, train_sources=np.array([], int)), 0)
    assert [len(task.train) for task in stream.tasks] == [0] * 5
    assert [task.prior for task in stream.tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def test_styles_share_all_classes() -> None:
    given = replace(five(), sources=tuple(Source(name, tuple(range(10))) for name in NAMES))
    assert {task.prior for task in open_stream(SourceIncremental(), given, 0).tasks} == {tuple(range(10))}


def test_check_counts_the_tasks() -> None:
    assert catalog.number_of_tasks(SourceIncremental(), 10, NAMES) == 5
    assert catalog.number_of_tasks(SourceIncremental(order=("B", "A")), 10, NAMES) == 2
