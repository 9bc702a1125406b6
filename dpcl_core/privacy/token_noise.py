"""Closed forms for noise on token embeddings: PeCL's printed Eq. 5, its true epsilon, and the noise of a valid bound.

A token's embedding is a vector clipped to length C, with Gaussian noise of standard deviation sigma on each coordinate. Only
the ratio sigma / C matters, so C does not appear. The mechanisms themselves are in `embeddings`. Loads no accountant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr, ndtr

from dpcl_core.events import Claim
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.allowed import check_delta, check_positive

Floats = NDArray[np.floating]
PAPER = "Zhan et al., Theorem 1"
SOURCE = f"{PAPER}; nominal, no guarantee"  # shown with every claim
DISTANCE = 2.0  # of two vectors of length C at most, in units of C: opposite ones
_BISECTIONS = 64
_WIDTH, _POINTS = 14.0, 20_001  # range of integration in standard deviations of the squared length, and grid points


def printed_ratio(epsilon: float, delta: float) -> float:
    """sigma / C of Eq. 5, sqrt(2 ln(1.25 / delta)) / epsilon; 0 for epsilon = inf.

    Two clipped vectors can be 2C apart (the paper's own Lemma 1), but Eq. 5 is calibrated to C.
    """
    return float(printed_ratios(np.array([epsilon]), delta)[0])


def printed_ratios(epsilons: Floats, delta: float) -> NDArray[np.float64]:
    """The same for many nominal budgets, of any shape."""
    check_delta(delta)
    ratios: NDArray[np.float64] = math.sqrt(2 * math.log(1.25 / delta)) / np.asarray(epsilons, np.float64)
    return ratios


def true_epsilon(ratio: float, delta: float, n_releases: int = 1) -> float:
    """Exact epsilon of one token for this sigma / C, over `n_releases` with fresh noise; inf without noise.

    The Gaussian mechanism at sensitivity 2C (Balle and Wang 2018, Theorem 8); n releases of one token compose to one of
    sensitivity 2C sqrt(n). It holds only where the ratio does not depend on the token; in the paper it does.
    """
    return gaussian.epsilon(ratio, delta, DISTANCE * math.sqrt(n_releases))


def true_epsilons(ratios: Floats, delta: float, n_releases: int = 1) -> NDArray[np.float64]:
    """The same for many tokens at once, of any shape, to twelve digits. A ratio of 0 gives inf."""
    check_delta(delta)
    ratio_array = np.asarray(ratios, np.float64)
    mu = DISTANCE * math.sqrt(n_releases) / np.where(ratio_array > 0, ratio_array, 1.0)
    low = np.zeros(mu.shape)
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        excess = ndtr(mu / 2 - middle / mu) - np.exp(middle + log_ndtr(-mu / 2 - middle / mu)) > delta
        low, high = np.where(excess, middle, low), np.where(excess, high, middle)
    return np.where(ratio_array > 0, np.where(low > 0, high, 0.0), math.inf)


def true_delta(epsilon: float, ratio: float) -> float:
    """Smallest delta at which one token's noise of this sigma / C is (epsilon, delta)-DP, at sensitivity 2C."""
    return gaussian.delta(epsilon, ratio, DISTANCE)


def text_epsilon(ratios: Sequence[float], delta: float, n_releases: int = 1) -> float:
    """Exact epsilon of a whole text from its tokens' sigma / C: mu^2 is the sum of (2 / ratio)^2.

    All tokens may be replaced at once; the text's length is public. `n_releases`: with fresh noise each time, for instance
    once per epoch. inf where a token has no noise. Ignores that noise levels which depend on the tokens reveal them.
    """
    if not all(ratio > 0 for ratio in ratios):
        return math.inf
    mu = math.sqrt(n_releases * sum((DISTANCE / ratio) ** 2 for ratio in ratios))
    return gaussian.epsilon(1 / mu, delta) if mu > 0 else 0.0


def remark_1(epsilons: Sequence[float], delta: float) -> float:
    """The paper's Remark 1 for a text of L tokens: sum + sqrt(2 L ln(1 / delta')) max. Always above the plain sum.

    The paper calls it advanced composition; it would hold at L delta + delta', not at the printed delta. Args: nominal
    budgets of the L tokens (none: 0), delta' in (0, 1), else BadInput.
    """
    check_delta(delta)
    return sum(epsilons) + math.sqrt(2 * len(epsilons) * math.log(1 / delta)) * max(epsilons, default=0.0)


def ratio_for(epsilon: float, delta: float, n_tokens: int = 1, n_releases: int = 1) -> float:
    """Smallest sigma / C for which n tokens together are within (epsilon, delta), rounded up; 0 for epsilon = inf.

    The neighbour has other tokens in all n places ("replace"; how many there are is public). Each clipped row is in a ball
    of radius C, so two of them are at most 2C apart, and the n rows stacked sqrt(n (2C)^2) = 2C sqrt(n), reached by opposite
    rows of length C. Each release with fresh noise counts like n more tokens. All tokens have the same noise, so the noise
    level reveals nothing; with one token this is the bound for one occurrence.
    """
    return gaussian.sigma(epsilon, delta, DISTANCE * math.sqrt(n_tokens * n_releases))


def scale_epsilon(first: float, second: float, n_values: int, delta: float) -> float:
    """Epsilon of the noise level alone: two tokens with equal embeddings and noise of different standard deviations.

    One noisy vector of `n_values` coordinates reveals which, because its squared length hardly varies. Args: two standard
    deviations, in any unit. Exact but for the integration.
    """
    check_delta(delta)
    return max(_one_way(first, second, n_values, delta), _one_way(second, first, n_values, delta))


def scale_advantage(first: float, second: float, n_values: int) -> float:
    """Advantage of the best guess between the two noise levels: total variation distance, in [0, 1]."""
    loss, weights = _losses(first, second, n_values)
    return float(weights @ np.maximum(-np.expm1(-loss), 0.0))


def _one_way(first: float, second: float, n_values: int, delta: float) -> float:
    """Smallest epsilon with E_first[(1 - e^(epsilon - loss))+] <= delta."""
    loss, weights = _losses(first, second, n_values)

    def excess(epsilon: float) -> float:
        return float(weights @ np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, float(loss.max()), xtol=1e-9))


def _losses(first: float, second: float, n_values: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Privacy loss of N(0, first^2 I) against N(0, second^2 I) on a grid of squared lengths, and the grid's chances."""
    for std in (first, second):
        check_positive(sigma=std)
    # The squared length over first^2 has a chi-squared law; its cube root is nearly normal (Wilson and Hilferty).
    spread = math.sqrt(2 / (9 * n_values))
    roots = np.linspace(max(1e-9, 1 - spread * spread - _WIDTH * spread), 1 - spread * spread + _WIDTH * spread, _POINTS)
    squared = n_values * roots**3
    half = n_values / 2
    density = np.exp((half - 1) * np.log(squared / 2) - squared / 2 - gammaln(half)) / 2 * 3 * n_values * roots**2
    weights = density * (roots[1] - roots[0])
    loss = n_values * math.log(second / first) + squared / 2 * ((first / second) ** 2 - 1)
    return loss, weights


def nominal_claim(lower: float, upper: float, delta: float, n_tokens: int, n_epochs: int) -> Claim:
    """The publication's claim for a token, with the true epsilons of its noise. `upper`: of the least noised token.

    The true numbers treat the noise level as fixed, which it is not: they are too small, not too large.
    """
    terms = {"nominal ε of the most noised token": lower, "nominal ε of the least noised token": upper}
    numbers = {"δ": delta, "tokens of a text": float(n_tokens), "epochs": float(n_epochs)}
    for name, epsilon in (("most", lower), ("least", upper)):
        ratio = printed_ratio(epsilon, delta)
        numbers |= {
            f"σ/C of the {name} noised token": ratio,
            f"true ε of the {name} noised token, one release": true_epsilon(ratio, delta),
            f"true ε of the {name} noised token, all epochs": true_epsilon(ratio, delta, n_epochs),
            f"true ε of a text of the {name} noised tokens, one release": true_epsilon(ratio, delta, n_tokens),
            f"true ε of a text of the {name} noised tokens, all epochs": true_epsilon(ratio, delta, n_tokens * n_epochs),
        }
    return Claim(upper, SOURCE, terms, numbers)
