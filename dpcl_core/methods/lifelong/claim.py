"""The epsilon that L2DP-ML's Theorem 2 claims: sensitivities, terms and noise scales. A nominal number, not a bound.

Lai et al. 2022, section 4: ε = ε1 + ε1/γ_x + ε1/γ + ε2, with γ_x = Δ_R/λ and γ = 2Δ_R/(λ‖θ1‖). Computed as
printed: one draw of each noise is shared by all records, and subtracting two records removes it.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Claim

DeltaR = Literal["literal", "witness"]
ThetaNorm = Literal["rows", "columns", "singular"]
SOURCE = "Lai et al. 2022, Theorem 2"
STRIDE = 2  # of the first convolution, in all of the networks


@dataclass(frozen=True, slots=True)
class Sizes:
    """Public sizes of a network that appear in the theorem.

    `n_inputs`: d, values of an example; `n_hidden`: |h1|, units of the first layer; `n_patch`: input values of one
    unit; `n_positions`: units of one feature map; `n_last`: |h_π|, units of the last hidden layer.
    """

    n_inputs: int
    n_hidden: int
    n_patch: int
    n_positions: int
    n_last: int
    n_classes: int

    def delta_r(self, rule: DeltaR) -> float:
        """Δ_R, the claimed sensitivity of the reconstruction loss's coefficients to one record: d(|h1| + 2).

        "literal": d and |h1| are all values and all hidden units. "witness": the numbers in the predecessor's code (Phan et
        al. 2020), one patch for d and one feature map for |h1|; about a thousand times smaller for MNIST.
        """
        if rule == "literal":
            return float(self.n_inputs * (self.n_hidden + 2))
        return float(self.n_patch * (self.n_positions + 2))

    @property
    def delta_l(self) -> float:
        """Δ_L, the same for the output layer: another label moves two columns of |h_π| values, each in [-1, 1]."""
        return 2.0 * self.n_last


@dataclass(frozen=True, slots=True)
class Plan:
    """One model's split budget and its noise scales. `epsilon1` and `epsilon2` are inf without noise.

    `n_mean`: λ, the number of records averaged in a step: a batch in Algorithm 2, a whole task in Algorithm 1.
    """

    sizes: Sizes
    rule: DeltaR
    n_mean: int
    epsilon1: float
    epsilon2: float

    @property
    def delta_r(self) -> float:
        return self.sizes.delta_r(self.rule)

    @property
    def gamma_x(self) -> float:
        return self.delta_r / self.n_mean

    def gamma(self, theta_norm: float) -> float:
        """γ at this norm of the encoder's weights: the claim depends on the learned weights."""
        return 2 * self.delta_r / (self.n_mean * theta_norm) if theta_norm > 0 else math.inf

    @property
    def scale1(self) -> float:
        """Laplace scale of χ1 (on the inputs) and χ2 (on hidden units), before the division by λ."""
        return self.delta_r / self.epsilon1

    @property
    def scale2(self) -> float:
        """Laplace scale of χ3 (on the output layer's coefficients), before the division by λ."""
        return self.sizes.delta_l / self.epsilon2

    @property
    def input_scale(self) -> float:
        """Laplace scale of the noise on each input value, χ1/λ; inputs are in [-1, 1]."""
        return self.scale1 / self.n_mean

    @property
    def hidden_scale(self) -> float:
        """Laplace scale of the noise on each hidden unit, 2χ2/λ; units are clipped to [-1, 1] first."""
        return 2 * self.input_scale

    @property
    def output_scale(self) -> float:
        """Laplace scale of the noise on each coefficient of the mean output loss, χ3/λ."""
        return self.scale2 / self.n_mean

    def terms(self, theta_norm: float) -> dict[str, float]:
        """The four terms of the total, at this norm of the encoder's weights."""
        return {
            "ε1": self.epsilon1,
            "ε1/γ_x": self.epsilon1 / self.gamma_x,
            "ε1/γ": self.epsilon1 / self.gamma(theta_norm),
            "ε2": self.epsilon2,
        }

    def claim(self, theta_norm: float) -> Claim:
        """The theorem's total at this norm of the encoder's weights, with its terms and inputs."""
        terms = self.terms(theta_norm)
        numbers = {
            "Δ_R": self.delta_r,
            "Δ_L": self.sizes.delta_l,
            "γ_x": self.gamma_x,
            "γ": self.gamma(theta_norm),
            "λ": float(self.n_mean),
            "‖θ1‖": theta_norm,
            "d": float(self.sizes.n_inputs),
            "|h1|": float(self.sizes.n_hidden),
            "|h_π|": float(self.sizes.n_last),
            "noise scale on an input value": self.input_scale,
            "noise scale on a hidden unit": self.hidden_scale,
            "noise scale on an output coefficient": self.output_scale,
        }
        return Claim(sum(terms.values()), SOURCE, terms, numbers)


def plan(sizes: Sizes, rule: DeltaR, n_mean: int, epsilon: float, encoder_share: float, theta_norm: float) -> Plan:
    """Splits a budget so that the four terms sum to it at the encoder's initial weights, of norm `theta_norm`.

    The encoder's share pays for three terms, ε1 = share · ε / (1 + 1/γ_x + 1/γ), and the output layer gets the rest (as in
    the predecessor's code; the paper does not say). Raises BadInput where either is left with nothing.
    """
    check_share(encoder_share)
    unit = Plan(sizes, rule, n_mean, 1.0, 1.0)
    epsilon1 = epsilon * encoder_share / (1 + 1 / unit.gamma_x + 1 / unit.gamma(theta_norm))
    epsilon2 = epsilon * (1 - encoder_share)
    for name, part in (("ε1", epsilon1), ("ε2", epsilon2)):
        if not part > 0:
            raise BadInput("privacy.epsilons", epsilon, f"must be larger: {name} = {part:g} is left, which must be above 0")
    return Plan(sizes, rule, n_mean, epsilon1, epsilon2)


def check_share(encoder_share: float) -> None:
    """Raises BadInput where the encoder's share of the budget leaves nothing for ε1 or for ε2."""
    if not 0 < encoder_share < 1:
        left = "ε1" if encoder_share <= 0 else "ε2"
        raise BadInput("params.encoder_share", encoder_share, f"must lie between 0 and 1, else nothing is left for {left}")


def ends(form: Form) -> tuple[int, int, int]:
    """Filters and patch of the first convolution, and units of the last hidden layer, for examples of this form."""
    if len(form.shape) == 1:
        return 64, 1, 128
    return (64, 4, 256) if form.planes[2] == 3 else (32, 2, 128) if len(form.shape) == 2 else (32, 5, 512)


def sizes(form: Form, n_classes: int) -> Sizes:
    """Sizes of the network that `nets.build` returns for examples of this form, without building it."""
    height, width, n_channels = form.planes
    filters, patch, n_last = ends(form)
    n_positions = -(-height // STRIDE) * -(-width // STRIDE)
    n_inputs = height * width * n_channels
    return Sizes(n_inputs, filters * n_positions, patch * patch * n_channels, n_positions, n_last, n_classes)


def theta_norm(kernel: NDArray[np.floating], rule: ThetaNorm) -> float:
    """‖θ1‖ of the d × |h1| matrix of a convolution of stride 2 with this kernel [filters, channels, patch, patch].

    "rows": max over input values of the absolute sum of the weights on it, the norm that bounds ‖θ1ᵀΔx‖₁ by ‖Δx‖₁
    (reached away from the border). "columns": max over hidden units, as printed ("maximum 1-norm of the columns").
    "singular": largest singular value of the kernel as a matrix with one column per filter, as in the predecessor's code.
    """
    sums = np.abs(np.asarray(kernel, np.float64))
    if rule == "columns":
        return float(sums.sum(axis=(1, 2, 3)).max())
    if rule == "singular":
        return float(np.linalg.norm(np.asarray(kernel, np.float64).reshape(len(kernel), -1), ord=2))
    # Each input value meets every other row and column of the kernel; its position decides which.
    starts = [(row, column) for row in range(STRIDE) for column in range(STRIDE)]
    return float(max(sums[:, :, row::STRIDE, column::STRIDE].sum(axis=(0, 2, 3)).max() for row, column in starts))
