"""A LoRA-adapted language model for one (epsilon, seed) cell: input encoding, noise, noisy copies and label scoring.

Its module and those of its methods load torch with the first model, not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import plain_language
from dpcl_core.backbones.packaged import BUNDLED
from dpcl_core.data.texts import TOKEN
from dpcl_core.errors import BadInput
from dpcl_core.events import Note, Progress
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.language import public_text
from dpcl_core.methods.language.params import SHORTEST, LanguageParams
from dpcl_core.methods.language.public_text import (
    FIRST,
    TEXT,
    Answer,
    Planes,
    Prompted,
    answer_ids,
    planes,
    prompted,
    template,
)
from dpcl_core.privacy.labels import in_label_space, label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, Steps, noise_of
from dpcl_core.privacy.text_mechanisms import noisy_embeddings, noisy_labels
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import Cell, RunSpec

if TYPE_CHECKING:
    from torch import Tensor

    from dpcl_core.methods.language.gradients import Batch, Reading, TextLoss

# Training loops for a language model's low-rank adapters, with DP-SGD or without privacy.
#
# Built from parts that other methods combine differently: `gradients.Gradients` sums a batch's clipped gradients,
# `noisy_means` makes a sum private, `Descent` takes steps. `private_steps` and `plain_steps` are the two standard loops.


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
    copies: Tensor | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def reading(self) -> Reading:
        """How the network reads a batch of these texts."""
        from dpcl_core.methods.language.gradients import Fixed, clean

        stored = self.copies
        if stored is None:
            return clean

        from dpcl_core.methods.language.training import replace_text_embeddings

        def read(embeddings: Tensor, batch: Batch, epoch: int) -> Tensor:
            return replace_text_embeddings(embeddings, stored, batch)

        return Fixed(read)

    def take(self, places: NDArray[np.int64]) -> TrainingInputs:
        """The texts at these indices, in this order."""
        import torch

        texts = self.texts
        chosen = Prompted(texts.ids[places], texts.role[places], texts.stop[places], texts.fork[places])
        return TrainingInputs(chosen, None if self.copies is None else self.copies[torch.from_numpy(places)])


def joined(parts: Sequence[TrainingInputs]) -> TrainingInputs:
    """The texts of several tasks, concatenated and padded to the longest."""
    import torch

    width = max(part.texts.ids.shape[1] for part in parts)

    def widened(planes: Sequence[NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([np.pad(plane, ((0, 0), (0, width - plane.shape[1]))) for plane in planes])

    texts = [part.texts for part in parts]
    prompted = Prompted(
        *(widened([getattr(one, plane) for one in texts]) for plane in ("ids", "role", "stop", "fork"))  # type: ignore[arg-type]
    )
    copies = [part.copies for part in parts if part.copies is not None]
    return TrainingInputs(prompted, torch.cat(copies) if copies else None)


def log_probabilities(
    backbone: str, tokens: NDArray[np.integer], device: str, *, single: bool = False, is_filled: bool = True
) -> NDArray[np.float32]:
    """log P(t_i | tokens before it) of tokens [n, length] under the frozen model, in nats; 0 at padding.

    `single`: in single precision on every device. `is_filled`: as of `training.log_probabilities`.
    """
    if backbone == BUNDLED:
        return plain_language.load().log_probabilities(tokens)
    from dpcl_core.backbones import causal
    from dpcl_core.methods.language import training

    return training.log_probabilities(
        causal.load(backbone, device, single=single),
        tokens,
        plain_language.load_tokenizer(backbone).bos,
        device,
        is_filled=is_filled,
    )


def without_tokens(texts: Prompted) -> Prompted:
    """The same prompts with the texts' tokens set to 0, for training that must not read them."""
    is_text = texts.role == TEXT
    return Prompted(np.where(is_text, 0, texts.ids), texts.role, texts.stop & ~is_text, texts.fork)


def median_norm(table: NDArray[np.float32]) -> float:
    """Median L2 norm of the rows: the default clip of embeddings."""
    return float(np.median(np.linalg.norm(table, axis=1)))


class AdaptedModel:
    """One cell's adapted model with its tokenizer and sources of randomness. Keeps no text, only noisy copies."""

    waits: ClassVar[bool] = False  # trains only once the last task has come
    stacks: ClassVar[bool] = False  # classifies with the adapters of all tasks
    KEPT: ClassVar[tuple[str, ...]] = ("net", "forks")  # the next task has noisy copies of its own

    def __init__(self, spec: RunSpec, cell: Cell, context: PublicContext) -> None:
        from dpcl_core.backbones import causal
        from dpcl_core.methods.language.training import Forks

        assert isinstance(spec.params, LanguageParams)
        self.params: LanguageParams = spec.params
        self.spec, self.cell, self.context = spec, cell, context
        params, backbone = spec.params, spec.data.backbone
        self.net = causal.adapted(
            backbone,
            context.device,
            params.lora_rank,
            params.lora_alpha,
            cell.seed,
            params.n_layers(backbone),
            every=params.adapts == "all",
        )
        self._tokenizer, self._rule = plain_language.load_tokenizer(backbone), params.reading_rule(backbone)
        self.forks = Forks() if self._rule == "choice" else None
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
        names = [answer_ids(self._tokenizer, self.context.classes[label]) for label in self.space(task)]
        around = FIRST + len(self._tokenizer.encode(template(task.name))[0]) + max(map(len, names), default=0)
        context, length = self.net.context, self.params.length
        if context is None or around + length <= context:
            return
        if (most := context - around) < SHORTEST:
            allowed = f"looks back on {context} tokens, and the task's name with its longest label alone has {around}"
            raise BadInput("data.backbone", self.spec.data.backbone, allowed)
        allowed = f"must be at most {most}: a text with its task's name and label may have {context} tokens in this model"
        raise BadInput("params.length", length, allowed, {"params.length": most})

    def open_forks(self, task: Task) -> None:
        """Makes the task's labels a choice, if answers are read so; its prior comes from public texts.

        Raises BadInput where a text of `params.length` tokens would not fit; methods call this before they read any text.
        """
        from dpcl_core.methods.language import evaluation

        self._refuse_length(task)
        if self.forks is None or task.name in self.forks:
            return
        names = {label: answer_ids(self._tokenizer, self.context.classes[label]) for label in self.space(task)}
        self.forks.add(task.name, names)
        inputs = public_text.sentences(self.spec.data.backbone, self.params.length)
        passing = [self.prompted(inputs, np.full(len(inputs), label), task.name) for label in self.forks.covering(task.name)]
        evaluation.set_priors(self.net, passing, self.forks, self.context.device)

    def answers_of(self, task: Task) -> list[Answer]:
        """Tokens and forks of the answer for each of the task's labels."""
        if self.forks is not None:
            return list(self.forks.answers(task.name).values())
        names = [answer_ids(self._tokenizer, self.context.classes[label]) for label in self.space(task)]
        return [(tokens, [0] * len(tokens)) for tokens in names]

    def prompted(self, inputs: Planes, labels: NDArray[np.int64], name: str) -> Prompted:
        """Texts with the prompts and answers of the task of this name, to which `open_forks` must have been called."""
        answers = None
        if self.forks is not None and name in self.forks and self.params.loss == "answer":
            answers = self.forks.answers(name)
        return prompted(self._tokenizer, inputs, labels, self.context.classes, name, answers)

    def answers(self, task: Task) -> NDArray[np.float32]:
        """Scores [n, classes] of the test texts, read without noise; -inf for labels outside the task's label space."""
        from dpcl_core.methods.language import evaluation

        self.open_forks(task)
        classes, device = self.context.classes, self.context.device
        if self.forks is not None:
            asked = self.net, self._tokenizer, planes(task.test), self.forks, classes, task.name
            return evaluation.choice_scores(*asked, device=device)
        assert self._rule != "choice"
        asked_of = self.net, self._tokenizer, planes(task.test), self.space(task), classes, task.name, self._rule
        return evaluation.label_scores(*asked_of, device=device)

    def public_log_probs(self, inputs: Planes) -> NDArray[np.float32]:
        """log P of every token [n, length] under the frozen public model."""
        return log_probabilities(self.spec.data.backbone, inputs[:, :, TOKEN], self.context.device)

    def current_log_probs(self, inputs: Planes) -> NDArray[np.float32]:
        """log P of every token [n, length] under the current model."""
        from dpcl_core.methods.language import training

        return training.log_probabilities(self.net.model, inputs[:, :, TOKEN], self._tokenizer.bos, self.context.device)

    def table(self, per_token: NDArray[np.floating]) -> Tensor:
        """Per-token values [n, length, ...] as a float32 tensor on the device, for `gather_batch`."""
        import torch

        return torch.from_numpy(np.asarray(per_token, np.float32)).to(self.context.device)

    def public_inputs(self) -> Planes:
        """Encoded public texts."""
        return public_text.encoded(self.spec.data.backbone, self.params.length)

    def task_loss(self) -> TextLoss:
        """The loss of `params.loss`, with answers as they are read."""
        from dpcl_core.methods.language.training import task_loss

        return task_loss(self.params.loss, self.forks)

    def noise(self, purpose: str) -> Noise:
        return noise_of(self.spec.privacy.noise, self.cell, purpose)

    def batches_of(self, steps: Steps, purpose: str, part: int = -1) -> Batches:
        """The batches of these steps, which the ledger is charged with: of the own texts, or of those at `rates[part]`."""
        return steps.batches(self.coin_seed, f"{purpose} at epsilon {self.cell.epsilon}", part)

    @property
    def coin_seed(self) -> int | None:
        """The seed of coins where privacy.noise = seeded (teaching only); None: they are the operating system's."""
        return self.cell.seed if self.spec.privacy.noise == "seeded" else None

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
        from dpcl_core.methods.language.training import embedding_table

        self.open_forks(task)
        examples = self.training_examples(task) if label_epsilon is None else task.train
        inputs, labels, table = planes(examples), examples.labels, embedding_table(self.net)
        if label_epsilon is not None:
            noise = self.noise(f"labels of task {task.index}")
            labels = noisy_labels(labels, self.space(task), label_epsilon, noise, ledger, task=task.index)
        clip, noise = embedding_clip or median_norm(table), self.noise(f"embeddings of task {task.index}")
        copies = noisy_embeddings(table, inputs[:, :, TOKEN], ratio, clip, noise, ledger, task=task.index)
        self.copies = {"copies": copies, "answers": labels}
        return TrainingInputs(without_tokens(self.prompted(inputs, labels, task.name)), self.table(copies))
