"""Pre-run noise-to-signal forecast for class sums and for last layers trained by DP-SGD, from public numbers only."""

from __future__ import annotations

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.budget import training_budget
from dpcl_core.privacy.noise_forecast import COSTLY, NoiseForecast, noise_to_signal
from dpcl_core.spec import RunSpec

# DP-SGD with sampled batches needs up to this many times the noise of full-batch training, if the ratio is near 1.
_MOST_BY_SAMPLING = 3.0


def of_class_sums(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast:
    """Forecast for the cosine classifier: noise on a class's sum, in each task whose release has a sum for it."""
    class_size = facts.n_people / facts.n_classes
    uses = facts.n_tasks if spec.labels == "prior-const" else 1
    ratio = noise_to_signal(_sigma(spec, epsilon), n_features, class_size, uses=uses)
    return NoiseForecast(epsilon, ratio, class_size, uses > 1, None)


def of_task_heads(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast | None:
    """Forecast for a last layer trained on one task at a time; None for FiLM and LoRA, for which it was not measured."""
    return _of_heads(spec, epsilon, n_features, facts.task_size / classes_per_task)


def of_heads_on_all(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast | None:
    """Forecast for a last layer trained on all tasks together; None for FiLM and LoRA, for which it was not measured."""
    return _of_heads(spec, epsilon, n_features, facts.n_people / facts.n_classes)


def _of_heads(spec: RunSpec, epsilon: float, n_features: int, class_size: float) -> NoiseForecast | None:
    params = spec.params
    assert isinstance(params, PeftParams)
    if params.adapter != "head":
        return None
    full_batch = noise_to_signal(_sigma(spec, epsilon), n_features, class_size)
    if full_batch * _MOST_BY_SAMPLING < COSTLY:
        return None
    from dpcl_core.methods.common.dpsgd_cost import noise_multiplier  # loads the accountant, which takes a second

    rate, steps = params.sample_rate, params.n_steps
    multiplier = noise_multiplier(spec, rate, steps, epsilon)
    ratio = noise_to_signal(multiplier, n_features, class_size, sample_rate=rate, n_steps=steps)
    return NoiseForecast(epsilon, ratio, class_size, False, full_batch if rate < 1 else None)


def _sigma(spec: RunSpec, epsilon: float) -> float:
    """Noise multiplier of one Gaussian release under the budget that is left after the label list."""
    left, delta = training_budget(spec.privacy, spec.labels, epsilon)
    return gaussian.sigma(left, delta, gaussian.SENSITIVITY[spec.privacy.adjacency])
