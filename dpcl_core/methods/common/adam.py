"""Adam on NumPy arrays, for heads trained without torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BETAS, _STABILISER = (0.9, 0.999), 1e-8  # the usual ones (Kingma and Ba 2015)


class Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1), in place, with both moments starting at zero.

    Stores both moments without their factors 1 - beta and applies these in the step, which saves passes over the weights.
    """

    def __init__(self, weights: NDArray[np.floating], learning_rate: float) -> None:
        self._rate, self._count = learning_rate, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, weights: NDArray[np.floating], gradient: NDArray[np.floating]) -> None:
        """Updates the weights by one step; overwrites `gradient`."""
        self._count += 1
        first, second = _BETAS
        self._mean *= first
        self._mean += gradient
        np.multiply(gradient, gradient, out=gradient)
        self._square *= second
        self._square += gradient
        root = float(np.sqrt((1 - second) / (1 - second**self._count)))  # of the second mean's factor and correction
        scale = np.sqrt(self._square, out=gradient)
        scale += _STABILISER / root
        np.divide(self._mean, scale, out=scale)
        scale *= self._rate * (1 - first) / (1 - first**self._count) / root
        weights -= scale
