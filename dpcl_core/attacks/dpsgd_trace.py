"""Membership-inference score for DP-SGD: log-likelihood ratio over all noisy steps under Poisson sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.methods.common.noisy_means import noisy_means
from dpcl_core.methods.common.per_example_gradients import clip_weights
from dpcl_core.privacy.noise import Batches, ReleaseNoise

_MOST_STEPS = 20_000  # further steps are not attacked: a weaker attack, but one that takes seconds


@dataclass(frozen=True, slots=True)
class StepGroup:
    """`count` equal steps that may read the target example."""

    plan: Schedule
    noise_multiplier: float
    count: int


def scores(trace: Sequence[StepGroup], sign: float, is_replaced: bool, trials: int) -> NDArray[np.float64]:
    """Log-likelihood-ratio scores [trials] of simulated trainings with the target present (`sign` = ±1) or absent (0).

    Sums the log-likelihood ratios of all steps: the most powerful test if all other examples and their coins are known. The
    target's gradient has the clipping norm and direction `sign`. `is_replaced`: the neighbour has the opposite gradient,
    instead of none. One coordinate of a vector simulates one training: coins and noise of coordinates are independent.
    """
    ratios = np.zeros(trials)
    for group in _steps(trace):
        plan, sigma = group.plan, group.noise_multiplier
        gradient = torch.tensor([100 * plan.clip_norm])
        clipped = gradient * clip_weights(gradient, plan.clip_norm) if sigma > 0 else gradient
        sums = torch.zeros(trials)
        sums[Batches(plan.sample_rate, None).draw(trials)] = sign * clipped
        (means,) = noisy_means([sums], plan.expected_batch, plan.noise_std(sigma), ReleaseNoise())
        seen = means.numpy().astype(np.float64) * plan.expected_batch / plan.clip_norm
        if sigma == 0:
            ratios += seen
            continue
        ratios += _log_odds(seen, 1.0, plan.sample_rate, sigma)
        if is_replaced:
            ratios -= _log_odds(seen, -1.0, plan.sample_rate, sigma)
    return ratios


def _steps(trace: Sequence[StepGroup]) -> Iterator[StepGroup]:
    """The group of every step; beyond `_MOST_STEPS` steps, an equal share of each group."""
    share = min(1.0, _MOST_STEPS / max(1, sum(group.count for group in trace)))
    for group in trace:
        for _ in range(int(group.count * share)):
            yield group


def _log_odds(seen: NDArray[np.float64], shift: float, rate: float, sigma: float) -> NDArray[np.float64]:
    """Log of the density with the example, which is in the batch with probability `rate`, over the density without."""
    shifted = (2 * shift * seen - shift**2) / (2 * sigma**2)
    odds: NDArray[np.float64] = np.logaddexp(np.log1p(-rate), np.log(rate) + shifted) if rate < 1 else shifted
    return odds
