"""Local lists: a client's embeddings as a few weighted Gaussians with targets, fitted on the client itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.gaussians import diagonal, log_densities

Form = Literal["diagonal", "full"]
_GAIN = 1e-3  # EM stops when the mean log-likelihood of a row grows by less, as scikit-learn has it
# Starts that end in the same place differ in the last digits of single precision, which a processor's kernels decide: of
# those this close to the likeliest the first is kept, so that a list's order is the same everywhere.
_SAME = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One entry of a list: share of the client's rows, mean [d], covariance [d] (diagonal) or [d, d], mean target [C].

    An element without rows has weight 0, mean and target zero and variance 1/d: a list's length says nothing of its client.
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
        """Of at least one list, all equally long."""
        return cls(
            np.array([[element.weight for element in each] for each in lists]),
            np.array([[element.mean for element in each] for each in lists]),
            np.array([[element.covariance for element in each] for each in lists]),
            np.array([[element.target for element in each] for each in lists]),
        )

    @classmethod
    def of_tasks(cls, tasks: Sequence[Lists]) -> Lists:
        """The lists of several tasks as one of every client, weights shared out."""
        weights, means, covariances, targets = (
            np.concatenate([getattr(each, name) for each in tasks], axis=1)
            for name in ("weights", "means", "covariances", "targets")
        )
        return cls(weights / len(tasks), means, covariances, targets)

    @classmethod
    def stacked(cls, groups: Sequence[Lists]) -> Lists:
        """The lists of several groups of clients under one another, shorter ones made as long by entries of weight zero."""
        entries = np.arange(max(each.weights.shape[1] for each in groups))
        last = [np.minimum(entries, each.weights.shape[1] - 1) for each in groups]
        weights, means, covariances, targets = (
            np.concatenate([getattr(each, name)[:, places] for each, places in zip(groups, last, strict=True)])
            for name in ("weights", "means", "covariances", "targets")
        )
        exists = np.concatenate([np.tile(entries < each.weights.shape[1], (len(each), 1)) for each in groups])
        return cls(weights * exists, means, covariances, targets)

    @classmethod
    def of_homes(cls, tasks: Sequence[Lists]) -> tuple[Lists, NDArray[np.int64]]:
        """Where each client has a list in one task alone: these lists, and whose they are, int64 [n], ascending."""
        held = np.stack([each.weights.sum(axis=1) > 0 for each in tasks])
        homes = np.where(held.any(axis=0), held.argmax(axis=0), -1)
        of_task = [np.flatnonzero(homes == task) for task in range(len(tasks))]
        clients = np.concatenate(of_task)
        order = np.argsort(clients)
        return cls.stacked([each.take(own) for each, own in zip(tasks, of_task, strict=True)]).take(order), clients[order]

    def __len__(self) -> int:
        return len(self.weights)

    def elements(self, client: int) -> list[Element]:
        """One client's list."""
        columns = (self.weights[client], self.means[client], self.covariances[client], self.targets[client])
        return [Element(float(weight), *rest) for weight, *rest in zip(*columns, strict=True)]

    def take(self, clients: NDArray[np.int64]) -> Lists:
        """The lists of these clients, in this order."""
        return Lists(self.weights[clients], self.means[clients], self.covariances[clients], self.targets[clients])

    @property
    def second_moments(self) -> NDArray[np.float64]:
        """E[z zᵀ] of every element, [n, L, d, d], or its diagonal [n, L, d], as the covariances are."""
        if self.covariances.ndim == 3:
            return self.covariances + self.means**2
        return self.covariances + self.means[..., :, None] * self.means[..., None, :]


@dataclass(frozen=True, slots=True)
class ListLearner:
    """Fits a Gaussian mixture by EM, several times from different starts, and keeps the likeliest.

    `form`: diagonal or full covariances, `ridge` added to their diagonal; at most `n_steps` of EM. Nothing here is private:
    what is fitted stays on the client until a mechanism takes it.
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
        fitted = min(self.n_elements, len(z))
        missing = [self._without_rows(z.shape[1], y.shape[1])] * (self.n_elements - fitted)
        return (self._fitted(z, y, fitted, generator) if fitted else []) + missing

    def _fitted(
        self, z: NDArray[np.floating], y: NDArray[np.floating], n_elements: int, generator: np.random.Generator
    ) -> list[Element]:
        centre = z.mean(axis=0, dtype=np.float64)
        rows = z - centre.astype(z.dtype)  # second moments less squared means lose fewer digits around the centre
        squares = rows**2
        starts = np.concatenate([_spread_rows(rows, n_elements, generator) for _ in range(self.restarts)])
        far = (starts**2).sum(axis=1) - 2 * rows @ starts.T  # less the row's own square, the same for all starts
        nearest = far.reshape(len(z), self.restarts, n_elements).argmin(axis=2)
        belongs = (nearest[:, :, None] == np.arange(n_elements)).astype(rows.dtype)
        likelihood = np.full(self.restarts, -np.inf)
        for _ in range(self.n_steps):
            weights, means, covariances = self._moments(rows, squares, belongs.reshape(len(z), -1))
            density = self._density(rows, squares, means, covariances).T + np.log(np.maximum(weights, 1e-30))
            density = density.reshape(belongs.shape).astype(rows.dtype)
            top = density.max(axis=2, keepdims=True)
            belongs = np.exp(density - top)
            total = belongs.sum(axis=2, keepdims=True)
            belongs /= total
            before, likelihood = likelihood, (top + np.log(total))[:, :, 0].mean(axis=0, dtype=np.float64)
            if not (likelihood - before >= _GAIN).any():
                break
        best = belongs[:, int(np.argmax(likelihood >= likelihood.max() - _SAME))]
        weights, means, covariances = self._moments(rows, squares, best)
        targets = best.T @ y / np.maximum(best.sum(axis=0), 1e-30)[:, None]
        return [
            Element(float(weight), mean + centre, covariance.astype(np.float64), target.astype(np.float64))
            if weight > 0
            else self._without_rows(z.shape[1], y.shape[1])
            for weight, mean, covariance, target in zip(weights, means, covariances, targets, strict=True)
        ]

    def _moments(
        self, rows: NDArray[np.floating], squares: NDArray[np.floating], belongs: NDArray[np.floating]
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
        """Weights [c], means [c, d], covariances of responsibilities [n, c]; the ridge keeps them invertible."""
        counts = np.maximum(belongs.sum(axis=0), 1e-30)
        means = (belongs.T @ rows) / counts[:, None]
        weights = counts / len(rows) * (counts > 1e-20)
        if self.form == "diagonal":
            spread = (belongs.T @ squares) / counts[:, None] - means**2
            return weights, means, np.maximum(spread, 0) + self.ridge
        products = np.stack([(rows * share[:, None]).T @ rows for share in belongs.T]) / counts[:, None, None]
        full = products - means[:, :, None] * means[:, None, :]
        return weights, means, full + self.ridge * np.eye(rows.shape[1], dtype=rows.dtype)

    def _density(
        self,
        rows: NDArray[np.floating],
        squares: NDArray[np.floating],
        means: NDArray[np.floating],
        covariances: NDArray[np.floating],
    ) -> NDArray[np.floating]:
        if self.form == "diagonal":
            return diagonal(rows, squares, means, covariances)
        return log_densities(rows, means, covariances)

    def _without_rows(self, d: int, n_classes: int) -> Element:
        variances = np.full(d, 1 / d)
        covariance = variances if self.form == "diagonal" else np.diag(variances)
        return Element(0.0, np.zeros(d), covariance, np.zeros(n_classes))


def _spread_rows(rows: NDArray[np.floating], count: int, generator: np.random.Generator) -> NDArray[np.floating]:
    """Rows far apart, each drawn in proportion to its squared distance to those before (k-means++)."""
    chosen = [int(generator.integers(len(rows)))]
    far = ((rows - rows[chosen[0]]) ** 2).sum(axis=1, dtype=np.float64)
    while len(chosen) < count:
        left = far.sum()  # zero where all rows are alike: then any will do
        chosen.append(int(generator.choice(len(rows), p=far / left if left > 0 else None)))
        far = np.minimum(far, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1, dtype=np.float64))
    return rows[chosen]
