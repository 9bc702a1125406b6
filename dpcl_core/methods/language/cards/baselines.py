"""Cards of PeCL's baselines, with their common checks, derived numbers, totals and notes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.language.cards import network_params, printed
from dpcl_core.methods.language.cards.lm_params import BaselineParams, ErParams, EwcParams, GemParams, MtlParams, OloraParams
from dpcl_core.spec import Params, RunSpec

RAW_BUFFER = "Texts kept for later tasks are stored unprotected by the trainer: the bound covers what is released."
NOISY_BUFFER = "Texts kept for later tasks are noisy copies; their labels are as the setting on labels says."


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds or can be stated."""
    params = spec.params
    assert isinstance(params, BaselineParams)
    if params.is_local:
        network_params.check_local(spec, "with params.mechanism = fn")


def derived(params: Params, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings. Steps on noisy copies are free and follow each task's own size."""
    assert isinstance(params, BaselineParams)
    return (network_params.derived_by_size if params.is_local else network_params.derived)(params, facts)


def totals(spec: RunSpec, facts: PublicSizes) -> str:
    """Noise and total epsilon of each budget. Loads the accountant; takes seconds where budget = total."""
    from dpcl_core.methods.language import baseline_costs

    params = spec.params
    assert isinstance(params, BaselineParams)
    plan = baseline_costs.plan(params, spec.privacy, facts)
    finite = [epsilon for epsilon in spec.privacy.epsilons if math.isfinite(epsilon)]
    return " ".join(baseline_costs.sentence(params, plan, epsilon) for epsilon in finite)


def assumed(params: Params) -> tuple[str, ...]:
    """Assumptions of the bound about tasks."""
    assert isinstance(params, BaselineParams)
    return network_params.of_copies(params.label_share) if params.is_local else ()


def _derived_of_buffer(params: Params, facts: PublicSizes) -> str:
    """Steps, batch size and buffer size that follow from the settings, for a task of nominal size."""
    assert isinstance(params, ErParams | GemParams)
    return f"{derived(params, facts)} {params.kept(facts.task_size):.0f} texts are kept of each."


def _notes_on_buffer(params: Params) -> tuple[str, ...]:
    """Caveats on the replay buffer, and on the bound."""
    assert isinstance(params, BaselineParams)
    return (NOISY_BUFFER if params.is_local else RAW_BUFFER, *network_params.notes(params))


def _derived_together(params: Params, facts: PublicSizes) -> str:
    """Number of steps on all tasks together that follows from the settings."""
    assert isinstance(params, MtlParams)
    return f"{facts.n_tasks * params.n_steps(facts.task_size):,} steps on all tasks together, after the last has come."


def _notes_on_waiting(params: Params) -> tuple[str, ...]:
    """Caveats on the texts kept until the model is trained, and on the bound."""
    assert isinstance(params, BaselineParams)
    kept = "A noisy copy of every text" if params.is_local else "Every text"
    return (f"{kept} is kept until the last task has come.", *network_params.notes(params))


def _table_names(name: str, spec: RunSpec) -> tuple[str, str]:
    """Table names of a run: the baseline's, and its mechanism's."""
    assert isinstance(spec.params, BaselineParams)
    return name, "FN" if spec.params.is_local else "DPSGD"


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Choices of ours that the PeCL paper leaves open for its baselines, and differences from it."""
    assert isinstance(spec.params, BaselineParams)
    left_open = (
        "Not given of the baselines: clipping norms, sizes of buffers, weights of penalties, and what ε = 1 is for. "
        "Ours: for the training of one task under DPSGD, more in all where texts are read again; for one token in one "
        "place under FN, more for a text. Each ledger tells the total."
    )
    of_copies = (
        "FN: the paper's noise for ε = 1 holds for half the distance between two clipped embeddings, and is that of "
        "ε = 1.6574 here, which holds for all of it; ours is drawn once."
    )
    return (*network_params.differences(spec), left_open, *([of_copies] if spec.params.is_local else []))


SEQFT = network_params.language_card(
    name="lm-seqft",
    title="SeqFT: fine-tuning in sequence",
    summary="Trains one set of low-rank adapters of a language model on one task after another and does nothing against "
    "forgetting. No text is read again once its task is over.",
    source="Baseline of PeCL (Zhan et al.), DP-SGD (Abadi et al. 2016) or noisy embeddings",
    params=BaselineParams,
    matters=("mechanism", "epochs", "length"),
    module="dpcl_core.methods.language.baselines",
    planned="dpcl_core.methods.language.baseline_costs:planned",
    refuses=check,
    derived=derived,
    totals=totals,
    notes=network_params.notes,
    assumes=assumed,
    printed=printed.SEQFT,
    table_names=partial(_table_names, "SeqFT"),
    differences=differences,
)
ER = replace(
    SEQFT,
    name="lm-er",
    title="ER: experience replay",
    summary="Fine-tunes a language model from task to task and mixes kept texts of earlier tasks into every batch. Few "
    "texts are kept, so each is read often: under DP-SGD a kept text is charged for every step that may replay it.",
    source="Baseline of PeCL (Zhan et al.); supervised form of CLEAR (Rolnick et al. 2019)",
    params=ErParams,
    matters=("mechanism", "epochs", "buffer_share"),
    derived=_derived_of_buffer,
    notes=_notes_on_buffer,
    printed=printed.ER,
    table_names=partial(_table_names, "ER"),
)
EWC = replace(
    SEQFT,
    name="lm-ewc",
    title="EWC: elastic weight consolidation",
    summary="Fine-tunes a language model from task to task and pulls each weight towards its value after earlier tasks, "
    "most strongly where it mattered to them. Measuring that reads their texts once more, which costs budget.",
    source="Baseline of PeCL (Zhan et al.); Kirkpatrick et al. 2017, online form of Schwarz et al. 2018",
    params=EwcParams,
    matters=("mechanism", "epochs", "strength"),
    printed=printed.EWC,
    table_names=partial(_table_names, "EWC"),
)
GEM = replace(
    SEQFT,
    name="lm-gem",
    title="GEM: gradient episodic memory",
    summary="Fine-tunes a language model from task to task; no step may point against the gradient on any earlier task's "
    "kept texts. Under DP-SGD each of these gradients gets noise: every step reads all kept texts, which few budgets can "
    "pay for.",
    source="Baseline of PeCL (Zhan et al.); Lopez-Paz and Ranzato 2017",
    params=GemParams,
    matters=("mechanism", "epochs", "memory_size"),
    derived=_derived_of_buffer,
    notes=_notes_on_buffer,
    printed=printed.GEM,
    table_names=partial(_table_names, "GEM"),
)
OLORA = replace(
    SEQFT,
    name="lm-olora",
    title="O-LoRA: orthogonal adapters",
    summary="Gives every task its own low-rank adapters, which are added to those of earlier tasks and kept orthogonal "
    "to them. Earlier adapters are outputs of private training: using them again reads no text and costs no budget.",
    source="Baseline of PeCL (Zhan et al.); Wang et al. 2023",
    params=OloraParams,
    matters=("mechanism", "epochs", "strength"),
    printed=printed.OLORA,
    table_names=partial(_table_names, "O-LoRA"),
)
MTL = replace(
    SEQFT,
    name="lm-mtl",
    title="MTL: all tasks together",
    summary="Waits for all tasks and trains the language model on their texts together. No continual learning: there is one "
    "model, at the end, so forgetting is not defined.",
    source="Upper bound of PeCL (Zhan et al.), DP-SGD or noisy embeddings",
    params=MtlParams,
    matters=("mechanism", "epochs", "length"),
    at_once={"mechanism": "dp-sgd"},
    trains_on="all",
    derived=_derived_together,
    notes=_notes_on_waiting,
    printed=printed.MTL,
    table_names=partial(_table_names, "MTL"),
)
