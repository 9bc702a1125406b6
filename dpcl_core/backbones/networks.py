"""The bundled image networks, small and for 32x32 pictures: a ConvNeXt and a Vision Transformer.

They are made of plain Conv2d, Linear and LayerNorm modules. LayerNorm keeps the gradients of single examples separate
(BatchNorm would mix them), and FiLM (every LayerNorm), LoRA (every Linear) and per-example gradient hooks require plain
modules. No parameter is outside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional


class Whitened(nn.Module):
    """A network of images [b, 3, H, W] with a classification `head`; `features` [b, feature_dim] are the head's inputs.

    `frozen`: the outputs of the frozen extractor, which are `pooled` (defined by each network), whitened.
    """

    centre: Tensor
    whitening: Tensor
    head: nn.Linear

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.feature_dim = feature_dim
        self.register_buffer("centre", torch.zeros(feature_dim))
        self.register_buffer("whitening", torch.eye(feature_dim))

    def pooled(self, images: Tensor) -> Tensor:
        """The features to be whitened: float [b, feature_dim]."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        """The inputs of the head: float [b, feature_dim]."""
        raise NotImplementedError

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.features(images)))

    def frozen(self, images: Tensor) -> Tensor:
        """The frozen features [b, feature_dim]: `pooled`, whitened by constants of the training pictures."""
        return (self.pooled(images) - self.centre) @ self.whitening

    @torch.no_grad()
    def whiten(self, pooled: Tensor) -> None:
        """Fixes centre and whitening from `pooled` [n, feature_dim] of the public training pictures.

        Trained features concentrate on few directions, and their cosines separate little. The variance of each direction is
        increased by 0.3 of the mean variance, so that directions of small variance are not blown up to noise.
        """
        spread, directions = torch.linalg.eigh(torch.cov(pooled.T.double()))
        self.centre.copy_(pooled.mean(0))
        self.whitening.copy_(directions / (spread + 0.3 * spread.mean()).sqrt())


class Frozen(nn.Module):
    """A module whose output is the network's frozen features."""

    def __init__(self, network: Whitened) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.frozen(images)


def start_as_identity(out: nn.Linear) -> None:
    """Sets a residual block's last layer to zero: the block starts as the identity, and any depth trains without warm-up."""
    nn.init.zeros_(out.weight)
    nn.init.zeros_(out.bias)


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
        return cast(Tensor, self.norm(maps.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


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
        return maps + cast(Tensor, self.out(self.act(self.norm(cells)))).permute(0, 3, 1, 2)


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
        return maps + cast(Tensor, self.out(self.act(self.up(cells)))).permute(0, 3, 1, 2)


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
        return cast(Tensor, self.body[:-1](images).mean((2, 3)))

    def features(self, images: Tensor) -> Tensor:
        """Mean over the last map's cells, normed: float [b, widths[2]]."""
        return cast(Tensor, self.norm(self.body(images).mean((2, 3))))


def build(shape: Shape | ViTShape) -> Whitened:
    """A newly initialised network; convolutions in channels-last memory, which is faster for them on a CPU."""
    if isinstance(shape, ViTShape):
        return ViT(shape)
    return ConvNeXt(shape).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def normalised(pixels: Tensor) -> Tensor:
    """uint8 [b, H, W, 3] -> float32 [b, 3, H, W] (channels-last memory), (v - 127.5) / 64.

    Fixed constants instead of a dataset's mean and spread, which would be statistics of the private images.
    """
    return ((pixels.float() - CENTRE) / SPREAD).permute(0, 3, 1, 2)


# Blocks of the Vision Transformer after Dosovitskiy et al. 2021. Three differences help to train a small one on few
# pictures: patches are read by three small convolutions (Xiao et al. 2021, Early Convolutions Help Transformers See Better),
# positions are fixed sines, and the mean of all tokens replaces the class token (both Beyer et al. 2022, Better plain ViT
# baselines).


@dataclass(frozen=True, slots=True)
class ViTShape:
    """Shape of the network: width of a token, number of blocks, attention heads per block, and classes."""

    width: int = 128
    depth: int = 6
    n_heads: int = 4
    n_classes: int = 100


class Attention(nn.Module):
    """Multi-head self-attention of tokens [b, n, width]; one Linear computes queries, keys and values."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        start_as_identity(self.out)

    def forward(self, tokens: Tensor) -> Tensor:
        b, n, width = tokens.shape
        queries, keys, values = self.qkv(tokens).reshape(b, n, 3, self.n_heads, width // self.n_heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        return cast(Tensor, self.out(mixed.transpose(1, 2).reshape(b, n, width)))


class Block(nn.Module):
    """Residual attention, then a residual MLP per token; both read normed tokens."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = Attention(width, n_heads)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.out = nn.Linear(4 * width, width)
        start_as_identity(self.out)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(self.before(tokens))
        return tokens + cast(Tensor, self.out(self.act(self.up(self.norm(tokens)))))


class ViT(Whitened):
    """Images [b, 3, 32, 32] -> scores [b, n_classes]; `features` stops before the head, at [b, width].

    Other sides that are a multiple of 8 work as well: positions are computed for any grid.
    """

    def __init__(self, shape: ViTShape) -> None:
        super().__init__(shape.width)
        self.shape = shape
        width = shape.width
        layers: list[nn.Module] = []
        for before, after in pairwise((3, width // 4, width // 2, width)):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1)]
            if after < width:
                layers += [ChannelNorm(after), nn.GELU()]
        self.patches = nn.Sequential(*layers)
        self.blocks = nn.Sequential(*(Block(width, shape.n_heads) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.n_classes)

    def tokens(self, images: Tensor) -> Tensor:
        """Patch tokens plus position codes: float [b, n_patches, width]."""
        maps: Tensor = self.patches(images)
        return maps.flatten(2).transpose(1, 2) + _positions_on(str(maps.device), maps.dtype, *maps.shape[1:])

    def pooled(self, images: Tensor) -> Tensor:
        """Mean of the tokens one block before the end: float [b, width].

        As in the ConvNeXt, the last block is specialised to the training classes. Nearest class means of whitened features
        were right on 64.1 instead of 62.5 % of CIFAR-10 (2000 test pictures) and on 78.2 instead of 73.4 % of MNIST.
        """
        return cast(Tensor, self.blocks[:-1](self.tokens(images)).mean(1))

    def features(self, images: Tensor) -> Tensor:
        """Mean of the normed tokens: float [b, width]."""
        return cast(Tensor, self.norm(self.blocks(self.tokens(images))).mean(1))


@lru_cache(maxsize=8)
def _positions_on(device: str, dtype: torch.dtype, *grid: int) -> Tensor:
    """`positions` on a device, brought there once: a copy in every pass would wait for a graphics card."""
    with torch.inference_mode(False):
        return positions(*grid).to(device, dtype)


def positions(width: int, height: int, breadth: int) -> Tensor:
    """Fixed position codes of a grid [height * breadth, width]: sines and cosines of row and column."""
    rates = 10_000 ** -(torch.arange(width // 4) / (width // 4))
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(breadth), indexing="ij")
    angles = [place.flatten()[:, None] * rates for place in (rows, columns)]
    return torch.cat([wave(angle) for angle in angles for wave in (torch.sin, torch.cos)], dim=1)
