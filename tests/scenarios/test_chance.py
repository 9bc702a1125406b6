"""Chance in closed form, from test parts alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.scenarios import central
from dpcl_core.scenarios.catalog import ClassIncremental, Permuted, SourceIncremental, chance, n_tested
from dpcl_core.scenarios.stream import Examples, Table, Task, TaskStream
from tests.scenarios.making import examples, five, table


def stream(*tests: list[int], n_classes: int = 4, task_ids: bool = False) -> TaskStream:
    """Tasks that are tested on examples of these labels, all from one table."""
    whole = examples([label for test in tests for label in test])
    starts = np.cumsum([0, *map(len, tests)])
    tasks = []
    for k, test in enumerate(tests):
        tested = whole.take(np.arange(starts[k], starts[k + 1]))
        tasks.append(Task(k, f"task {k}", examples([]), tested, tuple(sorted(set(test))), k if task_ids else None))
    return TaskStream(tuple(tasks), tuple(f"c{label}" for label in range(n_classes)), "once")


@pytest.mark.parametrize("n_tasks", [1, 2, 5, 10])
def test_equally_frequent_classes_give_one_over_their_number_however_they_share_tasks(n_tasks: int) -> None:
    data = table([], [label for label in range(10) for _ in range(7)], 10)
    streams = [central.open_stream(ClassIncremental(tasks=n_tasks), data, seed) for seed in range(3)]
    assert chance(streams, range(10)) == pytest.approx(1 / 10)


def test_unequal_classes_give_the_share_of_the_most_frequent_one_with_each_task_counting_the_same() -> None:
    one = stream([0, 0, 0, 1], [2, 3])
    assert chance([one], range(4)) == pytest.approx((3 / 4) / 2)
    assert chance([one], (1, 2, 3)) == pytest.approx((1 / 2) / 2), "a label that cannot be answered does not count"
    assert chance([one], ()) == 0


def test_where_the_task_is_given_its_own_most_frequent_label_is_answered() -> None:
    labels = [0, 0, 0, 1], [2, 3]
    assert chance([stream(*labels)], range(4), is_task_given=True) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert chance([stream(*labels, task_ids=True)], range(4)) == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_six_tasks_with_different_numbers_of_labels_give_the_mean_of_their_shares() -> None:
    sizes = (4, 5, 14, 10, 2, 3)
    starts = np.cumsum([0, *sizes])
    tests = [[start + label for label in range(size) for _ in range(6)] for start, size in zip(starts, sizes, strict=False)]
    asked = stream(*tests, n_classes=sum(sizes))
    assert chance([asked], range(sum(sizes)), is_task_given=True) == pytest.approx(np.mean([1 / size for size in sizes]))


def test_no_answer_that_ignores_the_example_expects_more() -> None:
    """Any distribution over labels is a mixture of constant answers; the best of 2,000 random ones stays below."""
    asked, draw = stream([0, 0, 0, 1, 2], [2, 3, 3], [1, 1, 0]), np.random.default_rng(0)
    shares = np.array([np.bincount(task.test.labels.astype(np.intp), minlength=4) / len(task.test) for task in asked.tasks])
    expected = draw.dirichlet(np.full(4, 0.3), size=2000) @ shares.mean(axis=0)
    assert chance([asked], range(4)) >= expected.max()
    assert chance([asked], range(4)) == pytest.approx(shares.mean(axis=0).max())


def test_tasks_without_a_test_do_not_count_and_a_stream_without_any_gives_nothing() -> None:
    assert chance([stream([0, 1], [])], range(4)) == pytest.approx(1 / 2)
    empty = stream([], [])
    assert (chance([empty], range(4)), n_tested([empty])) == (0, None)


def test_training_examples_play_no_part() -> None:
    """Neighbours differ in training examples alone: here in all of them."""
    data = five()
    for train in (examples([]), examples([0] * 50)):
        sources = None if not len(train) else np.zeros(50, dtype=np.int64)
        other = replace(data, train=train, train_sources=np.zeros(0, dtype=np.int64) if sources is None else sources)
        opened = central.open_stream(SourceIncremental(), other, 0)
        assert (chance([opened], range(10)), n_tested([opened])) == (pytest.approx(1 / 10), 20)


def test_entity_f1_is_that_of_the_best_tag_for_all_words() -> None:
    """Ten words, three names: two persons of one word, one place of two. All B-PER: 2 x 2 / (10 + 3)."""
    classes = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    labels = np.array([1, 0, 0, 1, 0, 3, 4, 0, 0, 0], dtype=np.int64)
    sentences = np.array([0, 0, 0, 1, 1, 1, 1, 1, 2, 2], dtype=np.int64)
    test = Examples(np.zeros((10, 1), np.float32), labels, sentences=sentences)
    asked = TaskStream((Task(0, "t", test, test, (0, 1, 2, 3, 4)),), classes, "every", metric="entity-f1")
    assert chance([asked], range(5)) == pytest.approx(4 / 13)
    assert chance([asked], (0, 2, 4)) == 0, "O finds no name, and none begins with I-"
    assert n_tested([asked]) is None


def test_the_number_of_equally_weighted_test_examples() -> None:
    assert n_tested([stream([0, 1, 0, 1], [2, 3, 2, 3])]) == pytest.approx(8)
    assert n_tested([stream([0, 1], [2, 3, 2, 3, 2, 3])]) == pytest.approx(2 * 2), "the smaller task weighs more"
    assert n_tested([stream([0, 1, 0], [2, 3])] * 5) == pytest.approx(2 * 2), "seeds share the test part"


def test_the_same_test_part_in_every_task_is_counted_once() -> None:
    data = table([], [label for label in range(4) for _ in range(5)], 4)
    opened = central.open_stream(Permuted(tasks=3), data, 0)
    assert n_tested([opened]) == pytest.approx(20)
    assert chance([opened], range(4)) == pytest.approx(1 / 4)


def test_other_tasks_for_every_seed_spread_the_weight() -> None:
    """Unequal classes: a row's weight is its mean over seeds."""
    data: Table = table([], [0] * 2 + [1] * 4 + [2] * 6 + [3] * 8, 4)
    streams = [central.open_stream(ClassIncremental(tasks=2), data, seed) for seed in range(6)]
    weights = np.zeros(20)
    for one in streams:
        for task in one.tasks:
            weights[task.test.rows] += 1 / (6 * 2 * len(task.test))
    assert math.isclose(weights.sum(), 1)
    assert n_tested(streams) == pytest.approx(1 / weights.max())
