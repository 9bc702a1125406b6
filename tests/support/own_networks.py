"""Networks as a user would write them; those that can be used are registered when this module is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpcl_core.backbones.own_networks import register_network

if TYPE_CHECKING:  # torch is imported inside the functions: a page reads the cards alone
    from torch import Tensor, nn

SHAPE = (3, 8, 8)


def convolutions(norm: Callable[[int], nn.Module] | None = None) -> nn.Module:
    """Two convolutions with a norm between them, GroupNorm if no other is named, and a parameter of the network's own."""
    import torch
    from torch import nn

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 6, 3, padding=1, stride=2)
            self.norm = nn.GroupNorm(2, 6) if norm is None else norm(6)
            self.second = nn.Conv2d(6, 8, 3)
            self.shift = nn.Parameter(torch.zeros(8))

        def forward(self, pictures: Tensor) -> Tensor:
            maps = self.norm(self.first(pictures)).relu()
            features: Tensor = self.second(maps).relu().mean((2, 3)) + self.shift
            return features

    return Small()


def windows() -> nn.Module:
    """Of windows of a sensor, [b, 100, 3]."""
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(300, 12), nn.ReLU(), nn.LayerNorm(12))


register_network("small-cnn", convolutions, shape=SHAPE)
register_network("windows", windows, shape=(100, 3))
