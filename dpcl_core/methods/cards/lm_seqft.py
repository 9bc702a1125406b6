"""Card of plain fine-tuning from task to task."""

from __future__ import annotations

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import language, lm, pecl_print
from dpcl_core.methods.cards.lm_params import BaselineParams

CARD = MethodCard(
    name="lm-seqft",
    title="SeqFT: fine-tuning in sequence",
    summary="Trains one set of low-rank adapters of a language model on task after task and does nothing against "
    "forgetting. Nobody's texts are read again once their task is over.",
    source="Baseline of PeCL (Zhan et al.), DP-SGD (Abadi et al. 2016) or noisy embeddings",
    params=BaselineParams,
    module="dpcl_core.methods.lm_seqft",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=language.SCENARIOS,
    refuses=lm.check,
    derived=lm.derived,
    totals=lm.totals,
    notes=lm.notes,
    printed=pecl_print.SEQFT,
)
