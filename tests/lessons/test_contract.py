"""Small print in closed form, the exception that delta allows, and the best of many as order statistics have it."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from dpcl_core.lessons import label
from dpcl_core.privacy import gaussian


def test_the_same_claim_needs_more_noise_for_a_smaller_delta_and_twice_as_much_if_people_are_replaced() -> None:
    noises = [label.noise_of(3.0, delta, "add-remove") for delta in label.DELTAS]
    assert noises == sorted(noises)
    for delta, one in zip(label.DELTAS, noises, strict=True):
        assert label.noise_of(3.0, delta, "replace") == pytest.approx(2 * one)
    assert label.under(label.noise_of(3.0, label.DELTA, "replace"), "replace") == pytest.approx(3, rel=1e-5)


def test_the_program_prints_as_many_people_as_delta_allows() -> None:
    """Five standard errors of 200 runs of 1,000 people at 1 %: 1.1 people a run."""
    counts = [len(label.printed_now(0.01)) for _ in range(200)]
    assert np.mean(counts) == pytest.approx(label.printed(0.01), abs=5 * math.sqrt(10 / 200))
    assert label.printed(0.01) == 10


def test_trials_add_up_as_releases_do() -> None:
    sigma = gaussian.sigma(0.5, label.DELTA)
    assert label.of_trials(0.5, 20) == pytest.approx(gaussian.epsilon(sigma / math.sqrt(20), label.DELTA))
    assert label.of_trials(0.5, 1) == pytest.approx(0.5, rel=1e-5)


def test_the_best_of_n_is_the_mean_over_all_ways_to_draw_them() -> None:
    values = np.array([0.1, 0.5, 0.2, 0.9, 0.4])
    for n in (1, 2, 3, 5):
        assert label.best_of(values, n) == pytest.approx(np.mean([max(some) for some in combinations(values, n)]))


def test_luck_flatters_more_under_more_noise() -> None:
    gifts = [label.best_of(label.scores(e), 20) - label.scores(e).mean() for e in (0.25, 1.0, 4.0)]
    assert gifts[0] > gifts[1] > gifts[2] > 0
