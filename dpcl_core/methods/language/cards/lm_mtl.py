"""Card of training on all tasks together."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.cards import lm, network_params, printed
from dpcl_core.methods.language.cards.lm_params import MtlParams
from dpcl_core.spec import Params


def derived(params: Params, facts: PublicSizes) -> str:
    """What the settings come to for all tasks together."""
    assert isinstance(params, MtlParams)
    size, n_tasks = facts.task_size, facts.n_tasks
    return f"{n_tasks * params.n_steps(size):,} steps on all tasks together, after the last has come."


def notes(params: Params) -> tuple[str, ...]:
    """What is kept until there is a model."""
    assert isinstance(params, MtlParams)
    kept = "Every text" if params.mechanism == "dp-sgd" else "A noisy copy of every text"
    return (f"{kept} is kept until the last task has come.", *lm.notes(params))


CARD = MethodCard(
    name="lm-mtl",
    title="MTL: all tasks together",
    summary="Waits for all tasks and trains the language model on their texts together. No continual learning: there is one "
    "model, at the end, so that nothing can be said of forgetting.",
    source="Upper bound of PeCL (Zhan et al.), DP-SGD or noisy embeddings",
    params=MtlParams,
    module="dpcl_core.methods.language.lm_mtl",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=network_params.SCENARIOS,
    trains_on="all",
    refuses=lm.check,
    derived=derived,
    totals=lm.totals,
    notes=notes,
    printed=printed.MTL,
)
