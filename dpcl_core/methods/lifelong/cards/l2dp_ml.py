"""Card of L2DP-ML, the method of Lifelong DP, with the settings that its paper leaves open."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.lifelong.cards import claim, network_params, printed
from dpcl_core.methods.lifelong.cards.claim import DeltaR, ThetaNorm
from dpcl_core.methods.lifelong.cards.network_params import BatchParams, Scope
from dpcl_core.spec import Params, RunSpec

Losses = Literal["taylor", "softmax"]
Reconstruction = Literal["taylor1-abs", "taylor1-linear"]
LabelObjective = Literal["taylor2", "eq-12"]
FirstLayer = Literal["recentred", "plain", "batch-norm"]
OutputNoise = Literal["per-class", "shared"]
NonNegative = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class L2dpMlParams(BatchParams):
    """Settings of noise, losses and their limits. Where the paper gives no value, the description names its source."""

    learning_rate: float = Field(0.02, gt=0, le=100, allow_inf_nan=False, description="Step size of plain gradient descent.")
    batch_size: int = Field(
        100, ge=1, le=100_000, description="Examples in each batch, which the noise is divided by; the rest is left out."
    )
    scope: Scope = Field(
        "per-block",
        title="Projection acts on",
        description="joint: one projection of the whole gradient. per-block: one of the encoder, one of the classifier.",
    )
    algorithm: Literal["batches", "whole-task"] = Field(
        "batches",
        title="Training step",
        description="batches: Algorithm 2, as in the paper's experiments. whole-task: Algorithm 1, each step on all "
        "examples of a task, all of which are kept; the batch size is not used.",
    )
    encoder_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        0.5,
        title="Share of ε for the encoder",
        description="Share of epsilon for the encoder's three terms; the output layer has the rest. Not in the paper."
    )
    delta_r: DeltaR = Field(
        "literal",
        title="Sensitivity Δ",
        description="Sensitivity of the reconstruction loss. literal: all inputs and hidden units, as printed. witness: one "
        "patch and one feature map, as in the predecessor's code; smaller by about a thousand.",
    )
    theta_norm: ThetaNorm = Field(
        "rows",
        title="Norm of the encoder's weights",
        description="Norm of the encoder in the claim. rows: the one that bounds what an input does. columns: as printed. "
        "singular: largest singular value of the kernel, as in the predecessor's code.",
    )
    theta1_norm_cap: NonNegative = Field(
        0.0,
        title="Norm bound of the first layer",
        description="The encoder is scaled down after a step that brings its norm above this; 0: never."
    )
    output_norm_cap: NonNegative = Field(
        2.0,
        title="Output norm bound",
        description="Longest weight vector of a class: the noise on the output layer is the same at every step, and adds "
        "up. 0: any length. Ours.",
    )
    losses: Losses = Field(
        "taylor",
        title="Loss",
        description="taylor: polynomials for an encoder and a classifier, trained apart, as published. softmax: A-GEM's "
        "loss, which trains all layers.",
    )
    recon_objective: Reconstruction = Field(
        "taylor1-abs",
        title="Reconstruction loss",
        description="The encoder's loss. taylor1-linear: as printed (Eq. 13), decoded by the encoder's transpose, without a "
        "minimum. taylor1-abs: its size, cell by cell, decoded by upsampling and a ReLU, as in the predecessor's code.",
    )
    label_objective: LabelObjective = Field(
        "taylor2",
        title="Label loss",
        description="The output layer's loss. taylor2: the cross-entropy to the second order. eq-12: as printed, with two "
        "other signs, so that it falls without end as scores grow.",
    )
    encoder_weight: NonNegative = Field(
        0.1,
        title="Weight of the encoder's loss",
        description="Weight of the encoder's loss against the classifier's. Printed without one, which is 1."
    )
    encoder_divisor: Literal["noise", "none"] = Field(
        "noise",
        title="Divisor of encoder gradients",
        description="noise: the encoder's gradient is divided by the scales of its noise and by the number of input values, "
        "public numbers, so that one step size serves all budgets. none: as printed.",
    )
    first_layer: FirstLayer = Field(
        "recentred",
        description="What the classifier reads. recentred: units less what noise alone gives them, so that no data is read "
        "to bring the noise down. plain: units as they are. batch-norm: as in the predecessor's code; its statistics are "
        "not accounted for.",
    )
    output_noise: OutputNoise = Field(
        "per-class",
        title="Noise of the output layer",
        description="Noise on the output layer. shared: one number for each last hidden unit, the same for all classes, as "
        "printed. per-class: one for each class as well, as in the predecessor's code.",
    )
    test_noise: Literal["same", "none"] = Field(
        "same",
        title="Noise at test time",
        description="Noise on test examples. same: that of training, which is then a part of the model. none: without.",
    )


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where a part of the budget would be zero, and as `network_params.check` does."""
    assert isinstance(spec.params, L2dpMlParams)
    claim.check_share(spec.params.encoder_share)
    network_params.check(spec, facts)


def batch_size(params: Params) -> int:
    """Fewest examples that a task may have: one batch; Algorithm 1 takes any number."""
    assert isinstance(params, L2dpMlParams)
    return params.batch_size if params.algorithm == "batches" else 1


def derived(params: Params, facts: PublicSizes) -> str:
    """The settings in numbers, for a task of average size."""
    assert isinstance(params, L2dpMlParams)
    if params.algorithm == "batches":
        return network_params.derived(params, facts)
    return f"Steps on all {facts.task_size:,.0f} examples of a task; all of them are kept for good."


def no_classifier(params: Params) -> str:
    """Why predictions need more than what is released, in one sentence; else empty."""
    assert isinstance(params, L2dpMlParams)
    normalised = params.first_layer == "batch-norm"
    return "Under batch normalisation predictions need statistics of batches, which are not released." if normalised else ""


def notes(params: Params) -> tuple[str, ...]:
    """The reasons why its epsilon is no bound, and the place of the noise."""
    assert isinstance(params, L2dpMlParams)
    inside = "The noise is inside the model file: test examples get the same, so anyone who has the model has the noise."
    one_row = "One noise vector is shared by all classes, too: the difference of two classes' weights has none of it."
    return (
        "One noise vector is shared by all records. Subtracting two noisy records removes it.",
        *([one_row] if params.output_noise == "shared" else []),
        *([inside] if params.test_noise == "same" else []),
    )


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices where Lai et al. leave something open."""
    params = spec.params
    assert isinstance(params, L2dpMlParams)
    return (
        *network_params.differences(spec),
        "Not given either: how ε is split, which numbers d and |h1| stand for in Δ_R, and whether test inputs carry the "
        f"noise. Ours: Δ_R {params.delta_r}, test noise {params.test_noise}, half of ε for the auto-encoder unless "
        "said otherwise.",
    )


CARD = network_params.network_card(
    name="l2dp-ml",
    title="L2DP-ML",
    summary="A-GEM whose losses are cut off after a few terms and perturbed by Laplace noise: one draw for all inputs, one "
    "for all hidden units and one for the output layer, used for every example, step and task. Theorem 2 of its paper "
    "claims one epsilon for any number of tasks. It does not hold: subtracting two examples removes the noise.",
    source="Lai et al. 2022, Algorithms 1 and 2",
    params=L2dpMlParams,
    matters=("epochs", "learning_rate", "encoder_share"),
    module="dpcl_core.methods.lifelong.l2dp_ml",
    shares="cell",
    refuses=check,
    derived=derived,
    guarantee="nominal",
    batch_size=batch_size,
    notes=notes,
    printed=printed.L2DP_ML,
    table_names=lambda spec: ("L2DP-ML", network_params.variant(spec)),
    differences=differences,
    no_classifier=no_classifier,
)
