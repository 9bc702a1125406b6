"""Card of gradient episodic memory."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.cards import lm, network_params, printed
from dpcl_core.methods.language.cards.lm_params import GemParams
from dpcl_core.spec import Params


def derived(params: Params, facts: PublicSizes) -> str:
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
    module="dpcl_core.methods.language.lm_gem",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=network_params.SCENARIOS,
    refuses=lm.check,
    derived=derived,
    totals=lm.totals,
    notes=notes,
    printed=printed.GEM,
)
