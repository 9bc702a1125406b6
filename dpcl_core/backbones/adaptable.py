"""A backbone as a differentiable network, for methods that adapt its layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpcl_core.backbones import catalog
from dpcl_core.backbones.extractor import finite, made, pictures
from dpcl_core.backbones.gpu import at_once, mixed_precision, room
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content, Images, Interpolation, Vectors, Windows
from dpcl_core.errors import BadInput, failure_kind

# Runs a frozen network over images in batches, on a CPU or a graphics card.


# Side squared times images. On a CPU small batches keep their maps in the processor's cache: EfficientNet-Lite0 took 87
# pictures of 224x224 a second in batches of 4, 68 of 8; 389 of 128x128 in batches of 16, 152 of 64 (one thread, 2026-11-22).
_PIXELS_A_BATCH = 1 << 18
_BYTES_A_PIXEL = 256  # on a card: keeps the largest activations of a ViT-B below 1 GB over 2^22 pixels
_MOST, _MOST_ON_CARD = 256, 2048


@dataclass(frozen=True, slots=True)
class Input:
    """A network's required input: side of the square image, channels, and interpolation for resizing."""

    size: int
    n_channels: Literal[1, 3]
    interpolation: Interpolation


def in_batches(
    forward: Callable[[Tensor], Tensor], form: Input, images: Images, feature_dim: int, device: str
) -> Iterator[NDArray[np.float32]]:
    """Features float32 [b, feature_dim] of one batch after the other.

    `forward` takes uint8 [b, size, size, n_channels] on `device` and normalises them itself. Kernels choose the order of
    their additions by the shapes they multiply: a last batch is filled up, so that an image's features do not depend on how
    many others there are. A batch that does not fit into memory is halved until it does. Raises MemoryError where even one
    image does not fit.
    """
    yield np.zeros((0, feature_dim), np.float32)
    on_processor = max(1, min(_MOST, _PIXELS_A_BATCH // form.size**2))
    limit = at_once(room(device), on_processor, _BYTES_A_PIXEL * form.size**2, _MOST_ON_CARD)
    for batch in images.batches(form.size, form.n_channels, limit, form.interpolation):
        for place, rows in enumerate(of_rows(forward, batch, limit, device)):
            if place == 0 and len(rows) < len(batch):
                limit = len(rows)  # what did not fit once is not tried again
            yield rows


def of_rows(
    forward: Callable[[Tensor], Tensor], inputs: NDArray[np.generic], limit: int, device: str
) -> Iterator[NDArray[np.float32]]:
    """Outputs float32 of at most `limit` inputs [n, ...] at once, batch by batch, as `in_batches` computes them."""
    start = 0
    while start < len(inputs):
        try:
            rows = _computed(forward, inputs[start : start + limit], limit, device)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if limit == 1:
                size = "x".join(map(str, inputs.shape[1:3]))
                raise MemoryError(f"one image of {size} pixels does not fit into memory") from error
            limit = limit // 2
            continue
        start += len(rows)
        yield finite(rows)


@torch.inference_mode()
def _computed(
    forward: Callable[[Tensor], Tensor], batch: NDArray[np.generic], size: int, device: str
) -> NDArray[np.float32]:
    filled = batch[np.arange(size).clip(max=len(batch) - 1)]
    with mixed_precision(device):
        return forward(torch.from_numpy(filled).to(device))[: len(batch)].float().cpu().numpy()


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that the computer's or graphics card's memory is too small."""
    return failure_kind(error) == "out-of-memory"


_BATCH = 1000


def filled(table: NDArray[np.generic], batches: Iterator[NDArray[np.generic]]) -> Iterator[int]:
    """Writes batches of rows into a table, one after the other; yields the number of rows done."""
    done = 0
    for batch in batches:
        table[done : done + len(batch)] = batch.reshape(len(batch), *table.shape[1:])
        done += len(batch)
        yield done


class Inside(nn.Module):
    """The frozen network as adapters see it: from inputs as they are stored to features float [b, K]."""

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        """Reads all examples as the inputs [n, ...] of `forward`: yields the number done, returns them.

        Raises BadInput for content of another kind, and naming a picture that cannot be decoded.
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

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        """uint8 [n, side, side, channels], at the smaller of the pictures' own and the network's size.

        32x32 pictures for a network of 224x224 then take 49 times less memory.
        """
        images = pictures(content, "this network")
        form, shape = self.input_format, images.shape
        side = form.size if shape is None else min(form.size, max(shape[:2]))
        squares = np.empty((len(images), side, side, form.n_channels), np.uint8)
        yield from filled(squares, images.batches(side, form.n_channels, _BATCH, form.interpolation))
        return squares

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
        return cast(Tensor, self.network((maps - self.mean) / self.std))


class Values(Inside):
    """Values float32 [b, *shape] of a table's rows, embeddings or windows -> features float [b, K] of the network inside."""

    def __init__(self, name: str, network: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self._name, self._shape = network, name, shape

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        if not isinstance(content, Windows | Vectors):
            raise BadInput(FIELD, self._name, f"reads rows of {math.prod(self._shape)} numbers")
        if (n := math.prod(content.shape)) != (own := math.prod(self._shape)):
            allowed = f"reads examples of {own} numbers, and these have {n}: register it with another shape"
            raise BadInput(FIELD, self._name, allowed)
        yield len(content)
        return content.values.reshape(-1, *self._shape)

    def blank(self) -> Tensor:
        return torch.zeros(1, *self._shape)

    @property
    def side(self) -> int:
        return 1 + math.isqrt(math.prod(self._shape))

    def forward(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.network(values.to(next(self.parameters()).dtype)))


class Affine(nn.Module):
    """Scale and shift of each channel of maps [b, C, h, w]: a batch norm's second half, which FiLM trains."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)

    def forward(self, maps: Tensor) -> Tensor:
        return maps * self.weight[:, None, None] + self.bias[:, None, None]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A frozen network on one device; its tensors never change, so all cells of a process share them."""

    name: str
    features: Inside
    feature_dim: int
    device: str


def load(name: str, device: str = "cpu", resolution: int | None = None) -> Network:
    """The network of a backbone, frozen and in evaluation mode, reading pictures at a resolution (None: its own).

    Raises BadInput for a backbone without a network, and the errors of `extractor.load`.
    """
    card = catalog.card(name)
    make = getattr(import_module(card.module), "make_network", None)
    if make is None:
        raise BadInput(FIELD, name, "must be a network to be adapted under film or lora: there are no layers in it")
    return cast(Network, made(card, make, device, resolution))
