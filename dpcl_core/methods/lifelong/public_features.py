"""Random feature maps that depend only on public settings and a seed, never on data."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.products import RowProducts
from dpcl_core.privacy.sums import row_blocks, unit_rows
from dpcl_core.scenarios.stream import generator


class RandomRelu:
    """Features max(x M, 0) of values x, with M of independent normal numbers: nonnegative, of any norm."""

    def __init__(self, n_inputs: int, n_features: int, seed: int) -> None:
        weights = generator(seed, "random features").standard_normal((n_inputs, n_features)) / math.sqrt(n_inputs)
        self._weights, self._n_features = RowProducts(weights), n_features

    def of(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """Features float32 [n, features] of inputs [n, K], each row's from that row alone; not finite: zeros."""
        features = np.empty((len(inputs), self._n_features), dtype=np.float32)
        for part in row_blocks(*inputs.shape):
            features[part] = np.maximum(self._weights.of(inputs[part]), 0)
        return features


class RandomProjection:
    """Projection u M of values u, centred to mean 0 and scaled to norm 1, with M of independent normal numbers.

    Centring helps where all values have one sign: examples then differ by more within the norm. The scale of M gives the
    projected values an L1 norm of 1 on average over M, for any number of dimensions.
    """

    def __init__(self, n_inputs: int, n_dimensions: int, seed: int) -> None:
        drawn = generator(seed, "random projection").standard_normal((n_inputs, n_dimensions))
        self._weights, self._n_dimensions = RowProducts(drawn * math.sqrt(math.pi / 2) / n_dimensions), n_dimensions

    def of(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """Projected values float32 [n, dimensions] of inputs [n, K], each row's from that row alone."""
        projected = np.empty((len(inputs), self._n_dimensions), dtype=np.float32)
        for part in row_blocks(*inputs.shape):
            rows = np.asarray(inputs[part], dtype=np.float64, order="C")
            projected[part] = self._weights.of(unit_rows(rows - rows.mean(axis=1, keepdims=True)))
        return projected
