"""A promise for one unit, translated into one for a person: closed forms, and no trick that adds people."""

from __future__ import annotations

import math

import pytest

from dpcl_core.lessons import label
from dpcl_core.privacy import accounting, gaussian


@pytest.mark.parametrize("k", [1, 5, 20])
def test_a_person_with_k_examples_is_the_accountants_group(k: int) -> None:
    """The accountant rounds up, by its grid of 1e-3 at most."""
    sigma = gaussian.sigma(1.0, label.DELTA)
    event = accounting.of_group(accounting.dp.GaussianDpEvent(sigma), k)
    counted = accounting.Pld().epsilon([event], label.DELTA, "add-remove")
    assert label.of_person(1.0, k) == pytest.approx(counted, rel=2e-3)


def test_the_group_bound_holds_and_needs_its_larger_delta() -> None:
    for k in (2, 5, 10):
        epsilon, delta = label.by_groups(1.0, k)
        assert gaussian.delta(epsilon, gaussian.sigma(1.0, label.DELTA), k) <= delta
        assert delta > label.DELTA
    assert label.by_groups(1.0, 1) == (1.0, pytest.approx(label.DELTA))


def test_a_text_is_never_more_than_the_sum_of_its_words_and_less_for_many() -> None:
    assert label.of_text(1.0, 1) == pytest.approx(1.0, rel=1e-3)
    assert label.of_text(1.0, 400) < 0.8 * 400
    assert all(label.of_text(0.5, n) <= 0.5 * n for n in (2, 10, 40))


def test_noise_on_a_mean_is_that_of_the_sum_over_the_number_of_units() -> None:
    assert label.noise_on_mean(1.0, 20) / label.noise_on_mean(1.0, 10_000) == pytest.approx(500)


def test_averaging_first_is_worth_as_much_as_wider_noise() -> None:
    """With k photos a person both have 1 / k of the signal to the noise; they differ by the last, smaller group alone."""
    found = label.accuracies(2.0, 5)
    assert found["group"] == pytest.approx(found["clipped"], abs=0.03)
    assert found["example"] > found["group"] + 0.1
    alone = label.accuracies(2.0, 1)
    assert alone["example"] == alone["group"] == pytest.approx(alone["clipped"])


def test_the_smallest_number_is_the_weakest_promise() -> None:
    words, mails = label.of_text(1.0, label.N_WORDS * label.N_MAILS), label.of_person(2.0, label.N_MAILS)
    assert words > mails > 8
    assert math.isfinite(words)
