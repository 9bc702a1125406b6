"""Card of orthogonal low-rank adapters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import lm


class OloraParams(lm.BaselineParams):
    """How strongly a task's adapters are kept apart from earlier ones."""

    strength: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = Field(
        0.5, description="What the overlap with earlier adapters counts: the sum of the squared entries of their products."
    )


CARD = MethodCard(
    name="lm-olora",
    title="O-LoRA: orthogonal adapters",
    summary="Gives every task low-rank adapters of its own, which are added to those of earlier tasks and kept at right "
    "angles to them. Earlier adapters are outputs of private training: nothing is read again, and nothing more is paid.",
    source="Baseline of PeCL (Zhan et al.); Wang et al. 2023",
    params=OloraParams,
    module="dpcl_core.methods.lm_olora",
    shares="cell",
    labels=("prior",),
    scenarios=lm.SCENARIOS,
    refuses=lm.check,
    derived=lm.derived,
    totals=lm.totals,
    notes=lm.notes,
)
