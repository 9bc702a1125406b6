"""Pictures as one array, for methods that train on pictures instead of fixed features."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones.batches import Input
from dpcl_core.data.images import Images

_BATCH = 1000


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
