"""L2DP-ML's auto-encoder: the network's first convolution θ1, its noise, and the tied decoder (Lai et al. 2022, section 4).

Noise of 200 to 200,000 times the range of a pixel, added to pixels in single precision, would round the picture away. The
convolution is linear, so the two are computed separately: θ1ᵀ(x + χ1/λ) is θ1ᵀx, in single precision, plus θ1ᵀχ1/λ, in
double precision and once for all examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from dpcl_core.methods.lifelong.cards.claim import Plan
from dpcl_core.methods.lifelong.cards.l2dp_ml import FirstLayer, OutputNoise
from dpcl_core.methods.lifelong.nets import Conv
from dpcl_core.privacy.noise import Noise


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """The three noise draws of a run, float64, before division by λ: every record, batch, step and task gets the same noise.

    `inputs`: χ1 [channels, height, width]; `hidden`: χ2 [filters, height/2, width/2]; `output`: χ3 [n_classes, n_last],
    whose rows are equal where the noise is "shared", as printed.
    """

    inputs: Tensor
    hidden: Tensor
    output: Tensor


def draw(plan: Plan, noise: Noise, n_channels: int, height: int, device: str, output: OutputNoise) -> Draws:
    """Draws a run's noise: Laplace of scales Δ_R/ε1, Δ_R/ε1 and Δ_L/ε2. Its ledger entry gives no bound.

    Args: n_channels, height: of an example as the network reads it. output: whether each class draws its own χ3.
    """
    sizes = plan.sizes
    rows = -(-height // 2)

    def laplace(scale: float, *shape: int) -> Tensor:
        zeros = np.zeros(shape)
        return torch.from_numpy(noise.laplace_added(zeros, scale) if scale > 0 else zeros).to(device)

    return Draws(
        laplace(plan.scale1, n_channels, height, sizes.n_inputs // (n_channels * height)),
        laplace(plan.scale1, sizes.n_hidden // sizes.n_positions, rows, sizes.n_positions // rows),
        laplace(plan.scale2, 1 if output == "shared" else sizes.n_classes, sizes.n_last).expand(sizes.n_classes, -1),
    )


def noise_response(first: Conv, inputs: Tensor) -> Tensor:
    """θ1ᵀ applied to a noise [channels, height, width]: its part of each unit before ReLU, float64 [1, filters, ...]."""
    kernel = first.weight.detach().double()
    return cast(Tensor, functional_call(first, {"weight": kernel}, (inputs[None],)))


def shared_hidden(units: Tensor, of_inputs: Tensor, hidden: Tensor) -> Tensor:
    """h̄ = clip(θ1ᵀx̄, -1, 1) + 2χ2/λ, the decoder's input; constant in the losses.

    Args: units: θ1ᵀx [b, filters, ...]; of_inputs: θ1ᵀχ1/λ; hidden: χ2/λ.
    """
    return (units.detach() + of_inputs.to(units.dtype)).clamp_(-1, 1) + (2 * hidden).to(units.dtype)


def transposed(kernel: Tensor, hidden: Tensor, height: int, width: int) -> Tensor:
    """x~ = θ1 h̄ [b, channels, height, width], the decoder as printed: the transpose of x -> θ1ᵀx as a matrix, no ReLU.

    Args: kernel [filters, channels, patch, patch]; hidden [b, filters, rows, columns].
    """
    patch = kernel.shape[2]
    # `Conv` pads so that rows = height / 2, rounded up: the output has 2 * rows rows, the last possibly outside the picture.
    full = functional.conv_transpose2d(hidden, kernel, stride=2, padding=(patch - 1) // 2, output_padding=patch % 2)
    return full[:, :, :height, :width]


def upsampled(kernel: Tensor, hidden: Tensor, height: int, width: int) -> Tensor:
    """x~ [b, channels, height, width] as the predecessor's code decodes: hidden values repeated 2x2, the kernel spatially
    transposed, ReLU.

    Computed without repeating the hidden values: each of the four positions of a 2x2 block is a convolution of the hidden
    values with its own smaller kernel, the sums of the weights that fall on each hidden unit. No bias, as in the encoder.
    Args: kernel [filters, channels, patch, patch]; hidden [b, filters, rows, columns].
    """
    patch = kernel.shape[2]
    left = (patch - 1) // 2
    offsets = [(position + tap - left) // 2 for position in (0, 1) for tap in range(patch)]
    first, last = min(offsets), max(offsets)
    falls = torch.zeros(2, last - first + 1, patch, dtype=kernel.dtype, device=kernel.device)
    for number, offset in enumerate(offsets):
        falls[number // patch, offset - first, number % patch] = 1
    # Positions (a, b) in the block, offsets (t, s) of hidden units, taps (u, v); row u of the transposed kernel is column u.
    blocks = torch.einsum("atu,bsv,fcvu->cabfts", falls, falls, kernel).flatten(0, 2)
    padded = functional.pad(hidden, (-first, last, -first, last))
    return functional.pixel_shuffle(functional.conv2d(padded, blocks), 2)[:, :, :height, :width].relu()


def classifier_input(units: Tensor, offset: Tensor, first_layer: FirstLayer) -> Tensor:
    """Input of the classifier's next layer, ReLU(θ1ᵀx + offset), in the form of `first_layer`; before batch normalisation.

    "recentred" is ReLU(u + c) - ReLU(c) = max(u, -c) - max(0, -c): the unit minus the response to noise alone. For a large
    positive offset it is exactly u, for a large negative one 0: noise of any size only selects units at random. The other
    forms keep the offset, "batch-norm" in double precision until it is divided.
    Args: units: θ1ᵀx float32 [b, filters, ...]; offset: θ1ᵀχ1/λ + 2χ2/λ float64 [1, filters, ...].
    """
    if first_layer == "recentred":
        below = -offset.to(units.dtype)
        return torch.maximum(units, below) - below.clamp(min=0)
    return (units.double() + offset).relu().to(units.dtype if first_layer == "plain" else torch.float64)


@dataclass(slots=True)
class Statistics:
    """Running means and variances of the first layer's filters, as batch normalisation keeps them for test examples."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def fresh(cls, n_filters: int, device: str) -> Statistics:
        """Initial statistics: mean 0 and variance 1."""
        mean = torch.zeros(n_filters, dtype=torch.float64, device=device)
        return cls(mean, torch.ones_like(mean))

    def normalised(self, units: Tensor, *, training: bool) -> Tensor:
        """Units [b, filters, ...] normalised per filter; in training by this batch's statistics, which it then records."""
        return functional.batch_norm(units, self.mean, self.variance, training=training)
