"""Deniability: an answer by a coin, the same noise once for a sum, and why numbers are clipped before it. Invented people.

With randomised response a true answer is kept with probability p = e^epsilon / (1 + e^epsilon), and q = 1 - p.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy import gaussian, local
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.local import Randomiser
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import gaussian_odds_bound

DELTA = 1e-5
N_PEOPLE, SHARE = 1000, 0.3  # of whom this share would truly say yes
LARGEST = 50_000.0  # the income that the noise of step "one-large" was made for


def keeps(epsilon: float) -> float:
    """Probability p that a true answer is kept."""
    return Randomiser(0, 0.0, epsilon).chances(2)[0]


def truths(n: int = N_PEOPLE) -> NDArray[np.int64]:
    """True answers [n] of invented people, 1 for yes."""
    return (np.arange(n) < round(SHARE * n)).astype(np.int64)


def answers(truth: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """What they say [n]: each true answer by randomised response, with fresh noise."""
    return local.noisy_labels(truth, (0, 1), epsilon, ReleaseNoise(), Ledger(DELTA, "replace", "once"), task=0)


def posterior(epsilon: float) -> float:
    """Probability that somebody who said yes would truly say yes, where a public share of all would."""
    p = keeps(epsilon)
    return p * SHARE / (p * SHARE + (1 - p) * (1 - SHARE))


def estimate(said: NDArray[np.int64], epsilon: float) -> float:
    """The share of true yes, from the share that said yes: (share - q) / (p - q). Unbiased."""
    return unturned(float(said.mean()), keeps(epsilon))


def unturned(said: float, p: float) -> float:
    """The share of true yes where a share `said` yes and each answer was kept with probability p."""
    return (said - (1 - p)) / (2 * p - 1)


def estimate_std(n: int, epsilon: float) -> float:
    """Its standard deviation, sqrt(p q / n) / (p - q) = 1 / (2 sinh(epsilon / 2) sqrt(n))."""
    return 1 / (2 * math.sinh(epsilon / 2) * math.sqrt(n))


def clerk_std(n: int, epsilon: float) -> float:
    """The same where true answers are counted first and Laplace noise of scale 1 / epsilon is added once."""
    return math.sqrt(2) / epsilon / n


@lru_cache(maxsize=1)
def incomes() -> NDArray[np.float64]:
    """Invented monthly incomes [N_PEOPLE], most of them small and a few large: lognormal, at most `LARGEST`."""
    drawn = 2500 * np.exp(np.random.default_rng(7).standard_normal(N_PEOPLE))
    cut: NDArray[np.float64] = np.minimum(drawn.round(), LARGEST)
    return cut


def found(income: float, epsilon: float) -> float:
    """How often the best attacker tells a noisy sum with this person from one without; the noise is made for `LARGEST`."""
    return gaussian_odds_bound(gaussian.sigma(epsilon, DELTA, LARGEST), income)


def lost_and_noise(clip: float, epsilon: float) -> tuple[float, float]:
    """Two errors of the noisy sum of clipped incomes: what clipping takes off, and the noise's standard deviation."""
    return cut_off(incomes(), clip), gaussian.sigma(epsilon, DELTA, clip)


def cut_off(of: NDArray[np.float64], clip: float) -> float:
    """What a clip takes off the sum of these incomes [n]."""
    return float(np.maximum(of - clip, 0).sum())
