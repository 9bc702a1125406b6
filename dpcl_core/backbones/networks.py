"""The bundled image network: small, LayerNorm only, made of plain Conv2d, Linear and LayerNorm modules.

LayerNorm keeps the gradients of single examples separate (BatchNorm would mix them), and FiLM (every LayerNorm), LoRA (every
Linear) and per-example gradient hooks require plain modules. No parameter is outside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from dpcl_core.backbones import extractor, weights
from dpcl_core.backbones.adaptable import Input, Network, Pictures, in_batches
from dpcl_core.backbones.catalog import TIMM, BackboneCard
from dpcl_core.backbones.extractor import pictures, precision
from dpcl_core.backbones.weights import ensure_torchvision
from dpcl_core.data.dataset import Content
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput, DataMissing

# Any image model of timm as a frozen extractor, with the input size and normalisation of its own settings.


_KEPT_AT_ONCE = 256  # pictures


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
            pooled: Tensor = self.network(((pixels.float() - mean) / std).permute(0, 3, 1, 2))
            return pooled

        given = images.take(np.asarray(rows, dtype=np.int64))
        return np.concatenate(list(in_batches(forward, self.input_format, given, self.feature_dim, self.device)))


def make(card: BackboneCard, device: str) -> TimmExtractor:
    """The extractor of a timm model.

    Whole images are resized to the model's size: its own centre crop is for photographs and would cut off the edges of small
    images. Raises BadInput for a model unknown to timm, DataMissing where timm or the weights are missing.
    """
    if find_spec("timm") is None or ensure_torchvision() == "absent":
        raise DataMissing(weights.FIELD, card.name, "needs timm and torchvision: run pip install -r requirements.txt")
    import timm
    from timm.data.config import resolve_data_config

    model = card.name.removeprefix(TIMM)
    try:
        network: nn.Module = timm.create_model(model, pretrained=False, num_classes=0)
    except RuntimeError as error:  # timm's error for an unknown name or tag
        raise BadInput(weights.FIELD, card.name, f"is no model of the installed timm {timm.__version__}") from error
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
    feature_dim = _feature_dim(network, n_channels, height)
    return TimmExtractor(network.to(device), feature_dim, identity, form, mean, std, device)


def make_network(card: BackboneCard, device: str) -> Network:
    """The model without its classifier, for adapting its layers. Raises what `make` raises."""
    opened = make(card, device)
    mean, std = (tuple(255 * value for value in values) for values in (opened.mean, opened.std))
    pictures = Pictures(with_plain_norms(opened.network), opened.input_format, mean, std).eval().to(device)
    return Network(card.name, pictures, opened.feature_dim, device)


def with_plain_norms(network: nn.Module) -> nn.Module:
    """The same network with torch's LayerNorm in place of timm's equivalent subclass.

    Opacus finds the rule for a layer's per-example gradients by its exact class, and uses a slow fallback for any other.
    """
    from timm.layers.norm import LayerNorm as TimmLayerNorm

    for module in list(network.modules()):
        for name, part in module.named_children():
            if type(part) is TimmLayerNorm:
                plain = nn.LayerNorm(part.normalized_shape, part.eps, part.elementwise_affine, part.bias is not None)
                plain.load_state_dict(part.state_dict())
                module.add_module(name, plain.requires_grad_(False))
    return network


@torch.inference_mode()
def _feature_dim(network: nn.Module, n_channels: int, size: int) -> int:
    """Feature dimension, from one blank image: timm's attributes refer to different stages in different families."""
    return int(network(torch.zeros(1, n_channels, size, size)).shape[1])


def _load(network: nn.Module, name: str, model: str) -> str:
    """Loads the network from a safetensors file, without its classifier; gives the file's SHA-256."""
    settings: dict[str, object] = network.pretrained_cfg  # type: ignore[assignment]
    path = weights.local(model)
    if path is None:
        repository = settings.get("hf_hub_id")
        if not isinstance(repository, str):
            raise DataMissing(weights.FIELD, name, weights.wish(model, "timm has no download address for them"))
        path = weights.from_hub(repository, model)
    classifier = settings.get("classifier") or ()
    heads = (classifier,) if isinstance(classifier, str) else tuple(str(part) for part in classifier)  # type: ignore[attr-defined]
    try:
        state = load_file(path)
        prefixes = tuple(f"{head}." for head in heads)
        network.load_state_dict({key: value for key, value in state.items() if not key.startswith(prefixes)})
    except (OSError, RuntimeError, SafetensorError) as error:
        raise weights.damaged(name, path, error) from error
    return weights.digest(path)


# Common base of the bundled networks: frozen features whitened by constants of the public training pictures.


class Whitened(nn.Module):
    """A network of images [b, 3, H, W] with a classification `head`; `features` [b, feature_dim] are the head's inputs.

    `frozen`: the outputs of the frozen extractor, which are `pooled` (defined by each network), whitened.
    """

    centre: Tensor
    whitening: Tensor

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        self.feature_dim = feature_dim
        self.register_buffer("centre", torch.zeros(feature_dim))
        self.register_buffer("whitening", torch.eye(feature_dim))

    def pooled(self, images: Tensor) -> Tensor:
        """The features to be whitened: float [b, feature_dim]."""
        raise NotImplementedError

    def features(self, images: Tensor) -> Tensor:
        """The inputs of the head: float [b, feature_dim]."""
        raise NotImplementedError

    def frozen(self, images: Tensor) -> Tensor:
        """The frozen features [b, feature_dim]: `pooled`, whitened by constants of the training pictures."""
        white: Tensor = (self.pooled(images) - self.centre) @ self.whitening
        return white

    @torch.no_grad()
    def whiten(self, pooled: Tensor) -> None:
        """Fixes centre and whitening from `pooled` [n, feature_dim] of the public training pictures.

        Trained features concentrate on few directions, and their cosines separate little. The variance of each direction is
        increased by 0.3 of the mean variance, so that directions of small variance are not blown up to noise.
        """
        spread, directions = torch.linalg.eigh(torch.cov(pooled.T.double()))
        self.centre.copy_(pooled.mean(0))
        self.whitening.copy_(directions / (spread + 0.3 * spread.mean()).sqrt())


class Frozen(nn.Module):
    """A module whose output is the network's frozen features."""

    def __init__(self, network: Whitened) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network.frozen(images)


def start_as_identity(out: nn.Linear) -> None:
    """Sets a residual block's last layer to zero: the block starts as the identity, and any depth trains without warm-up."""
    nn.init.zeros_(out.weight)
    nn.init.zeros_(out.bias)


SIZE = 32
CENTRE, SPREAD = 127.5, 64.0
PREPROCESSING = "rgb-32-bilinear-127.5-64"  # part of every cache key: change it whenever `normalised` changes


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of the network: widths and depths of its three stages (16x16, 8x8 and 4x4 cells) and number of classes."""

    widths: tuple[int, int, int] = (48, 96, 192)
    depths: tuple[int, int, int] = (1, 2, 2)
    n_classes: int = 100


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of each cell of a map [b, C, H, W].

    In channels-last memory the two permutes are views: the norm reads and writes contiguous rows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, maps: Tensor) -> Tensor:
        normed: Tensor = self.norm(maps.permute(0, 2, 3, 1))
        return normed.permute(0, 3, 1, 2)


class DenseBlock(nn.Module):
    """Residual block of the early stages: a full 3x3 convolution, then one Linear per cell. Shape kept.

    On a CPU a depthwise convolution is limited by memory bandwidth, a full one is not. Trained for two minutes of CPU time
    with one seed each, this network and one with depthwise blocks only were about equal (20.3 and 19.5 % on CIFAR-100).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = ChannelNorm(width)
        self.mix = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.act = nn.GELU()
        self.out = nn.Linear(width, width)
        start_as_identity(self.out)

    def forward(self, maps: Tensor) -> Tensor:
        cells = self.mix(self.before(maps)).permute(0, 2, 3, 1)
        change: Tensor = self.out(self.act(self.norm(cells)))
        return maps + change.permute(0, 3, 1, 2)


class DepthwiseBlock(nn.Module):
    """ConvNeXt's residual block (Liu et al. 2022, fig. 4): depthwise convolution, LayerNorm, MLP per cell."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.out = nn.Linear(4 * width, width)
        start_as_identity(self.out)

    def forward(self, maps: Tensor) -> Tensor:
        cells = self.norm(self.mix(maps).permute(0, 2, 3, 1))
        change: Tensor = self.out(self.act(self.up(cells)))
        return maps + change.permute(0, 3, 1, 2)


class ConvNeXt(Whitened):
    """Images [b, 3, 32, 32] -> scores [b, n_classes]; `features` stops before the head, at [b, widths[2]].

    Sides other than 32 work as well (training starts on smaller images); nothing depends on the map's size.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.widths[-1])
        self.shape = shape
        layers: list[nn.Module] = [nn.Conv2d(3, shape.widths[0], 4, stride=2, padding=1)]
        for stage, (width, depth) in enumerate(zip(shape.widths, shape.depths, strict=True)):
            if stage:
                previous = shape.widths[stage - 1]
                layers += [ChannelNorm(previous), nn.GELU(), nn.Conv2d(previous, width, 3, stride=2, padding=1)]
            block = DepthwiseBlock if stage == len(shape.widths) - 1 else DenseBlock
            layers += [block(width) for _ in range(depth)]
        self.body = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(shape.widths[-1])
        self.head = nn.Linear(shape.widths[-1], shape.n_classes)

    def pooled(self, images: Tensor) -> Tensor:
        """Mean over the map's cells one block before the end: float [b, widths[2]].

        The last block is specialised to the training classes and loses features that separate others.
        """
        means: Tensor = self.body[:-1](images).mean((2, 3))
        return means

    def features(self, images: Tensor) -> Tensor:
        """Mean over the last map's cells, normed: float [b, widths[2]]."""
        normed: Tensor = self.norm(self.body(images).mean((2, 3)))
        return normed

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(images))
        return scores


def build(shape: Shape) -> ConvNeXt:
    """A newly initialised network in channels-last memory, the faster layout for its convolutions on a CPU."""
    return ConvNeXt(shape).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def normalised(pixels: Tensor) -> Tensor:
    """uint8 [b, H, W, 3] -> float32 [b, 3, H, W] (channels-last memory), (v - 127.5) / 64.

    Fixed constants instead of a dataset's mean and spread, which would be statistics of the private images.
    """
    return ((pixels.float() - CENTRE) / SPREAD).permute(0, 3, 1, 2)
