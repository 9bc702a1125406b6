"""Card of the naive baseline."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.features import noise_forecast
from dpcl_core.methods.features.cards import adaptation_params, printed

CARD = MethodCard(
    name="naive",
    title="Naive fine-tuning",
    summary="One model that is simply trained on, task after task, by DP-SGD. Nothing keeps it from forgetting: a lower "
    "bound for everything else. Needs one list of all labels, for it has one last layer.",
    source="Tobaben et al. 2025, Algorithm A2",
    params=adaptation_params.PeftParams,
    module="dpcl_core.methods.features.naive",
    shares="all",
    labels=("prior-const",),
    scenarios=("class-incremental", "split", "permuted", "source-incremental", "i-blurry", "si-blurry"),
    refuses=adaptation_params.check,
    derived=adaptation_params.derived,
    forecast=noise_forecast.of_task_heads,
    notes=adaptation_params.notes,
    training_steps=adaptation_params.training_steps,
    printed=printed.NAIVE,
    table_names=lambda spec: ("Naive", ""),  # what it trains is not printed
)
