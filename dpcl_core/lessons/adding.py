"""What adds up and what is free: composition, averaging, disjoint people, random batches, and work on what is released."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcl_core.lessons.duel import Duel
from dpcl_core.privacy import calculator, composition, gaussian
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import gaussian_odds_bound
from dpcl_core.spec import Recurrence

DELTA = 1e-5
SIGMA, N_STEPS = 1.0, 1000  # of the training with random batches
N_OTHERS = 3  # people in the small count
COUNTS = np.array([40, 25, 18, 12, 8, 6, 4, 3, 2, 2, 1, 1, 1] + [0] * 27, dtype=np.float64)  # of an invented catalogue


def total(epsilon: float, n: int) -> float:
    """Exact epsilon of a person who is in n Gaussian releases, each (epsilon, DELTA)-DP."""
    return composition.in_every_task([epsilon] * n, DELTA)[-1]


def ledger(epsilon: float, n: int, recurrence: Recurrence) -> Ledger:
    """The ledger of n such releases, one a task, of people who are in one task ("once") or in every one."""
    book = Ledger(DELTA, "add-remove", recurrence)
    for task in range(n):
        book.spend(dp.GaussianDpEvent(gaussian.sigma(epsilon, DELTA)), task=task, what="a sum")
    return book


def averaged(epsilon: float, n: int, rounds: int) -> Duel:
    """An attacker who averages n fresh noisy answers to one question and knows all but her; so many rounds a side.

    Noise is drawn once with the spread of the average, sigma / sqrt(n): the sum of n Gaussian draws has that law.
    """
    std = of_average(gaussian.sigma(epsilon, DELTA), n)
    took_part, stayed_away = (ReleaseNoise().added(np.full(rounds, side), std) for side in (1.0, 0.0))
    return Duel((took_part - 0.5) / std**2, (stayed_away - 0.5) / std**2)


def best_of_averages(epsilon: float, n: int) -> float:
    """The largest share of right guesses that any attacker reaches on n such answers."""
    return gaussian_odds_bound(of_average(gaussian.sigma(epsilon, DELTA), n))


def of_average(std: float, n: int) -> float:
    """Standard deviation of the noise on an average of n answers, each with fresh noise of this one."""
    return std / math.sqrt(n)


@lru_cache(maxsize=32)
def sampled(rate: float) -> float:
    """Epsilon of `N_STEPS` noisy steps, each on a secret random batch with every person at this rate."""
    return calculator.solve(epsilon=None, sigma=SIGMA, delta=DELTA, sample_rate=rate, n_steps=N_STEPS).epsilon


def if_known(times: int) -> float:
    """The same for a person who was in so many batches, where it is known in which."""
    return gaussian.epsilon(SIGMA / math.sqrt(times), DELTA) if times else 0.0


def worked_on(epsilon: float, rounds: int) -> dict[str, float]:
    """Share of right guesses from a small noisy count, and from what others make of it.

    The attacker takes the best cut of the first half of the rounds, on either side of it, and is measured on the second.
    """
    std = gaussian.sigma(epsilon, DELTA)
    with_her, without = (ReleaseNoise().added(np.full(rounds, N_OTHERS + side), std) for side in (1.0, 0.0))
    return {name: _right(work(with_her), work(without)) for name, work in _WORK.items()}


def _tens(released: NDArray[np.float64]) -> NDArray[np.float64]:
    rounded: NDArray[np.float64] = np.round(released / 10) * 10
    return rounded


def _at_least_zero(released: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(released, 0.0)


def _whole(released: NDArray[np.float64]) -> NDArray[np.float64]:
    rounded: NDArray[np.float64] = np.round(released)
    return rounded


def _nothing(released: NDArray[np.float64]) -> NDArray[np.float64]:
    return released


def _square(released: NDArray[np.float64]) -> NDArray[np.float64]:
    squared: NDArray[np.float64] = released**2
    return squared


_WORK: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "as released": _nothing,
    "rounded to whole people": _whole,
    "negative counts set to 0": _at_least_zero,
    "squared": _square,
    "rounded to tens": _tens,
}


def _right(with_her: NDArray[np.float64], without: NDArray[np.float64]) -> float:
    half = len(with_her) // 2
    cuts = np.unique(np.quantile(np.concatenate([with_her[:half], without[:half]]), np.linspace(0, 1, 101)))

    def share(cut: float, part: slice) -> float:
        return float(((with_her[part] >= cut).mean() + (without[part] < cut).mean()) / 2)

    first = [share(float(cut), slice(half)) for cut in cuts]
    best = int(np.argmax(np.abs(np.array(first) - 0.5)))
    found = share(float(cuts[best]), slice(half, None))
    return found if first[best] >= 0.5 else 1 - found


def errors(epsilon: float, draws: int) -> Mapping[str, float]:
    """Root mean square error of the catalogue's noisy counts, and after negative ones are set to 0."""
    clean = np.tile(COUNTS, (draws, 1))
    released = ReleaseNoise().added(clean, gaussian.sigma(epsilon, DELTA))
    pairs = {"as released": released, "negative counts set to 0": np.maximum(released, 0.0)}
    return {name: float(np.sqrt(((values - clean) ** 2).mean())) for name, values in pairs.items()}


def participations(rate: float) -> tuple[int, int]:
    """In how many of the batches 95 of 100 people are: from, to."""
    return int(binom.ppf(0.025, N_STEPS, rate)), int(binom.ppf(0.975, N_STEPS, rate))
