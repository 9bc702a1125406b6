"""Card of the non-CL baseline, which trains on all data at once."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpcl_core.methods.features import trainer
from dpcl_core.methods.features.cards import adaptation_params, printed


class NonClParams(adaptation_params.PeftParams):
    """Settings of training on all data seen so far, and how often the model is released."""

    release: Literal["every-task", "once"] = Field(
        "every-task",
        title="Published",
        description="every-task: trained from scratch and released after each task, so early examples are used many times "
        "and their epsilon adds up. once: trained and released after the last task alone.",
    )


CARD = adaptation_params.trained_card(
    name="non-cl",
    title="All data at once",
    summary="Keeps every example and trains a fresh model on all of them together. This is not continual learning, but an "
    "upper bound for it. If it is released after every task, early examples are used again each time, and their guarantee "
    "is weaker.",
    source="Tobaben et al. 2025, Algorithm A3",
    params=NonClParams,
    matters=("adapter", "epochs", "release"),
    module="dpcl_core.methods.features.non_cl",
    planned="dpcl_core.methods.features.non_cl:planned",
    trains_on="all",
    at_once={"release": "once"},
    forecast=trainer.of_heads_on_all,
    printed=printed.NON_CL,
    table_names=lambda spec: ("Non-CL baseline", adaptation_params.variant(spec)),
)
