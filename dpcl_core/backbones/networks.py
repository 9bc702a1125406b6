"""The bundled image network: small, LayerNorm only, made of plain Conv2d, Linear and LayerNorm modules.

LayerNorm keeps the gradients of single examples separate (BatchNorm would mix them), and FiLM (every LayerNorm), LoRA (every
Linear) and per-example gradient hooks require plain modules. No parameter is outside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpcl_core.backbones.whitening import Whitened, start_as_identity

SIZE = 32
CENTRE, SPREAD = 127.5, 64.0
PREPROCESSING = "rgb-32-bilinear-127.5-64"  # part of every cache key: change it whenever `normalised` changes


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of the network: widths and depths of its three stages (16x16, 8x8 and 4x4 cells) and number of classes."""

    widths: tuple[int, int, int] = (48, 96, 192)
    depths: tuple[int, int, int] = (1, 2, 2)
    n_classes: int = 100


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of each cell of a map [b, C, H, W].

    In channels-last memory the two permutes are views: the norm reads and writes contiguous rows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, maps: Tensor) -> Tensor:
        normed: Tensor = self.norm(maps.permute(0, 2, 3, 1))
        return normed.permute(0, 3, 1, 2)


class DenseBlock(nn.Module):
    """Residual block of the early stages: a full 3x3 convolution, then one Linear per cell. Shape kept.

    On a CPU a depthwise convolution is limited by memory bandwidth, a full one is not. Trained for two minutes of CPU time
    with one seed each, this network and one with depthwise blocks only were about equal (20.3 and 19.5 % on CIFAR-100).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = ChannelNorm(width)
        self.mix = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.act = nn.GELU()
        self.out = nn.Linear(width, width)
        start_as_identity(self.out)

    def forward(self, maps: Tensor) -> Tensor:
        cells = self.mix(self.before(maps)).permute(0, 2, 3, 1)
        change: Tensor = self.out(self.act(self.norm(cells)))
        return maps + change.permute(0, 3, 1, 2)


class DepthwiseBlock(nn.Module):
    """ConvNeXt's residual block (Liu et al. 2022, fig. 4): depthwise convolution, LayerNorm, MLP per cell."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.out = nn.Linear(4 * width, width)
        start_as_identity(self.out)

    def forward(self, maps: Tensor) -> Tensor:
        cells = self.norm(self.mix(maps).permute(0, 2, 3, 1))
        change: Tensor = self.out(self.act(self.up(cells)))
        return maps + change.permute(0, 3, 1, 2)


class ConvNeXt(Whitened):
    """Images [b, 3, 32, 32] -> scores [b, n_classes]; `features` stops before the head, at [b, widths[2]].

    Sides other than 32 work as well (training starts on smaller images); nothing depends on the map's size.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.widths[-1])
        self.shape = shape
        layers: list[nn.Module] = [nn.Conv2d(3, shape.widths[0], 4, stride=2, padding=1)]
        for stage, (width, depth) in enumerate(zip(shape.widths, shape.depths, strict=True)):
            if stage:
                previous = shape.widths[stage - 1]
                layers += [ChannelNorm(previous), nn.GELU(), nn.Conv2d(previous, width, 3, stride=2, padding=1)]
            block = DepthwiseBlock if stage == len(shape.widths) - 1 else DenseBlock
            layers += [block(width) for _ in range(depth)]
        self.body = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(shape.widths[-1])
        self.head = nn.Linear(shape.widths[-1], shape.n_classes)

    def pooled(self, images: Tensor) -> Tensor:
        """Mean over the map's cells one block before the end: float [b, widths[2]].

        The last block is specialised to the training classes and loses features that separate others.
        """
        means: Tensor = self.body[:-1](images).mean((2, 3))
        return means

    def features(self, images: Tensor) -> Tensor:
        """Mean over the last map's cells, normed: float [b, widths[2]]."""
        normed: Tensor = self.norm(self.body(images).mean((2, 3)))
        return normed

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(images))
        return scores


def build(shape: Shape) -> ConvNeXt:
    """A newly initialised network in channels-last memory, the faster layout for its convolutions on a CPU."""
    return ConvNeXt(shape).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def normalised(pixels: Tensor) -> Tensor:
    """uint8 [b, H, W, 3] -> float32 [b, 3, H, W] (channels-last memory), (v - 127.5) / 64.

    Fixed constants instead of a dataset's mean and spread, which would be statistics of the private images.
    """
    return ((pixels.float() - CENTRE) / SPREAD).permute(0, 3, 1, 2)
