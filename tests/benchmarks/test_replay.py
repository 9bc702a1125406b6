"""Budgets of the drag: scoring at a budget, and drawing and projecting new noise, at 2,000 x 768 x 100 on two cores."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.explorers import cosine_replay
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell
from scripts import make_playground

N_TEST, SIZE, N_CLASSES = 2000, 768, 100


@pytest.fixture(scope="module")
def data() -> cosine_replay.ReplayData:
    generator = np.random.default_rng(0)
    labels = np.arange(N_TEST) % N_CLASSES
    train, test = (generator.standard_normal((N_TEST, SIZE)) for _ in range(2))
    task_of_class = np.zeros((1, N_CLASSES), dtype=np.int64)
    return make_playground.prepare((train, labels), (test, labels), task_of_class, "prior", 1e-5, [noise()])


def noise() -> SeededNoise:
    return SeededNoise(Cell(1.0, 0), "benchmark")


def test_scoring_at_a_budget(benchmark: BenchmarkFixture, data: cosine_replay.ReplayData) -> None:
    """Budget: 25 ms."""
    found = benchmark(cosine_replay.accuracies, data, 1.0)
    assert found.shape == (1, 1, 1)


def test_new_noise_and_its_products(benchmark: BenchmarkFixture) -> None:
    """The re-noising itself: a fresh draw for every class, projected on every test example. Budget: 25 ms with scoring."""
    tests = np.random.default_rng(1).standard_normal((N_TEST, SIZE))
    source = noise()
    found = benchmark(lambda: tests @ source.normal((N_CLASSES, SIZE)).T)
    assert found.shape == (N_TEST, N_CLASSES)
