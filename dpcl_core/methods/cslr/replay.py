"""The replayed mixture Q: Gaussians over embeddings, each with a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Replay:
    """A released mixture: weights [K] on the simplex, means [K, d], targets [K, C].

    `covariances`: [d, d] shared by all, [K, d] diagonals or [K, d, d]; symmetric, not negative.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    targets: NDArray[np.float64]

    def sample(
        self, n: int, generator: np.random.Generator, unit_length: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        """Invented embeddings z [n, d], their targets y [n, C] and components k [n]; `unit_length`: as real embeddings are."""
        raise NotImplementedError


def joined(parts: Sequence[Replay]) -> Replay:
    """The mixtures of several tasks as one, each part with equal weight."""
    raise NotImplementedError
