"""Card of elastic weight consolidation."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.language.cards import lm, network_params, printed
from dpcl_core.methods.language.cards.lm_params import EwcParams

CARD = MethodCard(
    name="lm-ewc",
    title="EWC: elastic weight consolidation",
    summary="Fine-tunes a language model from task to task and pulls every weight back to where earlier tasks left it, the "
    "more the better it served them. To measure that reads their texts once more, and costs.",
    source="Baseline of PeCL (Zhan et al.); Kirkpatrick et al. 2017, online form of Schwarz et al. 2018",
    params=EwcParams,
    module="dpcl_core.methods.language.lm_ewc",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=network_params.SCENARIOS,
    refuses=lm.check,
    derived=lm.derived,
    totals=lm.totals,
    notes=lm.notes,
    printed=printed.EWC,
)
