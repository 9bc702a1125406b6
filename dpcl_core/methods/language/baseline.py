"""Private training of a baseline's model in one (epsilon, seed) cell: by DP-SGD, or on noisy embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd import Schedule, noise_std
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.per_example_gradients import noisy_means
from dpcl_core.methods.language import baseline_costs
from dpcl_core.methods.language.adapted_model import AdaptedModel, Descent, Penalty, TrainingInputs, progress_of
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.gradients import Gradients, batch_of
from dpcl_core.methods.language.public_text import Prompted, planes
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

Rows = NDArray[np.int64]
GradientFn = Callable[[Rows], list[Tensor]]  # indices of a step's texts -> mean gradients with their noise already added


class Baseline(AdaptedModel):
    """Sequential fine-tuning, and the base of all other baselines: trains the same adapters on one task after another."""

    KEPT, kept_records = (*AdaptedModel.KEPT, "_places", "_noisy"), (TrainingInputs, Prompted)
    params: BaselineParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        super().__init__(spec, cell, context)
        self.plan = baseline_costs.plan(self.params, spec.privacy, context)
        self.is_local = self.params.is_local
        none = baseline_costs.Noises(0.0)
        self.noises = none if self.is_local else baseline_costs.noises(self.params, self.plan, cell.epsilon)
        self._copy_noise = baseline_costs.copy_noise(self.params, self.plan, cell.epsilon)
        self.charges: list[baseline_costs.Charge] = []  # of the task being learned under DP-SGD, its own steps first
        self.kept: list[TrainingInputs] = []  # texts of finished tasks, for methods that keep some
        self._places: list[Rows] = []  # of these texts in their tasks
        self.clip_norm = self.params.clip_norm if self.noises.steps > 0 else math.inf

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """Learns a task; every use of private data enters the ledger before its output leaves."""
        inputs = self.open_task(task, ledger)
        yield from self._train(task, self.task_gradient_fn(inputs, task), self.batches(inputs, task))

    def _train(
        self, task: Task, gradient_fn: GradientFn, batches: Iterable[Rows], penalty: Penalty | None = None
    ) -> Iterator[Progress]:
        """One step for each batch, along its mean gradients and the penalty's."""
        descent = self.descent(task)

        def steps() -> Iterator[int]:
            for step, rows in enumerate(batches, start=1):
                descent.step(gradient_fn(rows), penalty)
                yield step

        kind = "steps on noisy copies" if self.is_local else "noisy steps" if self.noises.steps > 0 else "steps"
        yield from progress_of(steps(), self.n_steps(task), task, kind)

    def open_task(self, task: Task, ledger: Ledger) -> TrainingInputs:
        """The task's training texts, after all that learning the task costs has been written to the ledger."""
        self.open_forks(task)
        copy_noise = self._copy_noise
        if self.is_local and math.isfinite(self.cell.epsilon):
            label_epsilon = copy_noise.epsilon_labels if math.isfinite(copy_noise.epsilon_labels) else None
            return self.noisy_copies(task, ledger, copy_noise.ratio, label_epsilon, self.params.embedding_clip)
        if self.is_local:
            ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what="the texts as they are")
        else:
            self.charges = baseline_costs.charges(self.params, self.plan, self.noises, task.index)
            for charge in self.charges:
                ledger.spend(charge.steps, task=task.index, what=charge.what, people_of=charge.people_of)
        return self._texts(task)

    def public_texts(self, task: Task) -> TrainingInputs:
        """Public texts with the task's prompt and an arbitrary label."""
        inputs = self.public_inputs()
        labels = np.full(len(inputs), self.space(task)[0], np.int64)
        return TrainingInputs(self.prompted(inputs, labels, task.name))

    def task_gradient_fn(self, inputs: TrainingInputs, task: Task) -> GradientFn:
        """A function that gives the mean gradients of a batch of the task's own texts."""
        return self.gradient_fn(inputs, self.expected_batch, f"task {task.index}")

    def gradient_fn(
        self, inputs: TrainingInputs, expected: float, purpose: str, place: int = 0
    ) -> GradientFn:
        """A function that gives a batch's mean gradients; they need no further noise.

        dp-sgd: clips each text's gradient, adds noise to the sum and divides by `expected`, the public expected batch size.
        fn: averages over the noisy copies. `place`: of the charge whose noise it is; that of the steps is the first.
        """
        gradients, loss, reading = Gradients(self.net, self.clip_norm), self.task_loss(), inputs.reading
        multiplier = self.charges[place].steps.noise_multiplier if self.charges else 0.0
        std = noise_std(multiplier, self.params.clip_norm, expected)
        noise = self.noise(purpose)

        def at(rows: Rows) -> list[Tensor]:
            sums = gradients.of(batch_of(inputs.texts, rows, self.context.device), loss, reading)
            divisor = max(1, len(rows)) if self.is_local else expected
            return noisy_means(sums, divisor, std, noise, dtype=gradients.parameters[0].dtype)

        return at

    def batches(self, inputs: TrainingInputs, task: Task) -> Iterator[Rows]:
        """Text indices of each step. dp-sgd: Poisson sampling. fn: consecutive shuffled passes."""
        if not self.is_local:
            steps = self.charges[0].steps
            sampler = self.batches_of(steps, f"task {task.index}")
            for _ in range(steps.n_steps):
                yield sampler.draw(len(inputs))
            return
        order, waiting = self.order(f"order of task {task.index}"), np.zeros(0, np.int64)
        for _ in range(self.n_steps(task) if len(inputs) else 0):
            if not len(waiting):
                waiting = order.permutation(len(inputs))
            yield waiting[: self.params.batch_size]
            waiting = waiting[self.params.batch_size :]

    def n_steps(self, task: Task) -> int:
        """Number of steps for a task. Steps on noisy copies are free, so the task's own nominal size sets their number."""
        if not self.is_local or self.plan.trains_once:
            return self.plan.n_steps
        return self.params.n_steps(self.context.size_of(task))

    def descent(self, task: Task) -> Descent:
        """A fresh AdamW optimiser with cosine decay for the task."""
        plan, expected = self.plan, self.expected_batch
        n_steps, rate = self.n_steps(task), self.params.learning_rate
        schedule = Schedule(plan.sample_rate, n_steps, self.params.clip_norm, rate, expected)
        return Descent(list(self.net.trainable().values()), schedule)

    @property
    def expected_batch(self) -> float:
        """Expected number of the task's texts in a step: public."""
        n_texts = self.plan.task_size * (self.plan.n_tasks if self.plan.trains_once else 1)
        return self.plan.sample_rate * n_texts

    def keep(self, inputs: TrainingInputs, places: Rows) -> None:
        """Keeps the texts at these places."""
        self.kept.append(inputs.take(places))
        self._places.append(places)

    def keep_some(self, inputs: TrainingInputs, rate: float, task: Task) -> None:
        """Keeps each text by an independent Bernoulli draw that does not depend on any text's content."""
        coins = Batches(min(1.0, rate), self.coin_seed, f"kept of task {task.index} at epsilon {self.cell.epsilon}")
        self.keep(inputs, coins.draw(len(inputs)))

    @property
    def _noisy(self) -> list[TrainingInputs]:
        """Kept noisy copies, which must not be drawn again; of other texts a checkpoint has only the places."""
        return [one for one in self.kept if one.copies is not None]

    @_noisy.setter
    def _noisy(self, copies: list[TrainingInputs]) -> None:
        self.kept = copies

    def recall(self, learned: Sequence[Task]) -> None:
        """Reads the kept texts of these tasks again, at their places."""
        if self.kept:
            return  # noisy copies
        for task, places in zip(learned, self._places, strict=False):  # none, for methods that keep none
            self.kept.append(self._texts(task).take(places))

    def _texts(self, task: Task) -> TrainingInputs:
        """The task's training texts as they are."""
        examples = self.training_examples(task)
        return TrainingInputs(self.prompted(planes(examples), examples.labels, task.name))
