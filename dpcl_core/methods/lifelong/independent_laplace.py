"""Independent noise for every record (repair of L2DP-ML): trains on noisy copies only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.cards.coefficient_params import IndependentLaplaceParams
from dpcl_core.methods.lifelong.linear_readout import Readout
from dpcl_core.methods.lifelong.public_features import RandomProjection
from dpcl_core.privacy.coefficient_release import Coefficients
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.local import Randomiser, epsilon_of_each, noisy_records
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.privacy.sums import row_blocks
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


def randomiser(params: IndependentLaplaceParams, n_inputs: int, epsilon: float) -> Randomiser:
    """The local randomiser of a record at this budget, split between values and label."""
    for_values, for_labels = (1 - params.label_share) * epsilon, params.label_share * epsilon
    if params.project_to == 0:
        return Randomiser(n_inputs, for_values, for_labels)
    return Randomiser(params.project_to, for_values, for_labels, params.clip)


class NoisyRecords:
    """All budgets and seeds of a run. Training needs only sums over the noisy copies, so only these are kept.

    Where an example can be in every task, its copies share the budget equally.
    """

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        assert isinstance(spec.params, IndependentLaplaceParams)
        params = spec.params
        self._params, self._labels, self._known = params, spec.labels, known
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
        if params.project_to > known.n_inputs:
            allowed = f"must be at most {known.n_inputs}, the number of values of an example"
            raise BadInput("params.project_to", params.project_to, allowed)
        n_copies = known.n_tasks if known.recurrence == "every" else 1
        self._randomisers = [
            randomiser(params, known.n_inputs, epsilon_of_each(epsilon, spec.privacy.delta, n_copies))
            for epsilon in self._epsilons
        ]
        self._maps: dict[int, RandomProjection] = {}
        n_values, self._unit = known.n_inputs, 1 / math.sqrt(known.n_inputs)
        if params.project_to > 0:
            n_values, self._unit = params.project_to, math.sqrt(params.project_to) / params.clip
            self._maps = {seed: RandomProjection(known.n_inputs, n_values, seed) for seed in self._seeds}
        self._noises: dict[Cell, Noise] = {cell: noise_of(spec.privacy.noise, cell, "records") for cell in cells}
        self._sums: dict[int, Coefficients] = {}  # of the newest task
        self._readout = Readout(params, known, self._seeds, len(self._epsilons), n_values + 1)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        n_steps = self._params.steps
        for done, (seed, task) in enumerate(tasks.items()):
            space = label_space(self._labels, task.prior, self._known.public, task.train.labels, (), task=task.index)
            if not space:  # no class of the task is public: nothing to learn or store
                continue
            for step in self._readout.descend(seed, self._stored(seed, task, space, ledgers)):
                if step % 50 == 0 or step == n_steps:
                    text = f"steps on the noisy copies of {task.name}"
                    yield Progress("training", done * n_steps + step, len(tasks) * n_steps, task.index, text)

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores z = W x of test examples without noise, the only prediction rule."""
        values = self._unit * self._values(seed, task.test.inputs)
        return {"argmax": self._readout.scores(seed, np.hstack([values, np.ones((len(values), 1))]), task)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The sums over the newest task's noisy copies, by name. A sum over one copy is the copy itself."""
        return self._sums[cell.seed].of(self._epsilons.index(cell.epsilon)) if cell.seed in self._sums else {}

    def _stored(self, seed: int, task: Task, space: Sequence[int], ledgers: Mapping[Cell, Ledger]) -> quadratic.Quadratic:
        """The loss of a task, from the noisy copies of every budget."""
        values, labels = self._values(seed, task.train.inputs), task.train.labels
        by_budget = []
        for epsilon, local in zip(self._epsilons, self._randomisers, strict=True):
            cell = Cell(epsilon, seed)
            copies, answers = noisy_records(values, labels, space, local, self._noises[cell], ledgers[cell], task=task.index)
            by_budget.append(unbiased_sums(copies, answers, space, self._known.n_classes, local, self._unit))
        sums = Coefficients(
            np.stack([budget.features for budget in by_budget]),
            np.stack([budget.products for budget in by_budget]),
            np.stack([budget.by_class for budget in by_budget]),
        )
        self._sums[seed] = sums
        return quadratic.of_task(sums, max(1, len(labels)), self._readout.classes(task))

    def _values(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.floating]:
        """The values of each example that are noised: its projection, or its values scaled to [-1, 1]."""
        if seed in self._maps:
            return self._maps[seed].of(inputs)
        assert self._known.form is not None
        return centred(inputs, self._known.form)


def centred(inputs: NDArray[np.generic], form: Form) -> NDArray[np.float32]:
    """Values in the form's range, scaled to [-1, 1]: float32 [n, K]."""
    rows = np.asarray(inputs, dtype=np.float32)
    return np.float32(2 / (form.high - form.low)) * (rows - np.float32(form.low)) - np.float32(1)


def unbiased_sums(
    copies: NDArray[np.float32],
    answers: NDArray[np.int64],
    space: Sequence[int],
    n_classes: int,
    local: Randomiser,
    unit: float,
) -> Coefficients:
    """Unbiased estimates, from noisy copies, of the records' sums; a record is its values times `unit` and a last value 1.

    Noise of variance 2 b^2 adds n 2 b^2 to each sum of squares, which is subtracted. An answer "k" counts (1 - q) / (p - q)
    for class k and -q / (p - q) for the others, with p and q the chances of randomised response.
    """
    n, size = copies.shape
    sums = Coefficients(np.zeros(size + 1), np.zeros((size + 1, size + 1)), np.zeros((n_classes, size + 1)))
    chosen, (true_label, other) = np.asarray(space, dtype=np.int64), local.chances(len(space))
    for part in row_blocks(n, size + 1):
        rows = np.hstack([unit * copies[part].astype(np.float64), np.ones((len(copies[part]), 1))])
        sums.features[:] += rows.sum(axis=0)
        sums.products[:] += rows.T @ rows
        sums.by_class[chosen] += ((chosen[:, None] == answers[None, part]) - other) / (true_label - other) @ rows
    diagonal = np.arange(size)
    sums.products[diagonal, diagonal] -= n * 2 * (unit * local.scale) ** 2
    return sums


def make_learner(spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> NoisyRecords:
    """The learner of a run's whole grid."""
    return NoisyRecords(spec, cells, known)
