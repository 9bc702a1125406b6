"""Loads extractors by name. Imports no torch: a backbone that needs it loads it when it first computes features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import catalog
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.backbones.language import files as language
from dpcl_core.data.dataset import Content
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput


class Extractor(Protocol):
    """A frozen public function from an example (an image, a window, a text) to a feature vector."""

    @property
    def feature_dim(self) -> int | None:
        """Length of a feature vector; None where it depends on the images' size."""

    @property
    def identity(self) -> str:
        """Name, hash of the weights, preprocessing and precision: two extractors of one identity give the same features."""

    def batches(self, images: Content) -> Iterator[NDArray[np.float32]]:
        """Features [b, K] of the images in order, batch by batch; non-finite rows become zero, never dropped.

        At least one batch, empty where there are no images, so that K is known. Raises BadInput for unreadable content.
        """


class Make(Protocol):
    """`make` of a card's module; only a card with `resolutions` is made at one."""

    def __call__(self, card: BackboneCard, device: str, **resolution: int) -> Extractor: ...


def load(name: str, device: str = "cpu", resolution: int | None = None) -> Extractor:
    """The named extractor on a torch device, reading pictures at a resolution (None: its own).

    Raises BadInput for unknown names, damaged weights and a resolution that it does not have, DataMissing for missing
    weights or packages.
    """
    card = catalog.card(name)
    if card.is_language_model:
        raise BadInput(catalog.FIELD, name, "must be a backbone that gives features: a language model is trained itself")
    catalog.refuse_resolution(card, resolution)
    make = cast(Make, import_module(card.module).make)
    return make(card, device) if resolution is None else make(card, device, resolution=resolution)


@lru_cache(maxsize=8)
def identity(name: str, device: str = "cpu", resolution: int | None = None) -> str:
    """The `identity` of the named extractor; for a language model its name and the hash of its weights.

    Raises what `load` raises.
    """
    card = catalog.card(name)
    if not card.is_language_model:
        return load(name, device, resolution).identity
    return f"{name}|{language.weights_digest(name, card.package.sha256 if card.package else None)}"


def pictures(content: Content, name: str) -> Images:
    """The examples as pictures. Raises BadInput, naming the network, where they are not pictures."""
    if not isinstance(content, Images):
        raise BadInput(catalog.FIELD, name, catalog.NO_PICTURES)
    return content


def precision(device: str) -> str:
    """Part of an extractor's identity: half precision on a graphics card gives slightly different features."""
    if device == "cpu":
        return "single"
    from dpcl_core.backbones.gpu import half_precision  # loads torch, which a card's user has anyway

    return "single" if half_precision(device) is None else "bfloat16"


def finite(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows with every row that has NaN or infinity replaced by zeros.

    Dropping it instead would reveal how many images break the network, and would shift all later rows.
    """
    return np.where(np.isfinite(features).all(axis=1, keepdims=True), features, np.float32(0))
