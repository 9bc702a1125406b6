"""EfficientNet-Lite0, trained on ImageNet: frozen features of pictures at a resolution of choice."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dpcl_core.backbones import packaged, weights
from dpcl_core.backbones.batches import Input
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.extractor import precision
from dpcl_core.backbones.timm_models import TimmExtractor
from dpcl_core.backbones.torchvision_shim import ensure_torchvision
from dpcl_core.errors import BadInput, DataMissing

_MODEL = "tf_efficientnet_lite0"  # timm's name of the architecture
_FILE = "model.safetensors"
SIDE = 224  # the resolution it was trained at
FEATURES = 1280
MEAN = STD = (0.5, 0.5, 0.5)


def convert(file: Path, folder: Path) -> None:
    """Writes the weights of the published checkpoint as safetensors, under timm's names.

    The checkpoint has the tensors of timm's architecture in the same order under other names. Raises BadInput where number
    or shapes differ.
    """
    from safetensors.torch import save_file

    # The one place that opens a pickle: a file of known SHA-256, restricted to tensors.
    published = torch.load(file, map_location="cpu", weights_only=True)
    own = _architecture().state_dict()
    shapes, expected = ([tensor.shape for tensor in state.values()] for state in (published, own))
    if shapes != expected:
        raise BadInput(weights.FIELD, "lite0", f"its file must have the {len(expected)} tensors of timm's {_MODEL}")
    state = {name: tensor.contiguous() for name, tensor in zip(own, published.values(), strict=True)}
    save_file(state, folder / _FILE)


def make(card: BackboneCard, device: str, resolution: int | None = None) -> TimmExtractor:
    """The extractor at a resolution (None: 224 pixels). Raises DataMissing where network or packages are missing.

    Batch norms are folded into the convolutions before them, and memory is channels-last: about twice as fast on a CPU.
    """
    side = resolution or SIDE
    network = copy.deepcopy(frozen(card))
    network.classifier = nn.Identity()
    folded(network).to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert card.package is not None
    read = f"{side} bicubic whole folded channels-last"
    identity = f"{card.name}|{card.package.sha256}|{read}|{precision(device)}"
    return TimmExtractor(network, FEATURES, identity, Input(side, 3, "bicubic"), MEAN, STD, device)


@lru_cache(maxsize=1)
def frozen(card: BackboneCard) -> nn.Module:
    """The network with its batch norms and its classifier of ImageNet, on the CPU. Do not modify it: callers share it."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    assert card.package is not None
    path = packaged.found(card.name, card.package) / _FILE
    network = _architecture()
    try:
        network.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        raise weights.damaged(card.name, path, error) from error
    return network.eval().requires_grad_(False)


def folded(network: nn.Module) -> nn.Module:
    """Folds every batch norm into the convolution before it, in place, and leaves its activation there."""
    convolution = ""
    for name, module in list(network.named_modules()):
        if isinstance(module, nn.Conv2d):
            convolution = name
        elif isinstance(module, nn.BatchNorm2d):
            before = network.get_submodule(convolution)
            assert isinstance(before, nn.Conv2d)
            network.set_submodule(convolution, fuse_conv_bn_eval(before, module))
            network.set_submodule(name, module.act)  # type: ignore[arg-type]  # timm's batch norms hold their activation
    return network


def _architecture() -> nn.Module:
    """The network with random weights. Raises DataMissing without timm."""
    if ensure_torchvision() == "absent":
        raise DataMissing(weights.FIELD, "lite0", "needs timm and torchvision: run pip install 'dpcl[vision]'")
    import timm

    with torch.random.fork_rng():  # timm draws initial weights, which are overwritten
        network: nn.Module = timm.create_model(_MODEL, pretrained=False)
    return network
