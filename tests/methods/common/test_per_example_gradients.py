"""Clipped sums of whole networks' gradients against a loop, Opacus, neighbours and rounding; and their noisy means."""

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer
from scipy.stats import chi2
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.data.dataset import Form
from dpcl_core.methods import catalog
from dpcl_core.methods.common import per_example_gradients
from dpcl_core.methods.common.dpsgd import ROUNDING, noise_std
from dpcl_core.methods.common.per_example_gradients import Gradients, noisy_means
from dpcl_core.methods.lifelong import nets
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import json_schema
from tests.methods.training import Recorded
from tests.support.asserting import refuses

FORMS = {
    "grey": Form((12, 12, 1), 0.0, 1.0), "odd": Form((9, 11, 1), 0.0, 1.0), "colour": Form((8, 8, 3), 0.0, 1.0),
    "window": Form((27, 3), -1.0, 1.0),
}  # fmt: skip
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
    assert 0.2 - 1e-4 < max(changes) <= 0.2 + 1e-12  # reached: no looser bound holds


@pytest.mark.parametrize("kind", ["grey", "colour"])
def test_noisy_mean_equals_that_of_opacus_on_the_same_batch_with_the_same_noise(kind: str) -> None:
    """Single precision on both sides; noise is read off Opacus' optimiser and given to ours."""
    x, targets = batch(kind, 16, torch.float32)
    clip, sigma, expected_batch = 2.0, 1.3, 20
    wrapped = GradSampleModule(network(kind, torch.float32), loss_reduction="sum", strict=False)
    optimizer = DPOptimizer(
        torch.optim.SGD(wrapped.parameters(), lr=0.1), noise_multiplier=sigma, max_grad_norm=clip,
        expected_batch_size=expected_batch, loss_reduction="mean", generator=torch.Generator().manual_seed(5),
    )  # fmt: skip
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


def test_a_long_gradient_is_not_taken_for_a_short_one_where_terms_cancel() -> None:
    """Two places with nearly opposite contributions: single precision alone would lose the gradient's length in rounding."""
    generator = torch.Generator().manual_seed(0)
    patch, delta = torch.randn(3, 40, generator=generator), torch.randn(3, 8, generator=generator)
    rows = torch.stack([1e3 * delta, -1e3 * delta + 0.1 * torch.randn(3, 8, generator=generator)], dim=1)
    patches = torch.stack([patch, patch], dim=1)
    exact = torch.einsum("blo,bli->boi", rows.double(), patches.double()).square().sum((1, 2))
    plain = (torch.bmm(rows, rows.transpose(1, 2)) * torch.bmm(patches, patches.transpose(1, 2))).sum((1, 2))
    torch.testing.assert_close(per_example_gradients._squares_from_pairs(rows, patches).double(), exact, rtol=1e-6, atol=0)
    assert ((plain.double() / exact - 1).abs() > 1e-2).any()  # what the second look is for


def test_layers_without_a_rule_are_refused() -> None:
    refuses("LayerNorm", Gradients, nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), 1.0, error=TypeError)


# Means of clipped gradients: little noise and much of it have a grid, at every clipping norm that a setting may have.


LENGTHS = ("clip_norm", "embedding_clip")


def bounds() -> list[float]:
    """The ends of the ranges of all settings that say how long a gradient or an embedding may be."""
    found: set[float] = set()
    for card in catalog.CARDS.values():
        fields = json_schema(card.params)["properties"]
        for schema in (fields[name] for name in LENGTHS if name in fields):
            numbers = schema.get("anyOf", [schema])[0]
            found |= {numbers["minimum"], numbers["maximum"]}
    return sorted(found)


@pytest.mark.parametrize("length", bounds())
@pytest.mark.parametrize("power", [1, 2])
def test_noise_is_what_it_says_at_the_ends_of_every_clipping_norm(length: float, power: int) -> None:
    """A mean of 4,000 numbers with noise as little, and as much, as accounting gives; squares as well. False alarm 1e-6."""
    for multiplier, batch in ((0.05, 1e6), (1e4, 1.0)):
        std = noise_std(multiplier, length**power, batch)
        (noisy,) = noisy_means([torch.zeros(4000)], batch, std, ReleaseNoise())
        assert chi2.ppf(5e-7, 4000) < float((noisy.double() / std).square().sum()) < 1.0053 * chi2.isf(5e-7, 4000)


def test_an_example_among_100_000_moves_what_gets_noise_by_its_own_gradient() -> None:
    """In single precision a number of 100,000 has steps of 1/128: one example more would move it by that, or not at all."""
    one = torch.from_numpy(np.random.default_rng(0).standard_normal(300))
    one /= one.norm()
    clean: list[np.ndarray] = []
    told: Any = SimpleNamespace(added32=lambda sums, std: clean.append(sums) or sums.astype(np.float32))  # and no noise
    for n in (100_000, 100_001):
        noisy_means([n * one], 1.0, noise_std(1.0, 1.0, 1.0), told)
    fewer, more = clean
    assert np.linalg.norm(more - fewer - one.numpy()) <= ROUNDING / 1000


def test_sums_over_many_examples_alike_are_as_exact_as_over_few() -> None:
    """20,000 gradients in one direction, and one more: nothing is rounded to a size that exceeds `ROUNDING`'s share."""
    torch.manual_seed(0)
    found, x = Gradients(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 3)), 1.0), 3 * torch.randn(1, 1, 3, 3)

    def of(n: int) -> np.ndarray:
        sums = found.of(x.expand(n, -1, -1, -1), torch.zeros(n, dtype=torch.long), torch.arange(3))
        return torch.cat([part.flatten() for part in sums]).double().numpy()

    more, one = of(20_001) - of(20_000), of(1)
    assert np.linalg.norm(one) == pytest.approx(1.0, rel=1e-5)
    assert np.linalg.norm(more - one) <= ROUNDING / 8
