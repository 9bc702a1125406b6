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

_PIXELS_A_BATCH = 1 << 22  # side squared times images: keeps the largest activations of a ViT-B below 1 GB
_BYTES_A_PIXEL = 256  # the same as a number: 1 GB over 2^22
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
    resizes them to, where that is larger. A batch that does not fit into memory is halved until it does. Raises MemoryError
    where even one image does not fit.
    """
    yield np.zeros((0, feature_dim), np.float32)
    side = max(form.size, enlarged_to)
    on_processor = max(1, min(_MOST, _PIXELS_A_BATCH // side**2))
    limit = at_once(room(device), on_processor, _BYTES_A_PIXEL * side**2, _MOST_ON_CARD)
    for batch in images.batches(form.size, form.n_channels, limit, form.interpolation):
        start = 0
        while start < len(batch):
            try:
                rows = _computed(forward, batch[start : start + limit], device)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if limit == 1:
                    raise MemoryError(f"one image of {form.size}x{form.size} pixels does not fit into memory") from error
                limit = min(limit, len(batch) - start) // 2 or 1
                continue
            start += len(rows)
            yield finite(rows)


@torch.inference_mode()
def _computed(forward: Callable[[Tensor], Tensor], batch: NDArray[np.uint8], device: str) -> NDArray[np.float32]:
    pixels = torch.from_numpy(batch.copy()).to(device)  # a copy: decoded arrays may be read-only, and torch would warn
    with mixed_precision(device):
        return forward(pixels).float().cpu().numpy()


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that the computer's or graphics card's memory is too small."""
    return failure_kind(error) == "out-of-memory"
