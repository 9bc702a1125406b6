"""Sums of clipped gradients, by every way there is: against loops, Opacus, neighbours and rounding; and their noisy means.

On neighbours in single precision as in a run, with inputs that nobody expects, in batches of one and two pieces; and how far
single precision is from double, beside `dpsgd.ROUNDING`, which is what guarantees take as given.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
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
from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.language import gradients as of_texts
from dpcl_core.methods.language.training import task_loss
from dpcl_core.methods.lifelong import nets
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import json_schema
from tests.methods import clipped_sums, small_network
from tests.methods.clipped_sums import Sums, row
from tests.methods.language import tiny
from tests.methods.training import Recorded
from tests.support.asserting import refuses
from tests.support.tiers import quick

N, CLIP = 80, 0.3
STRANGE = (2e19, 1e38, -3e38, 1e-38, 1e-45, 0.0, math.nan, math.inf)
FORMS = {
    "grey": Form((12, 12, 1), 0.0, 1.0), "odd": Form((9, 11, 1), 0.0, 1.0), "colour": Form((8, 8, 3), 0.0, 1.0),
    "window": Form((27, 3), -1.0, 1.0),
}  # fmt: skip
COLUMNS = torch.tensor([0, 2, 3, 6])


def strange(rows: np.ndarray) -> np.ndarray:
    """Of 80 every tenth row holds one value of `STRANGE`, or has it in one place; the last two are alike."""
    for place, value in enumerate(STRANGE):
        rows[20 * place % len(rows)], rows[(20 * place + 10) % len(rows), 0] = value, value
    rows[-1] = rows[-2]
    return rows


def network(kind: str, dtype: torch.dtype = torch.float64) -> nets.Net:
    net = nets.build(FORMS[kind], 7, 3).to(dtype)
    with torch.no_grad():  # a last layer of zeros would let no gradient through
        net.head.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return net


def batch(kind: str, n: int = 9, dtype: torch.dtype = torch.float64, *, odd: bool = False) -> tuple[Tensor, Tensor]:
    """Examples of very different lengths, so that some gradients are clipped and some are not."""
    generator = np.random.default_rng(2)
    form = FORMS[kind]
    rows = generator.uniform(form.low, form.high, (n, math.prod(form.shape))) * np.linspace(0.05, 1, n)[:, None]
    with np.errstate(over="ignore"):
        x = nets.tensor(strange(rows) if odd else rows, form).to(dtype)
    return x, torch.from_numpy(generator.integers(0, len(COLUMNS), n))


def heads(double: bool, odd: bool, n: int = N) -> Sums:
    """Sums are in units of the clipping norm, on a grid of their own."""
    dtype = np.dtype(np.float64 if double else np.float32)
    rows = np.random.default_rng(0).standard_normal((n, 20))
    targets, allowed = np.arange(n) % 5, np.ones((1, 5), bool)
    data = linear_heads.Prepared.of(strange(rows) if odd else rows, targets, allowed, 60.0, dtype)
    weights = np.random.default_rng(1).standard_normal((1, 5, 21)).astype(dtype)

    def of(places: NDArray[np.int64], clip: float) -> Tensor:
        sums, _ = linear_heads.clipped_sums(data, places, weights, np.array([clip], dtype))
        return torch.from_numpy(clip * sums.astype(float).ravel())

    return Sums(n, of, NotImplemented)


def adapter(kind: str, double: bool, odd: bool, n: int = N) -> Sums:
    pictures, labels = small_network.pictures(n)
    if odd:
        pictures[::10], pictures[5::20], pictures[-1] = 0, 255, pictures[-2]
    return clipped_sums.of_adapter(small_network.start(kind, double=double).module(), pictures, labels)  # type: ignore[arg-type]


def whole_network(kind: str, double: bool, odd: bool, n: int = N) -> Sums:
    dtype = torch.float64 if double else torch.float32
    (x, targets), net = batch(kind, n, dtype, odd=odd), network(kind, dtype)

    def alone(place: int) -> Tensor:
        loss = functional.cross_entropy(net(x[place : place + 1])[:, COLUMNS], targets[place : place + 1])
        return row(torch.autograd.grad(loss, list(net.parameters())))

    def of(places: NDArray[np.int64], clip: float) -> Tensor:
        return row(Gradients(network(kind, dtype), clip).of(x[places], targets[places], COLUMNS))

    return Sums(n, of, alone)


def texts(double: bool, odd: bool, n: int = N, *, loss: str = "answer", squared: bool = False) -> Sums:
    """Eight texts over and over."""
    net = tiny.adapted(dtype=torch.float64 if double else torch.float32)
    if odd:  # weights at the bound of all trainings: logits so large that many tie
        with torch.no_grad():
            for parameter in net.trainable().values():
                parameter.copy_(1000 * parameter.sign())

    def of(places: NDArray[np.int64], clip: float) -> Tensor:
        found, batch = of_texts.Gradients(net, clip), of_texts.batch_of(tiny.texts(), places % len(tiny.ALL), "cpu")
        return row((found.squares_of if squared else found.of)(batch, task_loss(loss)))  # type: ignore[arg-type]

    return Sums(n, of, lambda place: tiny.gradient(net, place % len(tiny.ALL), task_loss(loss)))  # type: ignore[arg-type]


LOOPED: dict[str, Callable[..., Sums]] = {
    **{kind: partial(adapter, kind) for kind in ("film", "lora", "all")},
    **{f"network, {kind}": partial(whole_network, kind) for kind in FORMS},
    **{f"texts, {loss}": partial(texts, loss=loss) for loss in ("answer", "full")},
}
# Of heads the loop, which knows their grid, is in the tests of heads; of squares there is one where they are released.
STEPS = {**LOOPED, "heads": heads, "Fisher information": partial(texts, squared=True)}
FEW = 12


@pytest.mark.parametrize("at_once", [64, 4])  # in one piece, and in three
@pytest.mark.parametrize("name", LOOPED)
def test_sums_equal_a_loop_over_examples_with_one_norm_for_all_weights(
    name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(per_example_gradients.AT_ONCE, "cpu", at_once)
    monkeypatch.setitem(of_texts.SIDE_BY_SIDE, "cpu", at_once)
    monkeypatch.setattr(of_texts, "AT_ONCE", at_once)
    step, everyone = LOOPED[name](True, False, FEW), np.arange(FEW)
    clip, each = step.loop()
    expected, plain = each.sum(0), step.by_autograd.sum(0)
    torch.testing.assert_close(step.of(everyone, clip), expected, rtol=0, atol=1e-12 * min(1.0, float(expected.norm())))
    for longest in (math.inf, 1e9):  # without clipping, and with a norm that nobody reaches
        torch.testing.assert_close(step.of(everyone, longest), plain, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", LOOPED)
def test_one_example_changes_the_sums_by_at_most_the_clipping_norm(name: str) -> None:
    is_odd = not name.startswith("texts")  # whose gradients would be shorter than the norm
    change = LOOPED[name](True, is_odd, FEW).largest_change(0.2)
    assert 0.2 - 1e-5 < change <= 0.2 + 1e-12  # reached: no looser bound holds


def pairs(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches, each with and without one of its examples."""
    everyone = np.random.default_rng(3).permutation(N)[:n]
    return [(everyone, np.delete(everyone, place)) for place in sorted({0, n // 2})]


def bound_of(name: str) -> float:
    """What one example may change the sums by; Fisher information adds up squares."""
    return CLIP**2 if name == "Fisher information" else CLIP


@pytest.mark.parametrize("n", quick(1, [1, 9, 65]))
@pytest.mark.parametrize("name", STEPS)
def test_one_example_changes_a_sum_by_its_bound_at_most_whatever_it_holds(name: str, n: int) -> None:
    step = STEPS[name](False, True)
    for batch, fewer in pairs(n):
        whole, without = step.of(batch, CLIP).double(), step.of(fewer, CLIP).double()
        assert whole.isfinite().all()
        assert float((whole - without).norm()) <= bound_of(name) * (1 + ROUNDING / 8)
    assert not step.of(np.zeros(0, np.int64), CLIP).any()


@pytest.mark.parametrize("name", quick(2, [name for name in STEPS if name != "heads"]))
def test_single_precision_moves_neighbours_apart_by_far_less_than_is_assumed(name: str) -> None:
    """At most an eighth of it, in batches of two pieces. Heads are exact on a grid of their own instead."""
    steps = [STEPS[name](double, False) for double in (False, True)]
    for batch, fewer in pairs(80):
        single, double = (step.of(batch, CLIP).double() - step.of(fewer, CLIP).double() for step in steps)
        assert float((single - double).norm()) <= bound_of(name) * ROUNDING / 8


# Whole networks: their noisy means, and where sums are exact.


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
