"""The simplest backbone: the examples' own values, pixels in [0, 1] or other numbers in [-1, 1]. No torch, no weights."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.weights import FIELD
from dpcl_core.data.dataset import Content, Form, Images, Vectors, Windows
from dpcl_core.data.texts import Sentences, Texts
from dpcl_core.errors import BadInput

_BATCH = 1000
_SIZE = 32  # side to which images of different sizes are resized; a constant, since the images' own sizes may be private
RESIZED = (_SIZE, _SIZE, 3)


class Pixels:
    """Flattened values: K = height x width x channels of the dataset's public shape, samples x axes, or a row's."""

    feature_dim: int | None = None
    identity = f"pixels|255|{_SIZE}"

    def batches(self, content: Content) -> Iterator[NDArray[np.float32]]:
        """float32 [b, K]: pixels over 255, windows and rows of numbers unchanged.

        Images without a public shape become 32x32 in colour.
        """
        images, shape = _valued(content), values_form(content).shape
        if isinstance(images, Windows | Vectors):
            yield images.values.reshape(-1, math.prod(shape))
            return
        n_channels: Literal[1, 3] = 1 if shape[2] == 1 else 3
        yield np.zeros((0, int(np.prod(shape))), np.float32)
        for batch in images.batches(_SIZE if images.shape is None else None, n_channels, _BATCH):
            yield batch.reshape(len(batch), -1).astype(np.float32) / np.float32(255)


def pixel_rows(content: Content) -> NDArray[np.float32]:
    """All values at once, float32 [n, K] as `Pixels` gives them; nothing is kept in a file."""
    return np.concatenate([*Pixels().batches(content)])


def values_form(content: Content) -> Form:
    """The layout of the values of `Pixels` in a row. Raises BadInput for texts."""
    images = _valued(content)
    if isinstance(images, Vectors):
        return Form(images.shape, -1.0, 1.0, images.encoding)
    if isinstance(images, Windows):
        return Form(images.shape, -1.0, 1.0)
    if images.shape is None:
        return Form(RESIZED, 0.0, 1.0)
    return Form((*images.shape[:2], 1 if images.shape[2] == 1 else 3), 0.0, 1.0)


def _valued(content: Content) -> Images | Windows | Vectors:
    if isinstance(content, Texts | Sentences):
        raise BadInput(FIELD, "pixels", "must be a network that reads texts")
    return content


def make(card: BackboneCard, device: str) -> Pixels:
    """The extractor; both arguments are unused, since there is one kind and it uses no device."""
    return Pixels()
