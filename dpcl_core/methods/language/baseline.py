"""PeCL's baselines: their settings, card and privacy costs, and private training by DP-SGD or on noisy embeddings.

Costs of steps, replay, Fisher information and reference gradients are public arithmetic, done before any text is read. A
person contributes one text to one task ("once"), or one text to every task ("every"). Proof of the ledger entries under
DP-SGD, where a text is added or removed and C is the clipping norm:

1. Steps on the task's own texts. Poisson sampling puts each text into the batch independently. One text changes the sum of
   clipped gradients by at most C, and the noise has standard deviation zC: Poisson-sampled Gaussians. Penalties that depend
   on weights alone (EWC, O-LoRA) are added after the noise and read no text. Earlier adapters are outputs of private
   training, so O-LoRA costs no more than this.
2. Replay (ER). One coin decides whether a text is kept when its task is learned. The coin depends neither on the text nor on
   other texts (a reservoir of fixed size would drop another text in exchange: two texts would change). Neighbours share
   that coin. Given it, a kept text joins each later step by a fresh coin of chance `ErParams.replay_rate`. Its gradient is
   in the same sum, under the same noise: a Poisson-sampled Gaussian at the kept texts' rate. Texts that are not kept are
   not read again. A bound that holds for every outcome of the first coin holds for their mixture (hockey-stick divergences
   are jointly convex), so everyone is charged as if kept; the chance of not being kept earns no credit. A person in every
   task has several texts in one such sum, each at its own rate: `SampledGroupDpEvent`.
3. Fisher information (EWC), released once for each task. A text's gradient g is clipped to C; the squares of its entries
   have length (sum of g_i^4)^(1/2) <= max |g_i| ||g|| <= C^2, so one text changes the sum of squares by at most C^2, and
   noise of standard deviation 20 C^2 makes it a Gaussian of multiplier 20, without sampling. Cutting off below zero is
   post-processing. It is a new query on the task's texts; computed from gradients that already have noise it costs nothing.
4. Reference gradients (GEM). Each step releases, for every past task, the sum of clipped gradients of all its kept texts
   with noise of its own: unsampled Gaussians in sequence. The projection works on noisy gradients alone.
5. All tasks together (MTL): one training on everybody's texts.

Under "replace" a coin belongs to a position in the data, and the accountant doubles the sensitivity. Noisy copies (mechanism
= fn) are released once for each text; steps, replay, Fisher information and references computed from them are
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.dpsgd import Schedule, noise_std
from dpcl_core.methods.common.method import MethodCard, PublicContext, PublicSizes, settings_of
from dpcl_core.methods.language import params as language
from dpcl_core.methods.language.adapted_model import AdaptedModel, TrainingInputs, progress_of
from dpcl_core.methods.language.later import per_example, per_text, torch, training
from dpcl_core.methods.language.lazy_learner import LazyLearner
from dpcl_core.methods.language.params import Budget, BudgetPer, CopyNoise, LabelShare, LanguageParams, Length
from dpcl_core.methods.language.public_text import Prompted, planes
from dpcl_core.privacy import accounting, text_mechanisms
from dpcl_core.privacy.accounting import LocalDpEvent
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Steps
from dpcl_core.privacy.statement import shown_number
from dpcl_core.published import Printed, PrintedPart, Values, setting
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, PrivacySpec, RunSpec, parameter


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise multipliers of the steps and of GEM's reference gradients; 0: none."""

    steps: float
    references: float = 0.0


@dataclass(frozen=True, slots=True)
class Charge:
    """What is done and charged: steps, from which batches and noise come, purpose, and the tasks whose examples are read."""

    steps: Steps
    what: str
    people_of: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class BaselineParams(LanguageParams):
    """Settings of a baseline of PeCL: the language model and one of two private training mechanisms."""

    trains_once: ClassVar[bool] = False  # on all tasks together, after the last has come
    keeps_texts: ClassVar[bool] = False  # for later tasks
    mechanism: Literal["dp-sgd", "fn"] = parameter(
        "dp-sgd", "",
        "dp-sgd: every text's gradient is clipped, noise is added to each step. fn: every token's embedding is clipped "
        "and gets noise once, and whatever is made of the noisy copies is free.")
    budget: Budget = parameter(
        "total", "Budget covers",
        "What epsilon is for. total: everything that a person's texts are ever used for. per-task: the training of one "
        "task alone, as published; the total is then larger, and is shown.")
    clip_norm: Length = parameter(
        1.0, "Clipping norm C", "Longest gradient that one text contributes; not used under mechanism = fn.")
    embedding_clip: Length | None = parameter(
        None, "Embedding norm bound",
        "Longest embedding of a token, under mechanism = fn; empty: the median of the model's table.")
    budget_per: BudgetPer = parameter(
        "text", "Unit of protection",
        "Under mechanism = fn, what epsilon is for: a whole text, or one token in one place; the total is then larger, "
        "and is shown.")
    label_share: LabelShare = parameter(
        0.0, "Share of ε for labels",
        "Under mechanism = fn, share of epsilon that hides the label by a random answer; 0: labels are public.")

    @property
    def is_local(self) -> bool:
        return self.mechanism == "fn"

    @property
    def is_total_asked(self) -> bool:
        return self.budget == "total" and (self.budget_per == "text" or not self.is_local)

    @property
    def share_of_references(self) -> float:
        """The share of epsilon that gradients on kept texts may use up; 0 for a method without them."""
        return 0.0

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return 0.0

    def charges(self, plan: Plan, noises: Noises, task: int) -> list[Charge]:
        """What learning a task under DP-SGD charges, for texts of earlier tasks that it reads again, too."""
        return [plan.steps(noises, (task,))]

    def copy_noise(self, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> CopyNoise:
        return Plan(self, privacy, facts).copy_noise(epsilon)


@dataclass(frozen=True, slots=True)
class Plan:
    """A stream and its training, in public numbers."""

    params: BaselineParams
    privacy: PrivacySpec
    facts: PublicSizes

    @property
    def n_texts(self) -> float:
        """Texts of one training: of a task, or of all tasks together."""
        return self.facts.task_size * (self.facts.n_tasks if self.params.trains_once else 1)

    @property
    def n_steps(self) -> int:
        """Steps of one training."""
        return self.params.n_steps(self.facts.task_size) * (self.facts.n_tasks if self.params.trains_once else 1)

    @property
    def sample_rate(self) -> float:
        """A text's sampling rate in its own task."""
        return self.params.sample_rate(self.n_texts)

    def noises(self, epsilon: float) -> Noises:
        """Noise multipliers of DP-SGD for a budget; 0 for an infinite one.

        "total": the smallest noise that keeps everything done to the worst-off person within (epsilon, delta). GEM's steps
        get the share of epsilon that `reference_share` leaves, its references what is then left of the total. "per-task": as
        published, the noise that one task's own steps need, for references too.
        """
        if math.isinf(epsilon):
            return Noises(0.0)
        (delta, adjacency), share = (self.privacy.delta, self.privacy.adjacency), self.params.share_of_references
        if self.params.budget == "per-task":
            one_task = accounting.noise_multiplier(epsilon, delta, self.sample_rate, self.n_steps, adjacency)
            return Noises(one_task, one_task)
        if share == 0 or self.facts.n_tasks == 1:
            return Noises(accounting.calibrated(self._worst_off, epsilon, delta, adjacency))

        def step_events(value: float) -> Sequence[dp.DpEvent]:
            return [accounting.subsampled_gaussian(value, self.sample_rate, self.n_steps)] * self.facts.n_recurring

        steps = accounting.calibrated(step_events, (1 - share) * epsilon, delta, adjacency)
        references = accounting.calibrated(lambda value: self._worst_off(steps, value), epsilon, delta, adjacency)
        return Noises(steps, references)

    def steps(self, noises: Noises, people_of: tuple[int, ...]) -> Charge:
        """The charge of DP-SGD's steps on the texts of these tasks."""
        clip_norm = self.params.clip_norm
        what = f"DP-SGD, {self.n_steps} steps, sampling rate {self.sample_rate:g}, clipping norm {clip_norm:g}"
        return Charge(Steps(self.n_steps, (self.sample_rate,), noises.steps), what, people_of)

    def ledger(self, noises: Noises) -> Ledger:
        """A ledger with every charge of DP-SGD over the whole stream."""
        book = self._empty()
        for task in range(self.facts.n_tasks):
            for charge in self.params.charges(self, noises, task):
                book.spend(charge.steps, task=task, what=charge.what, people_of=charge.people_of)
        return book

    def copy_noise(self, epsilon: float) -> CopyNoise:
        """The noise of a budget for a whole text, or for one token in one position.

        Where a person has a text in every task and the budget is the total, it covers the tokens and labels of all of them.
        """
        params, n_texts = self.params, self.facts.n_recurring if self.params.budget == "total" else 1
        n_tokens = params.length if params.budget_per == "text" else 1
        return CopyNoise.within(epsilon, self.privacy.delta, params.label_share, n_tokens, n_texts)

    def copies_ledger(self, noise: CopyNoise) -> Ledger:
        """A ledger with one noisy copy of every text of the stream, entered as the mechanisms enter it."""
        book, multiplier = self._empty(), noise.ratio / math.sqrt(self.params.length)
        for task in range(self.facts.n_tasks):
            event = dp.GaussianDpEvent(multiplier) if multiplier > 0 else dp.NonPrivateDpEvent()
            book.spend(event, task=task, what="noisy embeddings")
            if math.isfinite(noise.epsilon_labels):
                book.spend(LocalDpEvent(noise.epsilon_labels), task=task, what="random answers")
        return book

    def sentence(self, epsilon: float) -> str:
        """One sentence for the form: noise and total epsilon of a finite budget."""
        if self.params.is_local:
            copy = self.copy_noise(epsilon)
            total, of = self.copies_ledger(copy), f" for a text of {self.params.length} tokens"
            noise_text = f"noise of {shown_number(copy.ratio)} times the clip on every token"
        else:
            noises = self.noises(epsilon)
            total, of, noise_text = self.ledger(noises), "", f"noise multiplier {noises.steps:g}"
            if self.params.share_of_references > 0 and self.facts.n_tasks > 1 and noises.references != noises.steps:
                noise_text += f", {noises.references:g} on references"
        return f"At ε = {epsilon:g}: {noise_text}, total ε {shown_number(total.epsilon())}{of}."

    def _empty(self) -> Ledger:
        return Ledger(self.privacy.delta, self.privacy.adjacency, self.facts.recurrence)

    def _worst_off(self, steps: float, references: float = 0.0) -> Sequence[dp.DpEvent]:
        """Events on the first task's people: later tasks charge them for everything that they charge anyone for."""
        return next(iter(self.ledger(Noises(steps, references)).events_by_people().values()))


RAW_BUFFER = "Texts kept for later tasks are stored unprotected by the trainer: the bound covers what is released."
NOISY_BUFFER = "Texts kept for later tasks are noisy copies; their labels are as the setting on labels says."


def check_baseline(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds or can be stated."""
    if settings_of(spec, BaselineParams).is_local:
        language.check_local(spec, "with params.mechanism = fn")


def derived(params: BaselineParams, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings. Steps on noisy copies are free and follow each task's own size."""
    steps = (language.derived_by_size if params.is_local else language.derived)(params, facts)
    return f"{steps} {params.kept(facts.task_size):.0f} texts are kept of each." if params.keeps_texts else steps


def notes(params: BaselineParams) -> tuple[str, ...]:
    """Caveats on texts that are kept, and on the bound."""
    kept = (NOISY_BUFFER if params.is_local else RAW_BUFFER,) if params.keeps_texts else ()
    return (*kept, *language.notes(params))


def totals(spec: RunSpec, facts: PublicSizes) -> str:
    """Noise and total epsilon of each budget. Loads the accountant; takes seconds where budget = total."""
    plan = Plan(settings_of(spec, BaselineParams), spec.privacy, facts)
    return " ".join(map(plan.sentence, filter(math.isfinite, spec.privacy.epsilons)))


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Choices of ours that the PeCL paper leaves open for its baselines, and differences from it."""
    left_open = (
        "Not given of the baselines: clipping norms, sizes of buffers, weights of penalties, and what ε = 1 is for. "
        "Ours: for the training of one task under DPSGD, more in all where texts are read again; for one token in one "
        "place under FN, more for a text. Each ledger tells the total."
    )
    of_copies = (
        "FN: the paper's noise for ε = 1 holds for half the distance between two clipped embeddings, and is that of "
        "ε = 1.6574 here, which holds for all of it; ours is drawn once."
    )
    return (*language.differences(spec), left_open, *([of_copies] if settings_of(spec, BaselineParams).is_local else []))


def _one_in_print(spec: RunSpec) -> Values | None:
    """ε = 1 under DP-SGD; under FN the budget whose exact noise has the printed ratio, 5.299 at δ = 1e-6."""
    if setting(spec, "params.mechanism") != "fn":
        return (1.0,)
    return (round(text_mechanisms.true_epsilon(text_mechanisms.printed_ratio(1.0, 1e-6), 1e-6), 4),)


def _passes(spec: RunSpec) -> Values | None:
    """Three passes over each task's own texts. Under DP-SGD all tasks have equally many steps: no number of passes fits."""
    return (3,) if spec.method == "lm-mtl" or setting(spec, "params.mechanism") == "fn" else ()


def _by_token(spec: RunSpec) -> Values | None:
    return ("token",) if setting(spec, "params.mechanism") == "fn" else None


PRINTED: PrintedPart = {
    "params.epochs": Printed(
        _passes,
        "Under DP-SGD every task has the steps of one of mean size: their number is part of what a budget pays for.",
        words="3, over each task's own texts",
    ),
    "privacy.epsilons": Printed(_one_in_print, "FN's printed noise is that of ε = 1 for half the true distance."),
    "params.mechanism": Printed(("dp-sgd", "fn"), "No other mechanism is printed."),
    "params.budget_per": Printed(_by_token, "The printed budget is of one token in one place."),
    "params.label_share": Printed((0.0,), "Labels are read as they are in the paper."),
    "params.budget": "What ε = 1 is for, a task or the stream, is not said.",
    "params.clip_norm": "Where gradients are clipped is not given.",
    "params.embedding_clip": "C is not given, nor whether noise is drawn again; ours is drawn once.",
}


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, book: Ledger) -> None:
    """The plan of a model (`methods.references`): trainings with all that they read again, or noisy copies."""
    plan = Plan(settings_of(spec, BaselineParams), spec.privacy, facts)
    is_local = plan.params.is_local
    book.entries += (plan.copies_ledger(plan.copy_noise(epsilon)) if is_local else plan.ledger(plan.noises(epsilon))).entries


def card(method: str, left_open: Mapping[str, str] | None = None, **more: Any) -> MethodCard:
    """The card of a baseline. `method`: its name in the paper's tables; `left_open`: settings that the paper leaves open."""

    def table_names(spec: RunSpec) -> tuple[str, str]:
        return method, "FN" if settings_of(spec, BaselineParams).is_local else "DPSGD"

    of_own: PrintedPart = {f"params.{name}": why for name, why in (left_open or {}).items()}
    usual: dict[str, Any] = {"refuses": check_baseline, "derived": derived, "totals": totals, "notes": notes}
    usual |= {"differences": differences, "printed": language.printed(PRINTED, of_own), "planned": f"{__name__}:planned"}
    return language.card(table_names=table_names, **usual | more)


Rows = NDArray[np.int64]
# Indices of a step's texts -> mean gradients with their noise already added.
GradientFn = Callable[[Rows], "list[torch.Tensor]"]


class Baseline(AdaptedModel):
    """Sequential fine-tuning, and the base of all other baselines: trains the same adapters on one task after another."""

    KEPT, kept_records = (*AdaptedModel.KEPT, "_places", "_noisy"), (TrainingInputs, Prompted)
    params: BaselineParams

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        super().__init__(spec, cell, context)
        self.plan = Plan(self.params, spec.privacy, context)
        self.is_local = self.params.is_local
        self.noises = Noises(0.0) if self.is_local else self.plan.noises(cell.epsilon)
        self._copy_noise = self.plan.copy_noise(cell.epsilon)
        self.expected_batch = self.plan.sample_rate * self.plan.n_texts  # the task's texts in a step: public
        self.charges: list[Charge] = []  # of the task being learned under DP-SGD, its own steps first
        self.kept: list[TrainingInputs] = []  # texts of finished tasks, for methods that keep some
        self._places: list[Rows] = []  # of these texts in their tasks
        self.clip_norm = self.params.clip_norm if self.noises.steps > 0 else math.inf

    @classmethod
    def make_learner(cls, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> LazyLearner:
        """The learner of one cell, which trains this kind of model."""
        return LazyLearner(cls, spec, cells, context)

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress]:
        """Learns a task; every use of private data enters the ledger before its output leaves."""
        inputs = self.open_task(task, ledger)
        yield from self._train(task, self.task_gradient_fn(inputs, task), self.batches(inputs, task))

    def _train(
        self, task: Task, gradient_fn: GradientFn, batches: Iterable[Rows], penalty: training.Penalty | None = None
    ) -> Iterator[Progress]:
        """One step for each batch, along its mean gradients and the penalty's, by a fresh AdamW with cosine decay."""
        n_steps, rate = self.n_steps(task), self.params.learning_rate
        plan = Schedule(self.plan.sample_rate, n_steps, self.params.clip_norm, rate, self.expected_batch)
        descent = training.Descent(list(self.net.trainable().values()), plan)

        def steps() -> Iterator[int]:
            for step, rows in enumerate(batches, start=1):
                descent.step(gradient_fn(rows), penalty)
                yield step

        kind = "steps on noisy copies" if self.is_local else "noisy steps" if self.noises.steps > 0 else "steps"
        yield from progress_of(steps(), n_steps, task, kind)

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

    def task_gradient_fn(self, inputs: TrainingInputs, task: Task) -> GradientFn:
        """A function that gives the mean gradients of a batch of the task's own texts."""
        return self.gradient_fn(inputs, self.expected_batch, f"task {task.index}")

    def gradient_fn(self, inputs: TrainingInputs, expected: float, purpose: str, place: int = 0) -> GradientFn:
        """A function that gives a batch's mean gradients; they need no further noise.

        dp-sgd: clips each text's gradient, adds noise to the sum and divides by `expected`, the public expected batch size.
        fn: averages over the noisy copies. `place`: of the charge whose noise it is; that of the steps is the first.
        """
        gradients, loss, reading = per_text.Gradients(self.net, self.clip_norm), self.task_loss(), inputs.reading
        multiplier = self.charges[place].steps.noise_multiplier if self.charges else 0.0
        std = noise_std(multiplier, self.params.clip_norm, expected)
        noise = self.noise(purpose)

        def at(rows: Rows) -> list[torch.Tensor]:
            sums = gradients.of(per_text.batch_of(inputs.texts, rows, self.context.device), loss, reading)
            divisor = max(1, len(rows)) if self.is_local else expected
            return per_example.noisy_means(sums, divisor, std, noise, dtype=gradients.parameters[0].dtype)

        return at

    def batches(self, inputs: TrainingInputs, task: Task) -> Iterator[Rows]:
        """Text indices of each step. dp-sgd: Poisson sampling. fn: consecutive shuffled passes."""
        if not self.is_local:
            steps = self.charges[0].steps
            sampler = self.batches_of(steps, f"task {task.index}")
            for _ in range(steps.n_steps):
                yield sampler.draw(len(inputs))
            return
        order, size = self.order(f"order of task {task.index}"), self.params.batch_size
        yield from (rows for _, rows in training.shuffled_passes(len(inputs), size, self.n_steps(task), order))

    def n_steps(self, task: Task) -> int:
        """Number of steps for a task. Steps on noisy copies are free, so the task's own nominal size sets their number."""
        if not self.is_local or self.params.trains_once:
            return self.plan.n_steps
        return self.params.n_steps(self.context.size_of(task))

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
