"""Running a network over images: order, broken rows, and memory that is too small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones.adaptable import Input, in_batches
from dpcl_core.backbones.extractor import precision
from dpcl_core.data.dataset import Images
from tests.support import second_device

RAW = np.arange(700, dtype=np.uint16).astype(np.uint8).reshape(700, 1, 1, 1)
IMAGES = Images(RAW, (1, 1, 1))
ASKED = Input(1, 1, "bilinear")


def value(pixels: Tensor) -> Tensor:
    return pixels.reshape(len(pixels), 1).float().repeat(1, 2)


def joined(forward: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
    return np.concatenate(list(in_batches(forward, ASKED, IMAGES, 2, "cpu")))


def test_rows_keep_their_order_and_come_in_batches() -> None:
    found = joined(value)
    np.testing.assert_array_equal(found[:, 1], RAW.ravel())
    assert found.dtype == np.float32
    assert [len(part) for part in in_batches(value, ASKED, IMAGES, 2, "cpu")] == [0, 256, 256, 188]


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_row_that_is_not_finite_becomes_zeros_and_stays_in_place(broken: float) -> None:
    def forward(pixels: Tensor) -> Tensor:
        rows = value(pixels)
        rows[rows[:, 0] == 7, 1] = broken
        return rows

    found = joined(forward)
    expected = np.repeat(RAW.reshape(-1, 1), 2, axis=1).astype(np.float32)
    expected[RAW.ravel() == 7] = 0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_batch_that_does_not_fit_is_halved_until_it_does(error: Exception) -> None:
    sizes: list[int] = []

    def forward(pixels: Tensor) -> Tensor:
        sizes.append(len(pixels))
        if len(pixels) > 40:
            raise error
        return value(pixels)

    found = joined(forward)
    np.testing.assert_array_equal(found[:, 0], RAW.ravel())
    assert sizes[:4] == [256, 128, 64, 32]
    assert max(sizes[4:]) == 32  # what did not fit once is not tried again


def test_one_image_too_large_for_memory_is_an_error_not_a_loop() -> None:
    def forward(pixels: Tensor) -> Tensor:
        raise MemoryError

    with pytest.raises(MemoryError, match="1x1 pixels"):
        joined(forward)


def test_other_errors_are_not_taken_for_memory() -> None:
    def forward(pixels: Tensor) -> Tensor:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        joined(forward)


def test_a_card_takes_larger_batches_as_far_as_its_memory_goes() -> None:
    with second_device.attached(free=1 << 18):  # at 256 bytes a pixel, half of it holds 512 pictures of one
        parts = list(in_batches(value, ASKED, IMAGES, 2, second_device.NAME))
    assert [len(part) for part in parts] == [0, 512, 188]
    np.testing.assert_array_equal(np.concatenate(parts)[:, 1], RAW.ravel())


def test_only_a_card_with_bfloat16_gives_other_features() -> None:
    assert precision("cpu") == "single"
    with second_device.attached(capability=(7, 5)):
        assert precision("cuda:0") == "single"
    with second_device.attached(capability=(8, 0)):
        assert precision("cuda:0") == "bfloat16"
