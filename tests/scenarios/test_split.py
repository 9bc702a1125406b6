"""Split: the classes in their own order, the same for every seed, learned in any order of tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcl_core import checks, engine
from dpcl_core.events import CellFinished, Started, TaskLearned
from dpcl_core.scenarios.catalog import Split
from dpcl_core.scenarios.central import open_stream
from tests.scenarios.making import records, table


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


def test_classes_per_task_leaves_the_rest_out() -> None:
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
