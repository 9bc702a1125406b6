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
from dpcl_core.backbones.extractor import precision
from dpcl_core.data.images import Images

if TYPE_CHECKING:
    from dpcl_core.backbones.networks import ConvNeXt


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

    def batches(self, images: Images) -> Iterator[NDArray[np.float32]]:
        """float32 [b, 192]: whitened means of the map before the last block."""
        from dpcl_core.backbones.batches import Input, in_batches
        from dpcl_core.backbones.networks import SIZE, normalised

        ready = network(self.name).to(self.device).eval()
        return in_batches(
            lambda pixels: ready.frozen(normalised(pixels)),
            Input(SIZE, 3, "bilinear"),
            images,
            self.feature_dim,
            self.device,
        )


def make(card: BackboneCard, device: str) -> Bundled:
    """The extractor of a bundled network. Raises DataMissing where its files are missing."""
    return Bundled(card.name, weights.bundled(card.name), device)


def network(name: str) -> ConvNeXt:
    """The network itself, float32 on the CPU, to be adapted: head included, everything trainable.

    Raises DataMissing where its files are missing, BadInput where they are not the ones the card describes.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load

    from dpcl_core.backbones.networks import PREPROCESSING, Shape, build

    bundle = weights.bundled(name)
    try:
        content = bundle.path.read_bytes()
        if sha256(content).hexdigest() != bundle.sha256:
            raise ValueError("its SHA-256 is not the one on its card")
        if bundle.preprocessing != PREPROCESSING:
            raise ValueError(f"made for preprocessing {bundle.preprocessing}, this version has {PREPROCESSING}")
        state = load(content)
        ready = build(Shape(n_classes=len(state["head.bias"])))
        ready.load_state_dict({key: value.to(torch.float32) for key, value in state.items()})
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise weights.damaged(name, bundle.path, error) from error
    return ready
