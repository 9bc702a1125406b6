"""Card of plain fine-tuning from task to task."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.language.cards import lm, network_params, printed
from dpcl_core.methods.language.cards.lm_params import BaselineParams

CARD = MethodCard(
    name="lm-seqft",
    title="SeqFT: fine-tuning in sequence",
    summary="Trains one set of low-rank adapters of a language model on task after task and does nothing against "
    "forgetting. Nobody's texts are read again once their task is over.",
    source="Baseline of PeCL (Zhan et al.), DP-SGD (Abadi et al. 2016) or noisy embeddings",
    params=BaselineParams,
    module="dpcl_core.methods.language.lm_seqft",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=network_params.SCENARIOS,
    refuses=lm.check,
    derived=lm.derived,
    totals=lm.totals,
    notes=lm.notes,
    printed=printed.SEQFT,
)
