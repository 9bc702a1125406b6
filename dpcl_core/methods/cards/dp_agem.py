"""Card of A-GEM with clipped, noisy gradients: the baseline NaiveGaussian and its repair R1, which differ in the budget."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import lifelong
from dpcl_core.methods.cards.lifelong import ReplayParams
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params, RunSpec

Noise = Annotated[float, Field(ge=0.1, le=1e4, allow_inf_nan=False)]
Cap = Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)]


class DpAgemParams(ReplayParams):
    """Steps, what is kept for replay, and what the budget is meant to cover."""

    budget: Literal["lifetime", "per-task", "fixed"] = Field(
        "lifetime",
        description="What epsilon is for. lifetime: one noise, so that the worst-off person's own task and all replays stay "
        "within it. per-task: an equal share for every task (NaiveGaussian). fixed: the noise multiplier below.",
    )
    noise_multiplier: Noise | None = Field(
        None, description="Noise over the clipping norm, under budget = fixed; not used otherwise."
    )
    epochs: int = Field(2, ge=1, le=1000, description="How often each example of a task is used on average.")
    sample_rate: float = Field(
        0.05, gt=0, le=1, allow_inf_nan=False, description="Chance that an example is in a batch (Poisson sampling)."
    )
    clip_norm: float = Field(
        1.0, gt=0, le=1e6, allow_inf_nan=False, description="Longest gradient, of all weights, that one example contributes."
    )
    memory_size: int = Field(
        200, ge=1, le=10**6, description="Examples of each task kept for replay, on average; each is kept by chance."
    )
    replay_rate: float = Field(
        0.2, gt=0, le=1, allow_inf_nan=False, description="Chance that a kept example is in a replay of its sample."
    )
    memory_epsilon_cap: Cap | None = Field(
        None, description="A sample is retired before a replay brings its people's epsilon above this; empty: never."
    )

    @property
    def n_steps(self) -> int:
        """Steps in every task: a public number, whatever the size of the task turns out to be."""
        return max(1, round(self.epochs / self.sample_rate))


def check(spec: RunSpec, facts: Facts) -> None:
    """Raises BadInput where the settings do not fit together, or cannot be trained on data with these public numbers."""
    lifelong.check(spec, facts)
    params = spec.params
    assert isinstance(params, DpAgemParams)
    if params.sample_rate * facts.task_size < 1:
        least = 1 / facts.task_size
        allowed = f"must be at least {least:.3g}, one of the {facts.task_size:.0f} examples that a task has on average"
        raise BadInput("params.sample_rate", params.sample_rate, allowed)
    if params.memory_size > facts.task_size:
        allowed = f"must be at most {facts.task_size:.0f}, the examples that a task has on average"
        raise BadInput("params.memory_size", params.memory_size, allowed)
    if params.replay_rate * params.memory_size < 1:
        allowed = f"must be at least {1 / params.memory_size:.3g}, one of the {params.memory_size} examples kept of a task"
        raise BadInput("params.replay_rate", params.replay_rate, allowed)
    if params.budget != "fixed":
        return
    if params.noise_multiplier is None:
        raise BadInput("params.noise_multiplier", "nothing", "must be given with params.budget = fixed")
    _refuse_too_little_noise(spec, params, facts)


def _refuse_too_little_noise(spec: RunSpec, params: DpAgemParams, facts: Facts) -> None:
    """A budget that the given noise does not keep must not stand on any surface."""
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    if not finite:
        return
    from dpcl_core.methods.lifelong import odometer  # loads the accountant, which takes a second

    plan = odometer.plan(params, spec.privacy, facts.n_tasks, facts.recurrence)
    noises = odometer.noises(params, plan, finite[0])
    needed = odometer.worst(plan, noises, odometer.within(plan, noises, params.memory_epsilon_cap))
    if needed > min(finite):
        rounded = math.ceil(needed * 1e3) / 1e3
        allowed = f"must be at least {rounded:g}: params.noise_multiplier = {params.noise_multiplier} costs that for life"
        raise BadInput("privacy.epsilons", f"{min(finite):g}", allowed)


def derived(params: Params, facts: Facts) -> str:
    """What the settings come to, where a task has its share of the examples."""
    assert isinstance(params, DpAgemParams)
    batch = params.sample_rate * facts.task_size
    said = f"{params.n_steps:,} noisy steps a task, {batch:.0f} examples in a batch on average"
    if params.projection == "never" or facts.n_tasks == 1:
        return f"{said}; no replays."
    return f"{said}, and {params.replay_rate * params.memory_size:.0f} in a replay, of {params.memory_size} kept of a task."


def notes(params: Params) -> tuple[str, ...]:
    """What the bound leaves to whoever trains."""
    assert isinstance(params, DpAgemParams)
    if params.projection == "never":
        return ()
    return ("Examples kept for replay are held as they are by whoever trains: the bound is about what is released.",)


CARD = MethodCard(
    name="dp-agem",
    title="DP-A-GEM",
    summary="Trains one network from task to task. Each step is kept from pointing against the gradient on a sample of an "
    "earlier task; both gradients are clipped example by example and get fresh noise. Whoever is in a kept sample pays "
    "for every replay, and the ledger adds that up.",
    source="NaiveGaussian of Lai et al. 2022 (Desai et al. 2021), repaired: per-example clipping, replays accounted for",
    params=DpAgemParams,
    module="dpcl_core.methods.dp_agem",
    shares="all",
    labels=("prior-const", "prior"),
    scenarios=("class-incremental", "split", "permuted", "source-incremental", "i-blurry", "si-blurry"),
    audit_module="dpcl_core.methods.dp_agem_audit",
    refuses=check,
    derived=derived,
    notes=notes,
)
