"""What all methods that train a language model share: settings of encoding, adapters and training, and the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Interval

from dpcl_core.backbones.packaged import BUNDLED
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import ROUNDING_ASSUMED
from dpcl_core.methods.common.method import MethodCard, PublicSizes, printed_by, settings_of
from dpcl_core.privacy import text_mechanisms
from dpcl_core.published import Printed, PrintedPart, Values, setting
from dpcl_core.scenarios.catalog import WITHOUT_CLIENTS
from dpcl_core.spec import Inputs, Params, PrivacySpec, RunSpec, parameter

Loss = Literal["answer", "full"]
Budget = Literal["total", "per-task"]
BudgetPer = Literal["text", "token"]
LAST_BLOCKS = 2  # adapted where `layers` leaves it open
Positive = Annotated[float, Gt(0)]

# Bounded so that noise of its square, divided by a large batch, still has a grid in single precision (`privacy.gaussian`).
Length = Annotated[float, Interval(ge=1e-9, le=1e6)]
LabelShare = Annotated[float, Interval(ge=0, le=0.99)]
SHORTEST = 4  # the least `length`, in tokens


@dataclass(frozen=True, slots=True)
class CopyNoise:
    """Noise on a released copy of a text.

    `ratio`: noise standard deviation per embedding coordinate, divided by the clip; `epsilon_labels`: budget of the
    randomised response on its label, inf for the label itself.
    """

    ratio: float
    epsilon_labels: float

    @classmethod
    def within(cls, epsilon: float, delta: float, label_share: float, n_tokens: int, n_texts: int) -> CopyNoise:
        """The noise that keeps `n_tokens` tokens of each of a person's `n_texts` texts, and their labels, in the budget."""
        if math.isinf(epsilon):
            return cls(0.0, math.inf)
        ratio = text_mechanisms.ratio_for((1 - label_share) * epsilon, delta, n_tokens, n_texts)
        return cls(ratio, label_share * epsilon / n_texts if label_share > 0 else math.inf)


@dataclass(frozen=True, kw_only=True)
class LanguageParams(Params):
    """Settings of every method that trains a language model's low-rank adapters (LoRA, Hu et al. 2022) on texts."""

    inputs: ClassVar[Inputs] = "text"
    is_task_given: ClassVar[bool] = True  # the prompt names the task
    length: int = parameter(
        64, "Text length in tokens", "Tokens kept of each text; what comes after is cut off.", ge=SHORTEST, le=1024)
    epochs: int = parameter(3, "", "Passes over a task, on average where batches are drawn at random.", ge=1, le=1000)
    batch_size: int = parameter(
        32, "", "Texts in a batch; expected ones where it is drawn at random.", ge=1, le=100_000)
    learning_rate: Positive = parameter(2e-3, "", "Step size of AdamW at the start; it falls as a cosine does.", le=10)
    lora_rank: int = parameter(8, "LoRA rank", "Rank of what is added to the attention's projections.", ge=1, le=256)
    lora_alpha: Positive = parameter(
        16.0, "LoRA scale α", "LoRA's alpha: what is added counts alpha / rank times.", le=1000)
    loss: Loss = parameter(
        "answer", "Loss on",
        "answer: only the label is learned, given the text. full: the text as well, token by token.")
    layers: int = parameter(
        0, "Layers trained",
        "How many last blocks of the model are adapted; more than it has: all. 0: all of the bundled model, the last two "
        "of others. What comes before them is computed once for each text and kept.", ge=0, le=1000)
    adapts: Literal["attention", "all"] = parameter(
        "attention", "Adapted layers",
        "attention: its input projections are adapted. all: every linear map of these blocks.")
    eval: Literal["rank", "whole", "generate"] = parameter(
        "rank", "Answering",
        "How an answer is read, and learned. rank: as a choice among the task's labels, after what each has on public "
        "texts is taken off; with the bundled model as under whole. whole: the label whose whole name is likeliest after "
        "the text. generate: what the model writes, which has to be a label's name letter by letter.")

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
    def is_local(self) -> bool:
        """Whether each text is released once as a noisy copy, and training reads only that copy."""
        return False

    def copy_noise(self, privacy: PrivacySpec, facts: PublicSizes, epsilon: float) -> CopyNoise:
        """The noise of a budget on each noisy copy, for methods that make them."""
        return CopyNoise(0.0, math.inf)

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
    params, n_seeds, backbone = settings_of(spec, LanguageParams), len(spec.seeds), spec.data.backbone
    n_layers = params.n_layers(backbone)
    of_blocks = "" if n_layers is None else f" of the last {n_layers} blocks" if n_layers > 1 else " of the last block"
    return (
        "Not given in the paper: prompts and how an answer is read, LoRA's rank and layers, the length of texts, how "
        f"data were split, repetitions. Ours: {_READ[params.reading_rule(backbone)]}, rank {params.lora_rank} on the "
        f"{_ADAPTS[params.adapts]}{of_blocks}, {params.length} tokens, {n_seeds} "
        f"seed{'s' if n_seeds != 1 else ''}.",
    )


_ADAPTS = {"attention": "attention's projections", "all": "all linear maps"}


def check_local(spec: RunSpec, where: str) -> None:
    """Raises BadInput for settings that noisy copies of texts do not allow; `where` names the setting that makes them."""
    params = settings_of(spec, LanguageParams)
    if spec.privacy.adjacency != "replace":
        allowed = f"must be replace {where}: each token leaves a noisy copy, so the number of tokens is visible"
        raise BadInput("privacy.adjacency", spec.privacy.adjacency, allowed, {"privacy.adjacency": "replace"})
    if params.loss == "full":
        allowed = f"must be answer {where}: learning the text itself would read its tokens without noise"
        raise BadInput("params.loss", params.loss, allowed, {"params.loss": "answer"})


def notes(params: LanguageParams) -> tuple[str, ...]:
    """The caveat on the bound of the training's steps; noisy copies are released before it."""
    return () if params.is_local else (ROUNDING_ASSUMED,)


def assumed(params: Any) -> tuple[str, ...]:
    """Assumptions of the bound of noisy copies, of settings that have a `label_share`; none without copies.

    Copies are counted by whoever sees them, and a task's training ends with its last copy: a text exchanged for one of
    another task would be seen.
    """
    if not params.is_local:
        return ()
    sizes = "how many texts a task has is public, and so is which task a text is in: one of the same task takes its place"
    if params.label_share == 0:
        return (sizes, "the label of every text is declared public, and so is how many tokens it has")
    return (sizes, "how many tokens a text has is public; of its label, only which of its task's labels it is stays hidden")


def derived(params: LanguageParams, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings, for a task of nominal size."""
    size = facts.task_size
    return f"{params.n_steps(size):,} steps a task, {params.sample_rate(size) * size:.0f} texts in a batch."


def derived_by_size(params: LanguageParams, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings, where each task's own nominal size sets its steps."""
    steps = sorted({params.n_steps(size) for size in facts.source_sizes.values()})
    if len(steps) < 2:
        return derived(params, facts)
    return f"{steps[0]:,} to {steps[-1]:,} steps a task, by its number of texts; {params.batch_size} texts in a batch."


# Forms of PeCL's term that unlearns, see `training.Unlearning`.
UnlearningForm = Literal["none", "hinge", "mask", "unlikelihood", "npo", "printed", "flipped"]


# What the paper prints for all of its methods, and what it leaves open.



def _per_source(spec: RunSpec) -> Values | None:
    """3,000; None where `data.train_per_class` already reports the difference."""
    return (3000,) if setting(spec, "data.train_per_class") is None else None


PRINTED: PrintedPart = {
    "data.dataset": Printed(
        (), "The posts on mental illness and the Yahoo topics could not be found or ask for an agreement.",
        words="FOMC, Yelp, AG News, Amazon, Reddit's mental illness, Yahoo", is_of_scale=True
    ),
    "data.train_per_class": Printed(
        (None,), "Texts are kept by the class.", words="3,000 texts of each task", is_of_scale=True
    ),
    "data.train_per_source": Printed(
        _per_source, "A few texts take minutes.", words="3,000 texts of each task", is_of_scale=True
    ),
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
    "data.backbone": Printed(("hf:meta-llama/Llama-2-7b-hf",), "A small model runs on two cores.", is_of_scale=True),
    "scenario.kind": Printed(("source-incremental",), "Tasks are not the datasets."),
    "params.epochs": Printed((3,), "Another number of passes over a task."),
    "params.batch_size": Printed((32,), "Tasks of a few texts have no batches of 32."),
    "params.learning_rate": Printed((5e-4,), "The small model hardly moves at the printed step size."),
    "privacy.delta": Printed((1e-6,), "The printed noise depends on δ."),
    "params.length": "The length of texts, their prompts and the list of stop words are not given.",
    "params.lora_rank": "The rank of LoRA and the layers that have it are not given.",
    "params.lora_alpha": "LoRA's alpha is not given.",
    "params.adapts": "The rank of LoRA and the layers that have it are not given.",
    "params.layers": "The rank of LoRA and the layers that have it are not given.",
    "params.loss": "Both are named, and not which one was used.",
    "params.eval": "How an answer is read is not given.",
}


# What the paper prints of one method: that of further groups of settings, too.
printed = partial(printed_by, "Zhan et al., PeCL", PRINTED)
# The card of a language method, unless the method says otherwise.
card = partial(
    MethodCard,
    packages=("torch",),
    cells_per_learner="cell",
    labels=("prior", "prior-const", "data", "dp-learned"),
    scenarios=tuple(name for name in WITHOUT_CLIENTS if name != "permuted"),
    audit="dpcl_core.attacks.language_games",
    assumes=assumed,
    noises_embeddings=lambda params: params.is_local,
    ceiling="lm-mtl",
)
