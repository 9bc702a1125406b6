"""Base of the learners that train linear classifiers on sums over a task's examples, released once per task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Fact, Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.cards.coefficient_params import CoefficientParams
from dpcl_core.privacy.coefficient_release import Coefficients
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

_STEPS_PER_PROGRESS = 50


class LinearReadout:
    """Classifiers of all budgets and seeds of a run. Holds released sums and public facts, no examples."""

    KEPT = ("_noises", "_sums", "_weights", "_memory", "_lists")
    kept_records = (Coefficients, quadratic.Memory, quadratic.Quadratic)
    params: CoefficientParams

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext, purpose: str, n_features: int) -> None:
        assert isinstance(spec.params, CoefficientParams)
        self.params, self._labels, self._context = spec.params, spec.labels, context
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._noises = {cell: noise_of(spec.privacy.noise, cell, purpose) for cell in cells}
        self._sums: dict[int, Coefficients] = {}  # of the newest task, by seed
        shape, seeds = (len(self._epsilons), context.n_classes, n_features), {cell.seed for cell in cells}
        self._weights: dict[int, quadratic.Weights] = {seed: np.zeros(shape, np.float32) for seed in seeds}
        self._memory = {seed: quadratic.Memory() for seed in seeds}
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

    def _loss(self, seed: int, task: Task, sums: Coefficients, n: float) -> quadratic.Quadratic:
        """The loss of a task from its released sums over a public number `n` of examples."""
        self._sums[seed] = sums
        self._lists[seed].append(self._classes(task))
        return quadratic.of_task(sums, n, self._classes(task))

    def _classes(self, task: Task) -> tuple[int, ...]:
        """The classes that compete in a task: all public ones, or with one head per task its own public classes."""
        public = self._context.public
        return public if self.params.head == "shared" else tuple(sorted(set(task.prior) & set(public)))

    def _descend(
        self, seed: int, task: Task, loss: quadratic.Quadratic, what: str, turn: int, n_turns: int
    ) -> Iterator[Progress]:
        """Trains on a task's loss, projected against the memory, then stores it. This is training `turn` of `n_turns`."""
        params, memory = self.params, self._memory[seed]
        n_steps, start = params.steps, self._weights[seed]
        taken = quadratic.steps(start, loss, memory, n_steps, params.learning_rate, params.projection)
        for step, weights in enumerate(taken, start=1):
            self._weights[seed] = weights
            if step % _STEPS_PER_PROGRESS == 0 or step == n_steps:
                text = f"steps on {what} of {task.name}"
                yield Progress("training", turn * n_steps + step, n_turns * n_steps, task.index, text)
        memory.keep(loss)

    def _solve(self, seed: int, loss: quadratic.Quadratic, noise_stds: Sequence[float]) -> None:
        """Stores a task's loss and minimises the sum of all stored losses."""
        self._memory[seed].keep(loss)
        self._weights[seed] = quadratic.solved(self._weights[seed], self._memory[seed], noise_stds)

    def _class_scores(self, seed: int, features: NDArray[np.floating], task: Task) -> NDArray[np.floating]:
        """Scores [epsilons, n, classes] of features [n, K]; -inf for classes that do not compete in the task."""
        scores = np.asarray(features, dtype=np.float32) @ self._weights[seed].transpose(0, 2, 1)
        scores[:, :, np.setdiff1d(np.arange(scores.shape[2]), self._classes(task))] = -np.inf
        return scores
