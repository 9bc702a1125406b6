"""Maps of examples to features that depend on public settings and a seed alone, never on data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.sums import row_blocks, unit_rows
from dpcl_core.scenarios.stream import generator


class RandomRelu:
    """max(x M, 0) of an example's values x, with M of independent normal numbers. Without negative values, of any length."""

    def __init__(self, n_inputs: int, n_features: int, seed: int) -> None:
        weights = generator(seed, "random features").standard_normal((n_inputs, n_features)) / math.sqrt(n_inputs)
        self._weights = weights.astype(np.float32)

    def of(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """float32 [n, features] of inputs [n, K]."""
        found: NDArray[np.float32] = np.asarray(inputs, dtype=np.float32) @ self._weights
        return np.maximum(found, 0, out=found)


class RandomProjection:
    """u M of an example's values u, less their own mean and brought to length 1, with M of independent normal numbers.

    Without their mean, values that are all of one sign have more room for what tells them apart. The size of M gives the
    projected values an L1 norm of 1 on average over M, whatever their number.
    """

    def __init__(self, n_inputs: int, n_dimensions: int, seed: int) -> None:
        drawn = generator(seed, "random projection").standard_normal((n_inputs, n_dimensions))
        self._weights = drawn * math.sqrt(math.pi / 2) / n_dimensions

    def of(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """float32 [n, dimensions] of inputs [n, K]."""
        found = np.zeros((len(inputs), self._weights.shape[1]), dtype=np.float32)
        for part in row_blocks(*inputs.shape):
            rows = np.asarray(inputs[part], dtype=np.float64)
            found[part] = unit_rows(rows - rows.mean(axis=1, keepdims=True)) @ self._weights
        return found
