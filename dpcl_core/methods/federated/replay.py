"""The replayed mixture Q: Gaussians over embeddings, each with a target, computed from released numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.lists import Element
from dpcl_core.privacy.sums import unit_rows


@dataclass(frozen=True, eq=False)
class Replay:
    """A released mixture: weights [K] on the simplex, means [K, d], targets [K, C].

    `covariances`: [d, d] shared by all, or per component [K, d, d] or diagonal [K, 1, d]; positive semidefinite. `sums` [D]:
    the noisy sum of clients' vectors that it was decoded from, if any.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    targets: NDArray[np.float64]
    sums: NDArray[np.float64] | None = None

    def sample(
        self, n: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        """Sampled embeddings z [n, d], their targets y [n, C] and components k [n]."""
        k = generator.choice(len(self.weights), size=n, p=self.weights / self.weights.sum())
        drawn = generator.standard_normal((n, self.means.shape[1]), dtype=np.float32)
        roots = self._roots
        if roots.ndim == 2:
            z = drawn @ roots
        elif roots.shape[1] == 1:
            z = drawn * roots[k, 0]
        else:
            z = np.empty_like(drawn)
            for place in range(len(roots)):
                z[k == place] = drawn[k == place] @ roots[place]
        z += self.means.astype(np.float32)[k]
        return z, self.targets.astype(np.float32)[k], k

    def elements(self) -> list[Element]:
        """The components as list entries for a matcher. Raises ValueError for a covariance shared by all."""
        if self.covariances.ndim != 3:
            raise ValueError("elements: one covariance for all")
        covariances = self.covariances[:, 0] if self.covariances.shape[1] == 1 else self.covariances
        columns = zip(self.weights.tolist(), self.means, covariances, self.targets, strict=True)
        return [Element(*column) for column in columns]

    @cached_property
    def _roots(self) -> NDArray[np.float32]:
        """R with Rᵀ R the covariance; draws are multiplied by it."""
        if self.covariances.ndim == 3 and self.covariances.shape[1] == 1:
            return np.sqrt(np.maximum(self.covariances, 0)).astype(np.float32)
        try:
            roots = np.linalg.cholesky(self.covariances)
        except np.linalg.LinAlgError:  # singular; eigh is twenty times slower
            values, vectors = np.linalg.eigh(self.covariances)
            roots = vectors * np.sqrt(np.maximum(values, 0))[..., None, :]
        return np.swapaxes(roots, -1, -2).astype(np.float32)


def joined(parts: Sequence[Replay]) -> Replay:
    """The mixtures of several tasks as one, each task with equal weight; at least one, with covariances of the same kind."""
    covariances = parts[0].covariances
    if covariances.ndim == 3:
        covariances = np.concatenate([part.covariances for part in parts])
    elif not all(part.covariances is covariances or np.array_equal(part.covariances, covariances) for part in parts):
        covariances = np.concatenate([np.repeat(part.covariances[None], len(part.weights), axis=0) for part in parts])
    return Replay(
        np.concatenate([part.weights / part.weights.sum() for part in parts]) / len(parts),
        np.concatenate([part.means for part in parts]),
        covariances,
        np.concatenate([part.targets for part in parts]),
    )


def sampled(
    parts: Sequence[Replay], n: int, generator: np.random.Generator, *, unit_length: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Embeddings z [n, d] and targets [n, C] drawn from `joined(parts)`; `unit_length` scales the embeddings to length 1."""
    z, targets, _ = joined(parts).sample(n, generator)
    return unit_rows(z).astype(np.float32) if unit_length else z, targets
