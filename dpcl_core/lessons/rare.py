"""Who pays for privacy: the digits with one of them rare, learned from class sums with the same noise on every sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.lessons import noise
from dpcl_core.privacy import gaussian

DELTA = 1e-5
RARE, ALIKE = 8, 1  # the rare digit, and the one that it shares a label with in the last step
_DRAWS = 40

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recognised:
    """Shares of test digits that are recognised: the rare digit, the others, and all in the shares of the training data."""

    rare: float
    others: float
    overall: float


def most() -> int:
    """How many people have the rare digit in the whole data."""
    return int((noise.unit_digits()[1] == RARE).sum())


@lru_cache(maxsize=256)
def recognised(epsilon: float, n_rare: int, *, weight: float = 1.0, is_merged: bool = False) -> Recognised:
    """Mean over teaching draws of the noise, where only the first `n_rare` people have the rare digit.

    `weight`: each of their pictures counts so often, and the noise on every sum grows with the largest weight.
    `is_merged`: rare digit and `ALIKE` share one label; recognised is who gets that label.
    """
    sums, counts = _sums(n_rare)
    tests, truth = noise.unit_digits()[2:]
    std, random = gaussian.sigma(epsilon, DELTA, max(weight, 1.0)), np.random.default_rng(7)
    sums = sums.copy()
    sums[RARE] *= weight
    label = np.arange(len(sums))
    if is_merged:
        sums[ALIKE] += sums[RARE]
        label[RARE] = ALIKE
    hits = np.zeros(len(sums))
    for _ in range(_DRAWS if std else 1):
        released = sums + std * random.standard_normal(sums.shape)
        scores = tests @ (released / np.linalg.norm(released, axis=1, keepdims=True)).T
        if is_merged:
            scores[:, RARE] = -np.inf  # no label of its own
        right = scores.argmax(axis=1) == label[truth]
        hits += np.array([right[truth == one].mean() for one in range(len(sums))]) / (_DRAWS if std else 1)
    others = float(np.delete(hits, RARE).mean())
    return Recognised(float(hits[RARE]), others, float(hits @ counts / counts.sum()))


def likeness(epsilon: float, n_rare: int) -> tuple[float, float]:
    """Cosine of the rare digit's noisy sum with the sum itself: mean over draws, and |s| / sqrt(|s|^2 + K sigma^2)."""
    clean = _sums(n_rare)[0][RARE]
    std, random = gaussian.sigma(epsilon, DELTA), np.random.default_rng(7)
    noisy = clean + std * random.standard_normal((500, len(clean)))
    cosines = noisy @ clean / np.linalg.norm(noisy, axis=1) / np.linalg.norm(clean)
    square = float(clean @ clean)
    return float(cosines.mean()), math.sqrt(square / (square + len(clean) * std**2))


@lru_cache(maxsize=32)
def _sums(n_rare: int) -> tuple[Rows, NDArray[np.float64]]:
    """Sums of unit rows by digit, and how many people each has."""
    rows, labels, _, _ = noise.unit_digits()
    n_classes = int(labels.max()) + 1
    own = [np.flatnonzero(labels == one)[: n_rare if one == RARE else None] for one in range(n_classes)]
    return np.stack([rows[places].sum(axis=0) for places in own]), np.array([float(len(places)) for places in own])
