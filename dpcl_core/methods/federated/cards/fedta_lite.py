"""Card of tail anchors, without noise."""

from __future__ import annotations

import math

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.federated.cards import federated_params, printed
from dpcl_core.spec import RunSpec


class FedTaLiteParams(federated_params.RoundParams):
    """Trained anchors that features are mixed with."""

    learning_rate: float = Field(0.1, gt=0, le=100, allow_inf_nan=False, description="Step size of plain gradient descent.")
    mixing: float = Field(
        0.5, ge=0, le=100, allow_inf_nan=False,
        title="Mixing weight α",
        description="What the nearest anchor counts beside the feature (alpha)."
    )


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a finite budget, and as `federated_params.check` does."""
    for epsilon in spec.privacy.epsilons:
        if math.isfinite(epsilon):
            allowed = "must be inf: FedTA-lite adds no noise"
            raise BadInput("privacy.epsilons", f"{epsilon:,.10g}", allowed, {"privacy.epsilons": (math.inf,)})
    federated_params.check(spec, facts)


CARD = federated_params.card(
    name="fedta-lite",
    title="FedTA-lite, no privacy",
    summary="Every class has a trained anchor, which is mixed into the embeddings near it. For each class the server keeps "
    "the prototype least like those of other classes. A simplified reading of its source, without noise: an upper line.",
    source="After Yu et al., CVPR 2025 (FedTA); its mixing equations were not at hand",
    params=FedTaLiteParams,
    matters=("rounds", "participation", "mixing"),
    module="dpcl_core.methods.federated.fedta_lite",
    refuses=check,
    guarantee="none",
    assumes=lambda params: federated_params.SIMULATED[:1],
    printed=printed.FED_TA,
    table_names=lambda spec: ("FedTA", ""),
)
