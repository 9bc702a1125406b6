"""Source-incremental: each source is a task, in the order given or the seed's own, with the labels it is known to have."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from dpcl_core.data.dataset import Source
from dpcl_core.scenarios import catalog
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.scenarios.central import open_stream
from dpcl_core.scenarios.stream import Examples
from tests.scenarios.making import five, records

NAMES = ("A", "B", "C", "D", "E")


def names(seed: int, order: tuple[str, ...] | None = None) -> tuple[str, ...]:
    return tuple(task.name for task in open_stream(SourceIncremental(order=order), five(), seed).tasks)


def test_a_case_counted_by_hand() -> None:
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


def test_one_record_more_changes_one_task_by_that_record() -> None:
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
