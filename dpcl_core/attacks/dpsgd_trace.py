"""A person's life in DP-SGD as an attacker sees it: every noisy step that may have read the example, and its coins."""

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

_MOST_STEPS = 20_000  # of a longer life the rest is not attacked: a weaker attack, in seconds


@dataclass(frozen=True, slots=True)
class StepGroup:
    """So many equal steps that read the person's task."""

    plan: Schedule
    noise_multiplier: float
    count: int


def scores(life: Sequence[StepGroup], sign: float, turned: bool, trials: int) -> NDArray[np.float64]:
    """How strongly each of so many lives speaks for the person, whose gradient points `sign` of the way (0: nobody's).

    Logarithms of the likelihood ratios of all steps, added up: the most powerful test for known coins of all others. The
    gradient is as long as clipping lets it be. `turned`: the neighbour has it turned round, not left out. One coordinate of
    a vector is one life: coins and noise of coordinates are independent.
    """
    found = np.zeros(trials)
    for phase in _steps(life):
        plan, sigma = phase.plan, phase.noise_multiplier
        gradient = torch.tensor([100 * plan.clip_norm])
        clipped = gradient * clip_weights(gradient, plan.clip_norm) if sigma > 0 else gradient
        sums = torch.zeros(trials)
        sums[Batches(plan.sample_rate, None).draw(trials)] = sign * clipped
        (means,) = noisy_means([sums], plan.expected_batch, plan.noise_std(sigma), ReleaseNoise())
        seen = means.numpy().astype(np.float64) * plan.expected_batch / plan.clip_norm
        if sigma == 0:
            found += seen
            continue
        found += _log_odds(seen, 1.0, plan.sample_rate, sigma)
        if turned:
            found -= _log_odds(seen, -1.0, plan.sample_rate, sigma)
    return found


def _steps(life: Sequence[StepGroup]) -> Iterator[StepGroup]:
    """One phase for every step, of every kind its share where there are too many."""
    share = min(1.0, _MOST_STEPS / max(1, sum(phase.count for phase in life)))
    for phase in life:
        for _ in range(int(phase.count * share)):
            yield phase


def _log_odds(seen: NDArray[np.float64], shift: float, rate: float, sigma: float) -> NDArray[np.float64]:
    """Logarithm of the density with the example, in the batch with chance `rate`, over the density without."""
    shifted = (2 * shift * seen - shift**2) / (2 * sigma**2)
    odds: NDArray[np.float64] = np.logaddexp(np.log1p(-rate), np.log(rate) + shifted) if rate < 1 else shifted
    return odds
