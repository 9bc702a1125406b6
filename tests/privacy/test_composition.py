"""Closed-form composition against the accountant, and noise growth against the mechanism's own draws."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.accounting import Pld
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise

DELTA = 1e-5


@pytest.mark.parametrize("epsilons", [[1.0], [1.0] * 10, [0.5, 2.0, 1.0], [8.0] * 10])
def test_totals_equal_the_accountant(epsilons: list[float]) -> None:
    events = [dp.GaussianDpEvent(gaussian.sigma(epsilon, DELTA)) for epsilon in epsilons]
    totals = accounting.in_every_task(epsilons, DELTA)
    for k in range(1, len(events) + 1):
        accounted = Pld().epsilon(events[:k], DELTA, "add-remove")
        assert totals[k - 1] == pytest.approx(accounted, rel=2e-4)
    assert totals[0] == pytest.approx(epsilons[0], rel=1e-5)


@pytest.mark.parametrize(("k", "total"), [(2, 1.465), (5, 2.442), (10, 3.619)])
def test_totals_are_those_of_the_card(k: int, total: float) -> None:
    assert accounting.in_every_task([1.0] * k, DELTA)[-1] == pytest.approx(total, abs=6e-4)


def test_one_release_without_noise_leaves_no_bound() -> None:
    assert accounting.in_every_task([1.0, math.inf, 1.0], DELTA)[1:] == [math.inf, math.inf]


def test_noise_grows_as_the_mechanism_draws_it() -> None:
    """Five empty tasks under each label setting: the spread of a class's sum, within five standard errors."""
    sigma, n_tasks, size = 2.0, 5, 4000
    nobody, nothing = np.zeros((0, size)), np.zeros(0, dtype=np.int64)
    for setting, lists in (("prior-const", [(0, 1)] * n_tasks), ("prior", [(0,)] + [(1,)] * (n_tasks - 1))):
        total = np.zeros(size)
        for task, space in enumerate(lists):
            ledger = Ledger(DELTA, "add-remove", "once")
            released = noisy_class_sums(nobody, nothing, space, 2, [sigma], [ReleaseNoise()], [ledger], task=task)
            total += released[0, 0]
            expected = accounting.noise_over_tasks(sigma, n_tasks)[setting][task]  # type: ignore[index]
            assert total.std() == pytest.approx(expected, rel=5 / math.sqrt(2 * size))
