"""Releases whose noise is remembered beside releases with fresh noise, in one run (`make bench`)."""

from __future__ import annotations

import time

import numpy as np
import pytest

from dpcl_core.privacy import continual
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise

N_CLASSES, SIZE, N_ROWS = 100, 1280, 5000
MOST = 2.0  # times the time of fresh noise; measured 1.0 to 1.1


def ledger() -> Ledger:
    return Ledger(1e-5, "add-remove", "once")


@pytest.mark.parametrize("n_tasks", [5, 50])
def test_a_remembered_release_costs_no_more_than_two_fresh_ones(n_tasks: int) -> None:
    """Medians of processor time over the tasks of one stream, taken in turn."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((N_ROWS, SIZE), dtype=np.float32)
    labels = generator.integers(0, N_CLASSES, N_ROWS)
    stream = continual.Stream(continual.choose(n_tasks).factorisation, N_CLASSES, SIZE)
    noise, charged, times = ReleaseNoise(), ledger(), list[tuple[float, float]]()
    for task in range(n_tasks):
        start = time.process_time()
        noisy_class_sums(features, labels, range(N_CLASSES), N_CLASSES, [5.0], [noise], [ledger()], task=task)
        between = time.process_time()
        stream.add(features, labels)
        continual.noisy_stream_sums(stream, [5.0], [noise], [charged], task=task)
        times.append((between - start, time.process_time() - between))
    fresh, remembered = np.median(times, axis=0)
    assert remembered < MOST * fresh


def test_noise_of_a_thousand_tasks_is_chosen_within_five_seconds() -> None:
    start = time.process_time()
    continual.choose(1000)
    assert time.process_time() - start < 5
