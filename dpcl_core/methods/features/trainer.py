"""DP-SGD training of one model per cell, for heads and adapters; shared by the ensemble and its two baselines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import add
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import bundled as public_axes
from dpcl_core.backbones import catalog as backbones
from dpcl_core.backbones.bundled import Axes
from dpcl_core.backbones.later import adaptable
from dpcl_core.events import Fact, Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import Schedule, learned_list, noise_multiplier
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.common.state import Records
from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.features.params import PeftParams
from dpcl_core.methods.features.process_pool import Job, ProcessPool, Running, estimate, is_wide
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import training_budget
from dpcl_core.privacy.labels import LabelLists, listed_labels
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, Steps, noise_of
from dpcl_core.privacy.noise_forecast import COSTLY, NoiseForecast, noise_to_signal
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec

if TYPE_CHECKING:
    from dpcl_core.methods.features import adapters

Taken = TypeVar("Taken")
Returned = TypeVar("Returned")
Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """The adapted networks of one seed, one per budget."""

    models: Sequence[adapters.Adapter]

    def logits(self, inputs: NDArray[np.generic]) -> NDArray[np.floating]:
        """[epsilons, n, classes] of pictures uint8 [n, side, side, channels]."""
        return np.stack([model.logits(inputs) for model in self.models])

    def released(self, place: int) -> Mapping[str, NDArray[np.generic]]:
        """The weights of the adapter and the last layer, by name."""
        return self.models[place].released()


Model = linear_heads.Heads | SideBySide  # the trained classifiers of one seed, one per budget


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One training: its examples, its public label list, and the model it starts from (None: a fresh one).

    `tasks`: the tasks that the examples may come from; the last is the task being learned. `nominal_size`: public number of
    examples, over all these tasks.
    """

    examples: Examples
    prior: tuple[int, ...]
    tasks: tuple[int, ...]
    nominal_size: float
    start: Model | None = None


class Trainer:
    """Trains the cells of a run. Holds noise, batch samplers and public facts, never an example."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._spec, self._params, self._context = spec, settings_of(spec, PeftParams), context
        self.seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        plan = self._params.schedule(context.task_size)
        n_weights = len(self._epsilons) * context.n_classes * (context.n_inputs + 1)  # of all budgets' heads of a seed
        self._device = context.device if is_wide(plan.expected_batch, n_weights) else "cpu"  # of heads
        # Sized from public numbers, and first, so that processes start during the search for noise multipliers. Adapters
        # train in this process, and so do heads on a graphics card.
        is_pooled = self._params.adapter == "head" and self._device == "cpu"
        seconds = estimate(plan.n_steps, plan.expected_batch, n_weights) if is_pooled else 0.0
        self._pool = ProcessPool(len(self.seeds), len(self.seeds) * context.n_tasks * seconds)
        self._multipliers = {e: noise_multiplier(spec, plan.sample_rate, plan.n_steps, e) for e in self._epsilons}
        self._lists = LabelLists(spec, context.public, context.n_tasks)
        self._begun: dict[int, Running] = {}  # by task

    def begin(self, works: Mapping[int, Work]) -> None:
        """Prefetches later tasks' head training on idle workers (public label lists only).

        The results stay in the pool until `train` is called for their task, which writes the ledgers first.
        """
        task, n = _task(works), len(self._epsilons)
        listed = {seed: self._lists.public(work.prior) for seed, work in works.items()}
        spaces = {seed: (space,) * n for seed, space in listed.items() if space is not None}
        if self._pool.uses_processes and task not in self._begun and len(spaces) == len(works):
            self._begun[task] = self._pool.begin(self._jobs(works, spaces), is_last=task == self._context.n_tasks - 1)

    def train(
        self, works: Mapping[int, Work], ledgers: Mapping[Cell, Ledger]
    ) -> Generator[Progress, None, Mapping[int, Model]]:
        """The models by seed; yields the steps done so far, over all seeds.

        The ledgers have every entry before any step's result leaves. Raises Diverged, BadInput.
        """
        spaces = {seed: self._account(seed, work, ledgers) for seed, work in works.items()}
        task, total = _task(works), sum(self._plan(work).n_steps for work in works.values())
        steps: Generator[int, None, Mapping[int, Model]]
        if self._params.adapter == "head":
            steps = self._begun.pop(task) if task in self._begun else self._pool.begin(self._jobs(works, spaces))
        else:
            steps, total = self._adapters(works, spaces), total * len(self._epsilons)
        text = f"steps of DP-SGD ({self._params.adapter})"
        return (yield from steps_as(steps, lambda done: Progress("training", done, total, task, text)))

    @property
    def kept_records(self) -> Records:
        """The classes of models, for checkpoints."""
        if self._params.adapter == "head":
            return (linear_heads.Heads,)
        from dpcl_core.methods.features import adapters  # loads torch, which heads do not need

        return (SideBySide, adapters.Adapter)

    def completed(self, model: Model) -> Model:
        """A model from a checkpoint, which has no frozen network and no public axes, with both."""
        if not isinstance(model, SideBySide):
            return model
        parts = zip(self._epsilons, model.models, strict=True)
        return SideBySide([replace(one, network=self._network, axes=self._axes(epsilon)) for epsilon, one in parts])

    def released(self, model: Model, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The cell's own part of its seed's model, by name."""
        arrays = dict(model.released(self._epsilons.index(cell.epsilon)))
        listed = listed_labels(cast("NDArray[np.bool_]", arrays["labels"]), self._context.n_classes)
        return {name: array[listed] if name in ("weights", "labels") else array for name, array in arrays.items()}

    def rule(self, models: Sequence[Model], cell: Cell, votes: Mapping[str, Fact] | None = None) -> Rule:
        """How the newest of a seed's models classifies, or all of them by these `votes`."""
        masks = [cast("NDArray[np.bool_]", one.released(self._epsilons.index(cell.epsilon))["labels"]) for one in models]
        competing = np.flatnonzero(np.any(masks, axis=0) if votes else masks[-1])
        facts: dict[str, Fact] = {**(votes or {})}
        if self._params.adapter == "head":
            columns = listed_labels(masks[-1], self._context.n_classes)
            return Rule("heads", ("weights", "labels"), columns, competing, facts=facts, uses_all=votes is not None)
        axes = self._axes(cell.epsilon)
        facts |= {"adapter": self._params.adapter, "rank": self._params.lora_rank}
        arrays = tuple(name for name in self.released(models[-1], cell) if name != "labels")
        public = {} if axes is None else {"centre": axes.centre, "directions": axes.directions}
        columns = np.flatnonzero(masks[-1])
        return Rule("adapters", arrays, columns, competing, facts=facts, public=public, uses_all=votes is not None)

    def _account(self, seed: int, work: Work, ledgers: Mapping[Cell, Ledger]) -> linear_heads.Spaces:
        """The label list of every budget of this seed; writes list and training to the ledgers."""
        cells = [Cell(epsilon, seed) for epsilon in self._epsilons]
        words = self._plan(work).words
        spaces = self._lists.released(cells, work.prior, work.examples.labels, ledgers, tasks=work.tasks)
        for cell in cells:
            steps, shared = self._steps(work, cell.epsilon), self._params.shares_batches
            ledgers[cell].spend(steps, task=work.tasks[-1], what=words, people_of=work.tasks, shares_batches=shared)
        return spaces

    def _plan(self, work: Work) -> Schedule:
        return self._params.schedule(work.nominal_size)

    def _steps(self, work: Work, epsilon: float) -> Steps:
        """What a budget's training draws its batches from and its ledger is charged with."""
        return self._plan(work).steps(self._multipliers[epsilon])

    def _jobs(self, works: Mapping[int, Work], spaces: Mapping[int, linear_heads.Spaces]) -> dict[int, Job]:
        jobs: dict[int, Job] = {}
        for seed, work in works.items():
            start = work.start or linear_heads.fresh(spaces[seed], self._context.n_inputs, self._context.n_labels)
            assert isinstance(start, linear_heads.Heads)
            start = start.widened(spaces[seed])
            multipliers = [self._steps(work, epsilon).noise_multiplier for epsilon in self._epsilons]
            batches = self._batches(seed, work)
            noises = [self._noise(Cell(epsilon, seed), work) for epsilon in self._epsilons]
            inputs, labels = work.examples.inputs, work.examples.labels
            jobs[seed] = Job(start, inputs, labels, self._plan(work), multipliers, batches, noises, self._device)
        return jobs

    def _noise(self, cell: Cell, work: Work) -> Noise:
        """The noise source of one training."""
        return noise_of(self._spec.privacy.noise, cell, f"training for task {work.tasks[-1]}")

    def _batches(self, seed: int, work: Work, epsilon: float | None = None) -> Batches:
        """The batch sampler of a training: shared by all budgets of a seed (heads), or of one `epsilon` (adapters)."""
        seeded = self._spec.privacy.noise == "seeded"
        purpose = f"training for task {work.tasks[-1]}" + ("" if epsilon is None else f" at epsilon {epsilon}")
        steps = self._steps(work, self._epsilons[0] if epsilon is None else epsilon)
        return steps.batches(seed if seeded else None, purpose)

    def _axes(self, epsilon: float) -> Axes | None:
        """The public axes under a budget's last layer, as many as the rule gives it; None for a network without."""
        backbone = self._spec.data.backbone
        public = public_axes.public_part(backbones.card(backbone), self._spec.data.dataset)
        if public is None or epsilon not in self._context.n_axes:
            return None
        return public_axes.load(backbone, public).first(self._context.n_axes[epsilon])

    @cached_property
    def _network(self) -> adaptable.Network:
        """The frozen network under all adapters: loaded once, shared by all models. Loads torch, which heads do not need."""
        return adaptable.load(self._spec.data.backbone, self._context.device, self._spec.data.resolution)

    def _adapters(
        self, works: Mapping[int, Work], spaces: Mapping[int, linear_heads.Spaces]
    ) -> Generator[int, None, Mapping[int, Model]]:
        """Trains models side by side whose last layers have the same shape; one such group after another."""
        from dpcl_core.methods.features import adapters  # loads torch, which heads do not need

        groups: dict[tuple[Schedule, int, int | None], dict[tuple[int, int], adapters.Training]] = {}
        for seed, work in works.items():
            for place, (epsilon, space) in enumerate(zip(self._epsilons, spaces[seed], strict=True)):
                if isinstance(work.start, SideBySide):
                    start = work.start.models[place].widened(space)
                else:
                    kind, rank, axes = self._params.adapter, self._params.lora_rank, self._axes(epsilon)
                    assert kind != "head"
                    start = adapters.fresh(self._network, kind, rank, space, self._context.n_labels, seed, axes)
                batches, noise = self._batches(seed, work, epsilon), self._noise(Cell(epsilon, seed), work)
                multiplier, given = self._steps(work, epsilon).noise_multiplier, work.examples
                one = adapters.Training(start, given.inputs, given.labels, multiplier, batches, noise)
                shape = self._plan(work), len(start.columns), self._context.n_axes.get(epsilon)
                groups.setdefault(shape, {})[seed, place] = one
        models: dict[tuple[int, int], adapters.Adapter] = {}
        before = 0
        for (plan, *_), group in groups.items():
            trained = yield from steps_as(adapters.train_together(list(group.values()), plan), partial(add, before))
            models |= zip(group, trained, strict=True)
            before += plan.n_steps * len(group)
        return {seed: SideBySide([models[seed, place] for place in range(len(self._epsilons))]) for seed in works}


def steps_as(
    steps: Generator[Taken, None, Returned], as_event: Callable[[Taken], Shown]
) -> Generator[Shown, None, Returned]:
    """The steps of a training as other objects; returns what the training returns."""
    while True:
        try:
            done = next(steps)
        except StopIteration as ended:
            return cast(Returned, ended.value)
        yield as_event(done)


def _task(works: Mapping[int, Work]) -> int:
    """The task being learned, the same for all seeds."""
    return next(iter(works.values())).tasks[-1]


class ModelOfSeed:
    """What a learner does whose only state is one model of each seed, with a rule of its own: the largest logit.

    A seed has no model before the first release.
    """

    KEPT = ("_models",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._trainer, self._context = Trainer(spec, cells, context), context
        self.kept_records = self._trainer.kept_records
        self._models: Mapping[int, Model] = {}

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Lays the networks under the adapters again; it keeps no example."""
        self._models = {seed: self._trainer.completed(model) for seed, model in self._models.items()}

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The model's logits, the method's only rule."""
        return {"argmax": self._models[seed].logits(task.test.inputs)} if seed in self._models else {}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The last released model."""
        return self._trainer.released(self._models[cell.seed], cell) if cell.seed in self._models else {}

    def rule(self, cell: Cell) -> Rule | None:
        """The largest logit."""
        return self._trainer.rule([self._models[cell.seed]], cell) if cell.seed in self._models else None


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): one training a task."""
    planned_on([(task,) for task in range(facts.n_tasks)], spec, facts, epsilon, ledger)


def planned_on(reads: Sequence[tuple[int, ...]], spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of trainings that read these tasks each, the last one the task being learned."""
    params = settings_of(spec, PeftParams)
    multiplier = noise_multiplier(spec, params.sample_rate, params.n_steps, epsilon)
    training, shared = params.schedule(facts.task_size).steps(multiplier), params.shares_batches
    for tasks in reads:
        learned_list(spec, facts, epsilon, ledger, tasks)
        ledger.spend(training, task=tasks[-1], what="planned training", people_of=tasks, shares_batches=shared)


# Pre-run noise-to-signal forecast, from public numbers only.


# DP-SGD with sampled batches needs up to this many times the noise of full-batch training, if the ratio is near 1.
_MOST_BY_SAMPLING = 3.0


def forecast(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes, on_all: bool = False
) -> NoiseForecast | None:
    """Forecast for a last layer trained on one task at a time, or `on_all` together; None for FiLM and LoRA.

    It was not measured for these two.
    """
    params = settings_of(spec, PeftParams)
    if params.adapter != "head":
        return None
    class_size = facts.n_people / facts.n_classes if on_all else facts.task_size / classes_per_task
    full_batch = noise_to_signal(sigma(spec, epsilon), n_features, class_size)
    if full_batch * _MOST_BY_SAMPLING < COSTLY:
        return None
    rate, steps = params.sample_rate, params.n_steps
    multiplier = noise_multiplier(spec, rate, steps, epsilon)
    ratio = noise_to_signal(multiplier, n_features, class_size, sample_rate=rate, n_steps=steps)
    return NoiseForecast(epsilon, ratio, class_size, False, full_batch if rate < 1 else None)


def sigma(spec: RunSpec, epsilon: float) -> float:
    """Noise multiplier of one Gaussian release under the budget that is left after the label list."""
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return gaussian.sigma(left, delta, gaussian.SENSITIVITY[spec.privacy.adjacency])
