"""What PeCL's baselines have in common: how they are made private, and what that comes to."""

from __future__ import annotations

import math

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd_plan import ROUNDING_ASSUMED
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.cards import network_params
from dpcl_core.methods.language.cards.lm_params import BaselineParams
from dpcl_core.methods.language.cards.network_params import LABELS_PUBLIC, LENGTH_PUBLIC
from dpcl_core.spec import Params, RunSpec

RAW_BUFFER = "Texts kept for later tasks are held as they are by whoever trains: the bound is about what is released."
NOISY_BUFFER = "Texts kept for later tasks are noisy copies; their labels are as the setting on labels says."


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where no bound could be stated, or none holds."""
    params = spec.params
    assert isinstance(params, BaselineParams)
    if params.mechanism == "dp-sgd":
        return
    if spec.privacy.adjacency != "replace":
        allowed = "must be replace with params.mechanism = fn: each token leaves a noisy copy, and how many there are shows"
        raise BadInput("privacy.adjacency", spec.privacy.adjacency, allowed)
    if params.loss == "full":
        allowed = "must be answer with params.mechanism = fn: to learn the text itself its tokens are read without noise"
        raise BadInput("params.loss", params.loss, allowed)


def derived(params: Params, facts: PublicSizes) -> str:
    """What the settings come to: steps on noisy copies cost nothing, and are those of each task's own size."""
    assert isinstance(params, BaselineParams)
    is_free = params.mechanism == "fn"
    return network_params.derived_by_size(params, facts) if is_free else network_params.derived(params, facts)


def totals(spec: RunSpec, facts: PublicSizes) -> str:
    """Noise and total of each budget. Loads the accountant, and searches for seconds where the budget is for the total."""
    from dpcl_core.methods.language import baseline_costs

    params = spec.params
    assert isinstance(params, BaselineParams)
    plan = baseline_costs.plan(params, spec.privacy, facts)
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    return " ".join(baseline_costs.sentence(params, plan, epsilon) for epsilon in finite)


def notes(params: Params) -> tuple[str, ...]:
    """What the bound takes as given."""
    assert isinstance(params, BaselineParams)
    if params.mechanism == "dp-sgd":
        return (ROUNDING_ASSUMED,)
    return (LABELS_PUBLIC if params.label_share == 0 else LENGTH_PUBLIC,)
