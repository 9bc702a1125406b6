"""How much noise the steps of DP-SGD need, and what they cost."""

from __future__ import annotations

import math
from typing import Protocol

import dp_accounting as dp

from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.privacy import accounting
from dpcl_core.privacy.budget import training_budget
from dpcl_core.spec import RunSpec


class StepParams(Protocol):
    """What DP-SGD asks of a method's parameters."""

    @property
    def sample_rate(self) -> float: ...
    @property
    def n_steps(self) -> int: ...
    @property
    def clip_norm(self) -> float: ...
    @property
    def learning_rate(self) -> float: ...


def schedule(params: StepParams, nominal_size: float) -> Schedule:
    """The steps for data of this public nominal size."""
    return Schedule(
        params.sample_rate, params.n_steps, params.clip_norm, params.learning_rate, params.sample_rate * nominal_size
    )


def noise_multiplier(spec: RunSpec, params: StepParams, epsilon: float) -> float:
    """The noise multiplier with which one training stays within what the cell's budget leaves for it; 0 for inf."""
    if math.isinf(epsilon):
        return 0.0
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return accounting.noise_multiplier(left, delta, params.sample_rate, params.n_steps, spec.privacy.adjacency)


def event(plan: Schedule, noise_multiplier: float) -> dp.DpEvent:
    """What the whole training costs; a noise multiplier of 0 has no bound."""
    if noise_multiplier == 0:
        return dp.NonPrivateDpEvent()
    return accounting.subsampled_gaussian(noise_multiplier, plan.sample_rate, plan.n_steps)
