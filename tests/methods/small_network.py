"""A small network in double precision for tests of adapters, and pictures for it."""

from collections.abc import Sequence

import numpy as np
import torch

from dpcl_core.backbones import adaptable, networks
from dpcl_core.methods.features import adapters

WIDTH = 8


def network(size: int = 16, double: bool = True) -> adaptable.Network:
    """A ViT with random weights everywhere, the last layers of blocks included; of its two blocks the features see one."""
    made = networks.build(networks.ViTShape(width=WIDTH, depth=2, n_heads=2, n_classes=3))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    pictures = adaptable.Pictures(networks.Frozen(made), adaptable.Input(size, 3, "bilinear"), (127.5,) * 3, (64.0,) * 3)
    pictures.eval().requires_grad_(False)
    return adaptable.Network("small", pictures.double() if double else pictures, WIDTH, "cpu")


def pictures(n: int = 12, side: int = 16, n_classes: int = 4, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [n, side, side, 3], some flat and some loud, and labels [n]."""
    generator = np.random.default_rng(seed)
    loud = generator.integers(0, 256, (n, side, side, 3)) - 127.5
    drawn = (127.5 + loud * generator.uniform(0, 1, n)[:, None, None, None]).astype(np.uint8)
    return drawn, generator.integers(0, n_classes, n)


def start(kind: adapters.Kind, space: Sequence[int] = range(4), double: bool = True) -> adapters.Adapter:
    """A model somewhere in training: every trained number moved from where it starts, so that no gradient is zero."""
    made = adapters.fresh(network(double=double), kind, 2, space, 4, 0)
    generator = torch.Generator().manual_seed(7)
    for weight in made.weights.values():
        weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return made
