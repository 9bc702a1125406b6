"""Card of the naive baseline."""

from __future__ import annotations

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import peft, peft_print

CARD = MethodCard(
    name="naive",
    title="Naive fine-tuning",
    summary="One model that is simply trained on, task after task, by DP-SGD. Nothing keeps it from forgetting: a lower "
    "bound for everything else. Needs one list of all labels, for it has one last layer.",
    source="Tobaben et al. 2025, Algorithm A2",
    params=peft.PeftParams,
    module="dpcl_core.methods.naive",
    shares="all",
    labels=("prior-const",),
    scenarios=("class-incremental", "split", "permuted", "source-incremental", "i-blurry", "si-blurry"),
    refuses=peft.check,
    derived=peft.derived,
    notes=peft.notes,
    printed=peft_print.NAIVE,
)
