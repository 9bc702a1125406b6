"""Networks to be adapted, and the table of pictures they read: small pictures stay small until the network sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from dpcl_core.backbones import adaptable, catalog, extractor
from dpcl_core.backbones.adaptable import Input, Pictures
from dpcl_core.backbones.weights import ensure_torchvision
from dpcl_core.data.dataset import Images, Interpolation

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
