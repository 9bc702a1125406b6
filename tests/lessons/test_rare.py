"""Noise hurts few people more than many, by the closed form, and no count can be stretched for free."""

from __future__ import annotations

import math

import pytest

from dpcl_core.lessons import adding


def test_the_rare_digit_loses_most_and_the_average_hides_it() -> None:
    clean, noisy = adding.recognised(math.inf, 10), adding.recognised(1.0, 10)
    assert clean.rare - noisy.rare > 0.3 > 0.05 > clean.others - noisy.others
    assert clean.overall - noisy.overall < 0.03
    assert min(noisy.rare, noisy.others) <= noisy.overall <= max(noisy.rare, noisy.others)


def test_with_everybody_it_loses_little() -> None:
    assert adding.recognised(math.inf, adding.most()).rare - adding.recognised(1.0, adding.most()).rare < 0.05


@pytest.mark.parametrize("n", [5, 20, 130])
def test_likeness_is_measured_as_the_formula_says(n: int) -> None:
    """500 draws of 64 numbers: the cosine varies by at most 1 / 8, so five standard errors are 0.028; the formula leaves
    out terms of 1 / 64."""
    measured, formula = adding.likeness(1.0, n)
    assert measured == pytest.approx(formula, abs=0.045)


def test_half_the_people_are_half_the_sum_beside_the_same_noise() -> None:
    """Pictures of one digit differ, so sums grow only nearly in proportion."""
    ratios = [formula / math.sqrt(1 - formula**2) for formula in (adding.likeness(1.0, n)[1] for n in (20, 40))]
    assert ratios[1] / ratios[0] == pytest.approx(2, rel=0.05)


def test_counting_ten_times_drowns_the_others_and_a_shared_label_does_not() -> None:
    before, counted, merged = (
        adding.recognised(1.0, 10), adding.recognised(1.0, 10, weight=10.0), adding.recognised(1.0, 10, is_merged=True)
    )  # fmt: skip
    assert counted.others < before.others - 0.3
    assert counted.rare < before.rare + 0.1
    assert merged.rare > before.rare + 0.1
    assert merged.others == pytest.approx(before.others, abs=0.05)
