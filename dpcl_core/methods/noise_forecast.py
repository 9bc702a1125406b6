"""What noise will do to a run, told before it starts: for methods whose card knows the size of noise and signal."""

from __future__ import annotations

import math

from dpcl_core.methods.catalog import card
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy.noise_forecast import COSTLY, NoiseForecast
from dpcl_core.spec import RunSpec


def forecast(spec: RunSpec, *, n_features: int, classes_per_task: float, facts: PublicSizes) -> tuple[NoiseForecast, ...]:
    """The budgets of a run whose noise is as long as the longest signal or longer, smallest budget first.

    Args: n_features, classes_per_task, facts: public numbers, as `ForecastNoise` has them.
    """
    found = [
        card(spec.method).forecast(spec, epsilon, n_features=n_features, classes_per_task=classes_per_task, facts=facts)
        for epsilon in sorted(spec.privacy.epsilons)
        if math.isfinite(epsilon)
    ]
    return tuple(one for one in found if one is not None and one.ratio >= COSTLY)
