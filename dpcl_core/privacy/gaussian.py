"""The Gaussian mechanism in closed form: sigma for (epsilon, delta) and back (Balle and Wang 2018, Theorem 8)."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from dpcl_core.errors import BadInput
from dpcl_core.privacy.allowed import check_delta, check_positive
from dpcl_core.spec import Adjacency

# L2 sensitivity of a sum of vectors of length at most 1: one vector, and under "replace" a vector against its opposite.
SENSITIVITY: dict[Adjacency, float] = {"add-remove": 1.0, "replace": 2.0}
# Calibrated noise is rounded up by this factor, so that an accountant that rounds its epsilon up still meets the target.
_ROUND_UP = 1 + 1e-6


def delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Smallest delta for which Gaussian noise of standard deviation `sigma` is (epsilon, delta)-DP."""
    check_positive(sigma=sigma, sensitivity=sensitivity)
    if not epsilon >= 0:
        raise BadInput("epsilon", epsilon, "must be a number of at least 0")
    if math.isinf(epsilon) or math.isinf(sigma):
        return 0.0
    return max(0.0, _delta_of(epsilon, sigma / sensitivity))


def sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest standard deviation of Gaussian noise that is (epsilon, delta)-DP, rounded up; 0 for epsilon = inf.

    `sensitivity`: largest L2 change by one person under the adjacency in use.
    """
    check_positive(epsilon=epsilon, sensitivity=sensitivity)
    check_delta(delta)
    if math.isinf(epsilon):
        return 0.0
    return math.exp(_root(lambda u: _delta_of(epsilon, math.exp(u)) - delta, -14.0, 21.0)) * sensitivity * _ROUND_UP


def epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest epsilon for which Gaussian noise of standard deviation `sigma` is (epsilon, delta)-DP; inf without noise."""
    check_delta(delta)
    if sigma == 0:
        return math.inf
    check_positive(sigma=sigma, sensitivity=sensitivity)
    ratio = sigma / sensitivity
    if _delta_of(0.0, ratio) <= delta:
        return 0.0
    mu = 1 / ratio
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1  # the tail bound of the privacy loss
    return _root(lambda e: _delta_of(e, ratio) - delta, 0.0, upper)


def _delta_of(epsilon: float, ratio: float) -> float:
    mu = 1 / ratio
    # The second term stays in logarithms: e^epsilon alone overflows long before the product is large.
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-13, rtol=8.9e-16, maxiter=500))
