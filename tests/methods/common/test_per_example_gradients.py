"""Clipped sums of whole networks' gradients: against a loop over examples, Opacus, neighbours, and rounding."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.data.dataset import Form
from dpcl_core.methods.common import per_example_gradients
from dpcl_core.methods.common.per_example_gradients import Gradients, noisy_means
from dpcl_core.methods.lifelong import nets
from tests.methods.training import Recorded

FORMS = {
    "grey": Form((12, 12, 1), 0.0, 1.0),
    "odd": Form((9, 11, 1), 0.0, 1.0),
    "colour": Form((8, 8, 3), 0.0, 1.0),
    "window": Form((27, 3), -1.0, 1.0),
}
COLUMNS = torch.tensor([0, 2, 3, 6])


def network(kind: str, dtype: torch.dtype = torch.float64) -> nets.Net:
    net = nets.build(FORMS[kind], 7, 3).to(dtype)
    with torch.no_grad():  # a last layer of zeros would let no gradient through
        net.head.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return net


def batch(kind: str, n: int = 9, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Examples of very different lengths, so that some gradients are clipped and some are not."""
    generator = np.random.default_rng(2)
    form = FORMS[kind]
    rows = generator.uniform(form.low, form.high, (n, math.prod(form.shape))) * np.linspace(0.05, 1, n)[:, None]
    return nets.tensor(rows, form).to(dtype), torch.from_numpy(generator.integers(0, len(COLUMNS), n))


def row(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def one_by_one(net: nn.Module, x: Tensor, targets: Tensor) -> list[Tensor]:
    """Gradients of each example alone, by autograd."""
    parameters = list(net.parameters())
    losses = [functional.cross_entropy(net(x[k : k + 1])[:, COLUMNS], targets[k : k + 1]) for k in range(len(x))]
    return [row(list(torch.autograd.grad(loss, parameters))) for loss in losses]


@pytest.mark.parametrize("kind", FORMS)
def test_sums_equal_a_loop_over_examples_with_one_norm_for_all_weights(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, targets = batch(kind)
    net = network(kind)
    gradients = one_by_one(net, x, targets)
    norms = torch.stack([gradient.norm() for gradient in gradients])
    clip = float(norms.median())
    assert 0 < int((norms > clip).sum()) < len(norms)
    expected = (torch.stack(gradients) * (clip / (norms + 1e-6)).clamp(max=1)[:, None]).sum(0)
    for at_once in (64, 4):  # in one piece, and in three
        monkeypatch.setitem(per_example_gradients.AT_ONCE, "cpu", at_once)
        found = row(Gradients(net, clip).of(x, targets, COLUMNS))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.norm()))
        net.requires_grad_(True)


@pytest.mark.parametrize("kind", FORMS)
def test_without_clipping_the_sums_are_plain_gradients(kind: str) -> None:
    x, targets = batch(kind)
    expected = torch.stack(one_by_one(network(kind), x, targets)).sum(0)
    torch.testing.assert_close(row(Gradients(network(kind), math.inf).of(x, targets, COLUMNS)), expected, rtol=0, atol=1e-11)
    torch.testing.assert_close(row(Gradients(network(kind), 1e9).of(x, targets, COLUMNS)), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_one_example_changes_the_sums_by_at_most_the_clipping_norm(kind: str) -> None:
    x, targets = batch(kind)
    gradients = Gradients(network(kind), 0.2)
    whole = row(gradients.of(x, targets, COLUMNS))
    others = [torch.arange(len(x)) != left_out for left_out in range(len(x))]
    changes = [float((whole - row(gradients.of(x[keep], targets[keep], COLUMNS))).norm()) for keep in others]
    assert max(changes) <= 0.2 + 1e-12
    assert max(changes) > 0.2 - 1e-4  # reached: no looser bound holds


@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_noisy_mean_equals_that_of_opacus_on_the_same_batch_with_the_same_noise(kind: str) -> None:
    """Single precision on both sides; noise is read off Opacus' optimiser and given to ours."""
    x, targets = batch(kind, 16, torch.float32)
    clip, sigma, expected_batch = 2.0, 1.3, 20
    wrapped = GradSampleModule(network(kind, torch.float32), loss_reduction="sum", strict=False)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1),
        noise_multiplier=sigma,
        max_grad_norm=clip,
        expected_batch_size=expected_batch,
        loss_reduction="mean",
        generator=torch.Generator().manual_seed(5),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functional.cross_entropy(wrapped(x)[:, COLUMNS], targets, reduction="sum").backward()  # type: ignore[no-untyped-call]
        optimizer.pre_step()
    theirs = row([parameter.grad for parameter in wrapped.parameters()])
    drawn = theirs * expected_batch - row([parameter.summed_grad for parameter in wrapped.parameters()])

    sums = Gradients(network(kind, torch.float32), clip).of(x, targets, COLUMNS)
    noise = Recorded([(drawn / (sigma * clip)).numpy()])
    ours = row(noisy_means(sums, expected_batch, sigma * clip / expected_batch, noise))  # type: ignore[arg-type]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)
    assert float((theirs - row(sums) / expected_batch).norm()) > 1  # the noise is in it


@pytest.mark.parametrize("broken", [math.nan, math.inf, 1e200])
def test_example_whose_gradient_is_not_finite_counts_zero(broken: float) -> None:
    x, targets = batch("grey")
    gradients = Gradients(network("grey"), 0.5)
    whole = row(gradients.of(x[1:], targets[1:], COLUMNS))
    x[0, 0, 3, 3] = broken
    torch.testing.assert_close(row(gradients.of(x, targets, COLUMNS)), whole, rtol=0, atol=1e-13)
    assert not row(gradients.of(x[:1], targets[:1], COLUMNS)).any()


@pytest.mark.parametrize("clip", [0.5, math.inf])
def test_nobody_in_the_batch_gives_zeros_for_every_weight(clip: float) -> None:
    x, targets = batch("colour")
    net = network("colour")
    found = Gradients(net, clip).of(x[:0], targets[:0], COLUMNS)
    assert [part.shape for part in found] == [parameter.shape for parameter in net.parameters()]
    assert not row(found).any()


def test_a_long_gradient_is_not_taken_for_a_short_one_where_terms_cancel() -> None:
    """Two places with nearly opposite contributions: single precision alone would lose the gradient's length in rounding."""
    generator = torch.Generator().manual_seed(0)
    patch, delta = torch.randn(3, 40, generator=generator), torch.randn(3, 8, generator=generator)
    rest = torch.randn(3, 8, generator=generator)
    rows = torch.stack([1e3 * delta, -1e3 * delta + 0.1 * rest], dim=1)
    patches = torch.stack([patch, patch], dim=1)
    exact = torch.einsum("blo,bli->boi", rows.double(), patches.double()).square().sum((1, 2))
    plain = (torch.bmm(rows, rows.transpose(1, 2)) * torch.bmm(patches, patches.transpose(1, 2))).sum((1, 2))
    found = per_example_gradients._squares_from_pairs(rows, patches)
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=0)
    assert ((plain.double() / exact - 1).abs() > 1e-2).any()  # what the second look is for


def test_layers_without_a_rule_are_refused() -> None:
    with pytest.raises(TypeError, match="LayerNorm"):
        Gradients(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), 1.0)
