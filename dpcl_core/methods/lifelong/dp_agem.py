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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.per_example_gradients import Gradients, noisy_means
from dpcl_core.methods.lifelong import nets, odometer
from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.methods.lifelong.nets import projected
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, Steps, noise_of
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Cell, RunSpec


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Examples for noisy gradients, with labels among `classes`, which compete in the loss."""

    examples: Examples
    classes: NDArray[np.int64]
    plan: Schedule
    batches: Batches
    noise: Noise
    noise_multiplier: float


def schedule(params: DpAgemParams, task_size: float, *, is_replay: bool = False) -> Schedule:
    """Public numbers of a task's steps, or of the replays of a sample.

    Sums are divided by the expected batch size, on the nominal task or on its kept sample.
    """
    rate = params.replay_rate if is_replay else params.sample_rate
    expected = rate * (min(task_size, params.memory_size) if is_replay else task_size)
    return Schedule(rate, params.n_steps, params.clip_norm, params.learning_rate, expected)


class Model:
    """One cell's network, its kept samples, and the public schedule of their replays."""

    KEPT = ("_net", "_released", "_places")

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        assert isinstance(spec.params, DpAgemParams)
        assert context.form is not None
        self._spec, self._params, self._cell, self._context = spec, spec.params, cell, context
        self._form = context.form
        self._public = odometer.plan(self._params, spec.privacy, context.n_tasks, context.recurrence)
        self._noises = odometer.noises(self._params, self._public, cell.epsilon)
        self._turns = odometer.capped_schedule(self._public, self._noises, self._params.memory_epsilon_cap)
        self._net = nets.build(self._form, context.n_classes, cell.seed).to(context.device)
        is_clipped = self._noises.first > 0
        self._gradients = Gradients(self._net, self._params.clip_norm if is_clipped else math.inf)
        self._samples: list[tuple[Examples, tuple[int, ...]]] = []  # each finished task's kept sample and labels
        self._places: list[NDArray[np.int64]] = []  # of each kept sample among the task's examples of competing classes
        self._released: tuple[int, ...] = ()  # labels of all lists so far

    def learn(self, task: Task, ledger: Ledger) -> Iterator[int]:
        """Yields the number of steps taken; the whole task is in the ledger before the first."""
        labels = self._own_labels(task)
        self._released = tuple(sorted({*self._released, *labels}))
        competing = self._competing(labels)
        train = _of_classes(task, competing)
        turns = self._turns[task.index]
        own, replays = self._account(task.index, turns, ledger)
        current = self._source(train, competing, own, task.index, None)
        earlier = {sample: self._replayed(sample, steps, task.index) for sample, steps in replays.items()}
        for step, sample in enumerate(turns):
            means = self._noisy_gradient(current)
            if sample is not None:
                means = projected(means, self._noisy_gradient(earlier[sample]), self._params.projection, self._params.scope)
            self._step(means, step, current.plan)
            yield step + 1
        self._keep(train, labels, task.index)

    def logits(self, task: Task) -> NDArray[np.float32]:
        """Logits [n, n_classes] of the task's test examples; -inf for labels that do not compete or are not released."""
        outputs = nets.logits(self._net, task.test.inputs, self._form)
        scores = np.full_like(outputs, -np.inf)
        competing = list(self._competing(self._own_labels(task)))
        scores[:, competing] = outputs[:, competing]
        return scores

    def released(self) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name."""
        return nets.released(self._net)

    def rule(self) -> Rule:
        """The network's largest logit."""
        by_task = [labels for _, labels in self._samples] if self._params.is_task_given else []
        return nets.rule(self._net, self._released, by_task)

    def _account(self, task: int, turns: Sequence[int | None], ledger: Ledger) -> tuple[Steps, dict[int, Steps]]:
        """The steps and the uses of every sample, charged to the people whose examples they read."""
        plan, size = self._public, self._params.clip_norm
        own, replays = plan.own_steps(task, self._noises), {}
        ledger.spend(own, task=task, what=schedule(self._params, self._context.task_size).words)
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

    def _replayed(self, sample: int, steps: Steps, task: int) -> Source:
        examples, labels = self._samples[sample]
        return self._source(examples, self._competing(labels), steps, task, sample)

    def _source(
        self, examples: Examples, classes: tuple[int, ...], steps: Steps, task: int, sample: int | None
    ) -> Source:
        """The task's own examples (`sample` None) or a kept sample, each with the coins and the noise that are charged."""
        plan = schedule(self._params, self._context.task_size, is_replay=sample is not None)
        purpose = f"task {task}" if sample is None else f"replay of task {sample} in task {task}"
        batches = steps.batches(self._coin_seed, f"{purpose} at epsilon {self._cell.epsilon}")
        noise = noise_of(self._spec.privacy.noise, self._cell, purpose)
        return Source(examples, np.asarray(classes, dtype=np.int64), plan, batches, noise, steps.noise_multiplier)

    @property
    def _coin_seed(self) -> int | None:
        """The seed of coins in teaching; None: those of a release are the operating system's."""
        return self._cell.seed if self._spec.privacy.noise == "seeded" else None

    def _noisy_gradient(self, source: Source) -> list[Tensor]:
        """Noisy sum of clipped gradients on a batch, divided by the expected batch size. An empty batch gives noise alone.

        Adding or removing an example changes the sum by at most the clipping norm; the noise on every coordinate of the sum
        has a standard deviation of the multiplier times that norm.
        """
        batch = source.examples.take(source.batches.draw(len(source.examples)))
        device = self._context.device
        x = nets.tensor(batch.inputs, self._form, device)
        targets = torch.from_numpy(np.searchsorted(source.classes, batch.labels)).to(device)
        sums = self._gradients.of(x, targets, torch.from_numpy(source.classes).to(device))
        std, dtype = source.plan.noise_std(source.noise_multiplier), next(self._net.parameters()).dtype
        return noisy_means(sums, source.plan.expected_batch, std, source.noise, dtype=dtype)

    def _step(self, means: Sequence[Tensor], step: int, plan: Schedule) -> None:
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
            train = _of_classes(task, labels if self._params.head == "per-task" else seen)
            self._samples.append((train.take(places), labels))


def _of_classes(task: Task, classes: Sequence[int]) -> Examples:
    """The task's training examples of these classes."""
    return task.train.take(np.flatnonzero(in_label_space(task.train.labels, classes)))


class DpAgem:
    """One independent model per cell. Keeps a sample of every finished task."""

    KEPT = ("_models",)

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        assert isinstance(spec.params, DpAgemParams)
        self._n_steps = spec.params.n_steps
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
        return self._models[cell].released()

    def rule(self, cell: Cell) -> Rule:
        """The largest logit of the cell's network."""
        return self._models[cell].rule()


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> DpAgem:
    """The learner of a run's whole grid."""
    return DpAgem(spec, cells, context)
