"""Privacy loss distributions made for the whole grid at once, beside those that dp_accounting makes point by point."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray

from dpcl_core.privacy import accounting
from dpcl_core.privacy.loss_distributions import of_gaussian, of_mixture
from dpcl_core.spec import Adjacency

# Logarithms are taken of other expressions than in the library, so that probabilities differ by rounding, from 1e-16 on. A
# probability on the grid is a second difference of deltas over the step, which makes 1e-16 / 1e-3 = 1e-13 of it.
ROUNDING = 2e-12


def masses(distribution: PrivacyLossDistribution) -> list[tuple[int, NDArray[np.float64], float]]:
    """Of each direction the first point of the grid, the probabilities, and that of an infinite loss."""
    parts = {id(part): part for part in (distribution._pmf_remove, distribution._pmf_add)}
    dense = [part.to_dense_pmf() for part in parts.values()]
    return [(part._lower_loss, np.asarray(part._probs), part._infinity_mass) for part in dense]


def assert_same(found: PrivacyLossDistribution, expected: PrivacyLossDistribution, within: float) -> None:
    for ours, theirs in zip(masses(found), masses(expected), strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=within)
        assert ours[2] == pytest.approx(theirs[2], rel=1e-6, abs=1e-30)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("rate", [1.0, 0.999, 0.25, 1e-4])
@pytest.mark.parametrize(("noise", "interval"), [(0.2, 0.01), (1.0, 1e-3), (30.0, 1e-3)])
def test_a_sampled_gaussian_is_the_librarys(adjacency: Adjacency, rate: float, noise: float, interval: float) -> None:
    expected = library.from_gaussian_mechanism(
        noise,
        value_discretization_interval=interval,
        sampling_prob=rate,
        neighboring_relation=accounting.RELATIONS[adjacency],
    )
    assert_same(of_gaussian(noise, rate, adjacency, interval), expected, ROUNDING)


@pytest.mark.parametrize(
    ("shifts", "chances"), [([0.0, 1.0, 2.0], [0.5, 0.3, 0.2]), ([1.0, 3.0], [0.9, 0.1]), ([0.0, 1.0], [0.75, 0.25])]
)
def test_a_mixture_is_the_librarys(shifts: list[float], chances: list[float]) -> None:
    expected = library.from_mixture_gaussian_mechanism(3.0, shifts, chances, value_discretization_interval=1e-2)
    # Both cut outcomes off at millionths, not always at the same one: at the end of a bisection a digit decides.
    assert_same(of_mixture(3.0, shifts, chances, 1e-2), expected, 1e-9)


def test_a_mixture_of_nothing_and_one_is_a_sampled_gaussian() -> None:
    mixture, sampled = of_mixture(2.0, [0.0, 1.0], [0.8, 0.2], 1e-3), of_gaussian(2.0, 0.2, "add-remove", 1e-3)
    for epsilon in (0.0, 0.01, 0.1, 0.3):
        assert mixture.get_delta_for_epsilon(epsilon) == pytest.approx(sampled.get_delta_for_epsilon(epsilon), rel=1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_one_gaussian_has_the_deltas_of_the_closed_form(adjacency: Adjacency) -> None:
    distance = {"add-remove": 1.0, "replace": 2.0}[adjacency] / 1.5

    def cdf(z: float) -> float:
        return 0.5 * math.erfc(-z / math.sqrt(2))

    found = of_gaussian(1.5, 1.0, adjacency, 1e-3)
    for epsilon in (0.0, 0.5, 2.0):
        exact = cdf(distance / 2 - epsilon / distance) - math.exp(epsilon) * cdf(-distance / 2 - epsilon / distance)
        # Connecting the dots rounds up, by at most the square of the step of the grid; sums round by 1e-16 of one.
        assert -1e-15 <= found.get_delta_for_epsilon(epsilon) - exact <= 1e-6


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("noise", "rate", "count"), [(0.7, 0.3, 2), (2.0, 0.05, 7), (30.0, 1.0, 60), (4.0, 0.01, 5000)])
def test_what_is_composed_with_itself_is_the_librarys(noise: float, rate: float, count: int, adjacency: Adjacency) -> None:
    """As far as both reach: whether a last point is in is a matter of rounding, and its mass below the tail left out."""
    one = of_gaussian(noise, rate, adjacency, 1e-3)
    plain = [DensePLDPmf(1e-3, low, each, infinite, True) for low, each, infinite in masses(one)]
    found, expected = masses(one.self_compose(count)), masses(PrivacyLossDistribution(*plain).self_compose(count))
    for (low, ours, infinite), (their_low, theirs, their_infinite) in zip(found, expected, strict=True):
        start, end = max(low, their_low), min(low + len(ours), their_low + len(theirs))
        assert end - start >= max(len(ours), len(theirs)) - 2
        # Both transforms round each mass by some 1e-16 of their sum, one.
        mine, others = ours[start - low : end - low], theirs[start - their_low : end - their_low]
        np.testing.assert_allclose(mine, others, rtol=0, atol=1e-14)
        assert infinite == pytest.approx(their_infinite, rel=1e-6, abs=1e-30)


def test_one_release_is_not_transformed_and_loses_nothing() -> None:
    one = of_gaussian(3.0, 0.2, "add-remove", 1e-3)
    for alone, composed in zip(masses(one), masses(one.self_compose(1)), strict=True):
        assert alone[0] == composed[0]
        assert alone[2] == composed[2] < 1e-20
        np.testing.assert_array_equal(alone[1], composed[1])


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_accountant_composes_what_the_librarys_does(adjacency: Adjacency) -> None:
    steps = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.1)), 200)
    releases = dp.SelfComposedDpEvent(dp.GaussianDpEvent(9.0), 4)
    ours = accounting.Pld().epsilon([steps, releases], 1e-5, adjacency)
    theirs = dp.pld.PLDAccountant(accounting.RELATIONS[adjacency], 1e-3).compose(steps).compose(releases)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-7)
