"""The ratio of noise to signal against simulated lengths, what it says of known runs, and when it stays silent."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.references import forecast
from dpcl_core.privacy import accounting, gaussian, noise_forecast
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal, note

DIGITS = PublicSizes(n_people=1347, n_tasks=5, n_classes=10)


def told(epsilons: list[float], facts: PublicSizes = DIGITS, classes: float = 2, **raw: object) -> tuple[NoiseForecast, ...]:
    spec = checks.parse({"privacy": {"epsilons": epsilons}, **raw})
    return forecast(spec, n_features=64, classes_per_task=classes, facts=facts)


def test_the_ratio_is_that_of_the_lengths_for_sums() -> None:
    """Five noises on 4,000 coordinates against 50 equal unit vectors; a length has a relative spread of 1/sqrt(2 K)."""
    generator = np.random.default_rng(0)
    noise = sum(3.0 * generator.standard_normal(4000) for _ in range(5))
    assert noise_to_signal(3.0, 4000, 50, uses=5) == pytest.approx(np.linalg.norm(noise) / 50, rel=5 / math.sqrt(8000))


def test_the_ratio_is_that_of_the_lengths_for_training() -> None:
    """200 steps, 30 people in a tenth of the batches each, all gradients one unit vector, multiplier 2."""
    generator, rate, steps = np.random.default_rng(1), 0.1, 200
    signal_length = generator.binomial(30, rate, steps).sum()
    noise = 2.0 * generator.standard_normal((steps, 2000)).sum(axis=0)
    found = noise_to_signal(2.0, 2000, 30, sample_rate=rate, n_steps=steps)
    assert found == pytest.approx(np.linalg.norm(noise) / signal_length, rel=0.1)
    assert noise_to_signal(2.0 * math.sqrt(9), 5, 30, n_steps=9) == pytest.approx(noise_to_signal(2.0, 5, 30))


def test_without_sampling_training_and_one_sum_have_the_same_ratio() -> None:
    sigma = accounting.noise_multiplier(0.2, 1e-5, 1.0, 40, "add-remove")
    trained = noise_to_signal(sigma, 64, 134.7, n_steps=40)
    assert trained == pytest.approx(noise_to_signal(gaussian.sigma(0.2, 1e-5), 64, 134.7), rel=1e-4)


def test_the_digits_are_warned_of_where_they_were_seen_to_fail() -> None:
    """Measured: one list, epsilon 0.1 leaves 16 %, 0.2 leaves 19 %, 0.5 leaves 48 % and 1 leaves 76 % of ten digits."""
    found = told([1.0, 0.1, 0.2, 0.5, math.inf])
    assert [one.epsilon for one in found] == [0.1, 0.2]
    assert found[0].ratio == pytest.approx(gaussian.sigma(0.1, 1e-5) * math.sqrt(5 * 64) / 134.7)
    assert found[0].ratio > noise_forecast.NEAR_CHANCE > found[1].ratio > noise_forecast.COSTLY
    assert [one.epsilon for one in told([0.1, 0.2, 0.5], labels="prior")] == [0.1]


def test_trained_heads_are_warned_of_and_larger_batches_offered() -> None:
    head = {"method": "peft-ensemble", "labels": "prior-const"}
    found = told([0.02, 1.0, 8.0], **head)
    assert [one.epsilon for one in found] == [0.02]
    assert found[0].ratio == pytest.approx(16.5, rel=0.02)
    assert found[0].larger_batches == pytest.approx(7.8, rel=0.02)
    assert "larger batches (7.8 times with everyone in each)" in found[0].sentence
    whole = told([0.02], **head, params={"sample_rate": 1.0})
    assert "larger batches" not in whole[0].sentence
    assert told([0.02], **head, params={"adapter": "film"}) == (), "not measured, so nothing is said"


def test_a_training_on_one_task_has_only_the_classes_that_are_there() -> None:
    """All ten classes in each of five tasks: a fifth of each class, or all of it where the same people come again."""
    head = {"method": "peft-ensemble", "params": {"sample_rate": 1.0}}
    (each_once,) = told([0.02], **head)
    (a_fifth,) = told([0.02], classes=10, **head)
    (again,) = told([0.02], replace(DIGITS, recurrence="every"), classes=10, **head)
    assert a_fifth.ratio == pytest.approx(5 * each_once.ratio)
    assert again.ratio == pytest.approx(each_once.ratio)
    (whole,) = told([0.02], classes=10, method="non-cl", params={"sample_rate": 1.0})
    assert whole.ratio == pytest.approx(each_once.ratio)


def test_the_note_says_what_to_expect_and_what_would_help() -> None:
    said = note(told([0.1, 0.2])) or ""
    assert "ε = 0.1 needs noise 4.1 times the longest signal there can be: accuracy will be near chance." in said
    assert "with 550 a class instead of 135 noise and signal are even" in said
    assert "a public list per task" in said
    assert "2.2 times at ε = 0.2" in said
    assert "public list" not in (note(told([0.05], labels="prior")) or "public list")
    assert note(told([8.0])) is None


def test_as_many_people_as_the_note_asks_for_make_it_even() -> None:
    (short,) = told([0.1])
    people = math.ceil(short.ratio * short.class_size) * 10
    (even,) = told([0.1], replace(DIGITS, n_people=people - 20))
    assert even.ratio == pytest.approx(1.0, abs=0.01)
    assert told([0.1], replace(DIGITS, n_people=people + 20)) == ()
