"""L2DP-ML's losses: truncated Taylor series of cross-entropies, and their gradients in closed form.

Lai et al. 2022, section 4, with two misprints corrected: their Eq. 9 would maximise the cross-entropy, and Eq. 12 has z for
max(z, 0) and -z²/8 for +z²/8. All are sums over cells. The constants n d log 2 and n K log 2 are left out, so that the exact
loss minus the polynomial is the constant plus a remainder of at most z²/8 or z⁴/192 per cell.
"""

from __future__ import annotations

import math

from torch import Tensor

from dpcl_core.methods.lifelong.cards.l2dp_ml import Reconstruction


def reconstruction(x: Tensor, z: Tensor, objective: Reconstruction) -> Tensor:
    """The auto-encoder's loss for inputs x and their reconstructions z, both [..., d].

    "taylor1-linear" is R~ = Σ (1/2 - x) z, the first order as printed. It has no minimum: in the weights it is a quadratic
    form with hundreds of negative directions, and training along them saturates all units. "taylor1-abs" is
    Σ |log 2 + (1/2 - x) z|, the loss in the predecessor's code (Phan et al. 2020), which is bounded below by 0.
    """
    terms = (0.5 - x) * z
    return terms.sum() if objective == "taylor1-linear" else (math.log(2) + terms).abs().sum()


def classification(y: Tensor, z: Tensor) -> Tensor:
    """The output layer's loss L~ = Σ z/2 + z²/8 - y z, the sigmoid's cross-entropy to the second order; y, z [n, K]."""
    return (z / 2 + z.square() / 8 - y * z).sum()


def logit_gradient(y: Tensor, z: Tensor) -> Tensor:
    """Gradient [n, K] of L~ in z: 1/2 + z/4 - y, which is backpropagated below the output layer without noise."""
    return 0.5 + z / 4 - y


def output_gradient(h: Tensor, in_logits: Tensor) -> Tensor:
    """Gradient [K, units] of the output loss in W: Σ_r g_r h_rᵀ. The perturbed loss subtracts χ3 from it (Eq. 14).

    Args: h [n, units], the last hidden layer; in_logits [n, K], rows g_r of `logit_gradient`.
    """
    return in_logits.T @ h
