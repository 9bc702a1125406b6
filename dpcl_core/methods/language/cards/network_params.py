"""Settings of all methods that train a language model: encoding, adapters and training."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.backbones.packaged import BUNDLED
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.dpsgd import ROUNDING_ASSUMED, PublicSizes
from dpcl_core.spec import Inputs, Params, RunSpec

Loss = Literal["answer", "full"]
Evaluation = Literal["rank", "whole", "generate"]
Budget = Literal["total", "per-task"]
BudgetPer = Literal["text", "token"]
LAST_BLOCKS = 2  # adapted where `layers` leaves it open
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# Bounded so that noise of its square, divided by a large batch, still has a grid in single precision (`privacy.rounded`).
Length = Annotated[float, Field(ge=1e-9, le=1e6, allow_inf_nan=False)]
LabelShare = Annotated[float, Field(ge=0, le=0.99, allow_inf_nan=False)]
SHORTEST = 4  # the least `length`, in tokens


class LanguageParams(Params):
    """Settings of every method that trains a language model's low-rank adapters (LoRA, Hu et al. 2022) on texts."""

    length: int = Field(
        64, ge=SHORTEST, le=1024, title="Text length in tokens",
        description="Tokens kept of each text; what comes after is cut off."
    )
    epochs: int = Field(3, ge=1, le=1000, description="Passes over a task, on average where batches are drawn at random.")
    batch_size: int = Field(32, ge=1, le=100_000, description="Texts in a batch; expected ones where it is drawn at random.")
    learning_rate: Positive = Field(2e-3, le=10, description="Step size of AdamW at the start; it falls as a cosine does.")
    lora_rank: int = Field(
        8, ge=1, le=256, title="LoRA rank", description="Rank of what is added to the attention's projections."
    )
    lora_alpha: Positive = Field(
        16.0, le=1000, title="LoRA scale α",
        description="LoRA's alpha: what is added counts alpha / rank times."
    )
    loss: Loss = Field(
        "answer",
        title="Loss on",
        description="answer: only the label is learned, given the text. full: the text as well, token by token."
    )
    layers: int = Field(
        0,
        ge=0,
        le=1000,
        title="Layers trained",
        description="How many last blocks of the model are adapted; more than it has: all. 0: all of the bundled model, the "
        "last two of others. What comes before them is computed once for each text and kept.",
    )
    adapts: Literal["attention", "all"] = Field(
        "attention",
        title="Adapted layers",
        description="attention: its input projections are adapted. all: every linear map of these blocks.",
    )
    eval: Evaluation = Field(
        "rank",
        title="Answering",
        description="How an answer is read, and learned. rank: as a choice among the task's labels, after what each has on "
        "public texts is taken off; with the bundled model as under whole. whole: the label whose whole name is likeliest "
        "after the text. generate: what the model writes, which has to be a label's name letter by letter.",
    )

    @property
    def inputs(self) -> Inputs:
        return "text"

    @property
    def text_length(self) -> int:
        return self.length

    def reading_rule(self, backbone: str) -> Literal["choice", "whole", "generate"]:
        """How answers are read with this model."""
        if self.eval == "rank":
            return "whole" if backbone == BUNDLED else "choice"
        return self.eval

    def n_layers(self, backbone: str) -> int | None:
        """How many last blocks of this model are adapted; None: all."""
        return self.layers or (None if backbone == BUNDLED else LAST_BLOCKS)

    @property
    def is_task_given(self) -> bool:
        return True  # the prompt names the task

    @property
    def is_local(self) -> bool:
        """Whether each text is released once as a noisy copy, and training reads only that copy."""
        return False

    def n_steps(self, task_size: float) -> int:
        """Optimiser steps in a task of this public nominal size."""
        return self.epochs * math.ceil(task_size / self.batch_size)

    def sample_rate(self, task_size: float) -> float:
        """Probability that a text is in a batch, where batches are drawn at random."""
        return min(1.0, self.batch_size / task_size)


_READ = {
    "choice": "labels ranked by their likelihood among a task's labels, their prior on public texts taken off",
    "whole": "labels ranked by their likelihood",
    "generate": "what the model writes",
}


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Choices of ours for training a language model that the PeCL paper leaves open."""
    params, n_seeds, backbone = spec.params, len(spec.seeds), spec.data.backbone
    assert isinstance(params, LanguageParams)
    return (
        "Not given in the paper: prompts and how an answer is read, LoRA's rank and layers, the length of texts, how "
        f"data were split, repetitions. Ours: {_READ[params.reading_rule(backbone)]}, rank {params.lora_rank} on the "
        f"{_ADAPTS[params.adapts]}{_of_blocks(params.n_layers(backbone))}, {params.length} tokens, {n_seeds} "
        f"seed{'s' if n_seeds != 1 else ''}.",
    )


_ADAPTS = {"attention": "attention's projections", "all": "all linear maps"}


def _of_blocks(n_layers: int | None) -> str:
    return "" if n_layers is None else f" of the last {n_layers} blocks" if n_layers > 1 else " of the last block"


def is_local(params: Params) -> bool:
    """Whether each text is released once as a noisy copy, and training reads only that copy."""
    assert isinstance(params, LanguageParams)
    return params.is_local


def check_local(spec: RunSpec, where: str) -> None:
    """Raises BadInput for settings that noisy copies of texts do not allow; `where` names the setting that makes them."""
    assert isinstance(spec.params, LanguageParams)
    if spec.privacy.adjacency != "replace":
        allowed = f"must be replace {where}: each token leaves a noisy copy, so the number of tokens is visible"
        raise BadInput("privacy.adjacency", spec.privacy.adjacency, allowed, {"privacy.adjacency": "replace"})
    if spec.params.loss == "full":
        allowed = f"must be answer {where}: learning the text itself would read its tokens without noise"
        raise BadInput("params.loss", spec.params.loss, allowed, {"params.loss": "answer"})


def notes(params: Params) -> tuple[str, ...]:
    """The caveat on the bound of the training's steps; noisy copies are released before it."""
    return () if is_local(params) else (ROUNDING_ASSUMED,)


def of_copies(label_share: float) -> tuple[str, ...]:
    """Assumptions of the bound of noisy copies; `label_share`: share of epsilon that hides a copy's label.

    Copies are counted by whoever sees them, and a task's training ends with its last copy: a text exchanged for one of
    another task would be seen.
    """
    sizes = "how many texts a task has is public, and so is which task a text is in: one of the same task takes its place"
    if label_share == 0:
        return (sizes, "the label of every text is declared public, and so is how many tokens it has")
    return (sizes, "how many tokens a text has is public; of its label, only which of its task's labels it is stays hidden")


def derived(params: Params, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings, for a task of nominal size."""
    assert isinstance(params, LanguageParams)
    size = facts.task_size
    return f"{params.n_steps(size):,} steps a task, {params.sample_rate(size) * size:.0f} texts in a batch."


def derived_by_size(params: Params, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings, where each task's own nominal size sets its steps."""
    assert isinstance(params, LanguageParams)
    steps = sorted({params.n_steps(size) for size in facts.source_sizes.values()})
    if len(steps) < 2:
        return derived(params, facts)
    return f"{steps[0]:,} to {steps[-1]:,} steps a task, by its number of texts; {params.batch_size} texts in a batch."


# What the cards of all language methods have in common.
language_card = partial(
    MethodCard,
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=("class-incremental", "split", "source-incremental"),
    noises_embeddings=is_local,
    ceiling="lm-mtl",
)
