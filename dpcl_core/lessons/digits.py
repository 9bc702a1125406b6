"""Noise added in floating point reveals by its last digits who took part; noise rounded with its sum does not.

A floating-point number of at least 2^k is a multiple of 2^(k - 52). So fl(x + noise) is a multiple of x's own grid where the
sum came out smaller than x, while noise alone, drawn finer, need not be (Mironov 2012). All numbers are invented.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.lessons.duel import Duel
from dpcl_core.privacy import gaussian, rounded
from dpcl_core.privacy.noise import ReleaseNoise

Way = Literal["naive", "rounded"]
N_NUMBERS = 512
DELTA = 1e-5
_ROUNDS_AT_ONCE = 200
# The attacker's evidence for "took part". His only test: a digit that her numbers cannot produce.
_IMPOSSIBLE, _NOTHING_SEEN = -1.0, 1.0


@lru_cache(maxsize=1)
def person() -> NDArray[np.float64]:
    """Her numbers [N_NUMBERS], an invented vector of length 1. The attacker has them and decides only if she took part."""
    random = np.random.default_rng(7)
    numbers = random.choice([-1.0, 1.0], N_NUMBERS) * (1 + 0.1 * random.random(N_NUMBERS))
    unit_vector: NDArray[np.float64] = numbers / np.linalg.norm(numbers)
    return unit_vector


def spacing(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance of neighbouring floating-point numbers just below the power of two under each of these [n]."""
    distances: NDArray[np.float64] = np.spacing(2.0 ** (np.floor(np.log2(np.abs(numbers))) - 1))
    return distances


def std_of(epsilon: float) -> float:
    """Standard deviation of the noise on each number: one person's vector has length 1."""
    return gaussian.sigma(epsilon, DELTA)


def releases(is_in: bool, epsilon: float, n: int, way: Way) -> NDArray[np.float64]:
    """Releases [n, N_NUMBERS] of her numbers, or of zeros where she is not in, under Gaussian noise of this epsilon.

    "naive": the sum of two floating-point numbers, the noise as NumPy draws it, afresh. "rounded": as this project's
    mechanisms do it, a whole number of steps of a public grid.
    """
    clean = np.tile(person() * is_in, (n, 1))
    if way == "rounded":
        return ReleaseNoise().added(clean, std_of(epsilon))
    drawn: NDArray[np.float64] = clean + std_of(epsilon) * np.random.default_rng().standard_normal(clean.shape)
    return drawn


def cannot_be_hers(released: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask [n, N_NUMBERS] of the numbers that cannot be sums of hers and noise: small ones off the grid of her own."""
    small = np.abs(released) < np.abs(person()) / 4
    is_impossible: NDArray[np.bool_] = small & (np.mod(released / spacing(person()), 1.0) != 0)
    return is_impossible


def play(epsilon: float, n: int, way: Way) -> Duel:
    """The duel over n releases a side; the attacker says "not in" where a digit is impossible, else "in"."""
    sides = []
    for is_in in (True, False):
        parts = [min(_ROUNDS_AT_ONCE, n - start) for start in range(0, n, _ROUNDS_AT_ONCE)]
        is_out = np.concatenate([cannot_be_hers(releases(is_in, epsilon, size, way)).any(axis=1) for size in parts])
        sides.append(np.where(is_out, _IMPOSSIBLE, _NOTHING_SEEN))
    return Duel(*sides)


def smallest(released: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Indices [count] of the smallest numbers of one release [N_NUMBERS], whose digits reveal most."""
    places: NDArray[np.intp] = np.argsort(np.abs(released), kind="stable")[:count]
    return places


def steps_of(released: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """Released numbers in units of the public grid, which depends on the noise's standard deviation alone."""
    return released / rounded.grid(std_of(epsilon))
