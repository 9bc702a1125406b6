"""The bundled networks as extractors. Identity and feature size come from the card file: a cache hit loads no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.extractor import pictures, precision
from dpcl_core.data.dataset import Content

if TYPE_CHECKING:
    from dpcl_core.backbones.adaptable import Network
    from dpcl_core.backbones.whitening import Whitened


@dataclass(frozen=True, slots=True)
class Bundled:
    """One bundled network on one device."""

    name: str
    bundle: weights.Bundle
    device: str

    @property
    def feature_dim(self) -> int:
        return self.bundle.feature_dim

    @property
    def identity(self) -> str:
        return f"{self.name}|{self.bundle.sha256}|{self.bundle.preprocessing}|{precision(self.device)}"

    def batches(self, images: Content) -> Iterator[NDArray[np.float32]]:
        """float32 [b, K]: the network's features, whitened."""
        from dpcl_core.backbones.batches import Input, in_batches
        from dpcl_core.backbones.networks import SIZE, normalised

        ready = network(self.name).to(self.device).eval()
        return in_batches(
            lambda pixels: ready.frozen(normalised(pixels)),
            Input(SIZE, 3, "bilinear"),
            pictures(images, self.name),
            self.feature_dim,
            self.device,
        )


def make(card: BackboneCard, device: str) -> Bundled:
    """The extractor of a bundled network. Raises DataMissing where its files are missing."""
    return Bundled(card.name, weights.bundled(card.name), device)


def make_network(card: BackboneCard, device: str) -> Network:
    """The network up to its frozen features, for adapting its layers. Raises what `network` raises."""
    from torch import nn

    from dpcl_core.backbones.adaptable import Network, Pictures
    from dpcl_core.backbones.batches import Input
    from dpcl_core.backbones.networks import CENTRE, SIZE, SPREAD
    from dpcl_core.backbones.whitening import Frozen

    ready = network(card.name)
    frozen: nn.Module = Frozen(ready).requires_grad_(False)
    pictures = Pictures(frozen, Input(SIZE, 3, "bilinear"), (CENTRE,) * 3, (SPREAD,) * 3).eval().to(device)
    return Network(card.name, pictures, ready.feature_dim, device)


def network(name: str) -> Whitened:
    """The network itself, float32 on the CPU, with its head and everything trainable.

    Raises DataMissing where its files are missing, BadInput where they do not match the card.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    from dpcl_core.backbones import networks, vit
    from dpcl_core.backbones.networks import PREPROCESSING

    bundle = weights.bundled(name)
    try:
        content = bundle.path.read_bytes()
        if sha256(content).hexdigest() != bundle.sha256:
            raise ValueError("its SHA-256 is not the one on its card")
        if bundle.preprocessing != PREPROCESSING:
            raise ValueError(f"made for preprocessing {bundle.preprocessing}, this version has {PREPROCESSING}")
        state = load(content)
        n_classes = len(state["head.bias"])
        ready: Whitened
        if bundle.architecture == "ViT":
            ready = vit.build(vit.Shape(n_classes=n_classes))
        else:
            ready = networks.build(networks.Shape(n_classes=n_classes))
        ready.load_state_dict({key: value.to(torch.float32) for key, value in state.items()})
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise weights.damaged(name, bundle.path, error) from error
    return ready
