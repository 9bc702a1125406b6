"""Card of elastic weight consolidation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import lm
from dpcl_core.methods.cards.language import Positive


class EwcParams(lm.BaselineParams):
    """How strongly weights are held, and where their importance comes from."""

    strength: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = Field(
        100.0, description="How strongly weights are held: half of it times the sum of importance times change squared."
    )
    fisher: Literal["released", "gradients", "public"] = Field(
        "released",
        description="Where importance (the Fisher information) comes from. released: measured on the task's texts when it "
        "is over, with noise, which costs. gradients: worked out from the noisy gradients of its last pass, for nothing. "
        "public: measured on public texts, for nothing. With mechanism = fn released measures noisy copies, for nothing.",
    )
    fisher_noise: Positive = Field(
        20.0, ge=0.1, le=1e4, description="Noise on the measured importance over what one text adds to it at most."
    )


CARD = MethodCard(
    name="lm-ewc",
    title="EWC: elastic weight consolidation",
    summary="Fine-tunes a language model from task to task and pulls every weight back to where earlier tasks left it, the "
    "more the better it served them. To measure that reads their texts once more, and costs.",
    source="Baseline of PeCL (Zhan et al.); Kirkpatrick et al. 2017, online form of Schwarz et al. 2018",
    params=EwcParams,
    module="dpcl_core.methods.lm_ewc",
    shares="cell",
    labels=("prior",),
    scenarios=lm.SCENARIOS,
    refuses=lm.check,
    derived=lm.derived,
    totals=lm.totals,
    notes=lm.notes,
)
