"""The bundled networks as extractors. Identity and feature size come from the card file: a cache hit loads no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from dpcl_core import arrays, paths
from dpcl_core.backbones import weights
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.extractor import pictures, precision
from dpcl_core.backbones.later import adaptable, networks, torch
from dpcl_core.data import catalog as datasets
from dpcl_core.data.dataset import Content
from dpcl_core.errors import BadInput, DataMissing, at_most, instead_of
from dpcl_core.privacy.sums import RowProducts, by_blocks


@dataclass(frozen=True, slots=True)
class Bundled:
    """One bundled network on one device."""

    name: str
    device: str
    feature_dim: int
    identity: str

    def batches(self, images: Content) -> Iterator[NDArray[np.float32]]:
        """float32 [b, K]: the network's features, whitened."""
        ready = network(self.name).to(self.device).eval()
        form, given = adaptable.Input(networks.SIZE, 3, "bilinear"), pictures(images, self.name)

        def forward(pixels: torch.Tensor) -> torch.Tensor:
            return ready.frozen(networks.normalised(pixels))

        return adaptable.in_batches(forward, form, given, self.feature_dim, self.device)


def make(card: BackboneCard, device: str) -> Bundled:
    """The extractor of a bundled network. Raises DataMissing where its files are missing."""
    bundle = weights.bundled(card.name)
    identity = f"{card.name}|{bundle.sha256}|{bundle.preprocessing}|{precision(device)}"
    return Bundled(card.name, device, bundle.feature_dim, identity)


def make_network(card: BackboneCard, device: str) -> adaptable.Network:
    """The network up to its frozen features, for adapting its layers. Raises what `network` raises."""
    ready = network(card.name)
    frozen: torch.nn.Module = networks.Frozen(ready).requires_grad_(False)
    form, mean, std = adaptable.Input(networks.SIZE, 3, "bilinear"), (networks.CENTRE,) * 3, (networks.SPREAD,) * 3
    pictures = adaptable.Pictures(frozen, form, mean, std).eval().to(device)
    return adaptable.Network(card.name, pictures, ready.feature_dim, device)


def network(name: str) -> networks.Whitened:
    """The network itself, float32 on the CPU, with its head and everything trainable.

    Raises DataMissing where its files are missing, BadInput where they do not match the card.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    bundle = weights.bundled(name)
    with weights.whole(name, bundle.path, OSError, ValueError, KeyError, RuntimeError, SafetensorError):
        content = bundle.path.read_bytes()
        if sha256(content).hexdigest() != bundle.sha256:
            raise ValueError("its SHA-256 is not the one on its card")
        if bundle.preprocessing != networks.PREPROCESSING:
            raise ValueError(f"made for {bundle.preprocessing}, this version prepares pictures as {networks.PREPROCESSING}")
        state = load(content)
        shape = (networks.ViTShape if bundle.architecture == "ViT" else networks.Shape)(n_classes=len(state["head.bias"]))
        ready = networks.build(shape)
        ready.load_state_dict({key: value.to(torch.float32) for key, value in state.items()})
    return ready


# Public axes: features are centred, turned and scaled by constants of public pictures, most telling directions first.
#
# Noise on K numbers has length sigma sqrt(K), whatever they tell. Most of a large network's features tell little that the
# first few directions do not: with fewer of them there is less noise. The constants come from public pictures alone
# (scripts/make_axes.py), so they cost no privacy.


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Axes of one network. `centre` float32 [K]; `directions` float32 [K, A], scaled, in order of falling variance.

    `public`: the public dataset that they were made from.
    """

    public: str
    centre: NDArray[np.float32]
    directions: NDArray[np.float32]

    def first(self, n_axes: int) -> Axes:
        """The first of these axes."""
        return Axes(self.public, self.centre, np.ascontiguousarray(self.directions[:, :n_axes]))

    def along(self, features: NDArray[np.generic]) -> NDArray[np.float32]:
        """Coordinates float32 [n, A] of features [n, K]; zeros for a row with a number that is not finite.

        A row's coordinates are a function of that row alone: the centre is subtracted number by number, and the products are
        exact (`RowProducts`), so neither its place nor the rows beside it, the block nor the number of threads can matter.
        Nor does the number of axes: the first of many are those of fewer.
        """
        along, n_axes = RowProducts(self.directions), self.directions.shape[1]
        return by_blocks(features, n_axes, lambda rows: along.of(np.asarray(rows, np.float64) - self.centre))


def public_part(card: BackboneCard, dataset_name: str) -> str | None:
    """The public dataset whose axes serve this one: the first of the network's that shares no picture with it.

    None where the network has no axes, or all of them were made from this dataset.
    """
    try:
        members = {member.name for member in datasets.members(datasets.card(dataset_name))}
    except BadInput:  # the user's own data
        members = set()
    return next((name for name in card.axes if name not in {dataset_name, *members}), None)


def refuse(card: BackboneCard, dataset_name: str, n_axes: int | None) -> None:
    """Raises BadInput for a number of axes where there are none, or not as many; 0 and None are right everywhere."""
    if not n_axes:
        return
    if (public := public_part(card, dataset_name)) is not None:
        most = load(card.name, public).directions.shape[1]
        at_most("data.axes", n_axes, most, f", the number of public axes of {card.name}")
        return
    made_from_it = f" on {dataset_name}, from whose pictures all of its public axes were made"
    why = made_from_it if card.axes else ", which has no public axes"
    raise BadInput("data.axes", n_axes, f"must be left out or 0 with data.backbone = {card.name}{why}", {"data.axes": None})


@lru_cache(maxsize=4)
def load(backbone: str, public: str) -> Axes:
    """The axes of a network made from a public dataset. Raises DataMissing where the file is missing or damaged."""
    path = paths.assets_dir() / "axes" / f"{backbone}-{public}.safetensors"
    missing = DataMissing(weights.FIELD, backbone, f"needs its axes {path}: make them with scripts/make_axes.py")
    with instead_of(OSError, KeyError, arrays.Damaged, say=missing):
        found = arrays.load(path.read_bytes())
        centre, directions = (found[name].astype(np.float32) for name in ("centre", "directions"))
    return Axes(public, centre, directions)
