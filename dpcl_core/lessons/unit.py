"""The unit of a promise: what one person's data amount to when the promise is made for an example, a client or a token.

A Gaussian release that is (epsilon, delta)-DP for one vector of length 1 has noise sigma; of a person with k of them it is a
Gaussian release of sensitivity k at the same sigma.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpcl_core.lessons import noise
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.accounting import LocalDpEvent

DELTA = 1e-5
N_WORDS, N_MAILS = 40, 10  # of one person
_DRAWS = 20


def of_person(epsilon: float, k: int) -> float:
    """Exact epsilon of a person with k examples, where noise is made for one example at `epsilon`; same delta."""
    return gaussian.epsilon(gaussian.sigma(epsilon, DELTA), DELTA, k)


def by_groups(epsilon: float, k: int) -> tuple[float, float]:
    """What holds for such a person from (epsilon, delta) alone: (k epsilon, delta (e^(k eps) - 1) / (e^eps - 1))."""
    return k * epsilon, min(1.0, DELTA * math.expm1(k * epsilon) / math.expm1(epsilon)) if k * epsilon < 700 else 1.0


@lru_cache(maxsize=64)
def of_text(epsilon: float, n_tokens: int) -> float:
    """Epsilon of a text whose tokens each leave a noisy copy of their own, by privacy loss distributions; at most n epsilon.

    The number of tokens is public, as "replace" adjacency has it.
    """
    return min(n_tokens * epsilon, accounting.Pld().epsilon([LocalDpEvent(epsilon)] * n_tokens, DELTA, "replace"))


def noise_on_mean(epsilon: float, n_units: int) -> float:
    """Standard deviation of the noise on a mean over units that each add one vector of length 1."""
    return gaussian.sigma(epsilon, DELTA) / n_units


def accuracies(epsilon: float, k: int) -> dict[str, float]:
    """Mean accuracy of a classifier by class sums under three rules, where each person has k pictures of one digit.

    "example": noise for one picture at epsilon. "group": the same pictures, noise for k of them. "clipped": each person's
    pictures are averaged first, so that a person adds one vector of length at most 1. Teaching noise, `_DRAWS` draws.
    """
    rows, labels, tests, truth = noise.unit_digits()
    n_classes = int(labels.max()) + 1
    sums = np.stack([rows[labels == label].sum(axis=0) for label in range(n_classes)])
    means = np.zeros_like(sums)
    for label in range(n_classes):
        own = rows[labels == label]
        means[label] = sum((own[start : start + k].mean(axis=0) for start in range(0, len(own), k)), np.zeros(sums.shape[1]))
    sigma, random = gaussian.sigma(epsilon, DELTA), np.random.default_rng(k)
    found = {"example": 0.0, "group": 0.0, "clipped": 0.0}
    for _ in range(_DRAWS):
        drawn = random.standard_normal(sums.shape)
        for name, clean, std in (("example", sums, sigma), ("group", sums, k * sigma), ("clipped", means, sigma)):
            released = clean + std * drawn
            chosen = (tests @ (released / np.linalg.norm(released, axis=1, keepdims=True)).T).argmax(axis=1)
            found[name] += float((chosen == truth).mean()) / _DRAWS
    return found
