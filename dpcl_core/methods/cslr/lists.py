"""Local lists: a client's embeddings as a few weighted Gaussians with targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Form = Literal["diagonal", "full"]


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One entry of a list: share of the client's rows, mean [d], covariance [d] (diagonal) or [d, d], mean target [C].

    An element without rows has weight 0, mean and target zero and covariance 1/d: a list's length says nothing of its client.
    """

    weight: float
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    target: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists of n clients side by side, all of L elements.

    `weights` [n, L]; `means` [n, L, d]; `covariances` [n, L, d] or [n, L, d, d]; `targets` [n, L, C]; float64.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    targets: NDArray[np.float64]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Element]]) -> Lists:
        """Of lists that are all equally long."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.weights)

    def elements(self, client: int) -> list[Element]:
        """One client's list."""
        raise NotImplementedError

    def take(self, clients: NDArray[np.int64]) -> Lists:
        """The lists of these clients, in this order."""
        raise NotImplementedError

    @property
    def second_moments(self) -> NDArray[np.float64]:
        """E[z zᵀ] of every element, [n, L, d, d], or its diagonal [n, L, d], as the covariances are."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ListLearner:
    """Fits a Gaussian mixture by EM, several times from different starts, and keeps the likeliest.

    `form`: diagonal or full covariances, `ridge` added to their diagonal. Nothing here is private: what is fitted stays on the
    client until a mechanism takes it.
    """

    n_elements: int = 4
    restarts: int = 3
    n_steps: int = 50
    form: Form = "diagonal"
    ridge: float = 1e-3

    def fit(self, z: NDArray[np.floating], y: NDArray[np.floating], generator: np.random.Generator) -> list[Element]:
        """A list of `n_elements`, whatever the number of rows; fewer rows than elements leave some of weight 0.

        Args: z [n, d] embeddings; y [n, C] one-hot, multi-hot or soft labels.
        """
        raise NotImplementedError
