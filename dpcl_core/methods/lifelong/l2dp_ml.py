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
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong import nets
from dpcl_core.methods.lifelong.agem import Agem
from dpcl_core.methods.lifelong.cards import claim
from dpcl_core.methods.lifelong.cards.l2dp_ml import L2dpMlParams, LabelObjective, Reconstruction
from dpcl_core.methods.lifelong.nets import Batch, Gradients
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import noise_of
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec

_OFFSET = "offset"  # released beside the network's weights


def reconstruction(x: Tensor, z: Tensor, objective: Reconstruction) -> Tensor:
    """The auto-encoder's loss for inputs x and their reconstructions z, both [..., d].

    "taylor1-linear" is R~ = Σ (1/2 - x) z, the first order as printed. It has no minimum: in the weights it is a quadratic
    form with hundreds of negative directions, and training along them saturates all units. "taylor1-abs" is
    Σ |log 2 + (1/2 - x) z|, the loss in the predecessor's code (Phan et al. 2020), which is bounded below by 0.
    """
    terms = (0.5 - x) * z
    return terms.sum() if objective == "taylor1-linear" else (math.log(2) + terms).abs().sum()


def classification(y: Tensor, z: Tensor, objective: LabelObjective = "taylor2") -> Tensor:
    """The output layer's loss L~ for labels y and scores z, both [n, K].

    "taylor2" is Σ z/2 + z²/8 - y z, the sigmoid's cross-entropy to the second order. "eq-12" is Σ z - y z - |z|/2 - z²/8, as
    printed, with z for max(z, 0) and the square taken off: it falls without end as |z| grows, whatever the label.
    """
    terms = z / 2 + z.square() / 8 if objective == "taylor2" else z - z.abs() / 2 - z.square() / 8
    return (terms - y * z).sum()


def logit_gradient(y: Tensor, z: Tensor, objective: LabelObjective = "taylor2") -> Tensor:
    """Gradient [n, K] of L~ in z, which is backpropagated below the output layer without noise.

    "taylor2": 1/2 + z/4 - y. "eq-12": 1 - sign(z)/2 - z/4 - y.
    """
    return (0.5 + z / 4 if objective == "taylor2" else 1 - z.sign() / 2 - z / 4) - y


def output_gradient(h: Tensor, in_logits: Tensor) -> Tensor:
    """Gradient [K, units] of the output loss in W: Σ_r g_r h_rᵀ. The perturbed loss subtracts χ3 from it (Eq. 14).

    Args: h [n, units], the last hidden layer; in_logits [n, K], rows g_r of `logit_gradient`.
    """
    return in_logits.T @ h




class L2dpMl(Agem):
    """One network for one seed, with three noise draws. Batches and memory hold perturbed inputs x̄ = x + χ1/λ, float64."""

    KEPT, kept_records = (*Agem.KEPT, "_draws", "_statistics"), (nets.Draws, nets.Statistics)
    _title, _unbounded = "L2DP-ML", "under one noise for all records, which subtracting two of them removes"
    _largest_weight = float(np.finfo(np.float32).max)  # without a norm cap noise alone makes weights this large

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        super().__init__(spec, cells, context)
        assert isinstance(spec.params, L2dpMlParams)
        self._chosen = chosen = spec.params
        self._n = (
            chosen.batch_size if chosen.algorithm == "batches" else max(1, int(context.task_size))
        )  # λ of the last step
        sizes = claim.sizes(self._form, context.n_classes)
        share, epsilon = chosen.encoder_share, self._cell.epsilon
        self._plan = claim.plan(sizes, chosen.delta_r, self._n, epsilon, share, self._theta_norm())
        self._largest = 0  # largest λ so far
        noise = noise_of(spec.privacy.noise, self._cell, "one noise for all")
        height, _, n_channels = self._form.planes
        self._draws = nets.draw(self._plan, noise, n_channels, height, context.device, chosen.output_noise)
        self._statistics = nets.Statistics.fresh(self._net.first.out_channels, context.device)

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for progress in super().learn(tasks, ledgers):
            self._hold_norms()
            yield progress
        if math.isfinite(self._cell.epsilon):
            ledgers[self._cell].claimed = replace(self._plan, n_mean=self._largest).claim(self._theta_norm())

    def _size(self, n: int) -> int:
        return self._params.batch_size if self._chosen.algorithm == "batches" else max(n, 1)

    def _batches(self, task: Task, competing: tuple[int, ...]) -> list[Batch]:
        """A-GEM's batches, perturbed: training, memory and replay all use x̄."""
        plain = super()._batches(task, competing)
        self._n = self._divisor(plain[0])
        self._largest = max(self._largest, self._n)  # Algorithm 1 divides by a task's size: the largest claims most
        return [replace(batch, inputs=batch.inputs.double() + self._draws.inputs / self._n) for batch in plain]

    def _divisor(self, batch: Batch) -> int:
        """The divisor λ of a batch's sums and noise: its size, or the nominal number where the true one is private."""
        return len(batch.targets) if self._context.counted else self._n

    def _gradients(self, batch: Batch) -> Gradients:
        """Gradients of both losses' means over the batch, with noise divided by λ."""
        total = super()._gradients(batch)
        total[-2][batch.columns] -= (self._draws.output[batch.columns] / self._divisor(batch)).to(total[-2].dtype)
        return total

    def _of_piece(self, inputs: Tensor, targets: Tensor, columns: Tensor, n: int) -> Gradients:
        of_inputs = nets.noise_response(self._net.first, self._draws.inputs / n)
        gradients = self._taylor if self._chosen.losses == "taylor" else self._softmax
        return gradients(inputs, targets, columns, of_inputs, n)

    def _taylor(self, perturbed: Tensor, targets: Tensor, columns: Tensor, of_inputs: Tensor, n: int) -> Gradients:
        """Gradients on a piece of a batch of n: encoder from the reconstruction, the rest from the label loss (Alg. 2).

        The output layer's gradient is the closed form; the caller adds its noise. The layers below get the gradient in the
        logits, which reads labels without any noise. The output has no bias, z = h_π·W.
        """
        net, hidden = self._net, self._draws.hidden / n
        with torch.no_grad():
            units = net.first((perturbed - self._draws.inputs / n).float())  # the subtraction undoes the noise
        read = self._read(units, of_inputs + 2 * hidden, training=True)
        last = net.rest[1:](read).clamp(max=1)  # a ReLU's output: at least 0
        with torch.no_grad():
            weights = net.head.weight[columns]
            in_logits = logit_gradient(
                functional.one_hot(targets, len(columns)), last @ weights.T, self._chosen.label_objective
            )
            output = torch.zeros_like(net.head.weight)
            output[columns] = output_gradient(last, in_logits) / n
        below = torch.autograd.grad(last, list(net.rest.parameters()), in_logits @ weights / n)
        return [self._encoder(perturbed, units, of_inputs, hidden, n), *below, output, torch.zeros_like(net.head.bias)]

    def _encoder(self, perturbed: Tensor, units: Tensor, of_inputs: Tensor, hidden: Tensor, n: int) -> Tensor:
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

    def _softmax(self, perturbed: Tensor, targets: Tensor, columns: Tensor, of_inputs: Tensor, n: int) -> Gradients:
        """Gradients of A-GEM's softmax loss on a piece of a batch of n, for all layers, on perturbed units; no clipping."""
        units = self._net.first((perturbed - self._draws.inputs / n).float())
        read = self._read(units, of_inputs + 2 * self._draws.hidden / n, training=True)
        logits = self._net.head(self._net.rest[1:](read))[:, columns]
        loss = functional.cross_entropy(logits, targets, reduction="sum") / n
        return list(torch.autograd.grad(loss, list(self._net.parameters())))

    def _read(self, units: Tensor, offset: Tensor, *, training: bool) -> Tensor:
        """Input of the layers above the first."""
        values = nets.classifier_input(units, offset, self._chosen.first_layer)
        if self._chosen.first_layer == "batch-norm":
            return self._statistics.normalised(values, training=training).to(units.dtype)
        return values

    def _logits(self, inputs: NDArray[np.generic]) -> NDArray[np.float32]:
        """Logits [n, n_classes] under the noise of the latest step, or without noise."""
        device, net, size = self._context.device, self._net, self._at_once()
        logits = np.zeros((len(inputs), self._context.n_classes), np.float32)
        with torch.inference_mode():
            offset = self._offset()
            for start in range(0, len(inputs), size):
                units = net.first(nets.tensor(inputs[start : start + size], self._form, device))
                last = net.rest[1:](self._read(units, offset, training=False))
                if self._chosen.losses == "taylor":
                    last = last.clamp(max=1)
                logits[start : start + size] = net.head(last).cpu().numpy()
        return logits

    def rule(self, cell: Cell) -> Rule | None:
        """The network's largest logit; None under batch normalisation, whose statistics are not released."""
        if self._chosen.first_layer == "batch-norm":
            return None
        by_task = self._lists if self._params.is_task_given else ()
        clips, first = self._chosen.losses == "taylor", self._chosen.first_layer
        plain = nets.rule(self._net, self._space, by_task, clips_hidden=clips, first_layer=first)
        return replace(plain, arrays=(*plain.arrays, _OFFSET))

    def released(self, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """The network's weights by name, and the noise of its first layer, which predictions need."""
        return {**super().released(cell), _OFFSET: self._offset().cpu().numpy()}

    def _offset(self) -> Tensor:
        """What the noise of the latest step adds to the first layer's units, float64 [1, filters, ...]; zeros without."""
        offset = nets.noise_response(self._net.first, self._draws.inputs / self._n) + 2 * self._draws.hidden / self._n
        return torch.zeros_like(offset) if self._chosen.test_noise == "none" else offset

    def _hold_norms(self) -> None:
        """Rescales weights to the settings' norm caps."""
        chosen = self._chosen
        with torch.no_grad():
            if chosen.output_norm_cap > 0:
                weights = self._net.head.weight
                weights.mul_((chosen.output_norm_cap / weights.norm(dim=1, keepdim=True)).clamp(max=1))
            if chosen.theta1_norm_cap > 0:
                self._net.first.weight.mul_(min(1.0, chosen.theta1_norm_cap / self._theta_norm()))

    def _theta_norm(self) -> float:
        return claim.theta_norm(self._net.first.weight.detach().cpu().numpy(), self._chosen.theta_norm)


def make_learner(spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> L2dpMl:
    """The learner of one cell."""
    return L2dpMl(spec, cells, context)
