"""Coefficient memory (repair of L2DP-ML): trains on noisy sums of public features, released once per task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import each_task
from dpcl_core.methods.common.method import PublicContext, PublicSizes, labelled, settings_of
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.params import CoefficientParams
from dpcl_core.methods.lifelong.quadratic import LinearReadout, RandomMap
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import coefficients_sensitivity, coefficients_std, noisy_coefficients
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class CoeffMemoryParams(CoefficientParams):
    """Settings of the coefficient memory."""

    features: Annotated[int, Interval(ge=1, le=2048)] = parameter(
        256,
        description="Random ReLU features of an example's values, with data.backbone = pixels; not used with a network's.")
    solution: Literal["steps", "exact"] = parameter(
        "steps",
        description="steps: gradient descent on the task, projected against the memory. exact: minimises the loss of all "
        "tasks so far at once; steps, learning rate and projection are then not used.")


_ROOM = 1 << 28  # most bytes of cached test features


class CoefficientMemory(LinearReadout):
    """All budgets and seeds of a run. Keeps noisy sums and public facts, never a training example.

    Where an example can be in every task, the noise is calibrated so that all releases together keep the budget.
    """

    params: CoeffMemoryParams

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._is_raw = context.form is not None  # raw example values; otherwise a network's features
        n_features = settings_of(spec, CoeffMemoryParams).features if self._is_raw else context.n_inputs
        super().__init__(spec, cells, context, "coefficients", n_features)
        seeds = self._weights if self._is_raw else ()
        self._maps = {seed: RandomMap("relu", context.n_inputs, n_features, seed) for seed in seeds}
        self._stds = [_std(spec, context, epsilon, is_raw=self._is_raw) for epsilon in self._epsilons]
        self._kept: dict[tuple[int, int], NDArray[np.float32]] = {}  # features of test examples, which are public

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for turn, (seed, task) in enumerate(tasks.items()):
            loss = self._released(seed, task, ledgers)
            if self.params.solution == "steps":
                yield from self._descend(seed, task, loss, "the sums", turn, len(tasks))
            else:
                self._memory[seed].keep(loss)
                stds = [std / self._context.task_size for std in self._stds]
                self._weights[seed] = quadratic.solved(self._weights[seed], self._memory[seed], stds)
                yield Progress("training", turn + 1, len(tasks), task.index, f"solving for {task.name}")

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores z = W phi, the only prediction rule."""
        return {"argmax": self._class_scores(seed, self._tested(seed, task), task)}

    def rule(self, cell: Cell) -> Rule | None:
        """The largest score of features of unit length: random ones of an example's own values, or a network's."""
        if not self._is_raw:
            return self._rule(cell, unit_length=True)
        return self._rule(cell, unit_length=True, random="relu", seed=cell.seed, n_features=self.params.features)

    def _released(self, seed: int, task: Task, ledgers: Mapping[Cell, Ledger]) -> quadratic.Quadratic:
        """The loss of a task, from one release for every budget; its examples are not read again."""
        cells = [Cell(epsilon, seed) for epsilon in self._epsilons]
        books, context = [ledgers[cell] for cell in cells], self._context
        space = label_space(self._labels, task.prior, context.public, task.train.labels, books, task=task.index)
        train = labelled(task, space)
        features, noises = self._features(seed, train.inputs), [self._noises[cell] for cell in cells]
        sums = noisy_coefficients(
            features, train.labels, space, context.n_classes, self._stds, noises, books, task=task.index,
            is_non_negative=self._is_raw,
        )
        return self._loss(seed, task, sums, context.task_size)

    def _tested(self, seed: int, task: Task) -> NDArray[np.float32]:
        """Unit-length features of a task's test examples, cached up to `_ROOM` bytes, since every task is tested often."""
        rows = self._kept.get((seed, task.index))
        if rows is None:
            rows = unit_rows(self._features(seed, task.test.inputs)).astype(np.float32)
            if rows.nbytes + sum(cached.nbytes for cached in self._kept.values()) <= _ROOM:
                self._kept[seed, task.index] = rows
        return rows

    def _features(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        return self._maps[seed].of(inputs) if self._is_raw else inputs


make_learner = CoefficientMemory


def _std(spec: RunSpec, facts: PublicSizes, epsilon: float, *, is_raw: bool) -> float:
    """Standard deviation of the noise on a task's sums at this budget, which all releases of a person share."""
    privacy, n = spec.privacy, facts.n_recurring
    return coefficients_std(epsilon, privacy.delta, privacy.adjacency, is_non_negative=is_raw, n_releases=n)


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): three noisy sums a task."""
    adjacency, is_raw = spec.privacy.adjacency, spec.data.backbone == "pixels"
    ratio = coefficients_sensitivity(adjacency, is_non_negative=is_raw) / SENSITIVITY[adjacency]
    each_task(ledger, facts, dp.GaussianDpEvent(_std(spec, facts, epsilon, is_raw=is_raw) / ratio))


def forecast(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast:
    """The coefficient memory: the noise on a class's sum of features, in each task whose release has one for it."""
    params = settings_of(spec, CoeffMemoryParams)
    on_pixels = spec.data.backbone == "pixels"
    std = _std(spec, facts, epsilon, is_raw=on_pixels)
    class_size = facts.task_size / classes_per_task
    uses = facts.n_tasks if settings.is_noised_in_every_task(spec, facts) else 1
    ratio = noise_to_signal(std, params.features if on_pixels else n_features, class_size, uses=uses)
    return NoiseForecast(epsilon, ratio, class_size, uses > 1, None)


def derived(params: CoeffMemoryParams, facts: PublicSizes) -> str:
    """The effect of the settings on the budget."""
    if facts.recurrence == "once":
        return "One noisy release a task; whatever the steps, a task costs an example the budget once."
    return f"One noisy release a task; an example is in all {facts.n_tasks}, so each release has its part of the budget."


PRINTED = settings.printed(
    settings.READOUT,
    {
        "params.solution": Printed(("steps",), "The sum of all tasks' losses can be minimised at once."),
        "params.features": "The paper learns its features.",
    },
    always=(settings.RELEASED_ONCE, settings.LINEAR),
    kind="repair",
)
CARD = settings.card(
    name="dp-coeff-memory",
    title="Coefficient memory (repair of L2DP-ML)",
    summary="Releases three noisy sums of each task's features, once: all that L2DP-ML's second-order loss needs. The "
    "memory holds these sums instead of examples, so more epochs, other orders of tasks and replays cost nothing more.",
    source="A repair of Lai et al. 2022, section 4: one release with a proof in place of one noise for all",
    params=CoeffMemoryParams, key_settings=("features", "steps", "projection"),
    module=__name__, planned=f"{__name__}:planned", audit="dpcl_core.attacks.lifelong_games", cells_per_learner="all",
    labels=settings.LABELS, derived=derived, forecast=forecast, ceiling="dp-coeff-memory",
    at_once={"solution": "exact"}, printed=PRINTED, table_names=lambda spec: ("Repair: coefficients", ""),
)
