"""L2DP-ML's losses: truncated Taylor series of cross-entropies, and their gradients in closed form.

Lai et al. 2022, section 4. Eq. 12 is there as printed ("eq-12") and with its two wrong signs mended ("taylor2"). The leading
minus of their Eq. 9, which would maximise the cross-entropy, is in neither: Eq. 12 does not have it. All are sums over
cells. The constants n d log 2 and n K log 2 are left out, so that the exact loss minus the polynomial of the first order or
"taylor2" is the constant plus a remainder of at most z²/8 or z⁴/192 per cell.
"""

from __future__ import annotations

import math

from torch import Tensor

from dpcl_core.methods.lifelong.cards.l2dp_ml import LabelObjective, Reconstruction


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
