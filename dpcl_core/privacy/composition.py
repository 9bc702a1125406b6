"""Closed-form composition of Gaussian releases, and the growth of noise in one class sum over tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcl_core.privacy import gaussian
from dpcl_core.spec import LabelSetting


def in_every_task(epsilons: Sequence[float], delta: float) -> list[float]:
    """Exact epsilon after each release for one person who is in all of them; release t alone is (epsilons[t], delta)-DP.

    Gaussian releases compose to one: mu^2 = sum of 1 / sigma_t^2. Once a release has no bound, none is left.
    """
    totals: list[float] = []
    mu_squared = 0.0
    for epsilon in epsilons:
        sigma = gaussian.sigma(epsilon, delta)
        mu_squared = math.inf if sigma == 0 else mu_squared + 1 / sigma**2
        totals.append(gaussian.epsilon(1 / math.sqrt(mu_squared), delta) if math.isfinite(mu_squared) else math.inf)
    return totals


def noise_over_tasks(sigma: float, n_tasks: int) -> dict[LabelSetting, list[float]]:
    """Standard deviation of the noise in the sum of a class that is new in the first task, after each task.

    One public list adds noise to every class in every task, so its variance is the number of tasks times sigma squared;
    otherwise the class gets noise in its own task only.
    """
    once = [sigma] * n_tasks
    return {"prior-const": [sigma * math.sqrt(t) for t in range(1, n_tasks + 1)], "prior": once, "data": once}
