"""Roots, normal tails and Student's quantiles: beside SciPy's, and beside arithmetic of forty digits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, stdtrit

from dpcl_core.privacy.numerics import (
    log_normal_cdf,
    log_normal_cdfs,
    normal_cdf,
    normal_cdfs,
    root,
    rounded_up,
    student_quantile,
)

SHAPES: tuple[Callable[[float], float], ...] = (
    lambda t: t, lambda t: t**3, math.tanh, math.expm1, lambda t: math.copysign(abs(t) ** 0.3, t),
    lambda t: math.copysign(1.0, t),
)  # fmt: skip
TAIL = [*(-np.logspace(-3, 4, 500)).tolist(), -25.0, math.nextafter(-25.0, 0.0), 0.0, *np.logspace(-3, 1, 100).tolist()]


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("xtol", [1e-13, 1e-5])
def test_a_root_is_brentqs_to_the_last_bit_by_as_many_steps(shape: int, xtol: float) -> None:
    chosen = random.Random(shape)
    for _ in range(40):
        place, low, high = chosen.uniform(-3, 3), chosen.uniform(0.01, 5), chosen.uniform(0.01, 5)
        calls = [0, 0]

        def counted(x: float, of: int, place: float = place, calls: list[int] = calls) -> float:
            calls[of] += 1
            return SHAPES[shape](3 * (x - place))

        ours = root(lambda x: counted(x, 0), place - low, place + high, xtol=xtol, rtol=8.9e-16)
        theirs = brentq(lambda x: counted(x, 1), place - low, place + high, xtol=xtol, rtol=8.9e-16, maxiter=500)
        assert (ours, calls[0]) == (theirs, calls[1])


def test_a_root_at_an_end_is_found_and_none_between_equal_signs() -> None:
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1, 0.0, 1.0) == 1.0
    for bad in (lambda x: x * x + 1, lambda x: math.nan):
        with pytest.raises(ValueError, match=r"no root is known between 0\.0 and 1\.0"):
            root(bad, 0.0, 1.0)


def test_the_normal_distribution_is_exact_in_both_tails() -> None:
    """Forty digits: neither does 1 - p lose them above, nor does p become 0 below."""
    with mpmath.workdps(40):
        for x in TAIL:
            chance = mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2
            assert abs(log_normal_cdf(x) / mpmath.log(chance) - 1) < 1e-13, x
            if x > -37:
                assert abs(normal_cdf(x) / chance - 1) < 1e-12, x


def test_arrays_have_the_same_numbers() -> None:
    x = np.array([*TAIL, -math.inf])
    np.testing.assert_allclose(normal_cdfs(x), ndtr(x), rtol=1e-12, atol=0)
    np.testing.assert_allclose(log_normal_cdfs(x), log_ndtr(x), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("n_free", [1, 2, 3, 4, 9, 30, 999])
@pytest.mark.parametrize("chance", [0.5, 0.6, 0.975, 0.99, 1 - 1e-5])
def test_students_quantiles_are_scipys(n_free: int, chance: float) -> None:
    assert student_quantile(n_free, chance) == pytest.approx(stdtrit(n_free, chance), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("exponent", [-300, -9, 0, 5, 300])
def test_rounding_up_never_falls_below_and_adds_little(exponent: int) -> None:
    """In exact fractions: not below x, above it by 2^-34 of x at most, and unchanged by a second rounding."""
    draw = random.Random(exponent)
    for x in [1.0, math.nextafter(1.0, 2.0), *(draw.uniform(0.1, 10) * 10.0**exponent for _ in range(200))]:
        found = rounded_up(x)
        assert Fraction(x) <= Fraction(found) <= Fraction(x) * (1 + Fraction(1, 2**34))
        assert rounded_up(found) == found


def test_rounding_up_hides_last_digits() -> None:
    """Two computers whose values differ by 1e-14 agree, but for about one value in 3,000."""
    values = np.random.default_rng(0).uniform(0.5, 1, 2000)
    assert sum(rounded_up(x) != rounded_up(x * (1 + 1e-14)) for x in values) <= 5
    assert (rounded_up(math.inf), rounded_up(0.0)) == (math.inf, 0.0)
