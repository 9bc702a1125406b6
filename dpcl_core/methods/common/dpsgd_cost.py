"""Noise of a training by DP-SGD."""

from __future__ import annotations

import math

from dpcl_core.privacy import accounting
from dpcl_core.privacy.budget import training_budget
from dpcl_core.spec import RunSpec


def noise_multiplier(spec: RunSpec, sample_rate: float, n_steps: int, epsilon: float) -> float:
    """The noise multiplier that keeps one training within its share of the cell's budget; 0 for epsilon = inf."""
    if math.isinf(epsilon):
        return 0.0
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return accounting.noise_multiplier(left, delta, sample_rate, n_steps, spec.privacy.adjacency)
