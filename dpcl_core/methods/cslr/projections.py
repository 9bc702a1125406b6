"""Bringing noisy statistics back to where clean ones live; all of it post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def simplex(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """The nearest points of the probability simplex, along the last axis."""
    raise NotImplementedError


def psd(matrices: NDArray[np.floating], floor: float) -> NDArray[np.float64]:
    """Symmetric matrices [..., d, d] with every eigenvalue raised to at least `floor`; unchanged where all are above it."""
    raise NotImplementedError


def box(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Values held within [0, 1]: the targets of several intents at once."""
    raise NotImplementedError
