"""Settings of DP-A-GEM, read by its card and its odometer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.methods.lifelong.cards.network_params import ReplayParams

Noise = Annotated[float, Field(ge=0.1, le=1e4, allow_inf_nan=False)]
Cap = Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)]


class DpAgemParams(ReplayParams):
    """Settings of the steps, the kept samples and the scope of the budget."""

    budget: Literal["lifetime", "per-task", "fixed"] = Field(
        "lifetime",
        title="Budget covers",
        description="What epsilon is for. lifetime: one noise, so that the worst-off person's own task and all replays stay "
        "within it. per-task: an equal share for every task (NaiveGaussian). fixed: the noise multiplier below.",
    )
    noise_multiplier: Noise | None = Field(
        None,
        title="Noise multiplier σ",
        description="Noise over the clipping norm, under budget = fixed; not used otherwise."
    )
    epochs: int = Field(2, ge=1, le=1000, description="How often each example of a task is used on average.")
    steps: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        None,
        title="Training steps",
        description="Steps in every task; empty: as many as the epochs and the sampling rate give."
    )
    sample_rate: float = Field(
        0.05, gt=0, le=1, allow_inf_nan=False,
        title="Sampling rate q",
        description="Chance that an example is in a batch (Poisson sampling)."
    )
    clip_norm: Annotated[float, Field(ge=1e-9, le=1e6, allow_inf_nan=False)] = Field(
        1.0, title="Clipping norm C", description="Longest gradient, of all weights, that one example contributes."
    )
    memory_size: int = Field(
        200, ge=1, le=10**6, description="Examples of each task kept for replay, on average; each is kept by chance."
    )
    replay_rate: float = Field(
        0.2, gt=0, le=1, allow_inf_nan=False,
        title="Sampling rate of the memory",
        description="Chance that a kept example is in a replay of its sample."
    )
    memory_epsilon_cap: Cap | None = Field(
        None,
        title="Largest ε spent on the memory",
        description="A sample is retired before a replay brings its people's epsilon above this; empty: never."
    )

    @property
    def is_noise_given(self) -> bool:
        return self.budget == "fixed"

    @property
    def n_steps(self) -> int:
        """Steps in every task: a public number that does not depend on the task's size."""
        return self.steps or max(1, round(self.epochs / self.sample_rate))
