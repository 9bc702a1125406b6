"""From a press of Start to the first thing to look at, with and without a process that waits (`make bench`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from dpcl_core import presets
from dpcl_core.events import Event, TaskLearned, TokensScored
from dpcl_core.methods import catalog
from dpcl_core.runs.executor import WORKER, LocalExecutor
from dpcl_core.runs.process import WarmWorker
from dpcl_core.runs.store import Store
from tests.benchmarks.conftest import NOISE

LIBRARIES = "dpcl_core.backbones.causal"
LOADING_SECONDS = 12.0  # nobody presses Start so late that this would be too short
needs_data = pytest.mark.skipif("DPCL_DATA" not in os.environ, reason="needs the folder of datasets that DPCL_DATA names")


@pytest.fixture
def store(home: Path) -> Store:
    return Store()


@pytest.fixture
def warm() -> Iterator[WarmWorker]:
    made = WarmWorker(WORKER)
    yield made
    made.give_up()


@pytest.mark.parametrize(
    ("name", "kind", "modules", "budget"),
    [
        pytest.param("digits-cosine", TaskLearned, (), 3.0, id="digits"),
        pytest.param("permuted-mnist-lifelong", TaskLearned, (), 5.0, id="permuted", marks=needs_data),
        pytest.param("pecl-synthetic", TokensScored, (LIBRARIES,), 5.0, id="texts"),
    ],
)
def test_the_first_point_or_heatmap_comes_in_time(benchmark, store, warm, name, kind, modules, budget):
    """Medians of three pairs, one after the other: 3 s for digits, 5 s for others."""
    spec = presets.load(name)
    app = LocalExecutor(store, warm=warm)
    without, found = list[float](), list[float]()

    def ready() -> None:
        without.append(seconds_until(kind, name, LocalExecutor(store)))
        warm.expect(store.url, catalog.card(spec.method).module, *modules)
        app.schedule()
        time.sleep(LOADING_SECONDS)
        status = Path(f"/proc/{warm.waiting.process.pid}/status").read_text()
        benchmark.extra_info["resident_mb"] = int(status.partition("VmRSS:")[2].split()[0]) // 1024

    benchmark.pedantic(lambda: found.append(seconds_until(kind, name, app)), setup=ready, rounds=3)
    benchmark.extra_info |= {"with_warm_worker_seconds": median(found), "without_seconds": median(without)}
    assert median(found) < median(without)
    assert median(found) < budget * NOISE


def seconds_until(kind: type[Event], name: str, app: LocalExecutor) -> float:
    """From the press until the run has said something of the kind; then it is stopped."""
    started = time.perf_counter()
    run_id = app.store.create(presets.load(name))
    app.submit(run_id)
    while not any(isinstance(event, kind) for _, event in app.store.events_after(run_id)):
        assert not app.store.get(run_id).is_over, app.store.get(run_id).error
        time.sleep(0.02)
    took = time.perf_counter() - started
    app.stop(run_id)
    while not app.store.get(run_id).is_over:
        app.schedule()
        time.sleep(0.05)
    return took
