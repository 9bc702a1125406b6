"""L2DP-ML (Lai et al. 2022, Algorithms 1 and 2): A-GEM with one shared noise draw on inputs, hidden units and labels.

A faithful implementation of a method whose guarantee does not hold. Theorem 2 claims an epsilon for it. All records share
one draw of each noise, so the ledger has no bound and shows the claim beside it. This sharing is also why the method learns:
a constant added to every example does not act as noise on the learner.

The encoder θ1 learns to reconstruct its inputs, the classifier θ2 above it learns labels, each from its own loss. Choices
where the paper is silent: no layer in between reads data unaccounted for (`first_layer`), and the norm of a class's weights
is capped, since adding the same noise to them at every step would let them grow without bound.

The losses are truncated Taylor series of cross-entropies (section 4), summed over cells, with gradients in closed form.
Eq. 12 is there as printed ("eq-12") and with its two wrong signs mended ("taylor2"). The leading minus of their Eq. 9, which
would maximise the cross-entropy, is in neither: Eq. 12 does not have it. The constants n d log 2 and n K log 2 are left out,
so that the exact loss minus the polynomial of the first order or "taylor2" is the constant plus a remainder of at most z²/8
or z⁴/192 per cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.common.state import Records
from dpcl_core.methods.lifelong import claim
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong.agem import Agem
from dpcl_core.methods.lifelong.claim import DeltaR, ThetaNorm
from dpcl_core.methods.lifelong.later import nets, torch
from dpcl_core.methods.lifelong.params import BatchParams, FirstLayer, OutputNoise, Scope
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.published import Printed
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter

Reconstruction = Literal["taylor1-abs", "taylor1-linear"]
LabelObjective = Literal["taylor2", "eq-12"]
NonNegative = Annotated[float, Interval(ge=0, le=1e6)]


@dataclass(frozen=True, kw_only=True)
class L2dpMlParams(BatchParams):
    """Settings of noise, losses and their limits. Where the paper gives no value, the description names its source."""

    learning_rate: float = parameter(0.02, gt=0, le=100, description="Step size of plain gradient descent.")
    batch_size: int = parameter(
        100, ge=1, le=100_000, description="Examples in each batch, which the noise is divided by; the rest is left out.")
    scope: Scope = parameter(
        "per-block", title="Projection acts on",
        description="joint: one projection of the whole gradient. per-block: one of the encoder, one of the classifier.")
    algorithm: Literal["batches", "whole-task"] = parameter(
        "batches", title="Training step",
        description="batches: Algorithm 2, as in the paper's experiments. whole-task: Algorithm 1, each step on all "
        "examples of a task, all of which are kept; the batch size is not used.")
    encoder_share: Annotated[float, Interval(ge=0, le=1)] = parameter(
        0.5, title="Share of ε for the encoder",
        description="Share of epsilon for the encoder's three terms; the output layer has the rest. Not in the paper.")
    delta_r: DeltaR = parameter(
        "literal", title="Sensitivity Δ",
        description="Sensitivity of the reconstruction loss. literal: all inputs and hidden units, as printed. witness: one "
        "patch and one feature map, as in the predecessor's code; smaller by about a thousand.")
    theta_norm: ThetaNorm = parameter(
        "rows", title="Norm of the encoder's weights",
        description="Norm of the encoder in the claim. rows: the one that bounds what an input does. columns: as printed. "
        "singular: largest singular value of the kernel, as in the predecessor's code.")
    theta1_norm_cap: NonNegative = parameter(
        0.0, title="Norm bound of the first layer",
        description="The encoder is scaled down after a step that brings its norm above this; 0: never.")
    output_norm_cap: NonNegative = parameter(
        2.0, title="Output norm bound",
        description="Longest weight vector of a class: the noise on the output layer is the same at every step, and adds "
        "up. 0: any length. Ours.")
    losses: Literal["taylor", "softmax"] = parameter(
        "taylor", title="Loss",
        description="taylor: polynomials for an encoder and a classifier, trained apart, as published. softmax: A-GEM's "
        "loss, which trains all layers.")
    recon_objective: Reconstruction = parameter(
        "taylor1-abs", title="Reconstruction loss",
        description="The encoder's loss. taylor1-linear: as printed (Eq. 13), decoded by the encoder's transpose, without a "
        "minimum. taylor1-abs: its size, cell by cell, decoded by upsampling and a ReLU, as in the predecessor's code.")
    label_objective: LabelObjective = parameter(
        "taylor2", title="Label loss",
        description="The output layer's loss. taylor2: the cross-entropy to the second order. eq-12: as printed, with two "
        "other signs, so that it falls without end as scores grow.")
    encoder_weight: NonNegative = parameter(
        0.1, title="Weight of the encoder's loss",
        description="Weight of the encoder's loss against the classifier's. Printed without one, which is 1.")
    encoder_divisor: Literal["noise", "none"] = parameter(
        "noise", title="Divisor of encoder gradients",
        description="noise: the encoder's gradient is divided by the scales of its noise and by the number of input values, "
        "public numbers, so that one step size serves all budgets. none: as printed.")
    first_layer: FirstLayer = parameter(
        "recentred",
        description="What the classifier reads. recentred: units less what noise alone gives them, so that no data is read "
        "to bring the noise down. plain: units as they are. batch-norm: as in the predecessor's code; its statistics are "
        "not accounted for.")
    output_noise: OutputNoise = parameter(
        "per-class", title="Noise of the output layer",
        description="Noise on the output layer. shared: one number for each last hidden unit, the same for all classes, as "
        "printed. per-class: one for each class as well, as in the predecessor's code.")
    test_noise: Literal["same", "none"] = parameter(
        "same", title="Noise at test time",
        description="Noise on test examples. same: that of training, which is then a part of the model. none: without.")


_OFFSET = "offset"  # released beside the network's weights


def reconstruction(x: torch.Tensor, z: torch.Tensor, objective: Reconstruction) -> torch.Tensor:
    """The auto-encoder's loss for inputs x and their reconstructions z, both [..., d].

    "taylor1-linear" is R~ = Σ (1/2 - x) z, the first order as printed. It has no minimum: in the weights it is a quadratic
    form with hundreds of negative directions, and training along them saturates all units. "taylor1-abs" is
    Σ |log 2 + (1/2 - x) z|, the loss in the predecessor's code (Phan et al. 2020), which is bounded below by 0.
    """
    terms = (0.5 - x) * z
    return terms.sum() if objective == "taylor1-linear" else (math.log(2) + terms).abs().sum()


def logit_gradient(y: torch.Tensor, z: torch.Tensor, objective: LabelObjective = "taylor2") -> torch.Tensor:
    """Gradient [n, K] in scores z of the output layer's loss L~ for labels y; backpropagated below it without noise.

    "taylor2": 1/2 + z/4 - y, of L~ = Σ z/2 + z²/8 - y z, the sigmoid's cross-entropy to the second order. "eq-12":
    1 - sign(z)/2 - z/4 - y, of L~ = Σ z - y z - |z|/2 - z²/8, as printed, with z for max(z, 0) and the square taken off: it
    falls without end as |z| grows, whatever the label.
    """
    return (0.5 + z / 4 if objective == "taylor2" else 1 - z.sign() / 2 - z / 4) - y


def output_gradient(h: torch.Tensor, in_logits: torch.Tensor) -> torch.Tensor:
    """Gradient [K, units] of the output loss in W: Σ_r g_r h_rᵀ. The perturbed loss subtracts χ3 from it (Eq. 14).

    Args: h [n, units], the last hidden layer; in_logits [n, K], rows g_r of `logit_gradient`.
    """
    return in_logits.T @ h




class L2dpMl(Agem):
    """One network for one seed, with three noise draws. Batches and memory hold perturbed inputs x̄ = x + χ1/λ, float64."""

    KEPT = (*Agem.KEPT, "_draws", "_statistics")
    _title, _unbounded = "L2DP-ML", "under one noise for all records, which subtracting two of them removes"
    _largest_weight = float(np.finfo(np.float32).max)  # without a norm cap noise alone makes weights this large

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        super().__init__(spec, cells, context)
        self._chosen = chosen = settings_of(spec, L2dpMlParams)
        size = chosen.batch_size if chosen.algorithm == "batches" else max(1, int(context.task_size))
        self._n = size  # λ of the last step
        sizes = claim.sizes(self._form, context.n_classes)
        share, epsilon = chosen.encoder_share, self._cell.epsilon
        self._plan = claim.plan(sizes, chosen.delta_r, self._n, epsilon, share, self._theta_norm())
        self._largest = 0  # largest λ so far
        noise = noise_of(spec.privacy.noise, self._cell, "one noise for all")
        height, _, n_channels = self._form.planes
        self._draws = nets.draw(self._plan, noise, n_channels, height, context.device, chosen.output_noise)
        self.kept_records: Records = nets.Draws, nets.Statistics
        self._statistics = nets.Statistics.fresh(self._net.first.out_channels, context.device)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        chosen = self._chosen
        for progress in super().learn(tasks, ledgers):
            with torch.no_grad():  # to the settings' norm caps
                if chosen.output_norm_cap > 0:
                    weights = self._net.head.weight
                    weights.mul_((chosen.output_norm_cap / weights.norm(dim=1, keepdim=True)).clamp(max=1))
                if chosen.theta1_norm_cap > 0:
                    self._net.first.weight.mul_(min(1.0, chosen.theta1_norm_cap / self._theta_norm()))
            yield progress
        if math.isfinite(self._cell.epsilon):
            ledgers[self._cell].claimed = replace(self._plan, n_mean=self._largest).claim(self._theta_norm())

    def _size(self, n: int) -> int:
        return self._params.batch_size if self._chosen.algorithm == "batches" else max(n, 1)

    def _batches(self, task: Task, competing: tuple[int, ...]) -> list[nets.Batch]:
        """A-GEM's batches, perturbed: training, memory and replay all use x̄."""
        plain = super()._batches(task, competing)
        self._n = self._divisor(plain[0])
        self._largest = max(self._largest, self._n)  # Algorithm 1 divides by a task's size: the largest claims most
        return [replace(batch, inputs=batch.inputs.double() + self._draws.inputs / self._n) for batch in plain]

    def _divisor(self, batch: nets.Batch) -> int:
        """The divisor λ of a batch's sums and noise: its size, or the nominal number where the true one is private."""
        return len(batch.targets) if self._context.counted else self._n

    def _gradients(self, batch: nets.Batch) -> nets.Gradients:
        """Gradients of both losses' means over the batch, with noise divided by λ."""
        total = super()._gradients(batch)
        total[-2][batch.columns] -= (self._draws.output[batch.columns] / self._divisor(batch)).to(total[-2].dtype)
        return total

    def _of_piece(self, inputs: torch.Tensor, targets: torch.Tensor, columns: torch.Tensor, n: int) -> nets.Gradients:
        """Gradients on a piece of a batch of n, of perturbed inputs.

        "softmax": of A-GEM's loss for all layers, on perturbed units, without clipping. "taylor": encoder from the
        reconstruction, the rest from the label loss (Alg. 2). The output layer's gradient is the closed form; the caller
        adds its noise. The layers below get the gradient in the logits, which reads labels without any noise. The output has
        no bias, z = h_π·W.
        """
        net, hidden, is_softmax = self._net, self._draws.hidden / n, self._chosen.losses == "softmax"
        if not len(targets):  # nobody is in the task: a sum over no examples, to which the caller adds its noise
            return [torch.zeros_like(of) for of in (net.first.weight, *net.rest.parameters(), *net.head.parameters())]
        of_inputs = nets.noise_response(net.first, self._draws.inputs / n)
        with torch.set_grad_enabled(is_softmax):
            units = net.first((inputs - self._draws.inputs / n).float())  # the subtraction undoes the noise
        last = net.rest[1:](self._read(units, of_inputs + 2 * hidden, training=True))
        if is_softmax:
            loss = torch.nn.functional.cross_entropy(net.head(last)[:, columns], targets, reduction="sum") / n
            return list(torch.autograd.grad(loss, list(net.parameters())))
        last = last.clamp(max=1)  # a ReLU's output: at least 0
        with torch.no_grad():
            weights = net.head.weight[columns]
            truth = torch.nn.functional.one_hot(targets, len(columns))
            in_logits = logit_gradient(truth, last @ weights.T, self._chosen.label_objective)
            output = torch.zeros_like(net.head.weight)
            output[columns] = output_gradient(last, in_logits) / n
        below = torch.autograd.grad(last, list(net.rest.parameters()), in_logits @ weights / n)
        return [self._encoder(inputs, units, of_inputs, hidden, n), *below, output, torch.zeros_like(net.head.bias)]

    def _encoder(
        self, perturbed: torch.Tensor, units: torch.Tensor, of_inputs: torch.Tensor, hidden: torch.Tensor, n: int
    ) -> torch.Tensor:
        """The encoder's gradient on a piece of a batch of n: reconstruction of x̄ from h̄, with h̄ held constant.

        Each value of x̄ and of h̄ is mostly noise, and the gradient is a product of both. Unless `encoder_divisor` is none, it
        is divided by their public noise scales and by the number of values, so that one step size serves all budgets.
        Single precision suffices: it keeps a picture under noise of 10^4 to two decimals, and only the encoder's small
        updates depend on the rest.
        """
        kernel, plan, chosen = self._net.first.weight, replace(self._plan, n_mean=n), self._chosen
        if chosen.encoder_weight == 0:
            return torch.zeros_like(kernel)
        if chosen.first_layer == "batch-norm":
            units = self._statistics.normalised((units + of_inputs).relu(), training=False).float()
            of_inputs = torch.zeros_like(of_inputs)
        decoded = nets.transposed if chosen.recon_objective == "taylor1-linear" else nets.upsampled
        rebuilt = decoded(kernel, nets.shared_hidden(units, of_inputs, hidden), *perturbed.shape[2:])
        loss = reconstruction(perturbed.float(), rebuilt, chosen.recon_objective) / n
        scales = (1 + plan.input_scale) * (1 + plan.hidden_scale) * plan.sizes.n_inputs
        divisor = scales if chosen.encoder_divisor == "noise" else 1.0
        return torch.autograd.grad(loss, kernel)[0] * (chosen.encoder_weight / divisor)

    def _read(self, units: torch.Tensor, offset: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Input of the layers above the first."""
        values = nets.classifier_input(units, offset, self._chosen.first_layer)
        if self._chosen.first_layer == "batch-norm":
            return self._statistics.normalised(values, training=training).to(units.dtype)
        return values

    def _logits(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """Logits [n, n_classes] under the noise of the latest step, or without noise."""
        net, offset = self._net, self._offset()

        def answers(x: torch.Tensor) -> torch.Tensor:
            last = net.rest[1:](self._read(net.first(x), offset, training=False))
            logits: torch.Tensor = net.head(last.clamp(max=1) if self._chosen.losses == "taylor" else last)
            return logits

        return net.logits(inputs, self._form, self._at_once(), answers)

    def rule(self, cell: Cell) -> Rule | None:
        """The network's largest logit; None under batch normalisation, whose statistics are not released."""
        if self._chosen.first_layer == "batch-norm":
            return None
        by_task = self._lists if self._params.is_task_given else ()
        clips, first = self._chosen.losses == "taylor", self._chosen.first_layer
        plain = self._net.rule(self._space, by_task, clips_hidden=clips, first_layer=first)
        return replace(plain, arrays=(*plain.arrays, _OFFSET))

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name, and the noise of its first layer, which predictions need."""
        return {**super().released(cell), _OFFSET: self._offset().cpu().numpy()}

    def _offset(self) -> torch.Tensor:
        """What the noise of the latest step adds to the first layer's units, float64 [1, filters, ...]; zeros without."""
        offset = nets.noise_response(self._net.first, self._draws.inputs / self._n) + 2 * self._draws.hidden / self._n
        return offset.new_zeros(offset.shape) if self._chosen.test_noise == "none" else offset

    def _theta_norm(self) -> float:
        return claim.theta_norm(self._net.first.weight.detach().cpu().numpy(), self._chosen.theta_norm)


make_learner = L2dpMl


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput where a part of the budget would be zero, and as `params.check_lifelong` does."""
    claim.check_share(settings_of(spec, L2dpMlParams).encoder_share)
    settings.check_lifelong(spec, facts)


def batch_size(params: L2dpMlParams) -> int:
    """Fewest examples that a task may have: one batch; Algorithm 1 takes any number."""
    return params.batch_size if params.algorithm == "batches" else 1


def derived(params: L2dpMlParams, facts: PublicSizes) -> str:
    """The settings in numbers, for a task of average size."""
    if params.algorithm == "batches":
        return settings.derived(params, facts)
    return f"Steps on all {facts.task_size:,.0f} examples of a task; all of them are kept for good."


def no_classifier(params: L2dpMlParams) -> str:
    """Why predictions need more than what is released, in one sentence; else empty."""
    normalised = params.first_layer == "batch-norm"
    return "Under batch normalisation predictions need statistics of batches, which are not released." if normalised else ""


def notes(params: L2dpMlParams) -> tuple[str, ...]:
    """The reasons why its epsilon is no bound, and the place of the noise."""
    inside = "The noise is inside the model file: test examples get the same, so anyone who has the model has the noise."
    one_row = "One noise vector is shared by all classes, too: the difference of two classes' weights has none of it."
    return (
        "One noise vector is shared by all records. Subtracting two noisy records removes it.",
        *([one_row] if params.output_noise == "shared" else []),
        *([inside] if params.test_noise == "same" else []),
    )


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices where Lai et al. leave something open."""
    params = settings_of(spec, L2dpMlParams)
    return (
        *settings.differences(spec),
        "Not given either: how ε is split, which numbers d and |h1| stand for in Δ_R, and whether test inputs carry the "
        f"noise. Ours: Δ_R {params.delta_r}, test noise {params.test_noise}, half of ε for the auto-encoder unless "
        "said otherwise.",
    )


PRINTED = settings.printed(
    settings.BATCHES, settings.ALWAYS_PROJECTED,
    {
        "params.scope": Printed(("joint",), "The algorithms print one gradient; each block has a loss of its own."),
        "params.algorithm": Printed(("batches", "whole-task"), "No other algorithm is printed."),
        "params.delta_r": Printed(("literal",), "The predecessor's code takes a thousandth of the printed sensitivity."),
        "params.theta_norm": Printed(("columns",), "The norm that bounds what one input does goes over rows."),
        "params.theta1_norm_cap": Printed((0.0,), "The claim depends on the encoder's norm, which nothing printed holds."),
        "params.output_norm_cap": Printed((0.0,), "The same noise at every step would add up without end."),
        "params.losses": Printed(("taylor",), "A-GEM's own loss, to see what the polynomials do."),
        "params.recon_objective": Printed(("taylor1-linear",), "The printed loss has no minimum."),
        "params.label_objective": Printed(("eq-12",), "With two signs of Eq. 12 as printed, it has no minimum."),
        "params.encoder_weight": Printed((1.0,), "One of the two losses would drown the other."),
        "params.encoder_divisor": Printed(("none",), "The encoder's gradient is nearly all noise, of any size."),
        "params.first_layer": Printed(("plain",), "Noise alone would switch units on and off, whatever the picture."),
        "params.output_noise": Printed(("shared",), "The predecessor's code draws numbers for each class."),
        "params.encoder_share": "How ε is split between encoder and output layer is not given.",
        "params.test_noise": "Whether test examples carry the noise is not said.",
    },
)
CARD = settings.network_card(
    name="l2dp-ml",
    title="L2DP-ML",
    summary="A-GEM whose losses are cut off after a few terms and perturbed by Laplace noise: one draw for all inputs, one "
    "for all hidden units and one for the output layer, used for every example, step and task. Theorem 2 of its paper "
    "claims one epsilon for any number of tasks. It does not hold: subtracting two examples removes the noise.",
    source="Lai et al. 2022, Algorithms 1 and 2",
    params=L2dpMlParams, key_settings=("epochs", "learning_rate", "encoder_share"),
    module=__name__, audit="dpcl_core.attacks.l2dp_games", cells_per_learner="cell", refuses=check, derived=derived,
    guarantee="nominal", batch_size=batch_size, notes=notes, printed=PRINTED,
    table_names=lambda spec: ("L2DP-ML", settings.variant(spec)), differences=differences, no_classifier=no_classifier,
)
