"""What film and lora train: how many numbers, starting where, and which networks they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from dpcl_core.backbones import adaptable, catalog, extractor
from dpcl_core.backbones.adaptable import Input, Network, Pictures
from dpcl_core.data.dataset import Images
from dpcl_core.errors import BadInput
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapters import Adapted, Kind, refuse, targets
from tests.methods import small_network

BUNDLED = [card.name for card in catalog.CARDS.values() if card.module == "dpcl_core.backbones.bundled"]


def of_timm(model: str) -> Network:
    """A model of timm without weights and without memory for any."""
    from dpcl_core.backbones.weights import ensure_torchvision

    if ensure_torchvision() == "absent":
        pytest.skip("torchvision is not installed")
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        made = timm.create_model(model, pretrained=False, num_classes=0)
        pictures = Pictures(made.eval().requires_grad_(False), Input(224, 3, "bicubic"), (127.5,) * 3, (127.5,) * 3)
    return Network(f"timm:{model}", pictures, 768, "cpu")


def n_adapted(module: Adapted) -> int:
    return sum(parameter.numel() for name, parameter in module.trainable() if not name.startswith("head."))


def test_film_of_the_papers_network_has_38400_numbers_in_25_norms() -> None:
    module = Adapted(of_timm("vit_base_patch16_224.augreg_in21k"), "film", 0, 100)
    names = [name for name, _ in module.trainable()]
    assert n_adapted(module) == 38_400
    assert len(names) == 2 * 25 + 2
    assert any(name.endswith("network.norm.weight") for name in names)  # the final one, which has no dot before "norm"
    assert sum(parameter.numel() for _, parameter in module.trainable()) == 115_300  # with a last layer of 100 classes


def test_lora_of_the_papers_network_has_36864_numbers_for_each_unit_of_rank() -> None:
    network = of_timm("vit_base_patch16_224.augreg_in21k")
    assert [n_adapted(Adapted(network, "lora", rank, 10)) for rank in (1, 4)] == [36_864, 4 * 36_864]
    assert len(targets(network.features)) == 12


def test_network_with_batchnorm_is_refused_and_its_layer_named() -> None:
    with pytest.raises(BadInput, match=r"data\.backbone = timm:resnet18: mixes examples in its layer bn1 \(BatchNorm2d\)"):
        refuse(of_timm("resnet18"), "film")


@pytest.mark.parametrize(("kind", "word"), [("film", "no LayerNorm"), ("lora", "no Linear")])
def test_network_without_the_layers_to_adapt_is_refused(kind: Kind, word: str) -> None:
    bare = Pictures(nn.Sequential(nn.Conv2d(3, 8, 2), nn.Flatten()), Input(2, 3, "bilinear"), (0.0,) * 3, (1.0,) * 3)
    with pytest.raises(BadInput, match=word):
        adapters.fresh(Network("bare", bare, 8, "cpu"), kind, 2, range(3), 3, 0)


def test_backbone_that_is_no_network_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^data\.backbone = pixels: must be a network"):
        adaptable.load("pixels")


@pytest.mark.parametrize("kind", ["film", "lora"])
@pytest.mark.parametrize("name", BUNDLED)
def test_a_fresh_model_scores_like_a_last_layer_on_the_frozen_extractors_features(name: str, kind: Kind) -> None:
    """At step 0 all logits are zero; under a last layer that is not, they are those of the frozen features."""
    pictures, _ = small_network.pictures(5, 32)
    features = np.concatenate(list(extractor.load(name).batches(Images(pictures, (32, 32, 3)))))
    network = adaptable.load(name)
    made = adapters.fresh(network, kind, 3, (1, 4), 6, 0)
    np.testing.assert_array_equal(made.logits(pictures)[:, [1, 4]], 0)
    made.weights["head.weight"][:] = torch.randn(2, network.feature_dim, generator=torch.Generator().manual_seed(0))
    found = made.logits(pictures)
    np.testing.assert_allclose(found[:, [1, 4]], features @ made.weights["head.weight"].numpy().T, atol=1e-4)
    assert np.isneginf(found[:, [0, 2, 3, 5]]).all()


@pytest.mark.parametrize("kind", ["film", "lora"])
def test_layers_that_no_feature_depends_on_are_not_trained(kind: Kind) -> None:
    """The frozen features of the ConvNeXt are read before its last block; its own classifier is not used either."""
    made = adapters.fresh(adaptable.load("convnext-cifar100"), kind, 1, range(3), 3, 0)
    assert not any("network.body.11." in name or "network.network.norm" in name for name in made.weights)
    assert not any("network.network.head" in name for name in made.weights)
    assert any("network.body.10." in name for name in made.weights)


def test_everything_frozen_is_shared_and_stays_as_it_is() -> None:
    network = small_network.network()
    before = {name: tensor.clone() for name, tensor in network.features.state_dict().items()}
    for kind in ("film", "lora"):
        module = Adapted(network, kind, 2, 4)  # type: ignore[arg-type]
        shared = {id(tensor) for tensor in network.features.parameters()}
        frozen = [parameter for parameter in module.parameters() if not parameter.requires_grad]
        assert frozen
        assert all(id(parameter) in shared for parameter in frozen)
        with torch.no_grad():
            for _, parameter in module.trainable():
                parameter += 1
    after = network.features.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_lora_starts_at_random_by_its_seed_alone() -> None:
    network = small_network.network()
    first, again, other = (adapters.fresh(network, "lora", 2, range(3), 3, seed).weights for seed in (1, 1, 2))
    down = next(name for name in first if name.endswith("down.weight"))
    assert torch.equal(first[down], again[down])
    assert not torch.equal(first[down], other[down])
    assert not any(weight.any() for name, weight in first.items() if not name.endswith("down.weight"))
