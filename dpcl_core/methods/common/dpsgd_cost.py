"""Noise and privacy cost of a training by DP-SGD."""

from __future__ import annotations

import math
from typing import Protocol

import dp_accounting as dp

from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.privacy import accounting
from dpcl_core.privacy.budget import training_budget
from dpcl_core.spec import RunSpec


class StepParams(Protocol):
    """Parameters that DP-SGD requires of a method."""

    @property
    def sample_rate(self) -> float: ...
    @property
    def n_steps(self) -> int: ...
    @property
    def clip_norm(self) -> float: ...
    @property
    def learning_rate(self) -> float: ...


def schedule(params: StepParams, nominal_size: float) -> Schedule:
    """The schedule for data of this public nominal size."""
    return Schedule(
        params.sample_rate, params.n_steps, params.clip_norm, params.learning_rate, params.sample_rate * nominal_size
    )


def noise_multiplier(spec: RunSpec, params: StepParams, epsilon: float) -> float:
    """The noise multiplier that keeps one training within its share of the cell's budget; 0 for epsilon = inf."""
    if math.isinf(epsilon):
        return 0.0
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return accounting.noise_multiplier(left, delta, params.sample_rate, params.n_steps, spec.privacy.adjacency)


def event(plan: Schedule, noise_multiplier: float) -> dp.DpEvent:
    """The DP event of the whole training; no bound for a noise multiplier of 0."""
    if noise_multiplier == 0:
        return dp.NonPrivateDpEvent()
    return accounting.subsampled_gaussian(noise_multiplier, plan.sample_rate, plan.n_steps)
