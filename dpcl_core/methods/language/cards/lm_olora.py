"""Card of orthogonal low-rank adapters."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.language.cards import lm, network_params, printed
from dpcl_core.methods.language.cards.lm_params import OloraParams

CARD = MethodCard(
    name="lm-olora",
    title="O-LoRA: orthogonal adapters",
    summary="Gives every task low-rank adapters of its own, which are added to those of earlier tasks and kept at right "
    "angles to them. Earlier adapters are outputs of private training: nothing is read again, and nothing more is paid.",
    source="Baseline of PeCL (Zhan et al.); Wang et al. 2023",
    params=OloraParams,
    module="dpcl_core.methods.language.lm_olora",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=network_params.SCENARIOS,
    refuses=lm.check,
    derived=lm.derived,
    totals=lm.totals,
    notes=lm.notes,
    printed=printed.OLORA,
)
