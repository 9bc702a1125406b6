"""The losses that L2DP-ML perturbs: cross-entropies cut off after a few terms, and their gradients in closed form.

Lai et al. 2022, section 4, with two misprints put right: their Eq. 9 would have the cross-entropy maximised, and Eq. 12 has
z where max(z, 0) and -z²/8 where +z²/8 belong. All are sums over cells; constants n d log 2 and n K log 2 are left out, so
that exact minus polynomial is the constant and a remainder, of at most z²/8 and z⁴/192 a cell.
"""

from __future__ import annotations

import math

from torch import Tensor

from dpcl_core.methods.lifelong.cards.l2dp_ml import Reconstruction


def reconstruction(x: Tensor, z: Tensor, objective: Reconstruction) -> Tensor:
    """The auto-encoder's loss of inputs x rebuilt as z, both [..., d].

    "taylor1-linear" is R~ = Σ (1/2 - x) z, the first order as printed. It has no minimum: as a function of the weights it is
    a quadratic form with hundreds of negative directions, and training along them ends in units that are all saturated.
    "taylor1-abs" is Σ |log 2 + (1/2 - x) z|, which the predecessor's code minimises (Phan et al. 2020) and 0 bounds.
    """
    terms = (0.5 - x) * z
    return terms.sum() if objective == "taylor1-linear" else (math.log(2) + terms).abs().sum()


def classification(y: Tensor, z: Tensor) -> Tensor:
    """The output layer's loss L~ = Σ z/2 + z²/8 - y z, the sigmoid's cross-entropy to the second order; y, z [n, K]."""
    return (z / 2 + z.square() / 8 - y * z).sum()


def slope(y: Tensor, z: Tensor) -> Tensor:
    """Derivative [n, K] of L~ at z: 1/2 + z/4 - y. What layers below the output are told; no noise is in it."""
    return 0.5 + z / 4 - y


def output_gradient(h: Tensor, slopes: Tensor) -> Tensor:
    """Gradient [K, units] of the output loss at W: Σ_r slope_r h_rᵀ. The perturbed loss's has χ3 taken off (Eq. 14).

    Args: h [n, units], the last hidden layer; slopes [n, K].
    """
    return slopes.T @ h
