"""What PeCL's baselines share: settings, card, and private training in one cell, by DP-SGD or on noisy embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import dp_accounting as dp
import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.layers import Print, Printed, Values, setting
from dpcl_core.methods.common.dpsgd import Schedule, noise_std
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language import baseline_costs
from dpcl_core.methods.language import params as language
from dpcl_core.methods.language.adapted_model import AdaptedModel, TrainingInputs, progress_of
from dpcl_core.methods.language.baseline_costs import BaselineParams
from dpcl_core.methods.language.params import LEFT_OPEN, PAPER, PRINTED
from dpcl_core.methods.language.public_text import Prompted, planes
from dpcl_core.privacy import text_mechanisms
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, Params, RunSpec

if TYPE_CHECKING:
    from torch import Tensor

    from dpcl_core.methods.language.training import Descent, Penalty

RAW_BUFFER = "Texts kept for later tasks are stored unprotected by the trainer: the bound covers what is released."
NOISY_BUFFER = "Texts kept for later tasks are noisy copies; their labels are as the setting on labels says."


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds or can be stated."""
    params = spec.params
    assert isinstance(params, BaselineParams)
    if params.is_local:
        language.check_local(spec, "with params.mechanism = fn")


def derived(params: Params, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings. Steps on noisy copies are free and follow each task's own size."""
    assert isinstance(params, BaselineParams)
    steps = (language.derived_by_size if params.is_local else language.derived)(params, facts)
    return f"{steps} {params.kept(facts.task_size):.0f} texts are kept of each." if params.keeps_texts else steps


def notes(params: Params) -> tuple[str, ...]:
    """Caveats on texts that are kept, and on the bound."""
    assert isinstance(params, BaselineParams)
    kept = (NOISY_BUFFER if params.is_local else RAW_BUFFER,) if params.keeps_texts else ()
    return (*kept, *language.notes(params))


def totals(spec: RunSpec, facts: PublicSizes) -> str:
    """Noise and total epsilon of each budget. Loads the accountant; takes seconds where budget = total."""
    params = spec.params
    assert isinstance(params, BaselineParams)
    plan = baseline_costs.plan(params, spec.privacy, facts)
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    return " ".join(baseline_costs.sentence(params, plan, epsilon) for epsilon in finite)


def assumed(params: Params) -> tuple[str, ...]:
    """Assumptions of the bound about tasks."""
    assert isinstance(params, BaselineParams)
    return language.of_copies(params.label_share) if params.is_local else ()


def table_names(name: str, spec: RunSpec) -> tuple[str, str]:
    """Table names of a run: the baseline's, and its mechanism's."""
    assert isinstance(spec.params, BaselineParams)
    return name, "FN" if spec.params.is_local else "DPSGD"


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Choices of ours that the PeCL paper leaves open for its baselines, and differences from it."""
    assert isinstance(spec.params, BaselineParams)
    left_open = (
        "Not given of the baselines: clipping norms, sizes of buffers, weights of penalties, and what ε = 1 is for. "
        "Ours: for the training of one task under DPSGD, more in all where texts are read again; for one token in one "
        "place under FN, more for a text. Each ledger tells the total."
    )
    of_copies = (
        "FN: the paper's noise for ε = 1 holds for half the distance between two clipped embeddings, and is that of "
        "ε = 1.6574 here, which holds for all of it; ours is drawn once."
    )
    return (*language.differences(spec), left_open, *([of_copies] if spec.params.is_local else []))


def _one_in_print(spec: RunSpec) -> Values | None:
    """ε = 1 under DP-SGD; under FN the budget whose exact noise has the printed ratio, 5.299 at δ = 1e-6."""
    if setting(spec, "params.mechanism") != "fn":
        return (1.0,)
    return (round(text_mechanisms.true_epsilon(text_mechanisms.printed_ratio(1.0, 1e-6), 1e-6), 4),)


def _passes(spec: RunSpec) -> Values | None:
    """Three passes over each task's own texts. Under DP-SGD all tasks have equally many steps: no number of passes fits."""
    is_one_training = spec.method == "lm-mtl"
    return (3,) if is_one_training or setting(spec, "params.mechanism") == "fn" else ()


def _by_token(spec: RunSpec) -> Values | None:
    return ("token",) if setting(spec, "params.mechanism") == "fn" else None


def printed(**left_open: str) -> Print:
    """Printed settings of a baseline: the shared ones, and its own settings that the paper leaves open."""
    return Print(
        PAPER,
        PRINTED
        | {
            "params.epochs": Printed(
                _passes,
                "Under DP-SGD every task has the steps of one of mean size: their number is part of what a budget pays for.",
                words="3, over each task's own texts",
            ),
            "privacy.epsilons": Printed(_one_in_print, "FN's printed noise is that of ε = 1 for half the true distance."),
            "params.mechanism": Printed(("dp-sgd", "fn"), "No other mechanism is printed."),
            "params.budget_per": Printed(_by_token, "The printed budget is of one token in one place."),
            "params.label_share": Printed((0.0,), "Labels are read as they are in the paper."),
        },
        LEFT_OPEN
        | {
            "params.budget": "What ε = 1 is for, a task or the stream, is not said.",
            "params.clip_norm": "Where gradients are clipped is not given.",
            "params.embedding_clip": "C is not given, nor whether noise is drawn again; ours is drawn once.",
        }
        | {f"params.{name}": why for name, why in left_open.items()},
    )


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, book: Ledger) -> None:
    """The plan of a model (`methods.planned`): trainings with all that they read again, or noisy copies."""
    params = spec.params
    assert isinstance(params, BaselineParams)
    plan = baseline_costs.plan(params, spec.privacy, facts)
    if params.is_local:
        book.entries += baseline_costs.copies_ledger(params, plan, baseline_costs.copy_noise(params, plan, epsilon)).entries
    else:
        book.entries += baseline_costs.ledger(params, plan, baseline_costs.noises(params, plan, epsilon)).entries


# The card of a baseline, unless the method says otherwise.
card = partial(
    language.card,
    planned=f"{__name__}:planned",
    audit="dpcl_core.attacks.language_games",
    refuses=check,
    derived=derived,
    totals=totals,
    notes=notes,
    assumes=assumed,
    differences=differences,
)


Rows = NDArray[np.int64]
GradientFn = Callable[[Rows], "list[Tensor]"]  # indices of a step's texts -> mean gradients with their noise already added


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
            self.charges = self.params.charges(self.plan, self.noises, task.index)
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

    def gradient_fn(self, inputs: TrainingInputs, expected: float, purpose: str, place: int = 0) -> GradientFn:
        """A function that gives a batch's mean gradients; they need no further noise.

        dp-sgd: clips each text's gradient, adds noise to the sum and divides by `expected`, the public expected batch size.
        fn: averages over the noisy copies. `place`: of the charge whose noise it is; that of the steps is the first.
        """
        from dpcl_core.methods.common.per_example_gradients import noisy_means
        from dpcl_core.methods.language.gradients import Gradients, batch_of

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
        from dpcl_core.methods.language.training import Descent

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
