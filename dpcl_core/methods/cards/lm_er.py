"""Card of experience replay."""

from __future__ import annotations

from pydantic import Field

from dpcl_core.methods.card import MethodCard
from dpcl_core.methods.cards import lm
from dpcl_core.methods.facts import Facts
from dpcl_core.spec import Params


class ErParams(lm.BaselineParams):
    """What is kept of every task, and how much of it joins a step."""

    buffer_share: float = Field(
        0.1, gt=0, le=1, allow_inf_nan=False, description="Share of each task's texts that is kept; each is kept by chance."
    )
    replay_size: int = Field(32, ge=1, le=100_000, description="Kept texts that join each step of a later task, on average.")

    def kept(self, task_size: float) -> float:
        """Texts kept of a task of this public nominal size, on average."""
        return self.buffer_share * task_size

    def replay_rate(self, n_past: int, task_size: float) -> float:
        """Chance of a kept text to be in a step's batch, with so many tasks in the past."""
        return min(1.0, self.replay_size / (n_past * self.kept(task_size)))


def derived(params: Params, facts: Facts) -> str:
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
    module="dpcl_core.methods.lm_er",
    shares="cell",
    labels=("prior",),
    scenarios=lm.SCENARIOS,
    refuses=lm.check,
    derived=derived,
    totals=lm.totals,
    notes=notes,
)
