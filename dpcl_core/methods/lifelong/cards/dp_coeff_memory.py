"""Card of the coefficient memory."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.lifelong.cards import printed
from dpcl_core.methods.lifelong.cards.coefficient_params import CoefficientParams
from dpcl_core.spec import Params


class CoeffMemoryParams(CoefficientParams):
    """Settings of the coefficient memory."""

    features: int = Field(
        256,
        ge=1,
        le=2048,
        description="Random ReLU features of an example's values, with data.backbone = pixels; not used with a network's.",
    )
    solution: Literal["steps", "exact"] = Field(
        "steps",
        description="steps: gradient descent on the task, projected against the memory. exact: minimises the loss of all "
        "tasks so far at once; steps, learning rate and projection are then not used.",
    )


def derived(params: Params, facts: PublicSizes) -> str:
    """What the settings come to for the budget."""
    assert isinstance(params, CoeffMemoryParams)
    if facts.recurrence == "once":
        return "One noisy release a task; whatever the steps, a task costs an example the budget once."
    return f"One noisy release a task; an example is in all {facts.n_tasks}, so each release has its part of the budget."


CARD = MethodCard(
    name="dp-coeff-memory",
    title="Coefficient memory (repair of L2DP-ML)",
    summary="Releases three noisy sums of each task's features, once: all that L2DP-ML's second-order loss needs. Memory "
    "holds these sums instead of examples, so any number of epochs, orders of tasks and replays costs nothing more.",
    source="A repair of Lai et al. 2022, section 4: one release with a proof in place of one noise for all",
    params=CoeffMemoryParams,
    module="dpcl_core.methods.lifelong.dp_coeff_memory",
    shares="all",
    labels=("prior", "prior-const"),
    scenarios=("class-incremental", "split", "permuted", "source-incremental", "i-blurry", "si-blurry"),
    derived=derived,
    printed=printed.COEFFICIENTS,
)
