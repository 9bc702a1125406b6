"""Local lists: a client's embeddings as a few weighted Gaussians with targets, fitted on the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.federated.gaussians import diagonal, log_densities

Form = Literal["diagonal", "full"]
_GAIN = 1e-3  # EM stops when the mean log-likelihood of a row grows by less, as in scikit-learn
# Starts that reach the same optimum differ in the last digits of single precision, which depend on the processor's kernels.
# The first start this close to the best is kept, so that a list's order is the same on every machine.
_SAME = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One entry of a list: share of the client's rows, mean [d], covariance [d] (diagonal) or [d, d], mean target [C].

    An element without rows has weight 0, zero mean and target, and variance 1/d: a list's length reveals nothing.
    """

    weight: float
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    target: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists of n clients stacked, all of L elements.

    `weights` [n, L]; `means` [n, L, d]; `covariances` [n, L, d] or [n, L, d, d]; `targets` [n, L, C]; float64.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    targets: NDArray[np.float64]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Element]]) -> Lists:
        """Stacks at least one list; all must have the same length."""
        names = ("weight", "mean", "covariance", "target")
        return cls(*(np.array([[getattr(element, name) for element in entries] for entries in lists]) for name in names))

    @classmethod
    def of_tasks(cls, tasks: Sequence[Lists]) -> Lists:
        """Concatenates every client's lists of several tasks into one, dividing weights by the number of tasks."""
        weights, *others = (np.concatenate(arrays, axis=1) for arrays in zip(*(task._arrays for task in tasks), strict=True))
        return cls(weights / len(tasks), *others)

    @classmethod
    def stacked(cls, groups: Sequence[Lists]) -> Lists:
        """Stacks the lists of several groups of clients; shorter lists are padded with entries of weight zero."""
        entries = np.arange(max(group.weights.shape[1] for group in groups))
        last = [np.minimum(entries, group.weights.shape[1] - 1) for group in groups]
        padded = ([array[:, places] for array in group._arrays] for group, places in zip(groups, last, strict=True))
        weights, *others = (np.concatenate(arrays) for arrays in zip(*padded, strict=True))
        exists = np.concatenate([np.tile(entries < group.weights.shape[1], (len(group), 1)) for group in groups])
        return cls(weights * exists, *others)

    @classmethod
    def of_homes(cls, tasks: Sequence[Lists]) -> tuple[Lists, NDArray[np.int64]]:
        """For clients with a list in one task only: these lists, and their clients' numbers int64 [n], ascending."""
        held = np.stack([task.weights.sum(axis=1) > 0 for task in tasks])
        homes = np.where(held.any(axis=0), held.argmax(axis=0), -1)
        of_task = [np.flatnonzero(homes == task) for task in range(len(tasks))]
        clients = np.concatenate(of_task)
        order = np.argsort(clients)
        lists = cls.stacked([task.take(members) for task, members in zip(tasks, of_task, strict=True)])
        return lists.take(order), clients[order]

    @property
    def _arrays(self) -> tuple[NDArray[np.float64], ...]:
        return self.weights, self.means, self.covariances, self.targets

    def __len__(self) -> int:
        return len(self.weights)

    def elements(self, client: int) -> list[Element]:
        """One client's list."""
        columns = (array[client] for array in self._arrays)
        return [Element(float(weight), *others) for weight, *others in zip(*columns, strict=True)]

    def take(self, clients: NDArray[np.int64]) -> Lists:
        """The lists of these clients, in this order."""
        return Lists(*(array[clients] for array in self._arrays))

    @property
    def second_moments(self) -> NDArray[np.float64]:
        """E[z zᵀ] of every element, [n, L, d, d], or its diagonal [n, L, d], as the covariances are."""
        if self.covariances.ndim == 3:
            return self.covariances + self.means**2
        return self.covariances + self.means[..., :, None] * self.means[..., None, :]


@dataclass(frozen=True, slots=True)
class ListLearner:
    """Fits a Gaussian mixture by EM from several starts and keeps the likeliest.

    `form`: diagonal or full covariances, `ridge` added to their diagonal; at most `n_steps` of EM. The result is not
    private: it must stay on the client until a mechanism releases it.
    """

    n_elements: int = 4
    restarts: int = 3
    n_steps: int = 50
    form: Form = "diagonal"
    ridge: float = 1e-3

    def fit(self, z: NDArray[np.floating], y: NDArray[np.floating], generator: np.random.Generator) -> list[Element]:
        """A list of exactly `n_elements`; with fewer rows than elements some have weight 0.

        Args: z [n, d] embeddings; y [n, C] one-hot, multi-hot or soft labels.
        """
        fitted = min(self.n_elements, len(z))
        missing = [self._without_rows(z.shape[1], y.shape[1])] * (self.n_elements - fitted)
        return (self._fitted(z, y, fitted, generator) if fitted else []) + missing

    def _fitted(
        self, z: NDArray[np.floating], y: NDArray[np.floating], n_elements: int, generator: np.random.Generator
    ) -> list[Element]:
        centre = z.mean(axis=0, dtype=np.float64)
        rows = z - centre.astype(z.dtype)  # centred: E[z²] - E[z]² cancels fewer digits
        squares = rows**2
        starts = np.concatenate([_spread_rows(rows, n_elements, generator) for _ in range(self.restarts)])
        far = (starts**2).sum(axis=1) - 2 * rows @ starts.T  # without the row's square, which is the same for all starts
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
        """Weights [c], means [c, d] and covariances under responsibilities [n, c]; the ridge keeps them invertible."""
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
    """k-means++ starts: each row is drawn with chance proportional to its squared distance to the rows chosen before."""
    chosen = [int(generator.integers(len(rows)))]
    far = ((rows - rows[chosen[0]]) ** 2).sum(axis=1, dtype=np.float64)
    while len(chosen) < count:
        left = far.sum()  # zero where all rows are equal: then any row serves
        chosen.append(int(generator.choice(len(rows), p=far / left if left > 0 else None)))
        far = np.minimum(far, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1, dtype=np.float64))
    return rows[chosen]
