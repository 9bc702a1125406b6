"""Card of A-GEM with clipped, noisy gradients: the baseline NaiveGaussian and its repair R1, which differ in `budget`."""

from __future__ import annotations

import math

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import ROUNDING_ASSUMED, PublicSizes
from dpcl_core.methods.lifelong.cards import network_params, printed
from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.spec import Params, RunSpec


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for inconsistent settings, and for settings that data of these public sizes cannot train with."""
    network_params.check(spec, facts)
    params = spec.params
    assert isinstance(params, DpAgemParams)
    facts.check_sampled(params.sample_rate)
    if params.memory_size > facts.task_size:
        allowed = f"must be at most {facts.task_size:.0f}, the examples that a task has on average"
        raise BadInput("params.memory_size", params.memory_size, allowed, {"params.memory_size": int(facts.task_size)})
    if params.replay_rate * params.memory_size < 1:
        allowed = f"must be at least {1 / params.memory_size:.3g}, one of the {params.memory_size} examples kept of a task"
        raise BadInput("params.replay_rate", params.replay_rate, allowed)
    if params.budget != "fixed":
        return
    if params.noise_multiplier is None:
        raise BadInput("params.noise_multiplier", "nothing", "must be given with params.budget = fixed")
    _refuse_too_little_noise(spec, params, facts)


def _refuse_too_little_noise(spec: RunSpec, params: DpAgemParams, facts: PublicSizes) -> None:
    """Raises BadInput where the given noise does not keep the budget: such a budget must not be displayed anywhere."""
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    if not finite:
        return
    from dpcl_core.methods.lifelong import odometer  # loads the accountant, which takes a second

    plan = odometer.plan(params, spec.privacy, facts.n_tasks, facts.recurrence)
    noises = odometer.noises(params, plan, finite[0])
    needed = odometer.worst_epsilon(plan, noises, odometer.capped_schedule(plan, noises, params.memory_epsilon_cap))
    if needed > min(finite):
        rounded = math.ceil(needed * 1e3) / 1e3
        allowed = f"must be at least {rounded:g}: params.noise_multiplier = {params.noise_multiplier} costs that for life"
        raise BadInput("privacy.epsilons", f"{min(finite):,.10g}", allowed)


def derived(params: Params, facts: PublicSizes) -> str:
    """The settings in numbers, for a task of average size."""
    assert isinstance(params, DpAgemParams)
    batch = params.sample_rate * facts.task_size
    steps = f"{params.n_steps:,} noisy steps a task, {batch:.0f} examples in a batch on average"
    if params.projection == "never" or facts.n_tasks == 1:
        return f"{steps}; no replays."
    return f"{steps}, and {params.replay_rate * params.memory_size:.0f} in a replay, of {params.memory_size} kept of a task."


def notes(params: Params) -> tuple[str, ...]:
    """The limits and assumptions of the bound."""
    assert isinstance(params, DpAgemParams)
    if params.projection == "never":
        return (ROUNDING_ASSUMED,)
    on_memory = "Examples kept for replay are stored unprotected by the trainer: the bound covers what is released."
    return on_memory, ROUNDING_ASSUMED


def _is_naive(spec: RunSpec) -> bool:
    """Whether each task has an equal share of the budget, or a noise of the paper's choice: so has NaiveGaussian."""
    assert isinstance(spec.params, DpAgemParams)
    return spec.params.budget != "lifetime"


def names(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of the method and, where noise and clipping are given, of the setting in its grid."""
    params = spec.params
    assert isinstance(params, DpAgemParams)
    if not _is_naive(spec):
        return "Repair: DP-A-GEM", ""
    if params.noise_multiplier is None or params.budget != "fixed":
        return "NaiveGaussian", ""
    return "NaiveGaussian", printed.grid_name(params.noise_multiplier, params.clip_norm, spec.privacy.epsilons[0])


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices where Lai et al. leave something open, and deviations from their paper."""
    clipped = (
        "The paper's NaiveGaussian clips averaged gradients layer by layer and states no δ; ours clips every example's "
        "whole gradient, and pays for each replay."
    )
    return (*network_params.differences(spec), *([clipped] if _is_naive(spec) else []))


CARD = network_params.network_card(
    name="dp-agem",
    title="DP-A-GEM",
    summary="Trains one network from task to task. No step may point against the gradient on a sample of an earlier task; "
    "both gradients are clipped example by example and get fresh noise. An example in a kept sample is charged for every "
    "replay, and the ledger adds that up.",
    source="NaiveGaussian of Lai et al. 2022 (Desai et al. 2021), repaired: per-example clipping, replays accounted for",
    params=DpAgemParams,
    matters=("epochs", "clip_norm", "memory_size"),
    module="dpcl_core.methods.lifelong.dp_agem",
    planned="dpcl_core.methods.lifelong.odometer:planned",
    shares="all",
    refuses=check,
    derived=derived,
    notes=notes,
    printed=printed.DP_AGEM,
    table_names=names,
    differences=differences,
)
