"""What PeCL's baselines have in common: how they are made private, and what that comes to."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.cards.language import LanguageParams, Positive
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params, RunSpec

SCENARIOS = ("class-incremental", "split", "source-incremental")
RAW_BUFFER = "Texts kept for later tasks are held as they are by whoever trains: the bound is about what is released."
NOISY_BUFFER = "Texts kept for later tasks are noisy copies; their labels are as the setting on labels says."
LABELS_PUBLIC = "The label of every text is declared public, and so is how many tokens it has."
LENGTH_PUBLIC = "How many tokens a text has is public."


class BaselineParams(LanguageParams):
    """Settings of a baseline of PeCL: the language model, and one of two ways to private training."""

    mechanism: Literal["dp-sgd", "fn"] = Field(
        "dp-sgd",
        description="dp-sgd: every text's gradient is clipped, noise is added to each step. fn: every token's embedding is "
        "clipped and gets noise once, and whatever is made of the noisy copies is free.",
    )
    budget: Literal["total", "per-task"] = Field(
        "total",
        description="What epsilon is for. total: everything that a person's texts are ever used for. per-task: the training "
        "of one task alone, as published; the total is then larger, and is shown.",
    )
    clip_norm: Positive = Field(
        1.0, le=1e6, description="Longest gradient that one text contributes; not used under mechanism = fn."
    )
    embedding_clip: Positive | None = Field(
        None, description="Longest embedding of a token, under mechanism = fn; empty: the median of the model's table."
    )
    budget_per: Literal["text", "token"] = Field(
        "text",
        description="Under mechanism = fn, what epsilon is for: a whole text, or one token in one place; the total is then "
        "larger, and is shown.",
    )
    label_share: float = Field(
        0.0,
        ge=0,
        le=0.99,
        allow_inf_nan=False,
        description="Under mechanism = fn, share of epsilon that hides the label by a random answer; 0: labels are public.",
    )


def check(spec: RunSpec, facts: Facts) -> None:
    """Raises BadInput where no bound could be stated, or none holds."""
    params = spec.params
    assert isinstance(params, BaselineParams)
    if params.mechanism == "dp-sgd":
        return
    if spec.privacy.adjacency != "replace":
        allowed = "must be replace with params.mechanism = fn: each token leaves a noisy copy, and how many there are shows"
        raise BadInput("privacy.adjacency", spec.privacy.adjacency, allowed)
    if params.loss == "full":
        allowed = "must be answer with params.mechanism = fn: to learn the text itself its tokens are read without noise"
        raise BadInput("params.loss", params.loss, allowed)


def derived(params: Params, facts: Facts) -> str:
    """What the settings come to, where a task has its share of the texts."""
    assert isinstance(params, BaselineParams)
    size = facts.task_size
    return f"{params.n_steps(size):,} steps a task, {params.sample_rate(size) * size:.0f} texts in a batch."


def totals(spec: RunSpec, facts: Facts) -> str:
    """Noise and total of each budget. Loads the accountant, and searches for seconds where the budget is for the total."""
    from dpcl_core.methods.language import costs

    params = spec.params
    assert isinstance(params, BaselineParams)
    plan = costs.plan(params, spec.privacy, facts)
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    return " ".join(costs.sentence(params, plan, epsilon) for epsilon in finite)


def notes(params: Params) -> tuple[str, ...]:
    """What the bound takes as given."""
    assert isinstance(params, BaselineParams)
    if params.mechanism == "dp-sgd":
        return ()
    return (LABELS_PUBLIC if params.label_share == 0 else LENGTH_PUBLIC,)
