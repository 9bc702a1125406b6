"""Linear classifiers trained on released sums: weights and memory of every seed, batched over budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.cards.coefficient_params import CoefficientParams
from dpcl_core.scenarios.stream import Task


class Readout:
    """A run's classifiers, [epsilons, classes, K] for each seed. Holds released sums and public facts, no examples."""

    def __init__(
        self, params: CoefficientParams, known: PublicContext, seeds: Sequence[int], n_budgets: int, n_features: int
    ) -> None:
        self._params, self._public = params, known.public
        self._weights = {seed: np.zeros((n_budgets, known.n_classes, n_features), np.float32) for seed in seeds}
        self._memory = {seed: quadratic.Memory() for seed in seeds}

    def classes(self, task: Task) -> tuple[int, ...]:
        """The classes that compete in a task: all public ones, or with one head per task its own public classes."""
        if self._params.head == "shared":
            return self._public
        return tuple(sorted(set(task.prior) & set(self._public)))

    def descend(self, seed: int, task: quadratic.Quadratic) -> Iterator[int]:
        """Trains on a task's loss, projected against the memory, then stores it; yields the number of steps done."""
        params, memory = self._params, self._memory[seed]
        taken = quadratic.steps(self._weights[seed], task, memory, params.steps, params.learning_rate, params.projection)
        for done, weights in enumerate(taken, start=1):
            self._weights[seed] = weights
            yield done
        memory.keep(task)

    def solve(self, seed: int, task: quadratic.Quadratic, noise_stds: Sequence[float]) -> None:
        """Stores a task's loss and minimises the sum of all stored losses."""
        memory = self._memory[seed]
        memory.keep(task)
        self._weights[seed] = quadratic.solved(self._weights[seed], memory, noise_stds)

    def scores(self, seed: int, features: NDArray[np.floating], task: Task) -> NDArray[np.floating]:
        """Scores [epsilons, n, classes] of features [n, K]; -inf for classes that do not compete in the task."""
        scores = np.asarray(features, dtype=np.float32) @ self._weights[seed].transpose(0, 2, 1)
        others = np.setdiff1d(np.arange(scores.shape[2]), self.classes(task))
        scores[:, :, others] = -np.inf
        return scores
