"""The DP cosine classifier (Tobaben et al., Algorithm 1): noisy sums of unit-length features, one per class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.layers import Print
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import learned_list
from dpcl_core.methods.common.learner import PublicContext, labelled
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.features import params, trainer
from dpcl_core.privacy.accounting import training_budget
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.labels import LabelLists, listed_labels
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import class_sums_std, noisy_class_sums
from dpcl_core.privacy.noise import Noise, noise_of
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal
from dpcl_core.privacy.sums import row_blocks, unit_rows
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, Params, RunSpec


@dataclass(frozen=True, kw_only=True)
class CosineParams(Params):
    """Settings of the cosine classifier: none, because the budget alone sets its noise."""


class CosineClassifier:
    """Noisy class sums of all budgets and seeds of a run, in one array [seeds, epsilons, classes, K]. Keeps nothing else.

    Budgets of one seed with the same labels share a task's clean sums, which exist only inside the mechanism; they never
    share noise.
    """

    KEPT = ("_noises", "_sums", "_released")

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
        budgets = [training_budget(spec.privacy, spec.labels, epsilon) for epsilon in self._epsilons]
        self._stds = [class_sums_std(epsilon, delta, spec.privacy.adjacency) for epsilon, delta in budgets]
        self._lists = LabelLists(spec, context.public, context.n_tasks)
        self._noises: dict[Cell, Noise] = {cell: noise_of(spec.privacy.noise, cell, "class sums") for cell in cells}
        self._sums = np.zeros((len(self._seeds), len(self._epsilons), context.n_labels, context.n_inputs))
        self._n_classes = context.n_classes
        self._released = np.zeros(self._sums.shape[:3], dtype=np.bool_)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for done, (row, seed) in enumerate(enumerate(self._seeds), start=1):
            task = tasks[seed]
            cells = [Cell(epsilon, seed) for epsilon in self._epsilons]
            labels = task.train.labels
            spaces = self._lists.released(cells, task.prior, labels, ledgers, tasks=(task.index,))
            for space in dict.fromkeys(spaces):  # one space, unless every budget has learned its own
                alike = [place for place, other in enumerate(spaces) if other == space]
                train = labelled(task, space)
                self._sums[row, alike] += noisy_class_sums(
                    train.inputs, train.labels, space, self._sums.shape[2],
                    [self._stds[place] for place in alike],
                    [self._noises[cells[place]] for place in alike],
                    [ledgers[cells[place]] for place in alike], task=task.index,
                )
                self._released[row][np.ix_(alike, space)] = True
            yield Progress("training", done, len(self._seeds), task.index, f"summing features of {task.name}")

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.float64]]:
        """Cosines [epsilons, n, classes] of the task's test examples, the method's only rule."""
        return {"cosine": self.cosines(seed, task.test.inputs)}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """`sums` [classes, K] over all tasks so far, and which `labels` [classes] are released; see `listed_labels`."""
        place = self._seeds.index(cell.seed), self._epsilons.index(cell.epsilon)
        listed = listed_labels(self._released[place], self._n_classes)
        return {"sums": self._sums[place][listed], "labels": self._released[place][listed]}

    def rule(self, cell: Cell) -> Rule:
        """The released label whose sum has the largest cosine."""
        released = self._released[self._seeds.index(cell.seed), self._epsilons.index(cell.epsilon)]
        columns = listed_labels(released, self._n_classes)
        return Rule("cosine", ("sums",), columns, np.flatnonzero(released))

    def cosines(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.float64]:
        """Cosines [epsilons, n, classes] of inputs [n, K]; -inf for labels not released yet and for zero sums.

        Classes are the declared ones, then any other released ones; see `listed_labels`.
        """
        row = self._seeds.index(seed)
        listed = listed_labels(self._released[row].any(axis=0), self._n_classes)
        directions = np.stack([unit_rows(sums) for sums in self._sums[row][:, listed]])
        blocks = [unit_rows(inputs[part]) @ directions.transpose(0, 2, 1) for part in row_blocks(*inputs.shape)]
        scores: NDArray[np.float64] = np.concatenate(blocks, axis=1)
        # Without noise a class without data has a zero sum: it must lose, not win as NaN or with a cosine of 0.
        usable = self._released[row][:, listed] & directions.any(axis=2)
        return np.where(usable[:, None, :], scores, -np.inf)


make_learner = CosineClassifier


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.planned`): one noisy sum of every class a task."""
    std = class_sums_std(*training_budget(spec.privacy, spec.labels, epsilon), spec.privacy.adjacency)
    for task in range(facts.n_tasks):
        learned_list(spec, facts, epsilon, ledger, (task,))
        ledger.spend(dp.GaussianDpEvent(std), task=task, what="planned sums")


def forecast(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast:
    """The noise on a class's sum, in each task whose release has a sum for it."""
    class_size, uses = facts.n_people / facts.n_classes, facts.n_tasks if spec.labels == "prior-const" else 1
    ratio = noise_to_signal(trainer.sigma(spec, epsilon), n_features, class_size, uses=uses)
    return NoiseForecast(epsilon, ratio, class_size, uses > 1, None)


CARD = params.card(
    name="cosine",
    title="DP cosine classifier",
    summary="Sums the unit-length features of each class once per task, with Gaussian noise. A test example gets the class "
    "whose noisy sum is closest in direction. Nothing is trained, so a later task cannot overwrite an earlier one.",
    source="Tobaben et al. 2025, Algorithm 1",
    params=CosineParams, module=__name__, planned=f"{__name__}:planned", audit="dpcl_core.attacks.feature_games",
    forecast=forecast, is_one_release=True, is_in_playground=True, table_names=lambda spec: ("Cosine classifier", ""),
    printed=Print(
        params.SOURCE,
        params.OF_ALL,
        left_open={"privacy.epsilons": "How σ follows from ε is not printed; ours is the exact Gaussian mechanism."},
    ),
)
