"""A backbone as a differentiable network, for methods that adapt its layers."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import catalog
from dpcl_core.backbones.batches import Input
from dpcl_core.backbones.catalog import FIELD, BackboneCard
from dpcl_core.errors import BadInput


class Pictures(nn.Module):
    """uint8 pictures [b, side, side, channels] of any side -> features float [b, K] of the network inside.

    Small pictures are resized to the network's size here, batch by batch, so that memory holds them at their own size.
    `mean` and `std`: of pixel values from 0 to 255, one per channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, input_format: Input, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        self.input_format = input_format
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        maps = pixels.permute(0, 3, 1, 2).to(self.mean.dtype)
        form = self.input_format
        if pixels.shape[1] != form.size:
            # With `antialias` torch resizes as Pillow does, which the frozen extractor uses.
            maps = functional.interpolate(maps, size=form.size, mode=form.interpolation, antialias=True)
            maps = maps.round().clamp(0, 255)
        features: Tensor = self.network((maps - self.mean) / self.std)
        return features


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A frozen network on one device; its tensors never change, so all cells of a process share them."""

    name: str
    features: Pictures
    feature_dim: int
    device: str

    @property
    def input_format(self) -> Input:
        return self.features.input_format


class MakeNetwork(Protocol):
    """`make_network` of a card's module, where there is a network."""

    def __call__(self, card: BackboneCard, device: str) -> Network: ...


def load(name: str, device: str = "cpu") -> Network:
    """The network of a backbone, frozen and in evaluation mode.

    Raises BadInput for a backbone without a network, and the errors of `extractor.load`.
    """
    card = catalog.card(name)
    make = getattr(import_module(card.module), "make_network", None)
    if make is None:
        raise BadInput(FIELD, name, "must be a network to be adapted under film or lora: there are no layers in it")
    return cast(MakeNetwork, make)(card, device)
