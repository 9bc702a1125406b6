"""The noise on a text's noisy copy, for methods that make one copy and train on it alone."""

from __future__ import annotations

from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language import baseline_costs, pecl_costs
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.cards.pecl import PeclParams
from dpcl_core.spec import RunSpec


def copy_noise(spec: RunSpec, facts: PublicSizes, epsilon: float) -> tuple[float, float]:
    """Noise standard deviation of an embedding divided by the clip, and epsilon of a label; 0 and inf without noise."""
    params = spec.params
    if isinstance(params, PeclParams):
        noises = pecl_costs.noises(params, spec.privacy, facts, epsilon)
        return noises.ratio, noises.labels
    assert isinstance(params, BaselineParams)
    copies = baseline_costs.copy_noise(params, baseline_costs.plan(params, spec.privacy, facts), epsilon)
    return copies.ratio, copies.epsilon_labels
