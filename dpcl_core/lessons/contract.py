"""A guarantee read like a contract: small print in closed form, and what trying several settings costs."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.lessons import noise
from dpcl_core.privacy import composition, gaussian
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.spec import Adjacency

DELTA = 1e-5
DELTAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
N_PEOPLE = 1000
_DRAWS = 400


def noise_of(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Standard deviation of Gaussian noise that a claim needs on a sum of vectors of length at most 1."""
    return gaussian.sigma(epsilon, delta, gaussian.SENSITIVITY[adjacency])


def under(sigma: float, adjacency: Adjacency) -> float:
    """Epsilon of that noise, by the rule that says what a neighbour is."""
    return gaussian.epsilon(sigma, DELTA, gaussian.SENSITIVITY[adjacency])


def printed(delta: float, n_people: int = N_PEOPLE) -> float:
    """Expected number of people whose records are printed where each is with probability delta.

    A program that prints each record with probability delta, independently, and nothing else is (0, delta)-DP: somebody's
    record changes what is printed with probability delta.
    """
    return delta * n_people


def printed_now(delta: float) -> NDArray[np.int64]:
    """The people that one run of this program prints; fresh coins."""
    words = ReleaseNoise().words(N_PEOPLE)
    return np.flatnonzero(words < np.uint64(min(int(delta * 2.0**64), 2**64 - 1)))


def of_trials(epsilon: float, n: int) -> float:
    """Epsilon of n trainings on the same people, each (epsilon, DELTA)-DP with Gaussian noise, of which the best is shown.

    A bound: whoever sees one of n releases sees no more than whoever sees all, and which is best is decided without a look
    at the training data.
    """
    return composition.in_every_task([epsilon] * n, DELTA)[-1]


@lru_cache(maxsize=16)
def scores(epsilon: float) -> NDArray[np.float64]:
    """Accuracies [draws] on the public test digits of one classifier by class sums under many teaching draws."""
    task = noise.stream(1).tasks[0]
    rows, tests = (unit_rows(part.inputs).astype(np.float64) for part in (task.train, task.test))
    sums = np.stack([rows[task.train.labels == label].sum(axis=0) for label in range(int(task.train.labels.max()) + 1)])
    std, random, found = gaussian.sigma(epsilon, DELTA), np.random.default_rng(7), []
    for _ in range(_DRAWS):
        released = sums + std * random.standard_normal(sums.shape)
        chosen = (tests @ (released / np.linalg.norm(released, axis=1, keepdims=True)).T).argmax(axis=1)
        found.append(float((chosen == task.test.labels).mean()))
    return np.array(found)


def best_of(values: NDArray[np.float64], n: int) -> float:
    """Mean of the largest of n values that are drawn from these [m] without repetition; exact.

    The largest is the k-th smallest with probability C(k - 1, n - 1) / C(m, n).
    """
    ordered = np.sort(values)
    chances = [math.comb(k - 1, n - 1) / math.comb(len(ordered), n) for k in range(1, len(ordered) + 1)]
    return float(np.dot(ordered, chances))
