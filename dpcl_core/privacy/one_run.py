"""Auditing in one run: lower bounds from guessing which of n canaries, each included by a fair coin, are in the data.

Two bounds, both re-derived here. `counting_bound` assumes nothing but (epsilon, delta) itself (Steinke, Nasr and
Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2). `gaussian_bound` assumes that the run
is mu-Gaussian-DP for some mu, and proves more (Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-differential privacy in
one run", Theorem 9).

Both require that flipping one coin gives a neighbouring dataset (each canary is a privacy unit of its own), and that the
number of guessed coins is fixed before the run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpcl_core.privacy import gaussian

Floats = NDArray[np.float64]

_STEPS = 40  # halvings of an interval: exact to 1e-10
_MOST_EPSILON, _MOST_MU = 24.0, 16.0
_GRID = 32  # values of a parameter that are tried at once


@dataclass(frozen=True, slots=True)
class Coins:
    """Result of an attack on `n` fair coins: `guessed` of them, a number fixed beforehand, with `right` correct guesses."""

    n: int
    guessed: int
    right: int

    def __post_init__(self) -> None:
        """Raises ValueError where the numbers do not fit together."""
        if not 0 <= self.right <= self.guessed <= self.n or self.n < 1:
            raise ValueError(f"no such guesses: {self}")


def counting_bound(coins: Coins, delta: float, confidence: float = 0.95) -> float:
    """Lower confidence bound on epsilon at `delta`. Never below 0, never inf.

    Were the run (epsilon, delta)-DP, v or more of r guesses would be right with chance at most
    P[Bin(r, q) >= v] + delta c, q = e^epsilon / (1 + e^epsilon). Where every coin is guessed, c is 1 - q times the sum over
    R = 0 ... n - 1 of the largest probability of Bin(R, q), and (1 - q) n in general; or as published, which is less for
    many coins and few guesses, 2 n max_i P[v - i <= Bin(r, q) < v] / i.

    Proof of the first two. Let T be the guesses, and reveal the coins S_1 ... S_n one after the other. Given the first
    i - 1, let T have distributions P and Q for the two faces of S_i: the hockey-stick divergence of either from the other is
    at most delta. Where P exceeds e^epsilon Q, mark the coin with probability 1 - e^epsilon Q / P, independently, and the
    other way round. So a coin is marked with probability at most delta, and given T and all coins revealed before, an
    unmarked one agrees with its guess with probability at most q. Let h_i be the probability that the right guesses so far
    plus Bin(R_i, q) reach v, where R_i guesses are left. Step i raises its expectation by at most (1 - q) P[marked, and
    Bin(R_i, q) = v - 1 - right so far], and h_0 is the binomial tail. That last probability is at most 1; where all coins
    are guessed, R_i = n - i whatever T is.
    """
    error = 1 - confidence

    def is_excluded(epsilon: float) -> bool:
        q = 1 / (1 + math.exp(-epsilon))
        tail = float(binom.sf(coins.right - 1, coins.guessed, q))
        return tail <= error and tail + delta * _marked(coins, q) <= error

    if not is_excluded(0.0):
        return 0.0
    low, high = 0.0, _MOST_EPSILON
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_excluded(middle) else (low, middle)
    return low


def gaussian_bound(coins: Coins, confidence: float = 0.95) -> float:
    """Lower confidence bound on mu, to one part in 1e6, assuming that the run is mu-Gaussian-DP for some mu. Never below 0.

    Epsilon at a delta follows by `epsilon_of`. If a mu is excluded, so are all smaller ones.
    """
    low, high = 0.0, _MOST_MU
    while high - low > 1e-6 * high:
        tried = np.linspace(low, high, _GRID + 1)[1:]
        n_excluded = int(np.argmin(np.append(_is_excluded(tried, coins, 1 - confidence), False)))
        low, high = (float(tried[n_excluded - 1]) if n_excluded else low), float(tried[min(n_excluded, _GRID - 1)])
    return low


def epsilon_of(mu: float, delta: float) -> float:
    """Epsilon at `delta` of a mu-Gaussian-DP mechanism (Dong, Roth and Su 2022, Corollary 2.13)."""
    return 0.0 if mu <= 0 else gaussian.epsilon(1 / mu, delta)


def least_right(n: int, guessed: int, proves: Callable[[Coins], bool]) -> int:
    """The fewest right guesses for which `proves` holds (monotone in their number); `guessed` + 1 where none do."""
    return bisect_left(range(guessed + 1), True, key=lambda right: proves(Coins(n, guessed, right)))


def _marked(coins: Coins, q: float) -> float:
    """The c of `counting_bound`; the largest probability of Bin(R, q) is at floor((R + 1) q)."""
    if coins.guessed == coins.n:
        left = np.arange(coins.n)
        return (1 - q) * float(binom.pmf(np.floor((left + 1) * q), left, q).sum())
    before = np.cumsum(binom.pmf(np.arange(coins.right - 1, -1, -1), coins.guessed, q))
    published = 2 * float((before / np.arange(1, coins.right + 1)).max(initial=0.0))
    return coins.n * min(1 - q, published)


def _is_excluded(mus: Floats, coins: Coins, error: float) -> NDArray[np.bool_]:
    """Whether this many right guesses have probability at most `error` under the trade-off function f of each mu.

    Let p_j be the chance of exactly j right ones of r, A_i = sum of j p_j / n over j >= i, B_i = sum of (r - j) p_j / n
    over j >= i. For the coin k let E be "k is guessed rightly, and at least i are": turning k alone makes it "wrongly, and
    at least i - 1". Coins are fair, so that the turned ones have the same law, and P[E] <= fbar(P'[E]), fbar = 1 - f
    concave; averaged over the n coins that is A_i <= fbar(B_{i-1}).

    Suppose that at least c are right with probability t or more. The constraints then force mass below c. It is least where
    the t is on c itself, which makes A_c least and B_c largest, and where each level i - 1 gets just what B_{i-1} needs: A_i
    and the mass so far both increase in every B_j, j >= i, since p_j = (B_j - B_{j+1}) n / (r - j) and 1 / (r - j) grows
    with j, so by induction no other choice has less. Where this least mass exceeds 1 the probability is below t.
    """
    n, r = coins.n, coins.guessed
    mass = np.full(len(mus), error)
    above, below = mass * coins.right / n, mass * (r - coins.right) / n
    for level in range(coins.right - 1, -1, -1):
        needed = ndtr(ndtri(np.minimum(above, 1.0)) - mus)  # the least x with fbar(x) = A
        lacking = np.maximum(needed - below, 0.0)
        added = lacking * n / (r - level)
        below, above, mass = below + lacking, above + added * level / n, mass + added
        if (mass > 1).all():
            break
    return mass > 1
