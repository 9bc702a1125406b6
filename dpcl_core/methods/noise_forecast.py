"""Pre-run forecast of the effect of noise, for methods whose card has one."""

from __future__ import annotations

import math

from dpcl_core.methods import axes
from dpcl_core.methods.catalog import card
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.privacy.noise_forecast import COSTLY, NoiseForecast
from dpcl_core.spec import RunSpec


def forecast(spec: RunSpec, *, n_features: int, classes_per_task: float, facts: PublicSizes) -> tuple[NoiseForecast, ...]:
    """Forecasts for the budgets whose noise is at least as long as the longest signal, smallest budget first.

    Args: n_features (where no public axes are taken), classes_per_task, facts: public numbers, see `ForecastNoise`.
    """
    if (of_budget := card(spec.method).forecast) is None:
        return ()
    counts = axes.numbers(spec, facts)
    forecasts = [
        of_budget(
            spec, epsilon, n_features=counts.get(epsilon, n_features), classes_per_task=classes_per_task, facts=facts
        )
        for epsilon in sorted(filter(math.isfinite, spec.privacy.epsilons))
    ]
    return tuple(one for one in forecasts if one is not None and one.ratio >= COSTLY)
