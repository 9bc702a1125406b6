"""Linear classifiers trained on sums over examples alone: the second-order loss of Lai et al. in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.lifelong.cards.network_params import Projection
from dpcl_core.privacy.coefficient_release import Coefficients

Weights = NDArray[np.floating]  # [e, classes, K], one classifier a budget e

_FLOOR = 1e-4  # least ridge of the exact solution, in units of a mean over unit-length features


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """The second-order loss of one task, or the sum of several tasks' losses, for several budgets e.

    With z_k = W_k . phi, the sum over `classes` k of mean(z_k / 2 + z_k^2 / 8 - y_k z_k) (Lai et al., Eq. 12 corrected; the
    constant log 2 is left out). `features` [e, K], `products` [e, K, K], `by_class` [e, classes, K]: means over a public
    number of examples. `classes`: those whose weights the task trains, ascending; no others are touched. `n_tasks`: how many
    tasks' losses were added up.
    """

    features: NDArray[np.floating]
    products: NDArray[np.floating]
    by_class: NDArray[np.floating]
    classes: tuple[int, ...]
    n_tasks: int = 1

    def gradient(self, weights: Weights) -> Weights:
        """s / 2 + S W_k / 4 - B_k for each of `classes`, zero for the others; same shape as `weights`."""
        found = np.zeros_like(weights)
        own = list(self.classes)
        found[:, own] = self.features[:, None] / 2 + weights[:, own] @ self.products / 4 - self.by_class[:, own]
        return found

    def plus(self, other: Quadratic) -> Quadratic:
        """The two losses added, which train the same classes."""
        return Quadratic(
            self.features + other.features,
            self.products + other.products,
            self.by_class + other.by_class,
            self.classes,
            self.n_tasks + other.n_tasks,
        )


def of_task(sums: Coefficients, n: float, classes: Sequence[int], dtype: type[np.floating] = np.float32) -> Quadratic:
    """The loss that released sums describe, per example of a public number `n` of them.

    A sum of products has no negative eigenvalue, noise gives it some: they are set to zero, without which the loss would
    have no lower end in their directions. Noise stays noise under any such change (post-processing).
    """
    values, vectors = np.linalg.eigh(sums.products / n)
    products = (vectors * np.maximum(values, 0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return Quadratic(
        (sums.features / n).astype(dtype), products.astype(dtype), (sums.by_class / n).astype(dtype), tuple(classes)
    )


@dataclass(slots=True)
class Memory:
    """The losses of the tasks that have ended, in place of their examples: those of the same classes are added up."""

    groups: dict[tuple[int, ...], Quadratic] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        return sum(group.n_tasks for group in self.groups.values())

    def keep(self, task: Quadratic) -> None:
        """Takes the loss of a task that has ended."""
        stored = self.groups.get(task.classes)
        self.groups[task.classes] = task if stored is None else stored.plus(task)

    def gradient(self, weights: Weights) -> Weights:
        """The gradient of the mean loss of the stored tasks; zero before the first."""
        found = np.zeros_like(weights)
        for group in self.groups.values():
            found += group.gradient(weights)
        return found / max(1, self.n_tasks)


def projected(grads: Weights, refs: Weights, when: Projection) -> Weights:
    """g - (g.g_ref / g_ref.g_ref) g_ref for each budget, where the projection applies; else g itself.

    As `projection.project` for networks: "if-violated" where g.g_ref < 0, "always" at every step; g_ref = 0 gives g.
    """
    along = np.einsum("eck,eck->e", grads, refs)
    length = np.einsum("eck,eck->e", refs, refs)
    applies = (length > 0) & ((along < 0) | (when == "always")) & (when != "never")
    factor = np.divide(along, length, out=np.zeros_like(along), where=applies)
    kept: Weights = grads - factor[:, None, None] * refs
    return kept


def steps(
    weights: Weights, task: Quadratic, memory: Memory, n_steps: int, learning_rate: float, when: Projection
) -> Iterator[Weights]:
    """The classifiers after each of `n_steps` steps of gradient descent on the task, projected against the memory (A-GEM).

    A step is never longer than one over the loss's curvature: descent on a quadratic then cannot diverge, however large the
    noise in its products is. All of it is post-processing: any number of steps costs nothing.
    """
    curvature = np.linalg.eigvalsh(task.products)[:, -1] / 4
    rates = np.minimum(learning_rate, np.divide(1, curvature, out=np.full_like(curvature, np.inf), where=curvature > 0))
    use_memory = memory.n_tasks > 0 and when != "never"
    for _ in range(n_steps):
        grads = task.gradient(weights)
        if use_memory:
            grads = projected(grads, memory.gradient(weights), when)
        weights = weights - rates[:, None, None] * grads
        yield weights


def solved(weights: Weights, memory: Memory, noise_stds: Sequence[float]) -> Weights:
    """The classifiers that minimise the sum of all stored losses, each class over the tasks that train it.

    W_k = 4 (sum of S + r I)^-1 (sum of B_k - s / 2). The ridge r is the size that noise alone gives the largest eigenvalue:
    sqrt(2 K m) times its standard deviation for m tasks (a symmetric Gaussian matrix; Wigner), and never less than 1e-4 a
    task. Classes that no task has trained keep their `weights`. Args: noise_stds: of the noise in the means of one task, by
    budget.
    """
    found = weights.copy()
    together: dict[tuple[Quadratic, ...], list[int]] = {}  # classes trained by the same tasks are solved for at once
    for label in sorted(set().union(*memory.groups)):
        together.setdefault(tuple(group for group in memory.groups.values() if label in group.classes), []).append(label)
    for groups, labels in together.items():
        n_tasks, size = sum(group.n_tasks for group in groups), weights.shape[2]
        ridge = np.maximum(_FLOOR * n_tasks, math.sqrt(2 * size * n_tasks) * np.asarray(noise_stds))
        left = _total([group.products for group in groups]) + ridge[:, None, None] * np.eye(size)
        right = _total([group.by_class[:, labels] - group.features[:, None] / 2 for group in groups])
        found[:, labels] = 4 * np.linalg.solve(left, right.transpose(0, 2, 1)).transpose(0, 2, 1)
    return found


def _total(parts: Sequence[NDArray[np.floating]]) -> NDArray[np.float64]:
    added: NDArray[np.float64] = np.stack(parts).sum(axis=0, dtype=np.float64)
    return added
