"""Budgets of the store (`make bench`): lists stay short to wait for, and a point is on its way at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.events import TaskLearned
from dpcl_core.runs.store import Store
from pages import runs as runs_page
from tests.support import replay

NOISE = 1.5


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path}/store.sqlite")


def test_a_list_of_500_runs(benchmark: BenchmarkFixture, store: Store) -> None:
    """Read with their places and estimates in less than 300 ms."""
    spec = replay.a_spec()
    said = replay.recorded(spec)
    for number in range(500):
        replay.fill(store, spec, said, status="finished" if number % 2 else "queued")
    assert len(benchmark(store.list_runs, 500)) == 500
    assert benchmark.stats.stats.median < 0.3 * NOISE


def test_a_table_of_500_runs(benchmark: BenchmarkFixture, store: Store) -> None:
    """Listed, with their results, in less than 300 ms."""
    for number in range(500):
        replay.fill(store, replay.a_spec(), [], name=f"run {number}")

    def table() -> int:
        listed = store.list_runs()
        return len(runs_page.table(listed, store.results([run.id for run in listed])))

    assert benchmark(table) == 500
    assert benchmark.stats.stats.median < 0.3 * NOISE


def test_the_newest_of_ten_thousand_points(benchmark: BenchmarkFixture, store: Store) -> None:
    """Written and read back in less than 20 ms, however much was said before: a page asks for it every second."""
    spec = replay.a_spec()
    points = [event for event in replay.recorded(spec) if isinstance(event, TaskLearned)]
    run_id = replay.fill(store, spec, points * (10_000 // len(points)), status="running")
    last = store.events_after(run_id)[-1][0]

    def point() -> int:
        nonlocal last
        store.append(run_id, points[:1])
        [(last, _)] = store.events_after(run_id, last)
        return last

    assert benchmark(point) > 9_000
    assert benchmark.stats.stats.median < 0.02 * NOISE
