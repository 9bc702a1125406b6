"""Card of the PEFT ensemble."""

from __future__ import annotations

from pydantic import Field

from dpcl_core.methods.features import trainer
from dpcl_core.methods.features.cards import adaptation_params, printed
from dpcl_core.methods.features.cards.adaptation_params import Rule


class EnsembleParams(adaptation_params.PeftParams):
    """Settings of each member's training, and of the vote."""

    rule: Rule = Field(
        "argmax",
        title="Decision rule",
        description="How the members of all tasks vote. Every rule is computed, and can be looked at after the run.",
    )


CARD = adaptation_params.trained_card(
    name="peft-ensemble",
    title="PEFT ensemble",
    summary="For each task, DP-SGD trains a new last layer, or a small adapter with one, on the same frozen network. All "
    "are kept, and they vote on a test example. No task can overwrite what another has learned.",
    source="Tobaben et al. 2025, Algorithm 2",
    params=EnsembleParams,
    matters=("adapter", "epochs", "rule"),
    module="dpcl_core.methods.features.peft_ensemble",
    planned="dpcl_core.methods.features.trainer:planned",
    forecast=trainer.of_task_heads,
    printed=printed.ENSEMBLE,
    table_names=lambda spec: ("PEFT Ensemble", adaptation_params.variant(spec)),
)
