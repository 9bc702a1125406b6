"""Card of the naive baseline."""

from __future__ import annotations

from dpcl_core.methods.features import trainer
from dpcl_core.methods.features.cards import adaptation_params, printed

CARD = adaptation_params.trained_card(
    name="naive",
    title="Naive fine-tuning",
    summary="One model, trained by DP-SGD on one task after another. Nothing protects it from forgetting: a lower bound for "
    "the other methods. It has a single last layer, so it needs one list of all labels.",
    source="Tobaben et al. 2025, Algorithm A2",
    params=adaptation_params.PeftParams,
    matters=("adapter", "epochs", "clip_norm"),
    module="dpcl_core.methods.features.naive",
    planned="dpcl_core.methods.features.trainer:planned",
    labels=("prior-const",),
    forecast=trainer.of_task_heads,
    printed=printed.NAIVE,
    table_names=lambda spec: ("Naive", ""),  # what it trains is not printed
)
