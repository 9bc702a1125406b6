"""Private training of one baseline's model in one (epsilon, seed) cell: by DP-SGD, or on noisy embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones.language import tokenizer
from dpcl_core.data.texts import TOKEN
from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd_plan import Schedule, noise_std
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.noisy_means import noisy_means
from dpcl_core.methods.language import baseline_costs, public_text
from dpcl_core.methods.language.adapted_model import AdaptedModel, embedding_table, median_norm, without_tokens
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.gradients import Gradients, batch_of
from dpcl_core.methods.language.losses import task_loss
from dpcl_core.methods.language.prompts import answer_ids
from dpcl_core.methods.language.scoring import planes
from dpcl_core.methods.language.training import Descent
from dpcl_core.methods.language.training_inputs import TrainingInputs
from dpcl_core.privacy.embeddings import noisy_embeddings
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.local import noisy_labels
from dpcl_core.privacy.noise import Batches, Noise, noise_of
from dpcl_core.scenarios.stream import Task, generator
from dpcl_core.spec import Cell, RunSpec

STEPS_PER_PROGRESS = 5
Rows = NDArray[np.int64]
Copies = Mapping[str, NDArray[np.generic]]
GradientFn = Callable[[Rows], list[Tensor]]  # indices of a step's texts -> mean gradients with their noise already added


class PrivateTrainer:
    """Model, noise and sampling of one cell. Keeps no text, only noisy copies under mechanism = fn."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, BaselineParams)
        self._spec, self._cell, self._known, self.params = spec, cell, known, spec.params
        self.adapted = AdaptedModel(spec, cell, known)
        self.net, self.answers = self.adapted.net, self.adapted.answers
        self.plan = baseline_costs.plan(self.params, spec.privacy, known)
        self.is_local = self.params.is_local
        none = baseline_costs.Noises(0.0)
        self.noises = none if self.is_local else baseline_costs.noises(self.params, self.plan, cell.epsilon)
        self._copy_noise = baseline_costs.copy_noise(self.params, self.plan, cell.epsilon)
        self.clip_norm = self.params.clip_norm if self.noises.steps > 0 else math.inf
        self.copies: Copies = {}  # noisy copies of the last task's texts; empty under dp-sgd

    @property
    def is_noisy(self) -> bool:
        """Whether gradients are clipped and get noise."""
        return self.noises.steps > 0

    def open_task(self, task: Task, ledger: Ledger) -> TrainingInputs:
        """The task's training texts, after all that learning the task costs has been written to the ledger."""
        if self.is_local:
            self.copies = {}
            return self._copied(task, ledger)
        for charge in baseline_costs.charges(self.params, self.plan, self.noises, task.index):
            ledger.spend(charge.event, task=task.index, what=charge.what, people_of=charge.people_of)
        examples = self.adapted.training_examples(task)
        return TrainingInputs(self.adapted.prompted(planes(examples), examples.labels, task.name))

    def _copied(self, task: Task, ledger: Ledger) -> TrainingInputs:
        """Noisy embedding of every token and randomised response for every private label; the texts are read only here."""
        hides_labels = math.isfinite(self._copy_noise.epsilon_labels)
        examples = task.train if hides_labels else self.adapted.training_examples(task)
        inputs, labels = planes(examples), examples.labels
        if math.isinf(self._cell.epsilon):
            ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what="the texts as they are")
            return TrainingInputs(self.adapted.prompted(inputs, labels, task.name))
        if hides_labels:
            space, noise = self.adapted.space(task), self.noise(f"labels of task {task.index}")
            labels = noisy_labels(labels, space, self._copy_noise.epsilon_labels, noise, ledger, task=task.index)
        table = embedding_table(self.net)
        copies = noisy_embeddings(
            table,
            inputs[:, :, TOKEN],
            self._copy_noise.ratio,
            self.params.embedding_clip or median_norm(table),
            self.noise(f"embeddings of task {task.index}"),
            ledger,
            task=task.index,
        )
        self.copies = {"copies": copies, "answers": labels}
        texts = without_tokens(self.adapted.prompted(inputs, labels, task.name))
        return TrainingInputs(texts, self.adapted.table(copies))

    def public_texts(self, task: Task) -> TrainingInputs:
        """Public texts with the task's prompt and an arbitrary label."""
        inputs = public_text.encoded(self._spec.data.backbone, self.params.length)
        labels = np.full(len(inputs), self.adapted.space(task)[0], np.int64)
        return TrainingInputs(self.adapted.prompted(inputs, labels, task.name))

    def answers_of(self, task: Task) -> list[list[int]]:
        """The tokens of each of the task's labels."""
        ready = tokenizer.load(self._spec.data.backbone)
        return [answer_ids(ready, self._known.classes[label]) for label in self.adapted.space(task)]

    def gradient_fn(
        self, inputs: TrainingInputs, expected: float, purpose: str, multiplier: float | None = None
    ) -> GradientFn:
        """A function that gives a batch's mean gradients; they need no further noise.

        dp-sgd: clips each text's gradient, adds noise to the sum and divides by `expected`, the public expected batch size.
        fn: averages over the noisy copies. `multiplier`: noise multiplier; None: that of the steps.
        """
        gradients, loss, reading = Gradients(self.net, self.clip_norm), task_loss(self.params.loss), inputs.reading
        std = noise_std(self.noises.steps if multiplier is None else multiplier, self.params.clip_norm, expected)
        noise = self.noise(purpose)

        def at(rows: Rows) -> list[Tensor]:
            sums = gradients.of(batch_of(inputs.texts, rows, self._known.device), loss, reading)
            return noisy_means(sums, max(1, len(rows)) if self.is_local else expected, std, noise)

        return at

    def batches(self, inputs: TrainingInputs, task: Task) -> Iterator[Rows]:
        """Text indices of each step. dp-sgd: Poisson sampling. fn: consecutive shuffled passes."""
        if not self.is_local:
            sampler = self.bernoulli_sampler(self.plan.sample_rate, f"task {task.index}")
            for _ in range(self.plan.n_steps):
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
        return self.params.n_steps(self._known.size_of(task))

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

    def replay_buffer(self, inputs: TrainingInputs, rate: float, task: Task) -> TrainingInputs:
        """Replay buffer: keeps each text by an independent Bernoulli draw that does not depend on any text's content."""
        return inputs.take(self.bernoulli_sampler(min(1.0, rate), f"kept of task {task.index}").draw(len(inputs)))

    def bernoulli_sampler(self, rate: float, purpose: str) -> Batches:
        """Independent draws at `rate`: from the operating system, or seeded where privacy.noise = seeded (teaching only)."""
        seeded = self._spec.privacy.noise == "seeded"
        return Batches(rate, self._cell.seed if seeded else None, f"{purpose} at epsilon {self._cell.epsilon}")

    def order(self, purpose: str) -> np.random.Generator:
        """Seeded generator for choices that are public."""
        return generator(self._cell.seed, purpose)

    def noise(self, purpose: str) -> Noise:
        return noise_of(self._spec.privacy.noise, self._cell, purpose)

    def progress(self, step: int, task: Task) -> Sequence[Progress]:
        """A progress event every `STEPS_PER_PROGRESS` steps and at the last one; otherwise nothing."""
        n_steps = self.n_steps(task)
        if step % STEPS_PER_PROGRESS and step != n_steps:
            return ()
        kind = "steps on noisy copies" if self.is_local else "noisy steps" if self.is_noisy else "steps"
        return (Progress("training", step, n_steps, task.index, f"{kind} on {task.name}"),)


class Baseline:
    """Base of all baselines: one private trainer, its network and its answers."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        self._trainer = PrivateTrainer(spec, cell, known)
        self.net, self.answers = self._trainer.net, self._trainer.answers

    @property
    def copies(self) -> Copies:
        """Noisy copies of the last task's texts, with their labels, under mechanism = fn; else empty."""
        return self._trainer.copies
