"""Adam on arrays, for heads that train in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BETAS, _STABILISER = (0.9, 0.999), 1e-8  # the usual ones (Kingma and Ba 2015)


class Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1), in place, its state starting from nothing.

    Both means are kept without their factors 1 - beta, which wait for the step: that saves passes over the weights.
    """

    def __init__(self, weights: NDArray[np.floating], learning_rate: float) -> None:
        self._rate, self._count = learning_rate, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, weights: NDArray[np.floating], gradient: NDArray[np.floating]) -> None:
        """Moves the weights by one step; `gradient` is used up."""
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
