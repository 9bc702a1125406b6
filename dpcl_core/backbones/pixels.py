"""The simplest backbone: pixel values in [0, 1]. No torch, no weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.data.images import Images

_BATCH = 1000
_SIZE = 32  # side to which images of differing sizes are brought; a constant, since the images' own sizes may be private


class Pixels:
    """Flattened values divided by 255: K = height x width x channels of the dataset's public shape."""

    feature_dim: int | None = None
    identity = f"pixels|255|{_SIZE}"

    def batches(self, images: Images) -> Iterator[NDArray[np.float32]]:
        """float32 [b, K] in [0, 1]. Images without a common public shape become 32x32 in colour."""
        n_channels: Literal[1, 3] = 1 if images.shape is not None and images.shape[2] == 1 else 3
        height, width = (_SIZE, _SIZE) if images.shape is None else images.shape[:2]
        yield np.zeros((0, height * width * n_channels), np.float32)
        for batch in images.batches(_SIZE if images.shape is None else None, n_channels, _BATCH):
            yield batch.reshape(len(batch), -1).astype(np.float32) / np.float32(255)


def make(card: BackboneCard, device: str) -> Pixels:
    """There is one kind only, and it computes on no device."""
    return Pixels()
