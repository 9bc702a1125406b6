"""The calculator of the privacy page and the command line: any one of epsilon, sigma and delta from the other two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcl_core.errors import BadInput, unknown
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.allowed import (
    check_accounted,
    check_asked,
    check_budget,
    check_counts,
    check_delta,
    check_noise,
    check_numbers,
    check_rate,
)
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
    if adjacency not in SENSITIVITY:
        raise unknown("adjacency", str(adjacency), SENSITIVITY)
    check_numbers(epsilon=epsilon, sigma=sigma, delta=delta, sample_rate=sample_rate)
    check_counts(steps=n_steps)
    check_rate(sample_rate)
    if sigma is not None:
        check_noise(sigma)
    if epsilon is not None:
        check_budget(epsilon)
    if delta is not None:
        (check_delta if sample_rate == 1 else check_accounted)(delta)
    check_asked(epsilon, delta, n_steps)
    epsilon, sigma, delta = (None if given is None else float(given) for given in (epsilon, sigma, delta))  # 1 is an int
    is_exact, sensitivity = sample_rate == 1, SENSITIVITY[adjacency] * math.sqrt(n_steps)
    match epsilon, sigma, delta:
        case None, float(), float() if is_exact:
            return Answer(gaussian.epsilon(sigma, delta, sensitivity), sigma, delta)
        case float(), None, float() if is_exact:
            return Answer(epsilon, gaussian.sigma(epsilon, delta, sensitivity), delta)
        case float(), float(), None if is_exact:
            return Answer(epsilon, sigma, gaussian.delta(epsilon, sigma, sensitivity))
        case None, float(), float():
            event = accounting.subsampled_gaussian(sigma, sample_rate, n_steps)
            return Answer(accounting.Pld().epsilon([event], delta, adjacency), sigma, delta)
        case float(), None, float():
            return Answer(epsilon, accounting.noise_multiplier(epsilon, delta, sample_rate, n_steps, adjacency), delta)
        case float(), float(), None:
            event = accounting.subsampled_gaussian(sigma, sample_rate, n_steps)
            return Answer(epsilon, sigma, accounting.delta(event, epsilon, adjacency))
    raise AssertionError("exactly two are given")
