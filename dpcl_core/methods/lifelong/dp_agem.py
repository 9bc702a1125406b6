"""A-GEM with clipped, noisy gradients: the baseline NaiveGaussian and the repair R1 of Lifelong DP, chosen by `budget`.

Each step takes two noisy gradients: g on a Poisson batch of the current task, g_ref on a Poisson batch of one earlier task's
kept sample. For each, every example's gradient is clipped to one norm over all weights, noise is added to the sum, and the
sum is divided by the batch's expected size. The projection of g and the step are post-processing.
`methods.lifelong.odometer` proves each person's privacy cost.

The baseline's published code clips the average gradient of a batch layer by layer, which bounds no example's influence. Here
each example is clipped, as Lai et al. describe it and as DP-SGD needs it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from dpcl_core import published
from dpcl_core.errors import BadInput, at_most
from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule, masked
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, ROUNDING_ASSUMED, Schedule, diverged
from dpcl_core.methods.common.method import PublicContext, PublicSizes, labelled, settings_of
from dpcl_core.methods.lifelong import odometer
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong.later import nets, per_example, torch
from dpcl_core.methods.lifelong.params import ReplayParams
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, Steps, noise_of
from dpcl_core.published import Departure, Printed
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, PrivacySpec, Recurrence, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class DpAgemParams(ReplayParams):
    """Settings of the steps, the kept samples and the scope of the budget."""

    budget: odometer.Budget = parameter(
        "lifetime", title="Budget covers",
        description="What epsilon is for. lifetime: one noise, so that the worst-off person's own task and all replays stay "
        "within it. per-task: an equal share for every task (NaiveGaussian). fixed: the noise multiplier below.")
    noise_multiplier: Annotated[float, Interval(ge=0.1, le=1e4)] | None = parameter(
        None, title="Noise multiplier σ",
        description="Noise over the clipping norm, under budget = fixed; not used otherwise.")
    epochs: int = parameter(2, ge=1, le=1000, description="How often each example of a task is used on average.")
    steps: Annotated[int, Interval(ge=1, le=10**6)] | None = parameter(
        None, title="Training steps",
        description="Steps in every task; empty: as many as the epochs and the sampling rate give.")
    sample_rate: float = parameter(
        0.05, gt=0, le=1, allow_inf_nan=False, title="Sampling rate q",
        description="Chance that an example is in a batch (Poisson sampling).")
    clip_norm: Annotated[float, Interval(ge=1e-9, le=1e6)] = parameter(
        1.0, title="Clipping norm C", description="Longest gradient, of all weights, that one example contributes.")
    memory_size: int = parameter(
        200, ge=1, le=10**6, description="Examples of each task kept for replay, on average; each is kept by chance.")
    replay_rate: float = parameter(
        0.2, gt=0, le=1, title="Sampling rate of the memory",
        description="Chance that a kept example is in a replay of its sample.")
    memory_epsilon_cap: Annotated[float, Interval(gt=0, le=1e4)] | None = parameter(
        None, title="Largest ε spent on the memory",
        description="A sample is retired before a replay brings its people's epsilon above this; empty: never.")

    @property
    def is_noise_given(self) -> bool:
        return self.budget == "fixed"

    @property
    def n_steps(self) -> int:
        """Steps in every task: a public number that does not depend on the task's size."""
        return self.steps or max(1, round(self.epochs / self.sample_rate))

    def plan(self, privacy: PrivacySpec, n_tasks: int, recurrence: Recurrence) -> odometer.Plan:
        """The public numbers of a run that its cost follows from."""
        replays, noise = self.projection != "never", self.noise_multiplier
        return odometer.Plan(
            n_tasks, self.n_steps, self.sample_rate, self.replay_rate, replays, recurrence, privacy, self.budget, noise
        )

    def schedule(self, task_size: float, *, is_replay: bool = False) -> Schedule:
        """Public numbers of a task's steps, or of the replays of a sample.

        Sums are divided by the expected batch size, on the nominal task or on its kept sample.
        """
        rate = self.replay_rate if is_replay else self.sample_rate
        expected = rate * (min(task_size, self.memory_size) if is_replay else task_size)
        return Schedule(rate, self.n_steps, self.clip_norm, self.learning_rate, expected)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Examples for noisy gradients, with labels among `classes`, which compete in the loss."""

    examples: Examples
    classes: tuple[int, ...]
    plan: Schedule
    batches: Batches
    noise: Noise
    noise_multiplier: float


class Model:
    """One cell's network, its kept samples, and the public schedule of their replays."""

    KEPT = ("_net", "_released", "_places")

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        self._spec, self._params, self._cell, self._context = spec, settings_of(spec, DpAgemParams), cell, context
        # The seed of coins in teaching; None: those of a release are the operating system's.
        self._coin_seed = cell.seed if spec.privacy.noise == "seeded" else None
        self._form = settings.input_form(context.form, context.n_inputs)
        self._public = self._params.plan(spec.privacy, context.n_tasks, context.recurrence)
        self._noises = odometer.noises(self._public, cell.epsilon)
        self._turns = odometer.capped_schedule(self._public, self._noises, self._params.memory_epsilon_cap)
        self._net = nets.build(self._form, context.n_classes, cell.seed).to(context.device)
        self._gradients = per_example.Gradients(self._net, self._params.clip_norm if self._noises.first > 0 else math.inf)
        self._samples: list[tuple[Examples, tuple[int, ...]]] = []  # each finished task's kept sample and labels
        self._places: list[NDArray[np.int64]] = []  # of each kept sample among the task's examples of competing classes
        self._released: tuple[int, ...] = ()  # labels of all lists so far

    def learn(self, task: Task, ledger: Ledger) -> Iterator[int]:
        """Yields the number of steps taken; the whole task is in the ledger before the first."""
        labels = self._own_labels(task)
        self._released = tuple(sorted({*self._released, *labels}))
        competing = self._competing(labels)
        train = labelled(task, competing)
        turns = self._turns[task.index]
        own, replays = self._account(task.index, turns, ledger)
        current = self._source(train, competing, own, task.index, None)
        earlier: dict[int, Source] = {}
        for kept, steps in replays.items():
            examples, of_sample = self._samples[kept]
            earlier[kept] = self._source(examples, self._competing(of_sample), steps, task.index, kept)
        for step, sample in enumerate(turns):
            means = self._noisy_gradient(current)
            if sample is not None:
                reference = self._noisy_gradient(earlier[sample])
                means = nets.projected(means, reference, self._params.projection, self._params.scope)
            self._step(means, step, current.plan)
            yield step + 1
        self._keep(train, labels, task.index)

    def logits(self, task: Task) -> NDArray[np.floating]:
        """Logits [n, n_classes] of the task's test examples; -inf for labels that do not compete or are not released."""
        return masked(self._net.logits(task.test.inputs, self._form), self._competing(self._own_labels(task)))

    def rule(self) -> Rule:
        """The network's largest logit."""
        by_task = [labels for _, labels in self._samples] if self._params.is_task_given else []
        return self._net.rule(self._released, by_task)

    def _account(self, task: int, turns: Sequence[int | None], ledger: Ledger) -> tuple[Steps, dict[int, Steps]]:
        """The steps and the uses of every sample, charged to the people whose examples they read."""
        plan, size = self._public, self._params.clip_norm
        own, replays = plan.own_steps(task, self._noises), {}
        ledger.spend(own, task=task, what=self._params.schedule(self._context.task_size).words)
        for sample, uses in sorted(Counter(sample for sample in turns if sample is not None).items()):
            replays[sample] = plan.uses(task, self._noises, uses)
            what = f"replay of task {sample + 1}, {uses} times, sampling rate {plan.replay_rate:g}, clipping norm {size:g}"
            ledger.spend(replays[sample], task=task, what=what, people_of=(sample,))
        return own, replays

    def _own_labels(self, task: Task) -> tuple[int, ...]:
        """The task's public list of labels."""
        return label_space(self._spec.labels, task.prior, self._context.public, task.train.labels, [], task=task.index)

    def _competing(self, labels: tuple[int, ...]) -> tuple[int, ...]:
        """The classes in the loss of a task with this list of labels: the list, or all labels released so far."""
        return labels if self._params.head == "per-task" else self._released

    def _source(self, examples: Examples, classes: tuple[int, ...], steps: Steps, task: int, sample: int | None) -> Source:
        """The task's own examples (`sample` None) or a kept sample, each with the coins and the noise that are charged."""
        plan = self._params.schedule(self._context.task_size, is_replay=sample is not None)
        purpose = f"task {task}" if sample is None else f"replay of task {sample} in task {task}"
        batches = steps.batches(self._coin_seed, f"{purpose} at epsilon {self._cell.epsilon}")
        noise = noise_of(self._spec.privacy.noise, self._cell, purpose)
        return Source(examples, classes, plan, batches, noise, steps.noise_multiplier)

    def _noisy_gradient(self, source: Source) -> list[torch.Tensor]:
        """Noisy sum of clipped gradients on a batch, divided by the expected batch size. An empty batch gives noise alone.

        Adding or removing an example changes the sum by at most the clipping norm; the noise on every coordinate of the sum
        has a standard deviation of the multiplier times that norm.
        """
        drawn = source.examples.take(source.batches.draw(len(source.examples)))
        batch = nets.batch(drawn, source.classes, self._form, self._context.device)
        sums = self._gradients.of(batch.inputs, batch.targets, batch.columns)
        std, dtype = source.plan.noise_std(source.noise_multiplier), next(self._net.parameters()).dtype
        return per_example.noisy_means(sums, source.plan.expected_batch, std, source.noise, dtype=dtype)

    def _step(self, means: Sequence[torch.Tensor], step: int, plan: Schedule) -> None:
        with torch.no_grad():
            parameters = list(self._net.parameters())
            for parameter, mean in zip(parameters, means, strict=True):
                parameter.sub_(mean, alpha=plan.learning_rate)
            if not torch.stack([(parameter.abs() <= LARGEST_WEIGHT).all() for parameter in parameters]).all():
                raise diverged(step, plan)

    def _keep(self, train: Examples, labels: tuple[int, ...], task: int) -> None:
        """Keeps every example by an independent coin: the expected number is fixed, the actual number is not."""
        rate = min(1.0, self._params.memory_size / self._context.task_size)
        coins = Batches(rate, self._coin_seed, f"kept of task {task} at epsilon {self._cell.epsilon}")
        self._places.append(coins.draw(len(train)))
        self._samples.append((train.take(self._places[-1]), labels))

    def recall(self, learned: Sequence[Task]) -> None:
        """Reads the kept samples of these tasks again, at their places."""
        seen: tuple[int, ...] = ()
        for task, places in zip(learned, self._places, strict=True):
            labels = self._own_labels(task)
            seen = tuple(sorted({*seen, *labels}))
            train = labelled(task, labels if self._params.head == "per-task" else seen)
            self._samples.append((train.take(places), labels))


class DpAgem:
    """One independent model per cell. Keeps a sample of every finished task."""

    KEPT = ("_models",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        self._n_steps = settings_of(spec, DpAgemParams).n_steps
        self._models = {cell: Model(spec, cell, context) for cell in cells}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        total = self._n_steps * len(self._models)
        for before, (cell, model) in enumerate(self._models.items()):
            task = tasks[cell.seed]
            for step in model.learn(task, ledgers[cell]):
                done = before * self._n_steps + step
                yield Progress("training", done, total, task.index, f"noisy steps on {task.name}")

    def recall(self, learned: Sequence[Mapping[int, Task]]) -> None:
        """Reads the kept samples again."""
        for cell, model in self._models.items():
            model.recall([tasks[cell.seed] for tasks in learned])

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """The network's logits, the only prediction rule."""
        return {"argmax": np.stack([model.logits(task) for cell, model in self._models.items() if cell.seed == seed])}

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name; the kept samples are not released."""
        return self._models[cell]._net.released()

    def rule(self, cell: Cell) -> Rule:
        """The largest logit of the cell's network."""
        return self._models[cell].rule()


make_learner = DpAgem


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): steps on every task, and the public schedule of replays."""
    params = settings_of(spec, DpAgemParams)
    numbers = params.plan(spec.privacy, facts.n_tasks, facts.recurrence)
    both = odometer.noises(numbers, epsilon)
    for task, turns in enumerate(odometer.capped_schedule(numbers, both, params.memory_epsilon_cap)):
        ledger.spend(numbers.own_steps(task, both), task=task, what="planned steps")
        for sample, uses in Counter(sample for sample in turns if sample is not None).items():
            ledger.spend(numbers.uses(task, both, uses), task=task, what="planned replays", people_of=(sample,))


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for inconsistent settings, and for settings that data of these public sizes cannot train with."""
    settings.check_lifelong(spec, facts)
    params = settings_of(spec, DpAgemParams)
    facts.check_sampled(params.sample_rate)
    at_most("params.memory_size", params.memory_size, int(facts.task_size), ", the examples that a task has on average")
    if params.replay_rate * params.memory_size < 1:
        allowed = f"must be at least {1 / params.memory_size:.3g}, one of the {params.memory_size} examples kept of a task"
        raise BadInput("params.replay_rate", params.replay_rate, allowed)
    if params.budget != "fixed":
        return
    if params.noise_multiplier is None:
        raise BadInput("params.noise_multiplier", "nothing", "must be given with params.budget = fixed")
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    if not finite:
        return
    # A budget that the given noise does not keep must not be displayed anywhere.
    plan = params.plan(spec.privacy, facts.n_tasks, facts.recurrence)
    noises = odometer.noises(plan, finite[0])
    needed = odometer.worst_epsilon(plan, noises, odometer.capped_schedule(plan, noises, params.memory_epsilon_cap))
    if needed > min(finite):
        rounded = math.ceil(needed * 1e3) / 1e3
        allowed = f"must be at least {rounded:g}: params.noise_multiplier = {params.noise_multiplier} costs that for life"
        raise BadInput("privacy.epsilons", f"{min(finite):,.10g}", allowed)


def derived(params: DpAgemParams, facts: PublicSizes) -> str:
    """The settings in numbers, for a task of average size."""
    batch = params.sample_rate * facts.task_size
    steps = f"{params.n_steps:,} noisy steps a task, {batch:.0f} examples in a batch on average"
    if params.projection == "never" or facts.n_tasks == 1:
        return f"{steps}; no replays."
    return f"{steps}, and {params.replay_rate * params.memory_size:.0f} in a replay, of {params.memory_size} kept of a task."


def notes(params: DpAgemParams) -> tuple[str, ...]:
    """The limits and assumptions of the bound."""
    if params.projection == "never":
        return (ROUNDING_ASSUMED,)
    on_memory = "Examples kept for replay are stored unprotected by the trainer: the bound covers what is released."
    return on_memory, ROUNDING_ASSUMED


def names(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of the method and, where noise and clipping are given, of the setting in its grid."""
    params = settings_of(spec, DpAgemParams)
    if params.budget == "lifetime":  # NaiveGaussian has an equal share for each task, or a noise of the paper's choice
        return "Repair: DP-A-GEM", ""
    if params.noise_multiplier is None or params.budget != "fixed":
        return "NaiveGaussian", ""
    if _NOISE.get(spec.privacy.epsilons[0]) == params.noise_multiplier and params.clip_norm in _CLIPS:
        return "NaiveGaussian", ""  # those that the paper selected have no other name
    return "NaiveGaussian", f"z={params.noise_multiplier} C={params.clip_norm}"


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices where Lai et al. leave something open, and deviations from their paper."""
    clipped = (
        "The paper's NaiveGaussian clips averaged gradients layer by layer and states no δ; ours clips every example's "
        "whole gradient, and pays for each replay."
    )
    params = settings_of(spec, DpAgemParams)
    return (*settings.differences(spec), *([clipped] if params.budget != "lifetime" else []))


_NOISE = published.by_budget("lifelong", "text", "noise_scale_z")  # chosen for each epsilon from the grid of table 5
_CLIPS = tuple(dict.fromkeys(published.by_budget("lifelong", "text", "clipping_bound_C").values()))
# The numbers after "z=" and "C=" in the variants of table 5, such as "z=1.0 C=0.1".
_GRID = [part for row, _ in published.rows_with("lifelong", "5", "avg_accuracy_pct") for part in row.variant.split()]
_GRID_OF = {name: tuple(dict.fromkeys(float(p[2:]) for p in _GRID if p.startswith(f"{name}="))) for name in "zC"}


PRINTED = settings.printed(
    settings.ALWAYS_PROJECTED, settings.OPEN,
    {
        "params.budget": Printed(("per-task",), "One noise for a person's whole life makes one bound of it."),
        "params.noise_multiplier": Printed(
            (None, *_GRID_OF["z"]),
            "Printed are {:g}, {:g} and {:g} at ε = {:g}, {:g} and {:g}; the ledger asks for others.".format(
                *_NOISE.values(), *_NOISE
            ),
        ),
        "params.clip_norm": Printed(_GRID_OF["C"], "The printed best is the smallest of its grid."),
        "params.sample_rate": "How batches are drawn is not given.",
        "params.memory_size": "How much is kept of a task is not given.",
        "params.replay_rate": "How much of it a step reads is not given.",
        "params.memory_epsilon_cap": "Nothing retires a stored example in print.",
        "params.epochs": "The passes of this baseline are not given.",
        "params.steps": "How many steps it takes is not given.",
        "params.scope": "Whether the projection is of the whole gradient is not said.",
    },
    always=(
        Departure(
            "",
            "averaged gradients clipped layer by layer",
            "every example's whole gradient is clipped, in Poisson batches",
            "Only what one example adds can be bounded by clipping it.",
        ),
        Departure("", "only the task's own steps", "replays are paid for", "A kept example is read again in later tasks."),
        Departure("", "none", "δ is stated, and split with ε over the tasks", "A Gaussian has no bound without a δ."),
    ),
    kind="repair",
)
CARD = settings.network_card(
    name="dp-agem",
    title="DP-A-GEM",
    summary="Trains one network from task to task. No step may point against the gradient on a sample of an earlier task; "
    "both gradients are clipped example by example and get fresh noise. An example in a kept sample is charged for every "
    "replay, and the ledger adds that up.",
    source="NaiveGaussian of Lai et al. 2022 (Desai et al. 2021), repaired: per-example clipping, replays accounted for",
    params=DpAgemParams, key_settings=("epochs", "clip_norm", "memory_size"),
    module=__name__, planned=f"{__name__}:planned", audit="dpcl_core.attacks.lifelong_games", cells_per_learner="all",
    refuses=check, derived=derived, notes=notes, printed=PRINTED, table_names=names, differences=differences,
)
