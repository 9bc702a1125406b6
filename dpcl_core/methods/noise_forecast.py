"""What noise will do to a run, told before it starts: for methods where the size of noise and signal is understood."""

from __future__ import annotations

import math

from dpcl_core.methods.catalog import card
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.methods.features.cards.cosine import CosineParams
from dpcl_core.methods.lifelong import noise_forecast
from dpcl_core.methods.lifelong.cards.dp_coeff_memory import CoeffMemoryParams
from dpcl_core.methods.lifelong.cards.independent_laplace import IndependentLaplaceParams
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.budget import training_budget
from dpcl_core.privacy.noise_forecast import COSTLY, NoiseForecast, noise_to_signal
from dpcl_core.spec import RunSpec

# Sampling in batches needs up to this many times the noise of using everyone in each step, where a ratio near 1 is in doubt.
_MOST_BY_SAMPLING = 3.0


def forecast(spec: RunSpec, *, n_features: int, classes_per_task: float, facts: PublicSizes) -> tuple[NoiseForecast, ...]:
    """The budgets of a run whose noise is as long as the longest signal or longer, smallest budget first.

    From settings and public numbers alone: classes count as equally large, tasks too. `classes_per_task`: labels at home in
    a task, on average. Says nothing of adapters inside a network, for which it was not measured.
    """
    found = [
        _at(spec, epsilon, n_features, classes_per_task, facts)
        for epsilon in sorted(spec.privacy.epsilons)
        if math.isfinite(epsilon)
    ]
    return tuple(one for one in found if one is not None and one.ratio >= COSTLY)


def _at(spec: RunSpec, epsilon: float, n_features: int, classes_per_task: float, facts: PublicSizes) -> NoiseForecast | None:
    if isinstance(spec.params, CoeffMemoryParams):
        return noise_forecast.of_sums(spec, spec.params, epsilon, n_features, classes_per_task, facts)
    if isinstance(spec.params, IndependentLaplaceParams):
        return noise_forecast.of_copies(spec, spec.params, epsilon, n_features, classes_per_task, facts)
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    sigma = gaussian.sigma(left, delta, gaussian.SENSITIVITY[spec.privacy.adjacency])
    if isinstance(spec.params, CosineParams):
        class_size = facts.n_people / facts.n_classes
        uses = facts.n_tasks if spec.labels == "prior-const" else 1
        ratio = noise_to_signal(sigma, n_features, class_size, uses=uses)
        return NoiseForecast(epsilon, ratio, class_size, uses > 1, None)
    if not isinstance(spec.params, PeftParams) or spec.params.adapter != "head":
        return None
    keeps_all = card(spec.method).trains_on == "all"
    class_size = facts.n_people / facts.n_classes if keeps_all else facts.task_size / classes_per_task
    whole = noise_to_signal(sigma, n_features, class_size)
    if whole * _MOST_BY_SAMPLING < COSTLY:
        return None
    from dpcl_core.methods.common.dpsgd_cost import noise_multiplier  # loads the accountant, which takes a second

    rate, steps = spec.params.sample_rate, spec.params.n_steps
    multiplier = noise_multiplier(spec, spec.params, epsilon)
    ratio = noise_to_signal(multiplier, n_features, class_size, sample_rate=rate, n_steps=steps)
    return NoiseForecast(epsilon, ratio, class_size, False, whole if rate < 1 else None)
