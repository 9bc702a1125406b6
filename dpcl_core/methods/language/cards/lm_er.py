"""Card of experience replay."""

from __future__ import annotations

from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.language.cards import lm, network_params, printed
from dpcl_core.methods.language.cards.lm_params import ErParams
from dpcl_core.spec import Params


def derived(params: Params, facts: PublicSizes) -> str:
    """What the settings come to, where a task has its share of the texts."""
    assert isinstance(params, ErParams)
    return f"{lm.derived(params, facts)} {params.kept(facts.task_size):.0f} texts are kept of each."


def notes(params: Params) -> tuple[str, ...]:
    """Whose texts are kept, and how."""
    assert isinstance(params, ErParams)
    return (lm.RAW_BUFFER if params.mechanism == "dp-sgd" else lm.NOISY_BUFFER, *lm.notes(params))


CARD = MethodCard(
    name="lm-er",
    title="ER: experience replay",
    summary="Fine-tunes a language model from task to task and mixes texts kept of earlier tasks into every batch. Few "
    "texts are kept, so each is read often: under DP-SGD whoever is kept pays for every step that may replay him.",
    source="Baseline of PeCL (Zhan et al.); supervised form of CLEAR (Rolnick et al. 2019)",
    params=ErParams,
    module="dpcl_core.methods.language.lm_er",
    packages=("torch",),
    shares="cell",
    labels=("prior",),
    scenarios=network_params.SCENARIOS,
    refuses=lm.check,
    derived=derived,
    totals=lm.totals,
    notes=notes,
    printed=printed.ER,
)
