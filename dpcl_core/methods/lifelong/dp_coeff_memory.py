"""Coefficient memory (repair of L2DP-ML): trains on noisy sums of public features, released once per task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.cards.coefficient_params import CoeffMemoryParams
from dpcl_core.methods.lifelong.linear_readout import Readout
from dpcl_core.methods.lifelong.public_features import RandomRelu
from dpcl_core.privacy.coefficient_release import Coefficients, coefficients_std, noisy_coefficients
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

_ROOM = 1 << 28  # most bytes of cached test features


class CoefficientMemory:
    """All budgets and seeds of a run. Keeps noisy sums and public facts, never a training example.

    Where an example can be in every task, the noise is calibrated so that all releases together keep the budget.
    """

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        assert isinstance(spec.params, CoeffMemoryParams)
        self._params, self._labels, self._known = spec.params, spec.labels, known
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
        self._maps: dict[int, RandomRelu] = {}
        n_features = known.n_inputs
        if known.form is not None:  # raw example values; otherwise a network's features
            n_features = spec.params.features
            self._maps = {seed: RandomRelu(known.n_inputs, n_features, seed) for seed in self._seeds}
        n_releases = known.n_tasks if known.recurrence == "every" else 1
        self._stds = [
            coefficients_std(
                epsilon,
                spec.privacy.delta,
                spec.privacy.adjacency,
                is_non_negative=known.form is not None,
                n_releases=n_releases,
            )
            for epsilon in self._epsilons
        ]
        self._noises: dict[Cell, Noise] = {cell: noise_of(spec.privacy.noise, cell, "coefficients") for cell in cells}
        self._kept: dict[tuple[int, int], NDArray[np.float32]] = {}  # features of test examples, which are public
        self._sums: dict[int, Coefficients] = {}  # of the newest task
        self._readout = Readout(spec.params, known, self._seeds, len(self._epsilons), n_features)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        n_steps = self._params.steps if self._params.solution == "steps" else 1
        for done, (seed, task) in enumerate(tasks.items()):
            loss = self._released(seed, task, ledgers)
            if self._params.solution == "exact":
                self._readout.solve(seed, loss, [std / self._known.task_size for std in self._stds])
                yield Progress("training", done + 1, len(tasks), task.index, f"solving for {task.name}")
                continue
            for step in self._readout.descend(seed, loss):
                if step % 50 == 0 or step == n_steps:
                    text = f"steps on the sums of {task.name}"
                    yield Progress("training", done * n_steps + step, len(tasks) * n_steps, task.index, text)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores z = W phi, the only prediction rule."""
        return {"argmax": self._readout.scores(seed, self._tested(seed, task), task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The newest task's noisy sums, by name; weights and memory are computed from such sums only."""
        return self._sums[cell.seed].of(self._epsilons.index(cell.epsilon))

    def _released(self, seed: int, task: Task, ledgers: Mapping[Cell, Ledger]) -> quadratic.Quadratic:
        """The loss of a task, from one release for every budget; its examples are not read again."""
        cells = [Cell(epsilon, seed) for epsilon in self._epsilons]
        books = [ledgers[cell] for cell in cells]
        labels = task.train.labels
        space = label_space(self._labels, task.prior, self._known.public, labels, books, task=task.index)
        train = task.train.take(np.flatnonzero(in_label_space(labels, space)))
        sums = noisy_coefficients(
            self._features(seed, train.inputs),
            train.labels,
            space,
            self._known.n_classes,
            self._stds,
            [self._noises[cell] for cell in cells],
            books,
            task=task.index,
            is_non_negative=seed in self._maps,
        )
        self._sums[seed] = sums
        return quadratic.of_task(sums, self._known.task_size, self._readout.classes(task))

    def _tested(self, seed: int, task: Task) -> NDArray[np.float32]:
        """Unit-length features of a task's test examples, cached up to `_ROOM` bytes, since every task is tested often."""
        rows = self._kept.get((seed, task.index))
        if rows is None:
            rows = unit_rows(self._features(seed, task.test.inputs)).astype(np.float32)
            if rows.nbytes + sum(cached.nbytes for cached in self._kept.values()) <= _ROOM:
                self._kept[seed, task.index] = rows
        return rows

    def _features(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        return self._maps[seed].of(inputs) if seed in self._maps else inputs


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> CoefficientMemory:
    """The learner of a run's whole grid."""
    return CoefficientMemory(spec, cells, known)
