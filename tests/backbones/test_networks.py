"""The bundled networks: built as promised, and the very weights their cards describe."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dpcl_core import paths
from dpcl_core.backbones import bundled, extractor
from dpcl_core.backbones.networks import PREPROCESSING, SIZE, Shape, build, normalised
from dpcl_core.data import rows as bundled_data
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput

NAMES = ["convnext-cifar100", "convnext-cifar10", "vit-cifar100"]
DIGITS = Images(bundled_data.digits()[0].take(np.arange(4)).content, (8, 8, 1))


def written(name: str) -> dict[str, object]:
    content: dict[str, object] = json.loads((paths.assets_dir() / "backbones" / f"{name}.json").read_text())
    return content


def test_network_is_small_and_made_of_modules_that_allow_per_example_gradients() -> None:
    network = build(Shape())
    leaves = [module for module in network.modules() if not list(module.children())]
    assert {type(module) for module in leaves} == {nn.Conv2d, nn.Linear, nn.LayerNorm, nn.GELU}
    held = sum(parameter.numel() for module in leaves for parameter in module.parameters())
    assert held == sum(parameter.numel() for parameter in network.parameters())  # none outside a plain module
    assert held <= 3_000_000
    assert {name for name, _ in network.named_buffers()} == {"centre", "whitening"}  # constants, no running statistics


@pytest.mark.parametrize("side", [24, 32])
def test_shapes(side: int) -> None:
    network = build(Shape(n_classes=7))
    images = normalised(torch.zeros(3, side, side, 3, dtype=torch.uint8))
    assert images.shape == (3, 3, side, side)
    assert network(images).shape == (3, 7)
    assert network.features(images).shape == (3, 192)
    assert network.pooled(images).shape == network.frozen(images).shape == (3, 192)


def test_whitening_levels_the_loud_directions_and_keeps_the_quiet_ones_quiet() -> None:
    """Against the definition: uncorrelated, centred, and a direction of spread w left with w / (w + 0.3 mean w)."""
    network = build(Shape())
    torch.manual_seed(0)
    pooled = torch.randn(4000, 192) @ torch.diag(torch.logspace(0, -2, 192)) @ torch.randn(192, 192) + 5
    network.whiten(pooled)
    white = (pooled - network.centre).double() @ network.whitening.double()
    spread = torch.linalg.eigvalsh(torch.cov(pooled.T.double()))
    found = torch.cov(white.T)
    torch.testing.assert_close(found.diagonal(), spread / (spread + 0.3 * spread.mean()), rtol=1e-3, atol=1e-4)
    assert (found - torch.diag(found.diagonal())).abs().max() < 1e-3
    assert white.mean(0).abs().max() < 1e-3


def test_the_bundled_networks_carry_their_whitening() -> None:
    for name in NAMES:
        network = bundled.network(name)
        assert network.centre.abs().max() > 0
        assert not torch.equal(network.whitening, torch.eye(network.feature_dim))


@pytest.mark.parametrize("name", NAMES)
def test_examples_do_not_influence_one_another(name: str) -> None:
    network = bundled.network(name).eval()
    torch.manual_seed(0)
    images = normalised(torch.randint(256, (5, SIZE, SIZE, 3), dtype=torch.uint8))
    with torch.no_grad():
        together, alone = network.frozen(images), torch.cat([network.frozen(image[None]) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_normalised_maps_the_range_of_bytes_evenly() -> None:
    pixels = torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1).expand(2, 1, 1, 3)
    torch.testing.assert_close(normalised(pixels)[:, 0, 0, 0], torch.tensor([-127.5, 127.5]) / 64)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_opacus_takes_the_network_with_every_parameter_trainable() -> None:
    from opacus.grad_sample import GradSampleModule

    network = GradSampleModule(build(Shape(n_classes=5)))
    network(normalised(torch.randint(256, (3, SIZE, SIZE, 3), dtype=torch.uint8))).square().sum().backward()
    missing = [name for name, parameter in network.named_parameters() if parameter.grad_sample.shape[0] != 3]
    assert not missing


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_ones_the_card_describes(name: str) -> None:
    card = written(name)
    opened = extractor.load(name)
    assert card["preprocessing"] == PREPROCESSING
    assert str(card["sha256"]) in opened.identity
    assert card["n_parameters"] == sum(parameter.numel() for parameter in bundled.network(name).parameters())
    found = np.concatenate(list(opened.batches(DIGITS)))
    assert found.shape == (4, opened.feature_dim)
    # Written with four decimals; float32 convolutions differ by less between machines.
    np.testing.assert_allclose(found[:, :8], np.array(card["example_features"]), atol=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_half_precision_and_stay_small(name: str) -> None:
    from safetensors import safe_open

    path = paths.assets_dir() / "backbones" / f"{name}.safetensors"
    with safe_open(path, "pt") as tensors:
        assert {tensors.get_tensor(key).dtype for key in tensors.keys()} == {torch.float16}  # noqa: SIM118
    assert path.stat().st_size < 6_000_000


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_damaged_weights_give_one_sentence(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(paths.assets_dir() / "backbones", tmp_path / "backbones")
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path)
    path = tmp_path / "backbones" / f"{NAMES[0]}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes({"flipped": content, "cut": content[:1000], "empty": b""}[damage]))
    with pytest.raises(BadInput, match=r"^data\.backbone = convnext-cifar100: its weights .* must be a whole"):
        list(extractor.load(NAMES[0]).batches(DIGITS))
