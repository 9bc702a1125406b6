"""Card of tail anchors, without noise."""

from __future__ import annotations

import math

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import cslr, cslr_print
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import RunSpec


class FedTaLiteParams(cslr.RoundParams):
    """Trained anchors that features are mixed with."""

    learning_rate: float = Field(0.1, gt=0, le=100, allow_inf_nan=False, description="Step size of plain gradient descent.")
    mixing: float = Field(
        0.5, ge=0, le=100, allow_inf_nan=False, description="What the nearest anchor counts beside the feature (alpha)."
    )


def check(spec: RunSpec, facts: Facts) -> None:
    """Raises BadInput for a budget, which it cannot keep, and as `cslr.check` does."""
    for epsilon in spec.privacy.epsilons:
        if math.isfinite(epsilon):
            allowed = "must be inf: FedTA-lite adds no noise"
            raise BadInput("privacy.epsilons", f"{epsilon:g}", allowed)
    cslr.check(spec, facts)


CARD = MethodCard(
    name="fedta-lite",
    title="FedTA-lite, no privacy",
    summary="Every class has a trained anchor that is mixed into the embeddings near it; the server keeps of each class the "
    "prototype least like those of the others. A simplified reading of its source, without noise: an upper line.",
    source="After Yu et al., CVPR 2025 (FedTA); its mixing equations were not at hand",
    params=FedTaLiteParams,
    module="dpcl_core.methods.fedta_lite",
    shares="cell",
    labels=cslr.LABELS,
    scenarios=cslr.SCENARIOS,
    refuses=check,
    derived=cslr.derived,
    guarantee="none",
    assumes=cslr.SIMULATED[:1],
    printed=cslr_print.FED_TA,
)
