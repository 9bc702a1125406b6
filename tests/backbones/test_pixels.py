"""The backbone that is no network."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from dpcl_core.backbones import extractor
from dpcl_core.data.dataset import Images


@pytest.mark.parametrize("n_channels", [1, 3])
def test_pixels_are_the_values_over_255_in_order(n_channels: int) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (2003, 4, 5, n_channels), dtype=np.uint8)
    parts = list(extractor.load("pixels").batches(Images(raw, (4, 5, n_channels))))
    found = np.concatenate(parts)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (raw.reshape(2003, -1) / np.float32(255)).astype(np.float32))
    assert [len(part) for part in parts] == [0, 1000, 1000, 3]


def test_pixels_of_no_images_keep_their_width() -> None:
    (none,) = extractor.load("pixels").batches(Images(np.zeros((0, 8, 8, 1), np.uint8), (8, 8, 1)))
    assert none.shape == (0, 64)


def test_pictures_of_several_sizes_become_one_size() -> None:
    files = []
    for side in (8, 50):
        file = io.BytesIO()
        Image.new("RGB", (side, side), (255, 0, 0)).save(file, "PNG")
        files.append(file.getvalue())
    found = np.concatenate(list(extractor.load("pixels").batches(Images(files, None))))
    np.testing.assert_array_equal(found, np.tile(np.array([1, 0, 0], np.float32), (2, 32 * 32)))
