"""Card of gradient episodic memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import lm
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params


class GemParams(lm.BaselineParams):
    """What is kept of every task, and what a step may not do to it."""

    memory_size: int = Field(256, ge=1, le=10**6, description="Texts of each task kept, on average; each is kept by chance.")
    margin: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = Field(
        0.0, description="Least weight of each earlier task's gradient in a step that is turned; 0: only those it needs."
    )
    reference_share: float = Field(
        0.5,
        ge=0.01,
        le=0.99,
        allow_inf_nan=False,
        description="Share of epsilon that gradients on what is kept may use up, with mechanism = dp-sgd, budget = total.",
    )

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return min(float(self.memory_size), task_size)


def derived(params: Params, facts: Facts) -> str:
    """What the settings come to, where a task has its share of the texts."""
    assert isinstance(params, GemParams)
    return f"{lm.derived(params, facts)} {params.kept(facts.task_size):.0f} texts are kept of each."


def notes(params: Params) -> tuple[str, ...]:
    """Whose texts are kept, and how."""
    assert isinstance(params, GemParams)
    return (lm.RAW_BUFFER if params.mechanism == "dp-sgd" else lm.NOISY_BUFFER, *lm.notes(params))


CARD = MethodCard(
    name="lm-gem",
    title="GEM: gradient episodic memory",
    summary="Fine-tunes a language model from task to task; no step may point against the gradient on any earlier task's "
    "kept texts. Under DP-SGD each of these gradients gets noise: all that is kept is read in every step, which nearly no "
    "budget survives.",
    source="Baseline of PeCL (Zhan et al.); Lopez-Paz and Ranzato 2017",
    params=GemParams,
    module="dpcl_core.methods.lm_gem",
    shares="cell",
    labels=("prior",),
    scenarios=lm.SCENARIOS,
    refuses=lm.check,
    derived=derived,
    totals=lm.totals,
    notes=notes,
)
