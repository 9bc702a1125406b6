"""Networks to be adapted, the pictures they read, their batches, and what a graphics card changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from dpcl_core.backbones import adaptable, catalog, extractor, gpu
from dpcl_core.backbones.adaptable import Input, Pictures, in_batches
from dpcl_core.backbones.extractor import precision
from dpcl_core.backbones.weights import ensure_torchvision
from dpcl_core.data.dataset import Images, Interpolation
from tests.support import second_device

ASKED = Input(32, 3, "bilinear")
BUNDLED = [card.name for card in catalog.CARDS.values() if card.module == "dpcl_core.backbones.bundled"]


def images(height: int, width: int, n_channels: int = 3, n: int = 3) -> Images:
    drawn = np.random.default_rng(1).integers(0, 256, (n, height, width, n_channels), dtype=np.uint8)
    return Images(drawn, (height, width, n_channels))


def kept(given: Images, asked: Input) -> np.ndarray:
    steps = Pictures(torch.nn.Identity(), asked, (0.0,) * 3, (1.0,) * 3).stored(given)
    done = []
    while True:
        try:
            done.append(next(steps))
        except StopIteration as ended:
            assert done[-1:] == [len(given)][: len(done[-1:])]
            found: np.ndarray = ended.value
            return found


@pytest.mark.parametrize(("size", "side"), [((8, 8), 8), ((32, 32), 32), ((20, 30), 30), ((64, 48), 32), ((28, 28), 28)])
def test_pictures_are_kept_at_the_smaller_of_their_own_size_and_the_networks(size: tuple[int, int], side: int) -> None:
    found = kept(images(*size), ASKED)
    assert found.shape == (3, side, side, 3)
    assert found.dtype == np.uint8


def test_pictures_of_unknown_or_differing_sizes_are_kept_at_the_networks() -> None:
    assert kept(Images(images(8, 8).content, None), ASKED).shape == (3, 32, 32, 3)


def test_square_colour_pictures_are_kept_as_they_are_and_grey_ones_get_three_channels() -> None:
    colour, grey = images(16, 16), images(16, 16, 1)
    np.testing.assert_array_equal(kept(colour, ASKED), colour.content)
    np.testing.assert_array_equal(kept(grey, ASKED), np.asarray(grey.content).repeat(3, axis=3))


def test_no_pictures_give_an_empty_table_of_the_right_shape() -> None:
    assert kept(images(16, 16, n=0), ASKED).shape == (0, 16, 16, 3)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_small_pictures_are_enlarged_as_pillow_does(interpolation: Interpolation) -> None:
    """To within two of 256 levels: Pillow rounds between its two passes (and cuts there what leaves the range, so the
    pictures stay clear of black and white)."""
    given = Images((80 + np.asarray(images(8, 8).content) // 3).astype(np.uint8), (8, 8, 3))
    network = Pictures(nn.Identity(), Input(56, 3, interpolation), (0.0,) * 3, (1.0,) * 3)
    found = network(torch.from_numpy(kept(given, network.input_format))).permute(0, 2, 3, 1).numpy()
    by_pillow = next(given.batches(56, 3, 3, interpolation)).astype(np.float32)
    assert np.abs(found - by_pillow).max() <= 2
    assert np.abs(found - by_pillow).mean() < 0.5


@pytest.mark.parametrize("name", BUNDLED)
def test_the_networks_features_are_the_frozen_extractors(name: str) -> None:
    given = images(32, 32)
    network = adaptable.load(name)
    found = network.features(torch.from_numpy(np.asarray(given.content)))
    assert found.shape == (3, network.feature_dim)
    np.testing.assert_allclose(found.numpy(), np.concatenate(list(extractor.load(name).batches(given))), atol=1e-5)
    assert not any(parameter.requires_grad for parameter in network.features.parameters())
    assert not any(module.training for module in network.features.modules())


def test_a_timm_model_with_norms_of_its_own_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ensure_torchvision() == "absent":
        pytest.skip("torchvision is not installed")
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    made = timm.create_model("test_vit.r160_in1k", pretrained=False)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    save_file(made.state_dict(), tmp_path / "test_vit.r160_in1k.safetensors")
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    given = images(160, 160)
    network = adaptable.load("timm:test_vit.r160_in1k")
    found = network.features(torch.from_numpy(np.asarray(given.content))).numpy()
    expected = np.concatenate(list(extractor.load("timm:test_vit.r160_in1k").batches(given)))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    norms = [module for module in network.features.modules() if isinstance(module, nn.LayerNorm)]
    assert norms


# Running a network over images: order, broken rows, and memory that is too small.


RAW = np.arange(700, dtype=np.uint16).astype(np.uint8).reshape(700, 1, 1, 1)
IMAGES = Images(RAW, (1, 1, 1))
ONE_PIXEL = Input(1, 1, "bilinear")


def value(pixels: Tensor) -> Tensor:
    return pixels.reshape(len(pixels), 1).float().repeat(1, 2)


def joined(forward: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
    return np.concatenate(list(in_batches(forward, ONE_PIXEL, IMAGES, 2, "cpu")))


def test_rows_keep_their_order_and_come_in_batches() -> None:
    found = joined(value)
    np.testing.assert_array_equal(found[:, 1], RAW.ravel())
    assert found.dtype == np.float32
    assert [len(part) for part in in_batches(value, ONE_PIXEL, IMAGES, 2, "cpu")] == [0, 256, 256, 188]


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
        parts = list(in_batches(value, ONE_PIXEL, IMAGES, 2, second_device.NAME))
    assert [len(part) for part in parts] == [0, 512, 188]
    np.testing.assert_array_equal(np.concatenate(parts)[:, 1], RAW.ravel())


def test_only_a_card_with_bfloat16_gives_other_features() -> None:
    assert precision("cpu") == "single"
    with second_device.attached(capability=(7, 5)):
        assert precision("cuda:0") == "single"
    with second_device.attached(capability=(8, 0)):
        assert precision("cuda:0") == "bfloat16"


# Precision and number of examples at once on a card, without one.


def test_half_precision_is_bfloat16_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for able in ({}, {"avx512_f": True, "avx512_bf16": False}, {"avx512_bf16": True}, {"amx_bf16": True}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able)
        has_bfloat16 = any("bf16" in name and has for name, has in able.items())
        assert gpu.half_precision("cpu") is (torch.bfloat16 if has_bfloat16 else None)
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # of an older torch
    assert gpu.half_precision("cpu") is None
    for capability, dtype in (((7, 0), None), ((7, 5), None), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)):
        with second_device.attached(capability=capability):
            assert gpu.half_precision(second_device.NAME) is dtype


def test_a_processor_keeps_its_number_and_a_card_fills_half_of_what_is_free() -> None:
    assert gpu.room("cpu") is None
    assert gpu.at_once(None, 12, 1.0, 64) == 12
    with second_device.attached(free=1 << 20):
        assert gpu.room(second_device.NAME) == 1 << 19
    assert gpu.at_once(float(1 << 19), 12, 1 << 13, 1024) == 64
    assert gpu.at_once(float(1 << 19), 12, 5000.0, 1024) == 64  # 104 fit
    assert gpu.at_once(float(1 << 19), 12, 5000.0, 48) == 32
    assert gpu.at_once(float(1 << 19), 12, 1e9, 64) == 1  # one is always tried


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_precisions_below_single_become_single(dtype: torch.dtype) -> None:
    assert gpu.at_least_single(dtype) is torch.float32
    assert gpu.at_least_single(torch.float64) is torch.float64


def test_what_is_recorded_is_replayed_on_new_inputs_and_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording is a stand-in that computes on its fixed places, as a graph of kernels does."""
    recorded: list[tuple[int, ...]] = []

    def eager(function: Callable[..., torch.Tensor], places: Sequence[torch.Tensor]) -> Callable[[], torch.Tensor]:
        recorded.append(tuple(places[0].shape))
        return lambda: function(*places)

    monkeypatch.setattr(gpu, "recorded", eager)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    weight = torch.ones(())
    scaled = gpu.Replayed(lambda left, right: weight * (left - right), "cuda:0")
    for size in (3, 2, 3):
        left, right = torch.rand(2, size)
        weight += 1
        assert torch.equal(scaled(left, right), weight * (left - right))
    assert recorded == [(3,), (2,)]


@pytest.mark.parametrize("error", [RuntimeError("not permitted while recording"), torch.OutOfMemoryError("out of memory")])
def test_what_cannot_be_recorded_is_called_and_memory_that_does_not_suffice_is_said(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(function: object, places: object) -> None:
        raise error

    monkeypatch.setattr(gpu, "recorded", refused)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    negative = gpu.Replayed(torch.neg, "cuda:0")
    if isinstance(error, torch.OutOfMemoryError):
        with pytest.raises(torch.OutOfMemoryError):
            negative(torch.ones(2))
    else:
        assert all(torch.equal(negative(torch.ones(2)), -torch.ones(2)) for _ in range(2))


def test_nothing_is_recorded_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "recorded", None)
    assert torch.equal(gpu.Replayed(torch.neg, "cpu")(torch.ones(2)), -torch.ones(2))
