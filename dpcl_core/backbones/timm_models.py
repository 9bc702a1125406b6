"""Image models of timm as frozen extractors: any, with the input size and normalisation of its own settings; and Lite0.

EfficientNet-Lite0, trained on ImageNet, has a resolution of choice, and its last stage can be adapted.
"""

import copy
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dpcl_core.backbones import extractor, packaged, weights
from dpcl_core.backbones.adaptable import Affine, Input, Inside, Network, Pictures, filled, in_batches
from dpcl_core.backbones.catalog import TIMM, BackboneCard
from dpcl_core.backbones.catalog import card as card_of
from dpcl_core.backbones.extractor import pictures, precision
from dpcl_core.data.dataset import Content, Images
from dpcl_core.errors import BadInput, DataMissing, instead_of

_KEPT_AT_ONCE = 256  # pictures
LITE0 = "lite0"
_MODEL = "tf_efficientnet_lite0"  # timm's name of the architecture
_FILE = "model.safetensors"
SIDE = 224  # the resolution it was trained at
LAST = 6  # index of the last of its seven stages, which adapters change
_STRIDE = 32  # pixels on a side for one place of the last maps
FEATURES = 1280
MEAN = STD = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class TimmExtractor:
    """One model without its classifier. `mean` and `std`: of pixel values in [0, 1], one per channel."""

    network: nn.Module
    feature_dim: int
    identity: str
    input_format: Input
    mean: tuple[float, ...]
    std: tuple[float, ...]
    device: str

    def batches(self, images: Content) -> Iterator[NDArray[np.float32]]:
        """float32 [b, K], pooled as for the model's own classifier. Each picture's are kept: a stopped run goes on."""
        given = pictures(images, self.identity)
        yield np.zeros((0, self.feature_dim), np.float32)
        for start in range(0, len(given), _KEPT_AT_ONCE):
            part = given.take(np.arange(start, min(start + _KEPT_AT_ONCE, len(given))))
            compute = partial(self._computed, part)
            yield extractor.cached("pictures", self.identity, self.feature_dim, part.contents(), compute)

    def _computed(self, images: Images, rows: Sequence[int]) -> NDArray[np.float32]:
        mean, std = (torch.tensor(values, device=self.device) * 255 for values in (self.mean, self.std))

        def forward(pixels: Tensor) -> Tensor:
            return cast(Tensor, self.network(((pixels.float() - mean) / std).permute(0, 3, 1, 2)))

        given = images.take(np.asarray(rows, dtype=np.int64))
        return np.concatenate(list(in_batches(forward, self.input_format, given, self.feature_dim, self.device)))


def make(card: BackboneCard, device: str, resolution: int | None = None) -> TimmExtractor:
    """The extractor; only Lite0 has a `resolution` (None: 224 pixels).

    Raises BadInput for a model unknown to timm, DataMissing where network or packages are missing.
    """
    if card.name != LITE0:
        return _any_model(card, device)
    # Batch norms are folded into the convolutions before them, and memory is channels-last: about twice as fast on a CPU.
    network = copy.deepcopy(frozen(card))
    network.classifier = nn.Identity()
    folded(network).to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return _extractor(card, network, FEATURES, resolution or SIDE, device, "")


def make_network(card: BackboneCard, device: str, resolution: int | None = None) -> Network:
    """The model for adapting its layers, of Lite0 those of its last stage. Raises what `make` raises."""
    if card.name == LITE0:  # FiLM and LoRA change the last stage alone, on maps that are computed once for each picture
        network, side = copy.deepcopy(frozen(card)), resolution or SIDE
        trunk = folded(Trunk(copy.deepcopy(network))).to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        n_channels = network.blocks[LAST][0].conv_pw.in_channels  # type: ignore[index, union-attr]
        places = (-(-side // _STRIDE)) ** 2
        maps = _extractor(card, trunk, places * n_channels, side, device, f" maps before stage {LAST + 1}")
        return Network(card.name, Tail(network, maps, n_channels).eval().to(device), FEATURES, device)
    opened = _any_model(card, device)
    mean, std = (tuple(255 * value for value in values) for values in (opened.mean, opened.std))
    pictures = Pictures(opened.network, opened.input_format, mean, std).eval().to(device)
    return Network(card.name, pictures, opened.feature_dim, device)


def _any_model(card: BackboneCard, device: str) -> TimmExtractor:
    """The extractor of a timm model.

    Whole images are resized to the model's size: its own centre crop is for photographs and would cut off the edges of small
    images. Raises BadInput for a model unknown to timm, DataMissing where timm or the weights are missing.
    """
    if find_spec("timm") is None or weights.ensure_torchvision() == "absent":
        raise DataMissing(weights.FIELD, card.name, "needs timm and torchvision: run pip install -r requirements.txt")
    import timm
    from timm.data.config import resolve_data_config

    model = card.name.removeprefix(TIMM)
    absent = BadInput(weights.FIELD, card.name, f"is no model of the installed timm {timm.__version__}")
    with instead_of(RuntimeError, say=absent):  # timm's error for an unknown name or tag
        network: nn.Module = timm.create_model(model, pretrained=False, num_classes=0)
    network.eval().requires_grad_(False)
    settings = resolve_data_config({}, model=network)  # type: ignore[no-untyped-call]
    n_channels, height, width = settings["input_size"]
    if height != width or n_channels not in (1, 3):
        raise BadInput(weights.FIELD, card.name, "must take square images of one or three channels")
    digest = _load(network, card.name, model)
    form = Input(height, n_channels, "bicubic" if settings["interpolation"] == "bicubic" else "bilinear")
    mean, std = tuple(map(float, settings["mean"])), tuple(map(float, settings["std"]))
    resolved = f"{n_channels}x{height}x{width} {form.interpolation} whole mean={mean} std={std}"
    identity = f"{card.name}|{digest}|timm {timm.__version__}|{resolved}|{precision(device)}"
    with torch.inference_mode():  # timm's attributes refer to different stages in different families
        feature_dim = int(network(torch.zeros(1, n_channels, height, height)).shape[1])
    return TimmExtractor(network.to(device), feature_dim, identity, form, mean, std, device)


def _load(network: nn.Module, name: str, model: str) -> str:
    """Loads the network from a safetensors file, without its classifier; gives the file's SHA-256."""
    settings: dict[str, object] = network.pretrained_cfg  # type: ignore[assignment]
    path = weights.local(file := f"{model}.safetensors")
    if path is None:
        repository = settings.get("hf_hub_id")
        if not isinstance(repository, str):
            raise DataMissing(weights.FIELD, name, weights.wish(file, "timm has no download address for them"))
        path = weights.from_hub(repository, model)
    classifier = settings.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(str(part) for part in classifier)  # type: ignore[attr-defined]
    with weights.whole(name, path, OSError, RuntimeError, SafetensorError):
        state = load_file(path)
        prefixes = tuple(f"{head}." for head in heads)
        network.load_state_dict({key: value for key, value in state.items() if not key.startswith(prefixes)})
    return weights.digest(path)


# EfficientNet-Lite0.


def convert(file: Path, folder: Path) -> None:
    """Writes the weights of the published checkpoint as safetensors, under timm's names.

    The checkpoint has the tensors of timm's architecture in the same order under other names. Raises BadInput where number
    or shapes differ.
    """
    # The published file is of a kind that could run code: it is opened only if it is that file, and as tensors alone.
    package = card_of(LITE0).package
    if package is None or weights.digest(file) != package.sha256:
        raise BadInput(weights.FIELD, LITE0, "its file must be the published one (its SHA-256 differs)")
    published = torch.load(file, map_location="cpu", weights_only=True)
    own = _architecture().state_dict()
    shapes, expected = ([tensor.shape for tensor in state.values()] for state in (published, own))
    if shapes != expected:
        raise BadInput(weights.FIELD, LITE0, f"its file must have the {len(expected)} tensors of timm's {_MODEL}")
    state = {name: tensor.contiguous() for name, tensor in zip(own, published.values(), strict=True)}
    save_file(state, folder / _FILE)


class Trunk(nn.Module):
    """All stages before the last one: pictures [b, 3, side, side] -> maps [b, h * w * C], places outermost."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.stages = nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:LAST])  # type: ignore[arg-type, index]

    def forward(self, images: Tensor) -> Tensor:
        return cast(Tensor, self.stages(images)).permute(0, 2, 3, 1).flatten(1)


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
        side = -(-maps.input_format.size // _STRIDE)
        self._maps, self._shape = maps, (side, side, n_channels)
        self.side = maps.input_format.size // 2  # its stage has about a quarter of the network's multiplications
        self.stages = nn.Sequential(*network.blocks[LAST:], network.conv_head, network.bn2)  # type: ignore[arg-type, index]
        for name, module in list(self.named_modules()):
            if isinstance(module, nn.BatchNorm2d):
                activation = cast(nn.Module, copy.deepcopy(module.act))
                if isinstance(activation, nn.ReLU6):
                    activation.inplace = False  # hooks for gradients of single examples forbid changes in place
                self.set_submodule(name, nn.Sequential(Standardised(module), Affine(module.weight, module.bias), activation))

    def stored(self, content: Content) -> Generator[int, None, NDArray[np.generic]]:
        images = pictures(content, "this network")
        kept = np.empty((len(images), *self._shape), np.float16)
        yield from filled(kept, self._maps.batches(images))
        return kept

    def blank(self) -> Tensor:
        return torch.zeros(1, *self._shape, dtype=torch.float16)

    def forward(self, maps: Tensor) -> Tensor:
        # Plain layout: Opacus reads a convolution's inputs by their strides, and takes any other for this one.
        kept = maps.permute(0, 3, 1, 2).to(next(self.parameters()).dtype).contiguous()
        return cast(Tensor, self.stages(kept).mean((2, 3)))


def _extractor(card: BackboneCard, network: nn.Module, n_outputs: int, side: int, device: str, what: str) -> TimmExtractor:
    assert card.package is not None
    read = f"{side} bicubic whole folded channels-last{what}"
    identity = f"{card.name}|{card.package.sha256}|{read}|{precision(device)}"
    return TimmExtractor(network, n_outputs, identity, Input(side, 3, "bicubic"), MEAN, STD, device)


@lru_cache(maxsize=1)
def frozen(card: BackboneCard) -> nn.Module:
    """The network with its batch norms and its classifier of ImageNet, on the CPU. Do not modify it: callers share it."""
    assert card.package is not None
    path = packaged.genuine_folder(card.name, card.package) / _FILE
    network = _architecture()
    with weights.whole(card.name, path, OSError, RuntimeError, SafetensorError):
        network.load_state_dict(load_file(path))
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
        raise DataMissing(weights.FIELD, LITE0, "needs timm and torchvision: run pip install 'dpcl[vision]'")
    import timm

    with torch.random.fork_rng(devices=[]):  # timm draws initial weights, which are overwritten; no card is opened for it
        return timm.create_model(_MODEL, pretrained=False)
