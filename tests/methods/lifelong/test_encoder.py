"""The encoder under shared noise: Laplace draws of the stated scales, sums kept to the last digit, the tied decoder."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn import functional

from dpcl_core.data.dataset import Form
from dpcl_core.methods.lifelong import claim, nets
from dpcl_core.methods.lifelong.params import OutputNoise
from dpcl_core.privacy.noise import SeededNoise
from dpcl_core.spec import Cell

MNIST, COLOUR, WINDOWS = Form((28, 28, 1), 0.0, 1.0), Form((32, 32, 3), 0.0, 1.0), Form((100, 3), -1.0, 1.0)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def plan(form: Form, epsilon1: float = 0.25, epsilon2: float = 0.25, batch: int = 500) -> claim.Plan:
    return claim.Plan(claim.sizes(form, 10), "witness", batch, epsilon1, epsilon2)


def drawn(form: Form, given: claim.Plan, seed: int = 0, output: OutputNoise = "per-class") -> nets.Draws:
    height, _, n_channels = (*form.shape, 1)[:3]
    return nets.draw(given, SeededNoise(Cell(0.5, seed), "test"), n_channels, height, "cpu", output)


@pytest.mark.parametrize("form", [MNIST, COLOUR, WINDOWS, Form((27, 29, 1), 0.0, 1.0)])
def test_draws_have_the_shapes_of_what_they_are_added_to(form: Form) -> None:
    net, draws = nets.build(form, 10, seed=0), drawn(form, plan(form))
    x = nets.tensor(np.zeros((1, math.prod(form.shape)), np.float32), form)
    assert draws.inputs.shape == x.shape[1:]
    assert draws.hidden.shape == net.first(x).shape[1:]
    assert draws.output.shape == net.head.weight.shape


def test_shared_noise_on_the_output_layer_is_one_number_a_hidden_unit_as_printed() -> None:
    """|h_π| numbers for all classes, Laplace of scale Δ_L/ε2: seeded draws, of which 2 % would be six standard errors."""
    given = plan(MNIST, epsilon2=0.1)
    many = [drawn(MNIST, given, seed, "shared").output for seed in range(200)]
    assert all(output.shape == (10, 512) and torch.equal(output, output[:1].expand(10, -1)) for output in many)
    values = np.concatenate([output[0] for output in many])
    assert np.abs(values).mean() == pytest.approx(given.scale2, rel=0.02)
    assert stats.kstest(values, "laplace", (0, given.scale2)).pvalue > 0.001
    assert stats.kstest(values, "laplace", (0, 1.1 * given.scale2)).pvalue < 1e-6


def test_draws_are_laplace_of_the_stated_scales_and_no_other() -> None:
    """The draws are seeded, so this cannot fail by chance; on fresh ones, 2 % would be six standard errors."""
    given = plan(MNIST, epsilon2=0.1)
    many = [drawn(MNIST, given, seed) for seed in range(128)]
    for values, scale in (
        (np.concatenate([one.inputs.flatten() for one in many]), given.scale1),
        (np.concatenate([one.hidden.flatten() for one in many[:16]]), given.scale1),
        (np.concatenate([one.output.flatten() for one in many[:20]]), given.scale2),
    ):
        assert len(values) > 100_000
        assert np.abs(values).mean() == pytest.approx(scale, rel=0.02)
        assert values.std() == pytest.approx(math.sqrt(2) * scale, rel=0.02)
        assert stats.kstest(values, "laplace", (0, scale)).pvalue > 0.001
        assert stats.kstest(values, "laplace", (0, 1.1 * scale)).pvalue < 1e-6
    assert given.scale1 == 4950 / 0.25
    assert given.scale2 == 1024 / 0.1


def test_twice_the_budget_is_half_the_noise_and_no_budget_at_all_is_none() -> None:
    once, twice = (drawn(MNIST, plan(MNIST, epsilon1)) for epsilon1 in (0.25, 0.5))
    torch.testing.assert_close(once.inputs, 2 * twice.inputs)
    torch.testing.assert_close(once.hidden, 2 * twice.hidden)
    assert torch.equal(once.output, twice.output)
    free = drawn(MNIST, plan(MNIST, math.inf, math.inf))
    assert not any(noise.any() for noise in (free.inputs, free.hidden, free.output))


@pytest.mark.parametrize("form", [MNIST, COLOUR, WINDOWS, Form((27, 29, 1), 0.0, 1.0)])
def test_picture_and_noise_may_be_encoded_apart(form: Form) -> None:
    net = nets.build(form, 10, seed=0).double()
    noise = 1e5 * drawn(form, plan(form)).inputs
    x = nets.tensor(np.random.default_rng(0).random((3, math.prod(form.shape)), np.float32), form).double()
    response = nets.noise_response(net.first, noise)
    torch.testing.assert_close(net.first(x) + response, net.first(x + noise), rtol=1e-9, atol=1e-3)


def test_recentred_units_keep_every_digit_of_the_picture_under_any_noise() -> None:
    units, offset = normal(5, 3, 4, 4).float(), 1e6 * normal(1, 3, 4, 4, seed=1)
    found = nets.classifier_input(units, offset, "recentred")
    is_on = (offset > 0).expand(found.shape)
    assert torch.equal(found[is_on], units[is_on])
    assert not found[~is_on].any()
    small = offset / 1e6  # noise of the units' own size: the formula, in double precision
    expected = (units.double() + small).relu() - small.relu()
    torch.testing.assert_close(nets.classifier_input(units, small, "recentred").double(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(
        nets.classifier_input(units, torch.zeros_like(offset), "recentred"), units.relu(), rtol=0, atol=0
    )


def test_plain_units_are_those_of_the_formula() -> None:
    units, offset = normal(5, 3, 4, 4).float(), 100 * normal(1, 3, 4, 4, seed=1)
    found = nets.classifier_input(units, offset, "plain")
    torch.testing.assert_close(found, (units + offset).relu().float())


def test_hidden_units_are_clipped_before_their_noise_and_carry_no_gradient() -> None:
    units = (5 * normal(4, 3, 2, 2)).requires_grad_()
    of_inputs, noise = normal(1, 3, 2, 2, seed=1), 10 * normal(3, 2, 2, seed=2)
    found = nets.shared_hidden(units, of_inputs, noise)
    torch.testing.assert_close(found, (units + of_inputs).clamp(-1, 1).detach() + 2 * noise)
    assert not found.requires_grad


@pytest.mark.parametrize("patch", [2, 3, 4, 5])
@pytest.mark.parametrize("n_channels", [1, 3])
def test_decoder_repeats_hidden_units_and_convolves_with_the_transposed_kernel(patch: int, n_channels: int) -> None:
    kernel, hidden = normal(6, n_channels, patch, patch).requires_grad_(), normal(2, 6, 5, 4, seed=1)
    larger = functional.interpolate(hidden, scale_factor=2, mode="nearest")
    left, right = (patch - 1) // 2, patch // 2
    padded = functional.pad(larger, (left, right, left, right))
    plain = functional.conv2d(padded, kernel.transpose(2, 3).transpose(0, 1)).relu()
    found = nets.upsampled(kernel, hidden, 10, 8)
    torch.testing.assert_close(found, plain)
    weights = normal(*plain.shape, seed=2)
    (ours,), (theirs,) = (torch.autograd.grad((each * weights).sum(), kernel) for each in (found, plain))
    torch.testing.assert_close(ours, theirs)
    assert nets.upsampled(kernel, hidden, 9, 7).shape == (2, n_channels, 9, 7)


@pytest.mark.parametrize("patch", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [(10, 8), (9, 7), (11, 8)])
def test_the_printed_decoder_is_the_encoder_s_adjoint(patch: int, size: tuple[int, int]) -> None:
    """θ1 h̄ is what autograd gives for the transpose of x -> θ1ᵀx, border and odd sizes included."""
    first = nets.Conv(3, 6, patch, bias=False).double()
    x = normal(2, 3, *size).requires_grad_()
    units = first(x)
    hidden = normal(*units.shape, seed=1)
    (adjoint,) = torch.autograd.grad(units, x, hidden)
    found = nets.transposed(first.weight, hidden, *size)
    torch.testing.assert_close(found, adjoint)
    assert (found < 0).any()  # no ReLU


def test_statistics_are_those_of_batch_normalisation() -> None:
    theirs = torch.nn.BatchNorm2d(3, affine=False).double()
    ours = nets.Statistics.fresh(3, "cpu")
    for seed in range(4):
        units = 10 + normal(8, 3, 4, 4, seed=seed)
        torch.testing.assert_close(ours.normalised(units, training=True), theirs(units))
    theirs.eval()
    torch.testing.assert_close(ours.normalised(units, training=False), theirs(units))
