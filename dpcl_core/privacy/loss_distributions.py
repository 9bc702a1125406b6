"""Privacy loss distributions of Gaussian steps, as dp_accounting makes and composes them, but for the whole grid at once.

The library inverts the privacy loss for one point of the grid after the other, in Python, and passes over the grid forty
times to find how far a composition reaches. Here NumPy inverts it for all points, and powers of one exponential show the
reach; everything else is the library's. tests/privacy/test_accounting.py holds both against each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss, MixtureGaussianPrivacyLoss
from numpy.typing import NDArray
from scipy import fft

from dpcl_core.spec import Adjacency

Floats = NDArray[np.float64]
_ORDERS = 20


def of_gaussian(
    noise_multiplier: float, sample_rate: float, adjacency: Adjacency, interval: float
) -> PrivacyLossDistribution:
    """Of one Gaussian release on a Poisson batch. `interval`: between the points of the grid, in nats."""
    directions = [AdjacencyType.REMOVE, AdjacencyType.ADD] if sample_rate < 1 else [AdjacencyType.REMOVE]
    directions = [AdjacencyType.REPLACE] if adjacency == "replace" else directions
    losses = (_Gaussian(noise_multiplier, sampling_prob=sample_rate, adjacency_type=direction) for direction in directions)
    return PrivacyLossDistribution(*(_rounded_up(loss, interval) for loss in losses))


def of_mixture(
    noise_multiplier: float, shifts: Sequence[float], chances: Sequence[float], interval: float
) -> PrivacyLossDistribution:
    """Of a Gaussian release that one person shifts by a random multiple of the sensitivity, under add-remove.

    `shifts`: the possible multiples; `chances`: how likely each is, 1 in all.
    """
    directions = (AdjacencyType.REMOVE, AdjacencyType.ADD)
    losses = (_Mixture(noise_multiplier, shifts, chances, adjacency_type=direction) for direction in directions)
    return PrivacyLossDistribution(*(_rounded_up(loss, interval) for loss in losses))


def _rounded_up(loss: GaussianPrivacyLoss | MixtureGaussianPrivacyLoss, interval: float) -> _Losses:
    """The distribution on the grid, by connecting the dots (Doroshenko et al. 2022), which rounds up."""
    ends = loss.connect_dots_bounds()
    low, high = math.floor(ends.epsilon_lower / interval), math.ceil(ends.epsilon_upper / interval)
    deltas = np.asarray(loss.get_delta_for_epsilon(np.arange(low, high + 1) * interval), dtype=np.float64)
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]  # they fall but for rounding, which may only add
    falls = -np.diff(deltas) / math.expm1(interval)
    masses = np.concatenate([[1 - deltas[0]], math.exp(interval) * falls]) - np.concatenate([falls, [0.0]])
    return _Losses(interval, low, np.maximum(masses, 0), float(deltas[-1]), True)


class _Losses(pld_pmf.DensePLDPmf):  # type: ignore[misc]  # the library has no types
    """The library's probabilities on a grid, composed with themselves in fewer steps."""

    def self_compose(self, num_times: int, tail_mass_truncation: float = 1e-15) -> pld_pmf.DensePLDPmf:
        """The sum of so many independent losses. What lies outside its reach counts as an infinite loss."""
        masses: Floats = self._probs
        if num_times == 1:  # as it is: a transform there and back would round it, and cut off more than a small delta
            return pld_pmf.DensePLDPmf(
                self._discretization, self._lower_loss, masses, self._infinity_mass, self._pessimistic_estimate
            )
        below, above = _reach(masses, num_times, tail_mass_truncation)
        length = fft.next_fast_len(max(above - below + 1, len(masses)), real=True)
        around = fft.irfft(fft.rfft(masses, length) ** num_times, length)  # cyclic, so the reach is somewhere in it
        infinite = tail_mass_truncation - math.expm1(num_times * math.log1p(-self._infinity_mass))
        within = np.roll(around, -below)[: above - below + 1]
        return pld_pmf.DensePLDPmf(
            self._discretization, self._lower_loss * num_times + below, within, infinite, self._pessimistic_estimate
        )


def _reach(masses: Floats, count: int, tail: float) -> tuple[int, int]:
    """Where all but `tail` of a sum of `count` indices lies, each of law `masses` [n]: first and last, by Chernoff's bound.

    Its orders are k / n and -k / n for k up to 20, as in the library: E e^(ki/n) is at most e^20, and no sum overflows.
    """
    places = np.arange(len(masses)) / len(masses)
    below, above = 0, (len(masses) - 1) * count
    for sign in (1, -1):
        growth = np.exp(sign * places)
        grown = masses.copy()
        for k in range(1, _ORDERS + 1):
            grown *= growth
            bound = (count * math.log(grown.sum()) - math.log(tail / 2)) * len(masses) / k
            if sign == 1:
                above = min(above, math.ceil(bound))
            else:
                below = max(below, math.floor(-bound))
    return below, above


class _Gaussian(GaussianPrivacyLoss):  # type: ignore[misc]  # the library has no types
    """The library's, whose deltas are found for many epsilons at once."""

    def get_delta_for_epsilon(self, epsilon: Floats) -> Floats:
        """Hockey-stick divergence at each epsilon [n]: of all outcomes up to where the privacy loss is epsilon."""
        rate, direction = self.sampling_prob, self.adjacency_type
        deltas, inside = np.zeros_like(epsilon), np.ones(len(epsilon), np.bool_)
        if direction == AdjacencyType.REMOVE and rate < 1:  # no outcome has a smaller loss
            inside = epsilon > math.log1p(-rate)
            deltas[~inside] = -np.expm1(epsilon[~inside])
        elif direction == AdjacencyType.ADD and rate < 1:  # nor here a larger one
            inside = epsilon < -math.log1p(-rate)
        some = epsilon[inside]
        places = self._places(some)
        deltas[inside] = self.mu_upper_cdf(places) - np.exp(some + self.mu_lower_log_cdf(places))
        return np.clip(deltas, 0, 1)

    def _places(self, losses: Floats) -> Floats:
        """The largest outcome whose privacy loss is at least each of these."""
        variance: float = self.standard_deviation**2
        rate: float = self.sampling_prob
        if self.adjacency_type == AdjacencyType.REMOVE:
            return -0.5 - variance * _unsampled(losses, rate)
        if self.adjacency_type == AdjacencyType.ADD:
            return 0.5 + variance * _unsampled(-losses, rate)
        if rate == 1:
            return -losses * variance / 2
        # asinh(sinh(|loss| / 2) alpha) by its logarithm, which does not overflow
        log_alpha = 0.5 / variance + math.log1p(-rate) - math.log(rate)
        half = np.abs(losses) / 2
        with np.errstate(divide="ignore"):  # sinh(0) = 0
            log_product = log_alpha + half + np.log(-np.expm1(-2 * half)) - math.log(2)
        product = np.exp(np.minimum(log_product, 0))
        large = log_product + np.log1p(np.sqrt(1 + np.exp(-2 * np.maximum(log_product, 0))))
        angle = np.where(log_product > 0, large, np.arcsinh(product))
        return variance * (-np.sign(losses) * angle - losses / 2)


def _unsampled(losses: Floats, rate: float) -> Floats:
    """The loss u without sampling of each loss l with it: e^l = 1 - rate + rate e^u; minus infinity below the smallest."""
    if rate == 1:
        return losses
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(losses, 0)) / rate, -1))
        large = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, 0)))
    return np.where(losses > 0, large, small)


class _Mixture(MixtureGaussianPrivacyLoss):  # type: ignore[misc]  # the library has no types
    """The library's, whose privacy loss is inverted by one bisection for all points."""

    def _inverse_privacy_losses_with_range(
        self, privacy_losses: Floats, bounds: tuple[float, float], precision: float = 1e-6
    ) -> Floats:
        low, high = (np.full(len(privacy_losses), end) for end in bounds)
        for _ in range(max(0, math.ceil(math.log2(max(bounds[1] - bounds[0], precision) / precision)))):
            middle = (low + high) / 2
            is_above = self._losses(middle) > privacy_losses
            low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        return np.floor(high / precision) * precision

    def _losses(self, places: Floats) -> Floats:
        """The privacy loss at each of these outcomes [n]."""
        sign = 1 if self.adjacency_type == AdjacencyType.ADD else -1
        summands = self._precompute_privacy_loss_constants + sign * np.outer(places, self.sensitivities) / self._variance
        found: Floats = -sign * np.logaddexp.reduce(summands, axis=1)
        return found


# Checks of privacy numbers: each raises BadInput with the field, its value and what is allowed.


