"""The analytic Gaussian mechanism against an independent implementation, its definition, and the published table."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dpcl_core.errors import BadInput
from dpcl_core.privacy import gaussian


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 16.0, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_sigma_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    expected = dp.get_sigma_gaussian(epsilon, delta)
    sigma = gaussian.sigma(epsilon, delta)
    assert sigma == pytest.approx(expected, rel=3e-6)
    assert sigma >= expected * (1 - 1e-9), "calibrated noise must never be rounded down"


@pytest.mark.parametrize(
    ("epsilon", "sigma"), [(0.1, 30.7496), (0.5, 7.0318), (1, 3.7306), (2, 1.9938), (4, 1.0812), (8, 0.60023), (16, 0.34418)]
)
def test_sigma_of_the_published_budgets(epsilon: float, sigma: float) -> None:
    assert gaussian.sigma(epsilon, 1e-5) == pytest.approx(sigma, rel=5e-5)


@given(st.floats(0.05, 30), st.floats(1e-10, 0.2), st.floats(0.1, 10))
def test_epsilon_undoes_sigma_and_never_exceeds_the_target(epsilon: float, delta: float, sensitivity: float) -> None:
    back = gaussian.epsilon(gaussian.sigma(epsilon, delta, sensitivity), delta, sensitivity)
    assert back <= epsilon
    assert back == pytest.approx(epsilon, rel=1e-4)


def test_delta_is_the_largest_excess_over_events() -> None:
    """Against the definition: delta = sup over sets of P(S) - e^eps Q(S), integrated numerically."""
    sigma, epsilon = 1.3, 0.7
    grid = np.linspace(-30, 30, 600_001)
    excess = np.maximum(norm.pdf(grid, 1, sigma) - math.exp(epsilon) * norm.pdf(grid, 0, sigma), 0)
    assert gaussian.delta(epsilon, sigma) == pytest.approx(np.trapezoid(excess, grid), rel=1e-7)


def test_true_epsilon_of_the_classical_formula_violates_its_claim_at_16() -> None:
    classical = math.sqrt(2 * math.log(1.25 / 1e-5)) / 16
    assert gaussian.epsilon(classical, 1e-5) == pytest.approx(18.9, abs=0.05)


def test_replace_neighbours_of_noise_calibrated_for_adding_or_removing() -> None:
    sigma = gaussian.sigma(1.0, 1e-5)
    assert gaussian.epsilon(sigma, 1e-5, 2.0) == pytest.approx(2.155, abs=1e-3)
    assert gaussian.epsilon(sigma, 1e-5, math.sqrt(2)) == pytest.approx(1.465, abs=1e-3)


def test_no_noise_has_no_bound_and_no_budget_needs_no_noise() -> None:
    assert gaussian.epsilon(0.0, 1e-5) == math.inf
    assert gaussian.sigma(math.inf, 1e-5) == 0.0
    assert gaussian.epsilon(1e9, 1e-5) == 0.0


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: gaussian.sigma(0, 1e-5), "epsilon"),
        (lambda: gaussian.sigma(-1, 1e-5), "epsilon"),
        (lambda: gaussian.sigma(math.nan, 1e-5), "epsilon"),
        (lambda: gaussian.sigma(1, 0), "delta"),
        (lambda: gaussian.sigma(1, 1), "delta"),
        (lambda: gaussian.epsilon(-1, 1e-5), "sigma"),
        (lambda: gaussian.delta(-1, 1), "epsilon"),
    ],
)
def test_impossible_numbers_are_refused_by_name(call: object, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        call()  # type: ignore[operator]
    assert caught.value.field == field
