"""Settings of PeCL's baselines, used by both their cards and their privacy costs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.methods.language.cards.network_params import Budget, BudgetPer, LabelShare, LanguageParams, Length, Positive


class BaselineParams(LanguageParams):
    """Settings of a baseline of PeCL: the language model and one of two private training mechanisms."""

    mechanism: Literal["dp-sgd", "fn"] = Field(
        "dp-sgd",
        description="dp-sgd: every text's gradient is clipped, noise is added to each step. fn: every token's embedding is "
        "clipped and gets noise once, and whatever is made of the noisy copies is free.",
    )
    budget: Budget = Field(
        "total",
        title="Budget covers",
        description="What epsilon is for. total: everything that a person's texts are ever used for. per-task: the training "
        "of one task alone, as published; the total is then larger, and is shown.",
    )
    clip_norm: Length = Field(
        1.0, title="Clipping norm C",
        description="Longest gradient that one text contributes; not used under mechanism = fn."
    )
    embedding_clip: Length | None = Field(
        None,
        title="Embedding norm bound",
        description="Longest embedding of a token, under mechanism = fn; empty: the median of the model's table."
    )
    budget_per: BudgetPer = Field(
        "text",
        title="Unit of protection",
        description="Under mechanism = fn, what epsilon is for: a whole text, or one token in one place; the total is then "
        "larger, and is shown.",
    )
    label_share: LabelShare = Field(
        0.0,
        title="Share of ε for labels",
        description="Under mechanism = fn, share of epsilon that hides the label by a random answer; 0: labels are public.",
    )

    @property
    def is_local(self) -> bool:
        return self.mechanism == "fn"

    @property
    def is_total_asked(self) -> bool:
        return self.budget == "total" and (self.budget_per == "text" or not self.is_local)


class ErParams(BaselineParams):
    """Settings of ER: the size of the replay buffer, and how many of its texts join a step."""

    buffer_share: float = Field(
        0.1, gt=0, le=1, allow_inf_nan=False,
        title="Share of texts replayed",
        description="Share of each task's texts that is kept; each is kept by chance."
    )
    replay_size: int = Field(
        32, ge=1, le=100_000, title="Texts replayed in a batch",
        description="Kept texts that join each step of a later task, on average."
    )

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return self.buffer_share * task_size

    def replay_rate(self, n_past: int, task_size: float) -> float:
        """Probability that a kept text is in a step's batch after `n_past` tasks."""
        return min(1.0, self.replay_size / (n_past * self.kept(task_size)))


class EwcParams(BaselineParams):
    """Settings of EWC: the penalty's strength, and the source of the Fisher information."""

    strength: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        100.0,
        title="Penalty weight λ",
        description="How strongly weights are held: half of it times the sum of importance times change squared."
    )
    fisher: Literal["released", "gradients", "public"] = Field(
        "released",
        title="Fisher information from",
        description="Where importance (the Fisher information) comes from. released: measured on the task's texts when it "
        "is over, with noise, which costs. gradients: worked out from the noisy gradients of its last pass, for nothing. "
        "public: measured on public texts, for nothing. With mechanism = fn released measures noisy copies, for nothing.",
    )
    fisher_noise: Positive = Field(
        20.0, ge=0.1, le=1e4,
        title="Noise of Fisher information",
        description="Noise on the measured importance over what one text adds to it at most."
    )


class GemParams(BaselineParams):
    """Settings of GEM: the memory of each task, the margin, and the budget of reference gradients."""

    memory_size: int = Field(256, ge=1, le=10**6, description="Texts of each task kept, on average; each is kept by chance.")
    margin: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = Field(
        0.0, description="Least weight of each earlier task's gradient in a step that is turned; 0: only those it needs."
    )
    reference_share: Annotated[float, Field(ge=0.01, le=0.99, allow_inf_nan=False)] = Field(
        0.5,
        title="Share of ε for the reference",
        description="Share of epsilon that gradients on what is kept may use up, with mechanism = dp-sgd, budget = total.",
    )

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return min(float(self.memory_size), task_size)


class OloraParams(BaselineParams):
    """Settings of O-LoRA: the strength of the orthogonality penalty."""

    strength: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = Field(
        0.5,
        title="Penalty weight λ",
        description="What the overlap with earlier adapters counts: the sum of the squared entries of their products."
    )


class MtlParams(BaselineParams):
    """Settings of multi-task training: none of its own."""
