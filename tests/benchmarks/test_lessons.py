"""Budgets of what lessons and audits compute while a visitor waits (`make bench`)."""

from __future__ import annotations

from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.attacks import catalog
from dpcl_core.backbones import plain_language
from dpcl_core.lessons import label, noise, shared_noise
from tests.attacks import test_l2dp_ml, test_pecl
from tests.lessons import reference

NOISE = 1.5


def test_ten_strengths_of_shared_noise(benchmark: BenchmarkFixture) -> None:
    """Trained in less than a second."""
    pictures = shared_noise.pictures()
    strengths = (0.0, 0.1, 0.5, 1.4, 5.0, 13.0, 45.0, 200.0, 1000.0, 8000.0)
    benchmark(lambda: [shared_noise.accuracies(pictures, scale) for scale in strengths])
    assert benchmark.stats.stats.median < 1.0 * NOISE


def test_three_repairs(benchmark: BenchmarkFixture) -> None:
    """Run in less than two seconds."""
    benchmark(noise.repaired, 2.0)
    assert benchmark.stats.stats.median < 2.0 * NOISE


def test_a_game_of_2000_rounds_a_side(benchmark: BenchmarkFixture) -> None:
    """Played in less than a second."""
    neighbours = label.neighbours()
    benchmark(reference.play, neighbours, "prior-const", 1.0, 2000)
    assert benchmark.stats.stats.median < 1.0 * NOISE


def test_a_hundred_thousand_characters(benchmark: BenchmarkFixture) -> None:
    """Encoded in less than two seconds."""
    bundled = plain_language.load_tokenizer("lm-tiny")
    benchmark(bundled.encode, "A word or two, 12 of them. " * 3704)
    assert benchmark.stats.stats.median < 2.0 * NOISE


def test_an_audit_at_the_end_of_a_published_run_of_pecl(benchmark: BenchmarkFixture) -> None:
    """A thousand releases a side in less than a second."""
    benchmark(catalog.auditor("pecl-published"), test_pecl.published(), 1000)
    assert benchmark.stats.stats.median < 0.7 * NOISE


def test_an_audit_at_the_end_of_a_run_of_l2dp_ml(benchmark: BenchmarkFixture) -> None:
    """Three budgets, a thousand releases a side, in less than a second."""
    benchmark(catalog.auditor("l2dp-ml"), test_l2dp_ml.spec(), 1000)
    assert benchmark.stats.stats.median < 0.7 * NOISE
