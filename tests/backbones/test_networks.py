"""The bundled networks: built as promised, against their formulas, the weights their cards describe, their public axes."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from dpcl_core import errors, paths
from dpcl_core.backbones import bundled, catalog, extractor
from dpcl_core.backbones.networks import PREPROCESSING, SIZE, Shape, ViTShape, build, normalised
from dpcl_core.data import rows as bundled_data
from dpcl_core.data.dataset import Images
from dpcl_core.privacy import ledger, sums
from dpcl_core.privacy.mechanisms import noisy_class_sums
from dpcl_core.privacy.noise import ReleaseNoise
from tests.support.asserting import refuses

NAMES = ["convnext-cifar100", "convnext-cifar10", "vit-cifar100"]
DIGITS = Images(bundled_data.digits()[0].take(np.arange(4)).content, (8, 8, 1))


def written(name: str) -> dict[str, object]:
    content: dict[str, object] = json.loads((paths.assets_dir() / "backbones" / f"{name}.json").read_text())
    return content


@pytest.mark.parametrize(("shape", "most"), [(Shape(), 3_000_000), (ViTShape(), 1_500_000)])
def test_network_is_small_and_made_of_modules_that_allow_per_example_gradients(shape: Shape | ViTShape, most: int) -> None:
    network = build(shape)
    leaves = [module for module in network.modules() if not list(module.children())]
    assert {type(module) for module in leaves} == {nn.Conv2d, nn.Linear, nn.LayerNorm, nn.GELU}
    held = sum(parameter.numel() for module in leaves for parameter in module.parameters())
    assert sum(parameter.numel() for parameter in network.parameters()) == held <= most  # none outside a plain module
    assert {name for name, _ in network.named_buffers()} == {"centre", "whitening"}  # constants, no running statistics


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


@pytest.mark.parametrize("name", NAMES)
def test_examples_do_not_influence_one_another(name: str) -> None:
    network = bundled.network(name).eval()
    torch.manual_seed(0)
    images = normalised(torch.randint(256, (5, SIZE, SIZE, 3), dtype=torch.uint8))
    with torch.no_grad():
        together, alone = network.frozen(images), torch.cat([network.frozen(image[None]) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_ones_the_card_describes_whitened_in_half_precision_and_small(name: str) -> None:
    from safetensors import safe_open

    card, opened, network = written(name), extractor.load(name), bundled.network(name)
    assert card["preprocessing"] == PREPROCESSING
    assert str(card["sha256"]) in opened.identity
    assert card["n_parameters"] == sum(parameter.numel() for parameter in network.parameters())
    assert network.centre.abs().max() > 0
    assert not torch.equal(network.whitening, torch.eye(network.feature_dim))
    path = paths.assets_dir() / "backbones" / f"{name}.safetensors"
    with safe_open(path, "pt") as tensors:
        assert {tensors.get_tensor(key).dtype for key in tensors.keys()} == {torch.float16}  # noqa: SIM118
    assert path.stat().st_size < 6_000_000
    found = np.concatenate(list(opened.batches(DIGITS)))
    assert found.shape == (4, opened.feature_dim)
    # Written with four decimals; float32 convolutions differ by less between machines.
    np.testing.assert_allclose(found[:, :8], np.array(card["example_features"]), atol=2e-3)


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_damaged_weights_give_one_sentence(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(paths.assets_dir() / "backbones", tmp_path / "backbones")
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path)
    path = tmp_path / "backbones" / f"{NAMES[0]}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes({"flipped": content, "cut": content[:1000], "empty": b""}[damage]))
    with pytest.raises(errors.BadInput, match=r"^data\.backbone = convnext-cifar100: its weights .* must be a whole"):
        list(extractor.load(NAMES[0]).batches(DIGITS))


# Public axes: constants, the same for every run, and a row's coordinates are a function of that row alone.


LITE0 = catalog.card("lite0")


@pytest.mark.parametrize("public", LITE0.axes)
def test_axes_are_orthogonal_directions_in_order_of_falling_variance(public: str) -> None:
    found = bundled.load("lite0", public)
    assert found.centre.shape == (1280,)
    lengths = np.linalg.norm(found.directions.astype(np.float64), axis=0)
    assert (np.diff(lengths) > -1e-3 * lengths[1:]).all(), "variance to the power -1/4 rises as the variance falls"
    cosines = (found.directions / lengths).T.astype(np.float64) @ (found.directions / lengths)
    # A direction has 1,280 numbers in half precision, each wrong by at most 2^-11 of itself: cosines by at most 2^-10.
    np.testing.assert_allclose(cosines, np.eye(len(cosines)), atol=2.0**-10)


def rows_beside_the_axes(found: bundled.Axes, n: int) -> NDArray[np.float32]:
    """Features [n, K] that lie far from the centre in directions that these axes leave out: their coordinates cancel."""
    span, _ = np.linalg.qr(found.directions.astype(np.float64))
    away = np.random.default_rng(1).standard_normal((n, len(found.centre)))
    away -= (away @ span) @ span.T
    features: NDArray[np.float32] = (found.centre + 20 * away / np.abs(away).max(axis=1, keepdims=True)).astype(np.float32)
    return features


def test_coordinates_are_products_with_the_centred_features() -> None:
    found = bundled.load("lite0", "cifar100")
    rows = np.random.default_rng(0).normal(size=(300, 1280)).astype(np.float32)
    expected = (rows.astype(np.float64) - found.centre) @ found.directions
    coordinates = found.along(rows)
    assert coordinates.dtype == np.float32
    np.testing.assert_allclose(coordinates, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(found.first(48).along(rows), coordinates[:, :48])


@pytest.mark.parametrize("n_axes", [48, 128])
def test_a_row_does_not_depend_on_the_rows_beside_it(n_axes: int) -> None:
    found = bundled.load("lite0", "cifar100").first(n_axes)
    rows = rows_beside_the_axes(found, 520)
    together = found.along(rows)
    for place in (0, 1, 3, 101, 102, 103, 255, 256, 257, 515):
        np.testing.assert_array_equal(found.along(np.delete(rows, place, axis=0)), np.delete(together, place, axis=0))
        more = np.insert(rows, place, [[1e6], [-1e-6], [np.nan]], axis=0)
        np.testing.assert_array_equal(np.delete(found.along(more), range(place, place + 3), axis=0), together)
        np.testing.assert_array_equal(found.along(rows[place : place + 1])[0], together[place])
    order = np.random.default_rng(2).permutation(len(rows))
    np.testing.assert_array_equal(found.along(rows[order]), together[order])
    np.testing.assert_array_equal(found.along(np.asfortranarray(rows)), together)


@pytest.mark.parametrize("place", [0, 100, 256, 500])
def test_class_sums_of_neighbours_differ_by_one_row_alone(place: int) -> None:
    """The clean sums differ by exactly the person's row, no longer than 1, though the others' coordinates cancel."""
    found = bundled.load("lite0", "cifar100").first(128)
    people, person = rows_beside_the_axes(found, 500), np.full((1, 1280), 0.5, np.float32)

    def clean(features: NDArray[np.float32]) -> NDArray[np.float64]:
        labels, book = np.zeros(len(features), np.int64), ledger.Ledger(1e-5, "add-remove", "once")
        return noisy_class_sums(found.along(features), labels, [0], 1, [0.0], [ReleaseNoise()], [book], task=0)[0, 0]

    difference = clean(np.insert(people, place, person, axis=0)) - clean(people)
    np.testing.assert_array_equal(difference, sums.unit_rows(found.along(person))[0])
    assert sum(Fraction(number) ** 2 for number in difference.tolist()) <= 1


def test_data_are_never_seen_along_axes_of_their_own() -> None:
    """Nor along those of a dataset that they are put together from."""
    axes = {"mnist": "cifar100", "cifar10": "cifar100", "cifar100": "cifar10", "own:mine": "cifar100"}
    assert {dataset: bundled.public_part(LITE0, dataset) for dataset in axes} == axes
    assert bundled.public_part(catalog.card("pixels"), "mnist") is None
    for name in ("5-datasets", "5-datasets-mnist-m", "cifar10-100"):
        members = {member.name for member in bundled.datasets.members(bundled.datasets.card(name))}
        assert bundled.public_part(LITE0, name) not in members
    refuses(r"scripts/make_axes\.py", bundled.load, "lite0", "mnist", error=errors.DataMissing)

