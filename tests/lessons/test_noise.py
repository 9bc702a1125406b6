"""Lesson 2 with the real mechanisms: how noise piles up, what the two lists promise, and what they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcl_core.lessons import noise as lesson
from dpcl_core.privacy import accounting, gaussian
from tests.lessons import reference

SIGMA = gaussian.sigma(1.0, lesson.DELTA)


@pytest.mark.parametrize("setting", reference.PUBLIC)
def test_the_noise_follows_its_formula(setting: str) -> None:
    """T σ² under one list, σ² under a list per task: 200 x 64 numbers, five standard errors (6e-7 a task)."""
    tasks = lesson.stream()
    found = reference.measured_std(tasks, setting, 1.0, 200)  # type: ignore[arg-type]
    formula = accounting.noise_over_tasks(SIGMA, 10)[setting]  # type: ignore[index]
    assert found / np.array(formula) == pytest.approx(1, abs=5 / math.sqrt(2 * 200 * 64))


def test_without_noise_the_first_digit_is_complete_after_its_task() -> None:
    sums = reference.sums_over_tasks(lesson.stream(), "prior", math.inf, 1)
    assert sums.shape == (10, 1, 64)
    assert np.array_equal(sums[0], sums[9])
    rows = lesson.stream().tasks[0].train.inputs.astype(np.float64)
    assert sums[0, 0] == pytest.approx((rows / np.linalg.norm(rows, axis=1, keepdims=True)).sum(axis=0))


def test_one_list_keeps_adding_and_a_list_per_task_does_not() -> None:
    tasks = lesson.stream()
    assert len(np.unique(reference.sums_over_tasks(tasks, "prior", 1.0, 1)[:, 0, 0])) == 1
    assert len(np.unique(reference.sums_over_tasks(tasks, "prior-const", 1.0, 1)[:, 0, 0])) == 10


def test_both_lists_promise_the_same_and_the_data_nothing() -> None:
    promised = {s: reference.learned(s, 2, (1.0,), (0,))[1][1.0].epsilon for s in ("data", "prior", "prior-const")}  # type: ignore[arg-type]
    assert promised["data"] == math.inf
    assert promised["prior"] == promised["prior-const"] == pytest.approx(1.0, rel=1e-5)


def test_one_list_pays_at_a_small_epsilon_and_not_without_noise() -> None:
    """Ten seeds at ε = 1 in ten tasks. Measured: 64 and 87 %, deviations 7 and 1, so 13 points are six standard errors."""
    finals = {s: reference.final_accuracies(reference.learned(s, 10, (1.0, math.inf))[0]) for s in reference.PUBLIC}
    assert np.mean(finals["prior"][1.0]) > np.mean(finals["prior-const"][1.0]) + 0.10
    assert finals["prior"][math.inf] == pytest.approx(finals["prior-const"][math.inf])
    assert {len(values) for by in finals.values() for values in by.values()} == {len(lesson.SEEDS)}


def test_one_task_makes_them_the_same_program() -> None:
    """One task of ten digits: the same labels get noise once. Ten seeds each, standard deviation at most 2.5 points."""
    finals = {s: reference.final_accuracies(reference.learned(s, 1, (1.0,))[0])[1.0] for s in reference.PUBLIC}
    assert np.mean(finals["prior"]) == pytest.approx(np.mean(finals["prior-const"]), abs=0.06)
