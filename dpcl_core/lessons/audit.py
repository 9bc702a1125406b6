"""Auditing one run: planted records, each in the data by a fair coin, and what right guesses of the coins prove.

Each record lies along an axis of its own in the released sum, so that its number there is its coin, 0 or 1, plus noise. That
is how `attacks.one_run` audits a cosine classifier; bounds and the rule of guessing are the same.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy import gaussian, one_run
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.one_run import Coins

DELTA, CONFIDENCE = 1e-5, 0.95
GUESSED = 0.2  # share of the coins that is guessed: the surest
N_RECORDS = 1000


def played(epsilon: float, n: int, noise: float = 1.0) -> Coins:
    """One run with n planted records and noise for this epsilon, times `noise`; fresh coins and noise.

    The highest numbers are guessed as in the data, equally many of the lowest as left out.
    """
    took_part = ReleaseNoise().words(n) % np.uint64(2) == 1
    released = ReleaseNoise().added(took_part.astype(np.float64), noise * gaussian.sigma(epsilon, DELTA))
    return guessed(released, took_part)


def guessed(released: NDArray[np.float64], took_part: NDArray[np.bool_]) -> Coins:
    """The guesses of an attacker who sees a number [n] for each record; `took_part` [n]: the coins."""
    order, half = np.argsort(released, kind="stable"), int(GUESSED * len(released)) // 2
    right = int((~took_part[order[:half]]).sum() + took_part[order[-half:]].sum())
    return Coins(len(released), 2 * half, right)


@lru_cache(maxsize=4096)
def proven(coins: Coins) -> tuple[float, float]:
    """Lower bounds on epsilon at `CONFIDENCE` each: without assumptions, and where noise is known to be Gaussian."""
    mu = one_run.gaussian_bound(coins, CONFIDENCE)
    return one_run.counting_bound(coins, DELTA, CONFIDENCE), one_run.epsilon_of(mu, DELTA)


@lru_cache(maxsize=64)
def needed(n: int, claim: float) -> int:
    """The fewest right guesses of n planted records that prove more than the claim, without assumptions."""
    n_guessed = 2 * (int(GUESSED * n) // 2)
    return one_run.least_right(n, n_guessed, lambda coins: one_run.counting_bound(coins, DELTA, CONFIDENCE) > claim)


def caught(claim: float, n: int, noise: float, audits: int) -> float:
    """Share of so many audits that prove more than the claim, where the noise is `noise` times what the claim needs."""
    return float(np.mean([played(claim, n, noise).right >= needed(n, claim) for _ in range(audits)]))
