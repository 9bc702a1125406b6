"""The losses of L2DP-ML against the cross-entropies that they cut off, and their gradients against autograd."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dpcl_core.methods.lifelong import l2dp_ml
from dpcl_core.methods.lifelong.l2dp_ml import LabelObjective

LOG2 = math.log(2)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def exact(target: Tensor, z: Tensor) -> Tensor:
    """The cross-entropy of a sigmoid, cell by cell, by torch."""
    return functional.binary_cross_entropy_with_logits(z, target, reduction="none")


def classification(y: Tensor, z: Tensor, objective: LabelObjective = "taylor2") -> Tensor:
    """The output layer's loss L~ for labels y and scores z, both [n, K].

    "taylor2" is Σ z/2 + z²/8 - y z, the sigmoid's cross-entropy to the second order. "eq-12" is Σ z - y z - |z|/2 - z²/8, as
    printed, with z for max(z, 0) and the square taken off: it falls without end as |z| grows, whatever the label.
    """
    terms = z / 2 + z.square() / 8 if objective == "taylor2" else z - z.abs() / 2 - z.square() / 8
    return (terms - y * z).sum()


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_first_order_leaves_a_square_of_the_rebuilt_value_over_eight(scale: float) -> None:
    for seed in range(50):
        x, z = normal(1, 1, seed=seed).tanh(), normal(1, 1, seed=seed + 99, scale=scale)
        remainder = exact(x, z).sum() - LOG2 - l2dp_ml.reconstruction(x, z, "taylor1-linear")
        assert 0 <= remainder <= z.square().sum() / 8 + 1e-12  # log cosh (z/2): never negative


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_second_order_leaves_a_fourth_power_over_192(scale: float) -> None:
    for seed in range(50):
        y, z = (normal(1, 1, seed=seed) > 0).double(), normal(1, 1, seed=seed + 99, scale=scale)
        remainder = exact(y, z).sum() - LOG2 - classification(y, z)
        assert abs(remainder) <= z.pow(4).sum() / 192 + 1e-12


def test_second_order_is_the_form_of_the_predecessor_and_not_the_one_that_is_printed() -> None:
    y, z = (normal(30, 10) > 1).double(), normal(30, 10, seed=1, scale=0.2)
    ours = classification(y, z) + z.numel() * LOG2
    code = (z.clamp(min=0) - y * z + LOG2 - z.abs() / 2 + z.square() / 8).sum()
    printed = (z - y * z + LOG2 - z.abs() / 2 - z.square() / 8).sum()
    as_printed = classification(y, z, "eq-12") + z.numel() * LOG2
    assert abs(ours - code) < 1e-11
    assert abs(as_printed - printed) < 1e-11
    assert abs(ours - printed) > 1


@pytest.mark.parametrize(("objective", "ends"), [("taylor2", math.inf), ("eq-12", -math.inf)])
def test_eq_12_as_printed_falls_without_end_whatever_the_label_and_grows_with_two_other_signs(
    objective: LabelObjective, ends: float
) -> None:
    for label in (0.0, 1.0):
        for score in (-1e6, 1e6):
            y, z = torch.full((1, 1), label), torch.full((1, 1), score)
            assert classification(y, z, objective) * math.copysign(1, ends) > 1e11


def test_linear_reconstruction_is_unbounded_and_its_size_is_not() -> None:
    x, z = torch.ones(1, 4, dtype=torch.float64), torch.full((1, 4), 1e6, dtype=torch.float64)
    assert l2dp_ml.reconstruction(x, z, "taylor1-linear") < -1e6
    assert l2dp_ml.reconstruction(x, z, "taylor1-abs") > 0
    assert l2dp_ml.reconstruction(x, torch.full_like(z, 2 * LOG2), "taylor1-abs") < 1e-12


def test_gradient_of_the_encoder_is_the_closed_form_where_hidden_units_are_constants() -> None:
    """With an encoder that is a matrix. Forgetting that they are constants adds a known term."""
    x, theta = normal(20, 6).tanh(), normal(6, 4, seed=1, scale=0.01).requires_grad_()
    for is_constant in (True, False):
        hidden = x @ theta
        hidden = hidden.detach() if is_constant else hidden
        loss = l2dp_ml.reconstruction(x, hidden @ theta.T, "taylor1-linear")
        (found,) = torch.autograd.grad(loss, theta)
        closed = (0.5 - x).T @ hidden.detach()
        forgotten = torch.einsum("rd,rj->dj", x, (0.5 - x) @ theta.detach())
        torch.testing.assert_close(found, closed if is_constant else closed + forgotten, rtol=0, atol=1e-9)
        assert forgotten.abs().max() > 1e-3


@pytest.mark.parametrize("objective", get_args(LabelObjective))
def test_slopes_and_output_gradient_are_autograd_s_of_the_perturbed_loss(objective: LabelObjective) -> None:
    """The noise stands in the gradient of the output weights, and in that of nothing below."""
    y, weights = functional.one_hot(torch.arange(30) % 3, 3).double(), normal(3, 5, seed=2).requires_grad_()
    below = normal(4, 5, seed=3).requires_grad_()
    noises = [normal(3, 5, seed=4, scale=10), normal(3, 5, seed=5, scale=100)]
    lower = []
    for noise in noises:
        hidden = torch.tanh(normal(30, 4) @ below)
        z = hidden @ weights.T
        loss = classification(y, z, objective) - (noise * weights).sum()
        of_output, of_below = torch.autograd.grad(loss, [weights, below])
        slopes = l2dp_ml.logit_gradient(y, z, objective)
        torch.testing.assert_close(l2dp_ml.output_gradient(hidden, slopes) - noise, of_output, rtol=0, atol=1e-9)
        hidden = torch.tanh(normal(30, 4) @ below)
        (through_slopes,) = torch.autograd.grad(hidden, below, (slopes @ weights).detach())
        torch.testing.assert_close(through_slopes, of_below, rtol=0, atol=1e-9)
        lower.append(of_below)
    assert torch.equal(*lower)
