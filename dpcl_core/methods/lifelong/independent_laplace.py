"""Independent noise for every record (repair of L2DP-ML): trains on noisy copies only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import PublicSizes, each_task
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.cards.coefficient_params import IndependentLaplaceParams
from dpcl_core.methods.lifelong.quadratic import LinearReadout, RandomProjection
from dpcl_core.privacy.coefficient_release import Coefficients
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import row_blocks
from dpcl_core.privacy.text_mechanisms import Randomiser, epsilon_of_each, noisy_records
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec


def randomiser(params: IndependentLaplaceParams, n_inputs: int, epsilon: float) -> Randomiser:
    """The local randomiser of a record at this budget, split between values and label."""
    for_values, for_labels = (1 - params.label_share) * epsilon, params.label_share * epsilon
    if params.project_to == 0:
        return Randomiser(n_inputs, for_values, for_labels)
    return Randomiser(params.project_to, for_values, for_labels, params.clip)


class NoisyRecords(LinearReadout):
    """All budgets and seeds of a run. Training needs only sums over the noisy copies, so only these are kept.

    Where an example can be in every task, its copies share the budget equally.
    """

    params: IndependentLaplaceParams

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        assert isinstance(spec.params, IndependentLaplaceParams)
        params, n_inputs = spec.params, context.n_inputs
        if params.project_to > n_inputs:
            allowed = f"must be at most {n_inputs}, the number of values of an example"
            raise BadInput("params.project_to", params.project_to, allowed)
        super().__init__(spec, cells, context, "records", (params.project_to or n_inputs) + 1)
        n_copies = context.n_tasks if context.recurrence == "every" else 1
        self._randomisers = [
            randomiser(params, n_inputs, epsilon_of_each(epsilon, spec.privacy.delta, n_copies))
            for epsilon in self._epsilons
        ]
        is_projected = params.project_to > 0
        self._unit = math.sqrt(params.project_to) / params.clip if is_projected else 1 / math.sqrt(n_inputs)
        seeds = self._weights if is_projected else ()
        self._maps = {seed: RandomProjection(n_inputs, params.project_to, seed) for seed in seeds}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for turn, (seed, task) in enumerate(tasks.items()):
            public = self._context.public
            space = label_space(self._labels, task.prior, public, task.train.labels, (), task=task.index)
            if space:  # without a public class there is nothing to learn or store
                loss = self._stored(seed, task, space, ledgers)
                yield from self._descend(seed, task, loss, "the noisy copies", turn, len(tasks))

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores z = W x of test examples without noise, the only prediction rule."""
        values = self._unit * self._values(seed, task.test.inputs)
        return {"argmax": self._class_scores(seed, np.hstack([values, np.ones((len(values), 1))]), task)}

    def rule(self, cell: Cell) -> Rule | None:
        """The largest score of an example's values, projected at random or scaled to [-1, 1], and a last 1."""
        size = self.params.project_to
        if not size:
            return self._rule(cell, unit=self._unit, centred=True)
        return self._rule(cell, unit=self._unit, random="projection", seed=cell.seed, n_features=size)

    def _stored(self, seed: int, task: Task, space: Sequence[int], ledgers: Mapping[Cell, Ledger]) -> quadratic.Quadratic:
        """The loss of a task, from the noisy copies of every budget. A sum over one copy is the copy itself."""
        values, labels = self._values(seed, task.train.inputs), task.train.labels
        by_budget = []
        for epsilon, local in zip(self._epsilons, self._randomisers, strict=True):
            cell = Cell(epsilon, seed)
            copies, answers = noisy_records(values, labels, space, local, self._noises[cell], ledgers[cell], task=task.index)
            by_budget.append(unbiased_sums(copies, answers, space, self._context.n_classes, local, self._unit))
        names = ("features", "products", "by_class")
        sums = Coefficients(*(np.stack([getattr(budget, name) for budget in by_budget]) for name in names))
        return self._loss(seed, task, sums, max(1, len(labels)))

    def _values(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.floating]:
        """The values of each example that are noised: its projection, or its values scaled to [-1, 1]."""
        if seed in self._maps:
            return self._maps[seed].of(inputs)
        assert self._context.form is not None
        return centred(inputs, self._context.form)


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


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> NoisyRecords:
    """The learner of a run's whole grid."""
    return NoisyRecords(spec, cells, context)


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.planned`): one noisy copy of every record a task."""
    assert isinstance(spec.params, IndependentLaplaceParams)
    n_copies = facts.n_tasks if facts.recurrence == "every" else 1
    each_task(ledger, facts, randomiser(spec.params, 1, epsilon_of_each(epsilon, spec.privacy.delta, n_copies)).event)
