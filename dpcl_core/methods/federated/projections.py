"""Projections of noisy statistics to valid parameters; all post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def simplex(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """The nearest points of the probability simplex, along the last axis of values [..., K].

    With v sorted in descending order, r is the largest index with v_(r) > (v_(1) + ... + v_(r) - 1) / r. That threshold is
    subtracted from every value, and negative results become zero.
    """
    values = np.asarray(values, dtype=np.float64)
    downwards = -np.sort(-values, axis=-1)
    thresholds = (downwards.cumsum(axis=-1) - 1) / np.arange(1, values.shape[-1] + 1)
    last = (downwards > thresholds).sum(axis=-1, keepdims=True) - 1
    return np.maximum(values - np.take_along_axis(thresholds, last, axis=-1), 0)


def psd(matrices: NDArray[np.floating], floor: float) -> NDArray[np.float64]:
    """Symmetric matrices [..., d, d] with every eigenvalue raised to at least `floor`; unchanged where all are above it."""
    matrices = np.asarray(matrices, dtype=np.float64)
    symmetric = (matrices + np.swapaxes(matrices, -1, -2)) / 2
    values, vectors = np.linalg.eigh(symmetric)
    raised = (vectors * np.maximum(values, floor)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    above = values.min(axis=-1)[..., None, None] >= floor
    return np.where(above, symmetric, (raised + np.swapaxes(raised, -1, -2)) / 2)
