"""EfficientNet-Lite0, trained on ImageNet: frozen features at a resolution of choice, or its last stage for adapters."""

from __future__ import annotations

import copy
from collections.abc import Generator
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dpcl_core.backbones import catalog, packaged, weights
from dpcl_core.backbones.adaptable import Affine, Input, Inside, Network, filled
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.extractor import pictures, precision
from dpcl_core.backbones.timm_models import TimmExtractor
from dpcl_core.data.dataset import Content
from dpcl_core.errors import BadInput, DataMissing

_MODEL = "tf_efficientnet_lite0"  # timm's name of the architecture
_FILE = "model.safetensors"
SIDE = 224  # the resolution it was trained at
LAST = 6  # index of the last of its seven stages, which adapters change
_STRIDE = 32  # pixels on a side for one place of the last maps
FEATURES = 1280
MEAN = STD = (0.5, 0.5, 0.5)


def convert(file: Path, folder: Path) -> None:
    """Writes the weights of the published checkpoint as safetensors, under timm's names.

    The checkpoint has the tensors of timm's architecture in the same order under other names. Raises BadInput where number
    or shapes differ.
    """
    from safetensors.torch import save_file

    # The published file is of a kind that could run code: it is opened only if it is that file, and as tensors alone.
    package = catalog.card("lite0").package
    if package is None or weights.digest(file) != package.sha256:
        raise BadInput(weights.FIELD, "lite0", "its file must be the published one (its SHA-256 differs)")
    published = torch.load(file, map_location="cpu", weights_only=True)
    own = _architecture().state_dict()
    shapes, expected = ([tensor.shape for tensor in state.values()] for state in (published, own))
    if shapes != expected:
        raise BadInput(weights.FIELD, "lite0", f"its file must have the {len(expected)} tensors of timm's {_MODEL}")
    state = {name: tensor.contiguous() for name, tensor in zip(own, published.values(), strict=True)}
    save_file(state, folder / _FILE)


class Trunk(nn.Module):
    """All stages before the last one: pictures [b, 3, side, side] -> maps [b, h * w * C], places outermost."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.stages = nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:LAST])  # type: ignore[arg-type, index]

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.stages(images)
        return maps.permute(0, 2, 3, 1).flatten(1)


class Standardised(nn.Module):
    """A batch norm's first half, frozen: maps minus its mean over its deviation, both of its public training pictures."""

    mean: Tensor
    scale: Tensor

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        self.register_buffer("mean", norm.running_mean[:, None, None].clone())
        self.register_buffer("scale", (norm.running_var + norm.eps).rsqrt()[:, None, None])

    def forward(self, maps: Tensor) -> Tensor:
        return (maps - self.mean) * self.scale


class Tail(Inside):
    """The last stage, on kept maps float16 [b, h, w, C] of `Trunk`, up to the features [b, 1280].

    Its batch norms use frozen public statistics, so that an example's gradient stays its own; what FiLM trains of them is in
    `Affine`.
    """

    def __init__(self, network: nn.Module, maps: TimmExtractor, n_channels: int) -> None:
        super().__init__()
        self._maps, self._n_channels = maps, n_channels
        self.stages = nn.Sequential(*network.blocks[LAST:], network.conv_head, network.bn2)  # type: ignore[arg-type, index]
        for name, module in list(self.named_modules()):
            if isinstance(module, nn.BatchNorm2d):
                activation = cast(nn.Module, copy.deepcopy(module.act))
                if isinstance(activation, nn.ReLU6):
                    activation.inplace = False  # hooks for gradients of single examples forbid changes in place
                self.set_submodule(name, nn.Sequential(Standardised(module), Affine(module.weight, module.bias), activation))

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        images = pictures(content, "this network")
        side = -(-self._maps.input_format.size // _STRIDE)
        kept = np.empty((len(images), side, side, self._n_channels), np.float16)
        yield from filled(kept, self._maps.batches(images))
        return kept

    def blank(self) -> Tensor:
        side = -(-self._maps.input_format.size // _STRIDE)
        return torch.zeros(1, side, side, self._n_channels, dtype=torch.float16)

    @property
    def side(self) -> int:
        return self._maps.input_format.size // 2  # its stage has about a quarter of the network's multiplications

    def forward(self, maps: Tensor) -> Tensor:
        # Plain layout: Opacus reads a convolution's inputs by their strides, and takes any other for this one.
        kept = maps.permute(0, 3, 1, 2).to(next(self.parameters()).dtype).contiguous()
        return cast(Tensor, self.stages(kept).mean((2, 3)))


def make_network(card: BackboneCard, device: str, resolution: int | None = None) -> Network:
    """The last stage for FiLM and LoRA, on maps that are computed once for each picture. Raises what `make` raises."""
    side, network = resolution or SIDE, copy.deepcopy(frozen(card))
    trunk = folded(Trunk(copy.deepcopy(network))).to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    n_channels = network.blocks[LAST][0].conv_pw.in_channels  # type: ignore[index, union-attr]
    places = (-(-side // _STRIDE)) ** 2
    maps = _extractor(card, trunk, places * n_channels, side, device, f" maps before stage {LAST + 1}")
    return Network(card.name, Tail(network, maps, n_channels).eval().to(device), FEATURES, device)


def make(card: BackboneCard, device: str, resolution: int | None = None) -> TimmExtractor:
    """The extractor at a resolution (None: 224 pixels). Raises DataMissing where network or packages are missing.

    Batch norms are folded into the convolutions before them, and memory is channels-last: about twice as fast on a CPU.
    """
    side = resolution or SIDE
    network = copy.deepcopy(frozen(card))
    network.classifier = nn.Identity()
    folded(network).to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return _extractor(card, network, FEATURES, side, device, "")


def _extractor(card: BackboneCard, network: nn.Module, n_outputs: int, side: int, device: str, what: str) -> TimmExtractor:
    assert card.package is not None
    read = f"{side} bicubic whole folded channels-last{what}"
    identity = f"{card.name}|{card.package.sha256}|{read}|{precision(device)}"
    return TimmExtractor(network, n_outputs, identity, Input(side, 3, "bicubic"), MEAN, STD, device)


@lru_cache(maxsize=1)
def frozen(card: BackboneCard) -> nn.Module:
    """The network with its batch norms and its classifier of ImageNet, on the CPU. Do not modify it: callers share it."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    assert card.package is not None
    path = packaged.genuine_folder(card.name, card.package) / _FILE
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
    if weights.ensure_torchvision() == "absent":
        raise DataMissing(weights.FIELD, "lite0", "needs timm and torchvision: run pip install 'dpcl[vision]'")
    import timm

    with torch.random.fork_rng(devices=[]):  # timm draws initial weights, which are overwritten; no card is opened for it
        network: nn.Module = timm.create_model(_MODEL, pretrained=False)
    return network
