"""One cell of a baseline: its model, the noise that its budget comes to, and the two ways of making a step private."""

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

EVERY = 5  # steps from one word on progress to the next
Rows = NDArray[np.int64]
Copies = Mapping[str, NDArray[np.generic]]
GradientFn = Callable[[Rows], list[Tensor]]  # places of a step's texts -> mean gradients, final: what follows reads no text


class PrivateTrainer:
    """One cell's model with the public numbers of its training. Holds noise and coins, never a text."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        assert isinstance(spec.params, BaselineParams)
        self._spec, self._cell, self._known, self.params = spec, cell, known, spec.params
        self.subject = AdaptedModel(spec, cell, known)
        self.net, self.answers = self.subject.net, self.subject.answers
        self.plan = baseline_costs.plan(self.params, spec.privacy, known)
        self.is_local = self.params.is_local
        none = baseline_costs.Noises(0.0)
        self.noises = none if self.is_local else baseline_costs.noises(self.params, self.plan, cell.epsilon)
        self._copy_noise = baseline_costs.copy_noise(self.params, self.plan, cell.epsilon)
        self.clip_norm = self.params.clip_norm if self.noises.steps > 0 else math.inf
        self.copies: Copies = {}  # of the last task's texts, where they leave noisy copies

    @property
    def is_noisy(self) -> bool:
        """Whether gradients are clipped and get noise."""
        return self.noises.steps > 0

    def opened(self, task: Task, ledger: Ledger) -> TrainingInputs:
        """The task's texts to train on, with everything that learning it costs in the ledger."""
        if self.is_local:
            self.copies = {}
            return self._copied(task, ledger)
        for charge in baseline_costs.charges(self.params, self.plan, self.noises, task.index):
            ledger.spend(charge.event, task=task.index, what=charge.what, people_of=charge.people_of)
        examples = self.subject.learned_from(task)
        return TrainingInputs(self.subject.prompted(planes(examples), examples.labels, task.name))

    def _copied(self, task: Task, ledger: Ledger) -> TrainingInputs:
        """One noisy vector for every token, and one answer for every label that is not public: no text is read again."""
        hides_labels = math.isfinite(self._copy_noise.epsilon_labels)
        examples = task.train if hides_labels else self.subject.learned_from(task)
        inputs, labels = planes(examples), examples.labels
        if math.isinf(self._cell.epsilon):
            ledger.spend(dp.NonPrivateDpEvent(), task=task.index, what="the texts as they are")
            return TrainingInputs(self.subject.prompted(inputs, labels, task.name))
        if hides_labels:
            space, noise = self.subject.space(task), self.noise(f"labels of task {task.index}")
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
        texts = without_tokens(self.subject.prompted(inputs, labels, task.name))
        return TrainingInputs(texts, self.subject.table(copies))

    def public_texts(self, task: Task) -> TrainingInputs:
        """Public texts behind the task's prompt; their answers say nothing."""
        inputs = public_text.encoded(self._spec.data.backbone, self.params.length)
        labels = np.full(len(inputs), self.subject.space(task)[0], np.int64)
        return TrainingInputs(self.subject.prompted(inputs, labels, task.name))

    def answers_of(self, task: Task) -> list[list[int]]:
        """The tokens of each of the task's labels."""
        ready = tokenizer.load(self._spec.data.backbone)
        return [answer_ids(ready, self._known.classes[label]) for label in self.subject.space(task)]

    def slope(self, material: TrainingInputs, expected: float, purpose: str, multiplier: float | None = None) -> GradientFn:
        """Mean gradients on texts of the material, final as they are.

        dp-sgd: every text's gradient is clipped, noise added to the sum, the sum divided by the `expected` number of texts,
        which is public. fn: the mean over the copies. `multiplier`: of the noise, that of the steps unless another is given.
        """
        gradients, loss, reading = Gradients(self.net, self.clip_norm), task_loss(self.params.loss), material.reading
        std = noise_std(self.noises.steps if multiplier is None else multiplier, self.params.clip_norm, expected)
        noise = self.noise(purpose)

        def at(rows: Rows) -> list[Tensor]:
            sums = gradients.of(batch_of(material.texts, rows, self._known.device), loss, reading)
            return noisy_means(sums, max(1, len(rows)) if self.is_local else expected, std, noise)

        return at

    def batches(self, material: TrainingInputs, task: Task) -> Iterator[Rows]:
        """The places of every step's texts. dp-sgd: each text by a coin of its own. fn: one shuffled pass after another."""
        if not self.is_local:
            coins = self.coins(self.plan.sample_rate, f"task {task.index}")
            for _ in range(self.plan.n_steps):
                yield coins.draw(len(material))
            return
        order, waiting = self.order(f"order of task {task.index}"), np.zeros(0, np.int64)
        for _ in range(self.n_steps(task) if len(material) else 0):
            if not len(waiting):
                waiting = order.permutation(len(material))
            yield waiting[: self.params.batch_size]
            waiting = waiting[self.params.batch_size :]

    def n_steps(self, task: Task) -> int:
        """Steps of a task. On noisy copies they cost nothing: passes over the task's own nominal size, as printed."""
        if not self.is_local or self.plan.trains_once:
            return self.plan.n_steps
        return self.params.n_steps(self._known.size_of(task))

    def descent(self, task: Task) -> Descent:
        """AdamW along a cosine, new for every task."""
        plan, expected = self.plan, self.expected_batch
        n_steps, rate = self.n_steps(task), self.params.learning_rate
        schedule = Schedule(plan.sample_rate, n_steps, self.params.clip_norm, rate, expected)
        return Descent(list(self.net.trainable().values()), schedule)

    @property
    def expected_batch(self) -> float:
        """Texts of the task in a step, on average: a public number."""
        n_texts = self.plan.task_size * (self.plan.n_tasks if self.plan.trains_once else 1)
        return self.plan.sample_rate * n_texts

    def kept(self, material: TrainingInputs, rate: float, task: Task) -> TrainingInputs:
        """Texts kept for later tasks: each by a coin of its own, whatever it says and whoever else is there."""
        return material.take(self.coins(min(1.0, rate), f"kept of task {task.index}").draw(len(material)))

    def coins(self, rate: float, purpose: str) -> Batches:
        """Secret coins under dp-sgd: from the operating system, unless the noise is seeded for teaching."""
        seeded = self._spec.privacy.noise == "seeded"
        return Batches(rate, self._cell.seed if seeded else None, f"{purpose} at epsilon {self._cell.epsilon}")

    def order(self, purpose: str) -> np.random.Generator:
        """Public random numbers."""
        return generator(self._cell.seed, purpose)

    def noise(self, purpose: str) -> Noise:
        return noise_of(self._spec.privacy.noise, self._cell, purpose)

    def told(self, step: int, task: Task) -> Sequence[Progress]:
        """A step taken in the run's words: every few of them and the last."""
        n_steps = self.n_steps(task)
        if step % EVERY and step != n_steps:
            return ()
        kind = "steps on noisy copies" if self.is_local else "noisy steps" if self.is_noisy else "steps"
        return (Progress("training", step, n_steps, task.index, f"{kind} on {task.name}"),)


class Baseline:
    """What the models of all baselines have in common: one trainee, and what is seen of it."""

    def __init__(self, spec: RunSpec, cell: Cell, known: PublicContext) -> None:
        self._trainee = PrivateTrainer(spec, cell, known)
        self.net, self.answers = self._trainee.net, self._trainee.answers

    @property
    def copies(self) -> Copies:
        """Noisy copies of the last task's texts and their answers, under mechanism = fn; else empty."""
        return self._trainee.copies
