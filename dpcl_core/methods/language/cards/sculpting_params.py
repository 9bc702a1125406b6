"""Settings shared by PeCL as published and its repair."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.language.cards.network_params import LanguageParams, Length, Positive
from dpcl_core.spec import RunSpec

ScoreModel = Literal["base", "current"]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Strength = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class SculptingParams(LanguageParams):
    """Settings of the token score, the unlearning term and the memory penalty."""

    alpha: Share = Field(
        0.5,
        title="Weight of surprise α",
        description="What a token's surprise counts in its score; its commonness counts one minus that (Eq. 1)."
    )
    tau: Share = Field(
        0.2, title="Temperature τ",
        description="How common a token must be in a task to count as one of that task (Eq. 3)."
    )
    score_model: ScoreModel = Field(
        "base",
        title="Scoring model",
        description="Whose surprise it is. base: the public model's, which never changes. current: that of the model being "
        "trained, which finds what it has memorised no longer sensitive.",
    )
    theta: Share = Field(0.6, title="Threshold θ", description="Tokens with a higher score are unlearned (Eq. 12).")
    lambda_unlearn: Strength = Field(
        1.0, title="Unlearning weight λ",
        description="Weight of the term that unlearns (Eq. 13); 0: no such term."
    )
    margin: Strength = Field(
        1.0, description="The hinge ends once a token is so many nats less likely than the public model has it."
    )
    beta: Positive = Field(
        0.5, le=100, title="Stability weight β",
        description="Beta of NPO, which unlearns more slowly the less likely a token is."
    )
    stability: bool = Field(
        True, title="Stability term",
        description="Hold the adapters near where the task before left them (L_reg, Eq. 10)."
    )
    lambda_min: Strength = Field(
        1.0, title="Smallest stability weight",
        description="How strongly they are held after a task of sensitive tokens (Eq. 11)."
    )
    lambda_max: Strength = Field(
        10.0, title="Largest stability weight",
        description="How strongly they are held after a task without any (Eq. 11)."
    )
    embedding_clip: Length | None = Field(
        None,
        title="Embedding norm bound",
        description="Longest embedding of a token that gets noise; empty: the median of the model's table."
    )


def check(spec: RunSpec) -> None:
    """Raises BadInput if lambda_min exceeds lambda_max."""
    params = spec.params
    assert isinstance(params, SculptingParams)
    if params.lambda_min > params.lambda_max:
        raise BadInput("params.lambda_min", params.lambda_min, f"must be at most params.lambda_max = {params.lambda_max:g}")
