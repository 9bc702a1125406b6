"""Tobaben et al. 2025: the paper's names of our runs, and how these depart; the rest is in `assets/papers/tobaben.toml`."""

from __future__ import annotations

from dpcl_core.methods import catalog as methods
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec

_METHODS = {"cosine": "Cosine classifier", "peft-ensemble": "PEFT Ensemble", "naive": "Naive", "non-cl": "Non-CL baseline"}
_BACKBONE = "timm:vit_base_patch16_224.augreg_in21k"
_EPOCHS = 40
_ADAPTERS = {"head": "last layer", "film": "FiLM", "lora": "LoRA"}


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and of what it trains; it does not say what the Naive baseline trains."""
    trains = isinstance(spec.params, PeftParams) and spec.method != "naive"
    variant = _ADAPTERS[spec.params.adapter] if trains and isinstance(spec.params, PeftParams) else ""
    return _METHODS.get(spec.method, spec.method), variant


def departs(run: Measured) -> list[str]:
    """How a run differs from what the paper did."""
    spec, told = run.spec, list[str]()
    if spec.data.backbone != _BACKBONE:
        ours = differences.backbone_title(spec.data.backbone)
        told.append(f"Network: {ours}, instead of a ViT-B/16 trained on ImageNet-21k.")
    told += differences.of_data(run)
    if isinstance(spec.params, PeftParams):
        if spec.params.epochs != _EPOCHS:
            title = methods.CARDS[spec.method].title
            told.append(f"Epochs: {spec.params.epochs} for {title}, instead of {_EPOCHS}.")
        if spec.tuned != "private":
            how = "none" if spec.tuned == "no" else "the learning rate alone, on public data"
            told.append(
                f"Tuning: {how}, the same for all budgets. The paper tried 20 settings for each budget and seed, at no "
                "accounted cost."
            )
    told.append("Noise: calibrated exactly to ε, and sums divided by a public constant, so that ε holds as stated.")
    return told


def named(row: Published) -> tuple[str, str]:
    """The same of a printed number."""
    return row.method, row.variant
