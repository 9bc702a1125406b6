"""FiLM and LoRA in lite0's last stage: from kept maps to the frozen features, with gradients of single examples."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.backbones import adaptable, bundled, catalog, extractor
from dpcl_core.backbones.adaptable import Network
from dpcl_core.data.dataset import Images
from dpcl_core.methods.features import adapters, side_by_side
from tests.backbones.test_lite0 import pictures

MISSING = catalog.available(catalog.card("lite0"))
pytestmark = pytest.mark.skipif(MISSING is not None, reason="lite0 is not here: dpcl fetch lite0")
SIDE = 96


@pytest.fixture(scope="module")
def network() -> Network:
    return adaptable.load("lite0", resolution=SIDE)


@pytest.fixture
def maps(network: Network) -> NDArray[np.generic]:
    return extractor.result_of(network.features.stored(Images(pictures(6), (48, 48, 3))))


def test_kept_maps_lead_to_the_frozen_features(network: Network, maps: NDArray[np.generic]) -> None:
    assert (maps.shape, maps.dtype) == ((6, 3, 3, 192), np.float16)
    frozen = np.concatenate(list(extractor.load("lite0", resolution=SIDE).batches(Images(pictures(6), (48, 48, 3)))))
    with torch.inference_mode():
        found = network.features(torch.from_numpy(maps)).numpy()
    # Maps in half precision are wrong by 2^-11 of their size, and six layers follow.
    np.testing.assert_allclose(found, frozen, atol=0.01 * np.abs(frozen).max())


def test_film_changes_every_norm_and_lora_every_mixing_of_channels(network: Network) -> None:
    film = dict(adapters.Adapted(network, "film", 0, 5).trainable())
    in_norms = 2 * (1152 + 1152 + 320 + 1280)
    assert sum(tensor.numel() for name, tensor in film.items() if not name.startswith("head.")) == in_norms
    assert len(adapters.targets(network.features)) == 3, "into the stage, out of it, and the last layer of features"
    lora = dict(adapters.Adapted(network, "lora", 4, 5).trainable())
    narrow = 4 * ((192 + 1152) + (1152 + 320) + (320 + 1280))
    assert sum(tensor.numel() for name, tensor in lora.items() if not name.startswith("head.")) == narrow


@pytest.mark.parametrize("kind", ["film", "lora"])
def test_gradients_of_examples_are_autograd_s(network: Network, maps: NDArray[np.generic], kind: adapters.Kind) -> None:
    labels = np.array([0, 1, 2, 0, 1, 2])
    module = adapters.fresh(network, kind, 2, range(3), 3, 0, bundled.load("lite0", "cifar100").first(50)).module()
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, parameter in module.trainable():
            parameter += 0.05 * torch.randn(parameter.shape, generator=draw)
    loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(maps)), torch.from_numpy(labels), reduction="sum")
    plain = torch.autograd.grad(loss, [parameter for _, parameter in module.trainable()])
    for ours, others in zip(side_by_side.Gradients(module, 1e9, 4, "cpu").of(maps, labels), plain, strict=True):
        torch.testing.assert_close(ours.float(), others, rtol=1e-3, atol=1e-4 * float(others.abs().max()) + 1e-6)


def test_last_layer_reads_features_along_as_many_axes_as_it_is_given(network: Network, maps: NDArray[np.generic]) -> None:
    first = bundled.load("lite0", "cifar100").first(7)
    made = adapters.fresh(network, "film", 0, (0, 2), 3, 0, first)
    assert made.weights["head.weight"].shape == (2, 7)
    made.weights["head.weight"][:] = torch.eye(2, 7)
    with torch.inference_mode():
        features = network.features(torch.from_numpy(maps)).numpy()
    np.testing.assert_allclose(made.logits(maps)[:, [0, 2]], first.along(features)[:, :2], rtol=1e-3, atol=1e-3)
