"""Cache of features, addressed by a hash of extractor and images.

The files hold features of possibly private images; only their owner can read them.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Generator
from hashlib import sha256
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.backbones.extractor import Extractor, load
from dpcl_core.data.atomic import replacing
from dpcl_core.data.dataset import Content


def features(backbone: str, images: Content, device: str = "cpu", resolution: int | None = None) -> NDArray[np.float32]:
    """Features of the images [n, K] float32 by the named backbone, from the cache if present.

    Raises what `computed` raises.
    """
    steps = computed(backbone, images, device, resolution)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(NDArray[np.float32], done.value)


def computed(
    backbone: str, images: Content, device: str = "cpu", resolution: int | None = None
) -> Generator[int, None, NDArray[np.float32]]:
    """The same in steps: yields the number of images done, returns the features.

    Recomputes a damaged file. If the cache cannot be written, warns and returns the features all the same. Raises what
    `extractor.load` raises, and BadInput naming an image that cannot be decoded.
    """
    extractor = load(backbone, device, resolution)
    path = paths.features_dir() / f"{key(extractor, images)}.npz"
    cached = _read(path, len(images))
    if cached is not None:
        return cached
    parts = []
    done = 0
    for part in extractor.batches(images):
        parts.append(part)
        done += len(part)
        yield done
    fresh = np.concatenate(parts)
    try:
        paths.made(path.parent)
        with replacing(path) as file:
            np.savez(file, features=fresh)
    except OSError as error:
        warnings.warn(f"features could not be kept in {path.parent}: {error.strerror or error}", stacklevel=2)
    return fresh


def key(extractor: Extractor, images: Content) -> str:
    """Cache key of the features: 64 hexadecimal digits over extractor, content of the images, and their public shape."""
    return sha256(f"{extractor.identity}\n{images.digest()}\n{images.shape}".encode()).hexdigest()


def _read(path: Path, n_images: int) -> NDArray[np.float32] | None:
    """The stored array; None where there is none or the file is damaged (zip has a checksum)."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            stored_features = stored["features"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = stored_features.dtype == np.float32 and stored_features.ndim == 2 and len(stored_features) == n_images
    return stored_features if fits else None
