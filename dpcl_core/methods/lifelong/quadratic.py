"""Linear classifiers trained on sums over examples: the second-order loss of Lai et al. in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Fact, Progress
from dpcl_core.methods.common.classifier import Rule, masked
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.lifelong.params import CoefficientParams, Projection
from dpcl_core.privacy.mechanisms import Coefficients
from dpcl_core.privacy.noise import noise_of
from dpcl_core.privacy.sums import RowProducts, by_blocks, unit_rows
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

Weights = NDArray[np.floating]  # [e, classes, K], one classifier per budget e

_FLOOR = 1e-4  # smallest ridge per task in the exact solution, for means over unit-length features


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """The second-order loss of one task, or the sum of several tasks' losses, for several budgets e.

    With z_k = W_k . phi, the sum over `classes` k of mean(z_k / 2 + z_k^2 / 8 - y_k z_k) (Lai et al., Eq. 12 corrected; the
    constant log 2 is left out). `features` [e, K], `products` [e, K, K], `by_class` [e, classes, K]: means over a public
    number of examples. `classes`: ascending, those whose weights the task trains; others stay fixed. `n_tasks`: number
    of tasks whose losses were added.
    """

    features: NDArray[np.floating]
    products: NDArray[np.floating]
    by_class: NDArray[np.floating]
    classes: tuple[int, ...]
    n_tasks: int = 1

    def gradient(self, weights: Weights) -> Weights:
        """Gradient s / 2 + S W_k / 4 - B_k for each of `classes`, zero for the others; same shape as `weights`."""
        gradient = np.zeros_like(weights)
        classes = list(self.classes)
        products = weights[:, classes] @ self.products
        gradient[:, classes] = self.features[:, None] / 2 + products / 4 - self.by_class[:, classes]
        return gradient

    def __add__(self, other: Quadratic) -> Quadratic:
        """The sum of two losses that train the same classes."""
        features, products = self.features + other.features, self.products + other.products
        return Quadratic(features, products, self.by_class + other.by_class, self.classes, self.n_tasks + other.n_tasks)


def of_task(sums: Coefficients, n: float, classes: Sequence[int], dtype: type[np.floating] = np.float32) -> Quadratic:
    """The loss given by released sums, per example for a public number `n` of examples.

    Noise can give the sum of products negative eigenvalues, along which the loss would be unbounded below: they are set to
    zero, which is post-processing.
    """
    values, vectors = np.linalg.eigh(sums.products / n)
    products = (vectors * np.maximum(values, 0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return Quadratic(
        (sums.features / n).astype(dtype), products.astype(dtype), (sums.by_class / n).astype(dtype), tuple(classes)
    )


@dataclass(slots=True)
class Memory:
    """Losses of the finished tasks in place of their examples; losses of the same classes are summed."""

    groups: dict[tuple[int, ...], Quadratic] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        return sum(group.n_tasks for group in self.groups.values())

    def keep(self, task: Quadratic) -> None:
        """Stores the loss of a finished task."""
        stored = self.groups.get(task.classes)
        self.groups[task.classes] = task if stored is None else stored + task

    def gradient(self, weights: Weights) -> Weights:
        """Gradient of the stored tasks' mean loss; zero before the first."""
        total = sum((group.gradient(weights) for group in self.groups.values()), np.zeros_like(weights))
        return total / max(1, self.n_tasks)


def projected(grads: Weights, refs: Weights, when: Projection) -> Weights:
    """g - (g.g_ref / g_ref.g_ref) g_ref for each budget where the projection applies; otherwise g.

    As `nets.project` for networks: "if-violated" where g.g_ref < 0, "always" at every step; g_ref = 0 gives g.
    """
    along = np.einsum("eck,eck->e", grads, refs)
    length = np.einsum("eck,eck->e", refs, refs)
    applies = (length > 0) & ((along < 0) | (when == "always")) & (when != "never")
    factor = np.divide(along, length, out=np.zeros_like(along), where=applies)
    result: Weights = grads - factor[:, None, None] * refs
    return result


def steps(
    weights: Weights, task: Quadratic, memory: Memory, n_steps: int, learning_rate: float, when: Projection
) -> Iterator[Weights]:
    """The classifiers after each of `n_steps` steps of gradient descent on the task, projected against the memory (A-GEM).

    The step size is at most one over the loss's curvature: descent on a quadratic then cannot diverge, for any noise in its
    products. All of it is post-processing: any number of steps is free.
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

    W_k = 4 (sum of S + r I)^-1 (sum of B_k - s / 2). The ridge r is the largest eigenvalue that noise alone produces:
    sqrt(2 K m) times its standard deviation for m tasks (a symmetric Gaussian matrix; Wigner), and at least 1e-4 per task.
    Classes that no task has trained keep their `weights`. Args: noise_stds: standard deviation of the noise in one task's
    means, by budget.
    """
    result = weights.copy()
    by_tasks: dict[tuple[Quadratic, ...], list[int]] = {}  # classes trained by the same tasks share one solve
    for label in sorted(set().union(*memory.groups)):
        by_tasks.setdefault(tuple(group for group in memory.groups.values() if label in group.classes), []).append(label)
    for groups, labels in by_tasks.items():
        n_tasks, size = sum(group.n_tasks for group in groups), weights.shape[2]
        ridge = np.maximum(_FLOOR * n_tasks, math.sqrt(2 * size * n_tasks) * np.asarray(noise_stds))
        products = np.stack([group.products for group in groups]).sum(axis=0, dtype=np.float64)
        linear = np.stack([group.by_class[:, labels] - group.features[:, None] / 2 for group in groups])
        left, right = products + ridge[:, None, None] * np.eye(size), linear.sum(axis=0, dtype=np.float64)
        result[:, labels] = 4 * np.linalg.solve(left, right.transpose(0, 2, 1)).transpose(0, 2, 1)
    return result


class RandomMap:
    """A random map of values by a matrix M of independent normal numbers. It depends on public settings and a seed alone.

    relu: features max(x M, 0) of values x, nonnegative, of any norm. projection: u M of values u, centred to mean 0 and
    scaled to norm 1. Centring helps where all values have one sign: examples then differ by more within the norm. The scale
    of M gives the projected values an L1 norm of 1 on average over M, for any number of dimensions.
    """

    def __init__(self, kind: Literal["relu", "projection"], n_inputs: int, n_features: int, seed: int) -> None:
        self._is_relu, self._n_features = kind == "relu", n_features
        purpose = {"relu": "random features", "projection": "random projection"}[kind]
        drawn = generator(seed, purpose).standard_normal((n_inputs, n_features))
        scaled = drawn / math.sqrt(n_inputs) if self._is_relu else drawn * math.sqrt(math.pi / 2) / n_features
        self._weights = RowProducts(scaled)

    def of(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """Features float32 [n, features] of inputs [n, K], each row's from that row alone; relu of one not finite: zeros."""
        return by_blocks(inputs, self._n_features, self._of_block)

    def _of_block(self, inputs: NDArray[np.generic]) -> NDArray[np.float64]:
        if self._is_relu:
            return np.maximum(self._weights.of(inputs), 0)
        rows = np.asarray(inputs, dtype=np.float64, order="C")
        return self._weights.of(unit_rows(rows - rows.mean(axis=1, keepdims=True)))


# Base of the learners that train linear classifiers on sums over a task's examples, released once per task.


class LinearReadout:
    """Classifiers of all budgets and seeds of a run. Holds released sums and public facts, no examples."""

    KEPT = ("_noises", "_sums", "_weights", "_memory", "_lists")
    kept_records = (Coefficients, Memory, Quadratic)
    params: CoefficientParams

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, purpose: str, n_features: int) -> None:
        self.params, self._labels, self._context = settings_of(spec, CoefficientParams), spec.labels, context
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._noises = {cell: noise_of(spec.privacy.noise, cell, purpose) for cell in cells}
        self._sums: dict[int, Coefficients] = {}  # of the newest task, by seed
        shape, seeds = (len(self._epsilons), context.n_classes, n_features), {cell.seed for cell in cells}
        self._weights: dict[int, Weights] = {seed: np.zeros(shape, np.float32) for seed in seeds}
        self._memory = {seed: Memory() for seed in seeds}
        self._lists: dict[int, list[tuple[int, ...]]] = {seed: [] for seed in seeds}  # the classes of each task

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The newest task's sums by name, and the `weights` [classes, K], computed from such sums only."""
        if cell.seed not in self._sums:
            return {}
        place = self._epsilons.index(cell.epsilon)
        return {**self._sums[cell.seed].of(place), "weights": self._weights[cell.seed][place].copy()}

    def _rule(self, cell: Cell, **facts: Fact) -> Rule | None:
        """The largest score z = W phi; None before the first release. `facts`: how phi is made of an example's values."""
        lists = self._lists[cell.seed]
        columns, competing = range(self._context.n_classes), sorted(set().union(*lists))
        by_task = lists if self.params.is_task_given else ()
        return Rule("readout", ("weights",), columns, competing, by_task, facts) if lists else None

    def _loss(self, seed: int, task: Task, sums: Coefficients, n: float) -> Quadratic:
        """The loss of a task from its released sums over a public number `n` of examples."""
        self._sums[seed] = sums
        self._lists[seed].append(self._classes(task))
        return of_task(sums, n, self._classes(task))

    def _classes(self, task: Task) -> tuple[int, ...]:
        """The classes that compete in a task: all public ones, or with one head per task its own public classes."""
        public = self._context.public
        return public if self.params.head == "shared" else tuple(sorted(set(task.prior) & set(public)))

    def _descend(self, seed: int, task: Task, loss: Quadratic, what: str, turn: int, n_turns: int) -> Iterator[Progress]:
        """Trains on a task's loss, projected against the memory, then stores it. This is training `turn` of `n_turns`."""
        params, memory = self.params, self._memory[seed]
        n_steps, start = params.steps, self._weights[seed]
        taken = steps(start, loss, memory, n_steps, params.learning_rate, params.projection)
        for step, weights in enumerate(taken, start=1):
            self._weights[seed] = weights
            if step % 50 == 0 or step == n_steps:
                text = f"steps on {what} of {task.name}"
                yield Progress("training", turn * n_steps + step, n_turns * n_steps, task.index, text)
        memory.keep(loss)

    def _class_scores(self, seed: int, features: NDArray[np.floating], task: Task) -> NDArray[np.floating]:
        """Scores [epsilons, n, classes] of features [n, K]; -inf for classes that do not compete in the task."""
        scores: NDArray[np.floating] = np.asarray(features, dtype=np.float32) @ self._weights[seed].transpose(0, 2, 1)
        return masked(scores, self._classes(task))
