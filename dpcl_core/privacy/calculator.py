"""The calculator of the privacy page and the command line: any one of epsilon, sigma and delta from the other two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcl_core.errors import BadInput
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.spec import Adjacency


@dataclass(frozen=True, slots=True)
class Answer:
    """A consistent triple. `sigma` is the noise multiplier: standard deviation over the add/remove sensitivity."""

    epsilon: float
    sigma: float
    delta: float


def solve(
    *,
    epsilon: float | None,
    sigma: float | None,
    delta: float | None,
    sample_rate: float = 1.0,
    n_steps: int = 1,
    adjacency: Adjacency = "add-remove",
) -> Answer:
    """The missing one of epsilon, sigma and delta for `n_steps` Gaussian releases, each Poisson-sampled at `sample_rate`.

    Without sampling the answer is the closed form (n releases of noise sigma are one of sigma / sqrt(n)); with sampling it
    is the accountant's upper bound. Raises BadInput naming the setting that is missing or impossible.
    """
    n_given = sum(value is not None for value in (epsilon, sigma, delta))
    if n_given != 2:
        raise BadInput("account", f"{n_given} of epsilon, sigma, delta", "give exactly two of epsilon, sigma, delta")
    if n_steps < 1:
        raise BadInput("steps", n_steps, "must be at least 1")
    if not 0 < sample_rate <= 1:
        raise BadInput("sample_rate", sample_rate, "must lie in (0, 1]")
    if sigma is not None and not (sigma > 0 and math.isfinite(sigma)):
        raise BadInput("sigma", sigma, "must be a finite number above 0")
    if epsilon is not None and not (epsilon > 0 and math.isfinite(epsilon)):
        raise BadInput("epsilon", epsilon, "must be a finite number above 0")
    if delta is not None and not 0 < delta < 1:
        raise BadInput("delta", delta, "must lie between 0 and 1, both excluded")
    if sample_rate == 1:
        return _unsampled(epsilon, sigma, delta, SENSITIVITY[adjacency] * math.sqrt(n_steps))
    match epsilon, sigma, delta:
        case None, float(), float():
            event = accounting.subsampled_gaussian(sigma, sample_rate, n_steps)
            return Answer(accounting.Pld().epsilon([event], delta, adjacency), sigma, delta)
        case float(), None, float():
            return Answer(epsilon, accounting.noise_multiplier(epsilon, delta, sample_rate, n_steps, adjacency), delta)
        case float(), float(), None:
            event = accounting.subsampled_gaussian(sigma, sample_rate, n_steps)
            return Answer(epsilon, sigma, accounting.delta(event, epsilon, adjacency))
    raise AssertionError("exactly two are given")


def _unsampled(epsilon: float | None, sigma: float | None, delta: float | None, sensitivity: float) -> Answer:
    match epsilon, sigma, delta:
        case None, float(), float():
            return Answer(gaussian.epsilon(sigma, delta, sensitivity), sigma, delta)
        case float(), None, float():
            return Answer(epsilon, gaussian.sigma(epsilon, delta, sensitivity), delta)
        case float(), float(), None:
            return Answer(epsilon, sigma, gaussian.delta(epsilon, sigma, sensitivity))
    raise AssertionError("exactly two are given")
