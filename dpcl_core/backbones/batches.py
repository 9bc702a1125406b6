"""Runs a frozen network over images in batches, on a CPU or a graphics card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones.extractor import finite
from dpcl_core.backbones.gpu import at_once, mixed_precision, room
from dpcl_core.data.images import Images, Interpolation
from dpcl_core.errors import failure_kind

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
    forward: Callable[[Tensor], Tensor], form: Input, images: Images, feature_dim: int, device: str, enlarged_to: int = 0
) -> Iterator[NDArray[np.float32]]:
    """Features float32 [b, feature_dim] of one batch after the other.

    `forward` takes uint8 [b, size, size, n_channels] on `device` and normalises them itself; `enlarged_to`: the side it
    resizes them to, where that is larger. Kernels choose the order of their additions by the shapes they multiply: a last
    batch is filled up, so that an image's features do not depend on how many others there are. A batch that does not fit
    into memory is halved until it does. Raises MemoryError where even one image does not fit.
    """
    yield np.zeros((0, feature_dim), np.float32)
    side = max(form.size, enlarged_to)
    on_processor = max(1, min(_MOST, _PIXELS_A_BATCH // side**2))
    limit = at_once(room(device), on_processor, _BYTES_A_PIXEL * side**2, _MOST_ON_CARD)
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
                height, width = inputs.shape[1:3]
                raise MemoryError(f"one image of {height}x{width} pixels does not fit into memory") from error
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
