"""Tobaben et al. 2025: the paper's names of our runs, and their differences; the rest is in `assets/papers/tobaben.toml`."""

from __future__ import annotations

from dpcl_core.methods import catalog as methods
from dpcl_core.papers import differences
from dpcl_core.papers.measured import Measured
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec

_BACKBONE = "timm:vit_base_patch16_224.augreg_in21k"


def printed_as(spec: RunSpec) -> tuple[str, str]:
    """The paper's names of a run's method and trained part; the paper does not specify the latter for Naive."""
    return methods.card(spec.method).table_names(spec)


def departs(run: Measured) -> list[str]:
    """The differences of a run from the paper, one sentence each."""
    spec, sentences = run.spec, list[str]()
    if spec.data.backbone != _BACKBONE:
        ours = differences.backbone_title(spec.data.backbone)
        sentences.append(f"Network: {ours}, instead of a ViT-B/16 trained on ImageNet-21k.")
    sentences += differences.of_data(run)
    card = methods.card(spec.method)
    otherwise = {one.parameter: one for one in card.printed.layer(spec).departures}
    if (epochs := otherwise.get("params.epochs")) is not None:
        sentences.append(f"Epochs: {epochs.here} for {card.title}, instead of {epochs.printed}.")
    if "tuned" in otherwise:
        how = "none" if spec.tuned == "no" else "the learning rate alone, on public data"
        sentences.append(
            f"Tuning: {how}, the same for all budgets. The paper tried 20 settings for each budget and seed, at no "
            "accounted cost."
        )
    sentences.append("Noise: calibrated exactly to ε, and sums divided by a public constant, so that ε holds as stated.")
    return sentences


def named(row: Published) -> tuple[str, str]:
    """The same names for a printed number."""
    return row.method, row.variant
