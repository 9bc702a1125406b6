"""Card of the coefficient memory."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.lifelong import odometer
from dpcl_core.methods.lifelong.cards import printed
from dpcl_core.methods.lifelong.cards.coefficient_params import CoeffMemoryParams
from dpcl_core.spec import Params


def derived(params: Params, facts: PublicSizes) -> str:
    """The effect of the settings on the budget."""
    assert isinstance(params, CoeffMemoryParams)
    if facts.recurrence == "once":
        return "One noisy release a task; whatever the steps, a task costs an example the budget once."
    return f"One noisy release a task; an example is in all {facts.n_tasks}, so each release has its part of the budget."


CARD = MethodCard(
    name="dp-coeff-memory",
    title="Coefficient memory (repair of L2DP-ML)",
    summary="Releases three noisy sums of each task's features, once: all that L2DP-ML's second-order loss needs. The "
    "memory holds these sums instead of examples, so more epochs, other orders of tasks and replays cost nothing more.",
    source="A repair of Lai et al. 2022, section 4: one release with a proof in place of one noise for all",
    params=CoeffMemoryParams,
    matters=("features", "steps", "projection"),
    module="dpcl_core.methods.lifelong.dp_coeff_memory",
    planned="dpcl_core.methods.lifelong.dp_coeff_memory:planned",
    shares="all",
    labels=("prior", "prior-const"),
    scenarios=("class-incremental", "split", "permuted", "source-incremental", "i-blurry", "si-blurry"),
    derived=derived,
    forecast=odometer.of_sums,
    ceiling="dp-coeff-memory",
    at_once={"solution": "exact"},
    printed=printed.COEFFICIENTS,
    table_names=lambda spec: ("Repair: coefficients", ""),
)
