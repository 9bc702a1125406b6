"""A backbone as a differentiable network, for methods that adapt its layers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import catalog
from dpcl_core.backbones.batches import Input
from dpcl_core.backbones.catalog import FIELD, BackboneCard
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput

_BATCH = 1000


class Inside(nn.Module):
    """The frozen network as adapters see it: from inputs as they are stored to features float [b, K]."""

    def stored(self, images: Images) -> Generator[int, None, NDArray[np.generic]]:
        """Reads all pictures as the inputs [n, ...] of `forward`: yields the number done, returns them.

        Raises BadInput naming a picture that cannot be decoded.
        """
        raise NotImplementedError

    def blank(self) -> Tensor:
        """One input of zeros [1, ...], on the CPU."""
        raise NotImplementedError

    @property
    def side(self) -> int:
        """Side in pixels of a picture that costs as much to compute as one input."""
        raise NotImplementedError


class Pictures(Inside):
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

    def stored(self, images: Images) -> Generator[int, None, NDArray[np.generic]]:
        return (yield from table(images, self.input_format))

    def blank(self) -> Tensor:
        form = self.input_format
        return torch.zeros(1, form.size, form.size, form.n_channels, dtype=torch.uint8)

    @property
    def side(self) -> int:
        return self.input_format.size

    def forward(self, pixels: Tensor) -> Tensor:
        maps = pixels.permute(0, 3, 1, 2).to(self.mean.dtype)
        form = self.input_format
        if pixels.shape[1] != form.size:
            # With `antialias` torch resizes as Pillow does, which the frozen extractor uses.
            maps = functional.interpolate(maps, size=form.size, mode=form.interpolation, antialias=True)
            maps = maps.round().clamp(0, 255)
        features: Tensor = self.network((maps - self.mean) / self.std)
        return features


class Affine(nn.Module):
    """Scale and shift of each channel of maps [b, C, h, w]: a batch norm's second half, which FiLM trains."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)

    def forward(self, maps: Tensor) -> Tensor:
        changed: Tensor = maps * self.weight[:, None, None] + self.bias[:, None, None]
        return changed


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A frozen network on one device; its tensors never change, so all cells of a process share them."""

    name: str
    features: Inside
    feature_dim: int
    device: str


class MakeNetwork(Protocol):
    """`make_network` of a card's module, where there is a network; only a card with `resolutions` is made at one."""

    def __call__(self, card: BackboneCard, device: str, **resolution: int) -> Network: ...


def load(name: str, device: str = "cpu", resolution: int | None = None) -> Network:
    """The network of a backbone, frozen and in evaluation mode, reading pictures at a resolution (None: its own).

    Raises BadInput for a backbone without a network, and the errors of `extractor.load`.
    """
    card = catalog.card(name)
    make = getattr(import_module(card.module), "make_network", None)
    if make is None:
        raise BadInput(FIELD, name, "must be a network to be adapted under film or lora: there are no layers in it")
    catalog.refuse_resolution(card, resolution)
    made = cast(MakeNetwork, make)
    return made(card, device) if resolution is None else made(card, device, resolution=resolution)


def side(images: Images, form: Input) -> int:
    """Side of the stored squares: the pictures' own where it is public and smaller, else the network's."""
    return form.size if images.shape is None else min(form.size, max(images.shape[:2]))


def table(images: Images, form: Input) -> Generator[int, None, NDArray[np.uint8]]:
    """Decodes all pictures: yields the number done, returns uint8 [n, side, side, channels].

    They are stored at the smaller of their own and the network's size: 32x32 pictures for a network of 224x224 then take 49
    times less memory. Raises BadInput naming a picture that cannot be decoded.
    """
    square = side(images, form)
    squares = np.empty((len(images), square, square, form.n_channels), np.uint8)
    done = 0
    for batch in images.batches(square, form.n_channels, _BATCH, form.interpolation):
        squares[done : done + len(batch)] = batch
        done += len(batch)
        yield done
    return squares
