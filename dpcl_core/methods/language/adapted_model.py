"""A LoRA-adapted language model for one (epsilon, seed) cell: input encoding, noise, noisy copies and label scoring.

Its module and those of its methods load torch with the first model, not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import plain_language
from dpcl_core.backbones.packaged import BUNDLED
from dpcl_core.data.texts import TOKEN
from dpcl_core.errors import BadInput, at_most
from dpcl_core.events import Note, Progress
from dpcl_core.methods.common.method import PublicContext, settings_of
from dpcl_core.methods.language import public_text
from dpcl_core.methods.language.later import causal, evaluation, per_text, torch, training
from dpcl_core.methods.language.params import SHORTEST, LanguageParams
from dpcl_core.methods.language.public_text import FIRST, TEXT, Answer, Planes, Prompted, answer_ids, planes, prompted
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, Steps, noise_of
from dpcl_core.privacy.text_mechanisms import noisy_embeddings, noisy_labels
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, RunSpec

STEPS_PER_PROGRESS = 5


def progress_of(steps: Iterator[int], total: int, task: Task, what: str) -> Iterator[Progress]:
    """Progress events every `STEPS_PER_PROGRESS` steps and at the last one."""
    for step in steps:
        if step % STEPS_PER_PROGRESS == 0 or step == total:
            yield Progress("training", step, total, task.index, f"{what} on {task.name}")


# Training inputs of a baseline: prompted texts and, under mechanism = fn, their noisy embeddings.


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInputs:
    """Prompted texts of one or several tasks.

    `copies` float32 [n, length, d]: noisy embeddings that the network reads in place of the tokens; None: it reads tokens.
    """

    texts: Prompted
    copies: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def reading(self) -> per_text.Reading:
        """How the network reads a batch of these texts."""
        if (stored := self.copies) is None:
            return per_text.clean
        return per_text.Fixed(lambda embeddings, batch, epoch: training.replace_text_embeddings(embeddings, stored, batch))

    def take(self, places: NDArray[np.int64]) -> TrainingInputs:
        """The texts at these indices, in this order."""
        chosen = Prompted(*(plane[places] for plane in self.texts.planes))
        return TrainingInputs(chosen, None if self.copies is None else self.copies[torch.from_numpy(places)])


def join_texts(parts: Sequence[TrainingInputs]) -> TrainingInputs:
    """The texts of several tasks, concatenated and padded to the longest."""
    width = max(part.texts.ids.shape[1] for part in parts)
    prompted = Prompted(*map(np.concatenate, zip(*(part.texts.resized(width).planes for part in parts), strict=True)))
    copies = [part.copies for part in parts if part.copies is not None]
    return TrainingInputs(prompted, torch.cat(copies) if copies else None)


def log_probabilities(
    backbone: str, tokens: NDArray[np.integer], device: str, *, is_shown: bool = False
) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under the frozen model, in nats; 0 at padding.

    `is_shown`: of public texts that are only shown, in single precision on every device and not filled up.
    """
    if backbone == BUNDLED:
        return plain_language.load().log_probabilities(tokens)
    model, bos = causal.load(backbone, device, single=is_shown), plain_language.load_tokenizer(backbone).bos
    return training.log_probabilities(model, tokens, bos, device, is_filled=not is_shown)


def median_norm(table: NDArray[np.float32]) -> float:
    """Median L2 norm of the rows: the default clip of embeddings."""
    return float(np.median(np.linalg.norm(table, axis=1)))


class AdaptedModel:
    """One cell's adapted model with its tokenizer and sources of randomness. Keeps no text, only noisy copies."""

    waits: ClassVar[bool] = False  # trains only once the last task has come
    stacks: ClassVar[bool] = False  # classifies with the adapters of all tasks
    KEPT: ClassVar[tuple[str, ...]] = ("net", "forks")  # the next task has noisy copies of its own

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        self.params = params = settings_of(spec, LanguageParams)
        self.spec, self.cell, self.context, backbone = spec, cell, context, spec.data.backbone
        # The seed of coins where privacy.noise = seeded (teaching only); None: they are the operating system's.
        self.coin_seed = cell.seed if spec.privacy.noise == "seeded" else None
        rank, alpha, n_layers = params.lora_rank, params.lora_alpha, params.n_layers(backbone)
        every = params.adapts == "all"
        self.net = causal.adapted(backbone, context.device, rank, alpha, cell.seed, n_layers, every=every)
        self._tokenizer, self._rule = plain_language.load_tokenizer(backbone), params.reading_rule(backbone)
        self.forks = per_text.Forks() if self._rule == "choice" else None
        self.copies: Mapping[str, NDArray[np.generic]] = {}  # of the last task's texts, by name; empty if none are released

    def learn(self, task: Task, ledger: Ledger) -> Iterator[Progress | Note]:
        """Learns a task; every use of private data enters the ledger before its output leaves."""
        raise NotImplementedError

    def recall(self, learned: Sequence[Task]) -> None:
        """Reads again the texts that it had kept of these tasks; by default it keeps none."""

    def space(self, task: Task) -> tuple[int, ...]:
        """The task's label space: its public labels, ascending."""
        return label_space(self.spec.labels, task.prior, self.context.public, task.train.labels, [], task=task.index)

    def training_examples(self, task: Task) -> Examples:
        """The training texts whose label is in the label space."""
        return task.train.take(np.flatnonzero(in_label_space(task.train.labels, self.space(task))))

    def _refuse_length(self, task: Task) -> None:
        """Raises BadInput if the longest possible text of the task would not fit into the model's context.

        `params.length`, the task's name and its label space decide, and no text: a refusal says nothing about those at hand.
        """
        longest = max(map(len, self._names(task).values()), default=0)
        around = FIRST + len(self._tokenizer.encode(public_text.template(task.name))[0]) + longest
        context, length = self.net.context, self.params.length
        if context is None or around + length <= context:
            return
        if (most := context - around) < SHORTEST:
            allowed = f"looks back on {context} tokens, and the task's name with its longest label alone has {around}"
            raise BadInput("data.backbone", self.spec.data.backbone, allowed)
        why = f": a text with its task's name and label may have {context} tokens in this model"
        at_most("params.length", length, most, why)

    def open_forks(self, task: Task) -> None:
        """Makes the task's labels a choice, if answers are read so; its prior comes from public texts.

        Raises BadInput where a text of `params.length` tokens would not fit; methods call this before they read any text.
        """
        self._refuse_length(task)
        if self.forks is None or task.name in self.forks:
            return
        inputs, classes = public_text.sentences(self.spec.data.backbone, self.params.length), self.context.classes
        evaluation.add_forks(
            self.forks, self.net, self._tokenizer, self.space(task), classes, task.name, self.params.loss, inputs,
            self.context.device,
        )  # fmt: skip

    def answers_of(self, task: Task) -> list[Answer]:
        """Tokens and forks of the answer for each of the task's labels."""
        if self.forks is not None:
            return list(self.forks.answers(task.name).values())
        return [(tokens, [0] * len(tokens)) for tokens in self._names(task).values()]

    def _names(self, task: Task) -> dict[int, list[int]]:
        """The tokens of the answer for each of the task's labels."""
        return {label: answer_ids(self._tokenizer, self.context.classes[label]) for label in self.space(task)}

    def prompted(self, inputs: Planes, labels: NDArray[np.int64], name: str) -> Prompted:
        """Texts with the prompts and answers of the task of this name, to which `open_forks` must have been called."""
        answers = None
        if self.forks is not None and name in self.forks and self.params.loss == "answer":
            answers = self.forks.answers(name)
        return prompted(self._tokenizer, inputs, labels, self.context.classes, name, answers)

    def answers(self, task: Task) -> NDArray[np.float32]:
        """Scores [n, classes] of the test texts, read without noise; -inf for labels outside the task's label space."""
        self.open_forks(task)
        classes, device, inputs = self.context.classes, self.context.device, planes(task.test)
        if self.forks is not None:
            return evaluation.choice_scores(self.net, self._tokenizer, inputs, self.forks, classes, task.name, device=device)
        assert self._rule != "choice"
        labels, of = self.space(task), self._rule
        return evaluation.label_scores(self.net, self._tokenizer, inputs, labels, classes, task.name, of, device=device)

    def public_log_probs(self, inputs: Planes) -> NDArray[np.float32]:
        """log P of every token [n, length] under the frozen public model."""
        return log_probabilities(self.spec.data.backbone, inputs[:, :, TOKEN], self.context.device)

    def current_log_probs(self, inputs: Planes) -> NDArray[np.float32]:
        """log P of every token [n, length] under the current model."""
        return training.log_probabilities(self.net.model, inputs[:, :, TOKEN], self._tokenizer.bos, self.context.device)

    def table(self, per_token: NDArray[np.floating]) -> torch.Tensor:
        """Per-token values [n, length, ...] as a float32 tensor on the device, for `gather_batch`."""
        return torch.from_numpy(np.asarray(per_token, np.float32)).to(self.context.device)

    def public_inputs(self) -> Planes:
        """Encoded public texts."""
        return public_text.encoded(self.spec.data.backbone, self.params.length)

    def task_loss(self) -> per_text.TextLoss:
        """The loss of `params.loss`, with answers as they are read."""
        return training.task_loss(self.params.loss, self.forks)

    def noise(self, purpose: str) -> Noise:
        return noise_of(self.spec.privacy.noise, self.cell, purpose)

    def batches_of(self, steps: Steps, purpose: str, part: int = -1) -> Batches:
        """The batches of these steps, which the ledger is charged with: of the own texts, or of those at `rates[part]`."""
        return steps.batches(self.coin_seed, f"{purpose} at epsilon {self.cell.epsilon}", part)

    def order(self, purpose: str) -> np.random.Generator:
        """Seeded generator for choices that are public."""
        return generator(self.cell.seed, purpose)

    def noisy_copies(
        self, task: Task, ledger: Ledger, ratio: float, label_epsilon: float | None, embedding_clip: float | None
    ) -> TrainingInputs:
        """Inputs made of a noisy embedding of every token; these copies are also kept in `copies`. Texts are read only here.

        `ratio`: noise standard deviation per coordinate, divided by the clip; `label_epsilon`: budget of the randomised
        response for every label, None for public labels; `embedding_clip`: None for the median of the embedding table.
        """
        self.open_forks(task)
        examples = self.training_examples(task) if label_epsilon is None else task.train
        inputs, labels, table = planes(examples), examples.labels, training.embedding_table(self.net)
        if label_epsilon is not None:
            noise = self.noise(f"labels of task {task.index}")
            labels = noisy_labels(labels, self.space(task), label_epsilon, noise, ledger, task=task.index)
        clip, noise = embedding_clip or median_norm(table), self.noise(f"embeddings of task {task.index}")
        copies = noisy_embeddings(table, inputs[:, :, TOKEN], ratio, clip, noise, ledger, task=task.index)
        self.copies = {"copies": copies, "answers": labels}
        texts = self.prompted(inputs, labels, task.name)
        is_text = texts.role == TEXT  # tokens are 0 there: training must not read them
        hidden = Prompted(np.where(is_text, 0, texts.ids), texts.role, texts.stop & ~is_text, texts.fork)
        return TrainingInputs(hidden, self.table(copies))
