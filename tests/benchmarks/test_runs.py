"""Budgets of a run (`make bench`). Bounds are those of two idle cores, with half as much again for noise."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core import engine, presets
from dpcl_core.events import TaskLearned
from dpcl_core.privacy.accounting import Pld, subsampled_gaussian
from tests.benchmarks.conftest import NOISE
from tests.support.waiting import python

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("home")


def whole_process() -> dict[str, object]:
    document: dict[str, object] = json.loads(python("-m", "dpcl_core", "run", "--preset", "digits-cosine", "--json"))
    return document


def test_digits_cosine_as_a_whole_process(benchmark: BenchmarkFixture) -> None:
    """30 cells in less than 5 s."""
    document = benchmark.pedantic(whole_process, rounds=3, warmup_rounds=1)
    assert len(document["cells"]) == 30  # type: ignore[arg-type]
    assert benchmark.stats.stats.median < 5 * NOISE


def test_the_engine_alone_on_the_same_grid(benchmark: BenchmarkFixture) -> None:
    spec = presets.load("digits-cosine")
    events = benchmark(lambda: list(engine.run(spec)))
    assert sum(isinstance(event, TaskLearned) for event in events) == 150


def test_the_first_point_of_a_live_demo(benchmark: BenchmarkFixture) -> None:
    """In less than 3 s from the start of the engine."""

    def first_point() -> float:
        started = time.perf_counter()
        for event in engine.run(presets.load("digits-cosine")):
            if isinstance(event, TaskLearned):
                return time.perf_counter() - started
        raise AssertionError("no point")

    assert benchmark.pedantic(first_point, rounds=5) < 3 * NOISE


def test_one_accounting_of_dp_sgd(benchmark: BenchmarkFixture) -> None:
    event = subsampled_gaussian(1.423, 0.1, 400)
    calls = iter(range(10**6))
    # A fresh delta each time: the accountant remembers what it has been asked.
    benchmark(lambda: Pld().epsilon([event], 1e-5 * (1 + 1e-9 * next(calls)), "add-remove"))


@pytest.mark.parametrize(("what", "limit_mb"), [("app", 400), ("worker", 2048)])
def test_memory(what: str, limit_mb: int, benchmark: BenchmarkFixture) -> None:
    """Peak resident memory of a process that imports what the app imports, and of one that runs the live preset."""
    code = {
        "app": "import streamlit, plotly.graph_objects, pandas; import dpcl_core.runs.executor, dpcl_core.runs.frames, "
        "dpcl_core.export, dpcl_core.export; from dpcl_core.figures import curves, tradeoff, budget, difference",
        "worker": "import sys; from dpcl_core import cli; sys.exit(cli.main(['run', '--preset', 'digits-cosine']))",
    }[what]

    def peak() -> float:
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=nowhere, stderr=nowhere)
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0
        return _megabytes(used)

    assert benchmark.pedantic(peak, rounds=1) < limit_mb


def _megabytes(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / 1024
