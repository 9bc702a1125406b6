"""Means of clipped gradients: little noise and much of it have a grid, at every clipping norm that a setting may have."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chi2

from dpcl_core.methods import catalog
from dpcl_core.methods.common.dpsgd_plan import noise_std
from dpcl_core.methods.common.noisy_means import noisy_means
from dpcl_core.privacy.noise import ReleaseNoise

LENGTHS = ("clip_norm", "embedding_clip")


def bounds() -> list[float]:
    """The ends of the ranges of all settings that say how long a gradient or an embedding may be."""
    found: set[float] = set()
    for card in catalog.CARDS.values():
        fields = card.params.model_json_schema()["properties"]
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
