"""Means of clipped gradients: little noise and much of it have a grid, at every clipping norm that a setting may have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from dpcl_core.methods import catalog
from dpcl_core.methods.common.dpsgd import ROUNDING, noise_std
from dpcl_core.methods.common.per_example_gradients import Gradients, noisy_means
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.spec import json_schema

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
        squares = float((noisy.double() / std).square().sum())
        assert chi2.ppf(5e-7, 4000) < squares < 1.0053 * chi2.isf(5e-7, 4000)


class _Told:
    """Adds no noise, and keeps what it was given."""

    def __init__(self) -> None:
        self.clean = np.zeros(0)

    def added32(self, clean: np.ndarray, std: float) -> np.ndarray:
        self.clean = clean
        return clean.astype(np.float32)


def test_an_example_among_100_000_moves_what_gets_noise_by_its_own_gradient() -> None:
    """In single precision a number of 100,000 has steps of 1/128: one example more would move it by that, or not at all."""
    generator = np.random.default_rng(0)
    one = torch.from_numpy(generator.standard_normal(300))
    one /= one.norm()
    fewer, more = _Told(), _Told()
    for n, told in ((100_000, fewer), (100_001, more)):
        noisy_means([n * one], 1.0, noise_std(1.0, 1.0, 1.0), told)  # type: ignore[arg-type]
    assert np.linalg.norm(more.clean - fewer.clean - one.numpy()) <= ROUNDING / 1000


def test_sums_over_many_examples_alike_are_as_exact_as_over_few() -> None:
    """20,000 gradients in one direction, and one more: nothing is rounded to a size that exceeds `ROUNDING`'s share."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9, 3))
    found, x = Gradients(net, 1.0), 3 * torch.randn(1, 1, 3, 3)

    def of(n: int) -> np.ndarray:
        sums = found.of(x.expand(n, -1, -1, -1), torch.zeros(n, dtype=torch.long), torch.arange(3))
        return torch.cat([part.flatten() for part in sums]).double().numpy()

    more, one = of(20_001) - of(20_000), of(1)
    assert np.linalg.norm(one) == pytest.approx(1.0, rel=1e-5)
    assert np.linalg.norm(more - one) <= ROUNDING / 8
