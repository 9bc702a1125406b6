"""Any image model of timm as a frozen extractor, with the input size and normalisation of its own settings."""

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
from dpcl_core.data.dataset import Content, Images
from dpcl_core.errors import BadInput, DataMissing

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
    if find_spec("timm") is None or weights.ensure_torchvision() == "absent":
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
    with torch.inference_mode():  # timm's attributes refer to different stages in different families
        feature_dim = int(network(torch.zeros(1, n_channels, height, height)).shape[1])
    return TimmExtractor(network.to(device), feature_dim, identity, form, mean, std, device)


def make_network(card: BackboneCard, device: str) -> Network:
    """The model without its classifier, for adapting its layers. Raises what `make` raises."""
    opened = make(card, device)
    mean, std = (tuple(255 * value for value in values) for values in (opened.mean, opened.std))
    pictures = Pictures(opened.network, opened.input_format, mean, std).eval().to(device)
    return Network(card.name, pictures, opened.feature_dim, device)


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
    try:
        state = load_file(path)
        prefixes = tuple(f"{head}." for head in heads)
        network.load_state_dict({key: value for key, value in state.items() if not key.startswith(prefixes)})
    except (OSError, RuntimeError, SafetensorError) as error:
        raise weights.damaged(name, path, error) from error
    return weights.digest(path)
