"""Pre-run noise-to-signal forecast for dp-coeff-memory and independent-laplace, from public numbers only."""

from __future__ import annotations

import math

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.lifelong.cards.coefficient_params import (
    CoefficientParams,
    CoeffMemoryParams,
    IndependentLaplaceParams,
)
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal, noise_to_signal_of_copies
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.spec import RunSpec


def of_sums(spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes) -> NoiseForecast:
    """The coefficient memory: the noise on a class's sum of features, in each task whose release has one for it."""
    from dpcl_core.privacy.coefficient_release import coefficients_std  # loads the accountant, which takes a second

    params = spec.params
    assert isinstance(params, CoeffMemoryParams)
    on_pixels = spec.data.backbone == "pixels"
    std = coefficients_std(
        epsilon,
        spec.privacy.delta,
        spec.privacy.adjacency,
        is_non_negative=on_pixels,
        n_releases=facts.n_tasks if facts.recurrence == "every" else 1,
    )
    class_size = facts.task_size / classes_per_task
    uses = facts.n_tasks if _is_noised_in_every_task(spec, params, facts) else 1
    ratio = noise_to_signal(std, params.features if on_pixels else n_features, class_size, uses=uses)
    return NoiseForecast(epsilon, ratio, class_size, uses > 1, None)


def of_copies(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast:
    """Forecast for noise on every record: the noise on the sum of a class's copies; projected values by their usual norm."""
    from dpcl_core.methods.lifelong.independent_laplace import randomiser  # loads the accountant, which takes a second
    from dpcl_core.privacy.local import epsilon_of_each

    params = spec.params
    assert isinstance(params, IndependentLaplaceParams)
    n_copies = facts.n_tasks if facts.recurrence == "every" else 1
    local = randomiser(params, n_features, epsilon_of_each(epsilon, spec.privacy.delta, n_copies))
    length, signal = math.sqrt(n_features), "longest signal there can be"
    if local.l1_clip is not None:  # normal values with an L1 norm of 1, or of the clip if smaller
        length, signal = min(1.0, local.l1_clip) * math.sqrt(math.pi / 2 / local.n_values), "usual signal"
    class_size, is_everywhere = facts.task_size / classes_per_task, _is_noised_in_every_task(spec, params, facts)
    ratio = noise_to_signal_of_copies(
        local.scale,
        local.chances(facts.n_classes if is_everywhere else max(1, round(classes_per_task))),
        length,
        n_values=local.n_values,
        class_size=class_size,
        n_records=facts.n_people if is_everywhere else facts.task_size,
    )
    # Four times as many records have four times the signal and twice the noise.
    return NoiseForecast(
        epsilon, ratio, class_size, is_everywhere, None, class_size * ratio**2, signal, params.project_to == 0
    )


def _is_noised_in_every_task(spec: RunSpec, params: CoefficientParams, facts: PublicSizes) -> bool:
    """Whether a class gets noise in every task, also without data: one label list for all, whose classes all compete."""
    has_one_list = spec.labels == "prior-const" and params.head == "shared" and facts.n_tasks > 1
    return has_one_list and not isinstance(spec.scenario, Permuted)
