"""Opens a backbone by name. Imports no torch: a backbone that needs it loads it when it first computes features."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import catalog
from dpcl_core.backbones.catalog import BackboneCard
from dpcl_core.data.dataset import Content
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput


class Extractor(Protocol):
    """A frozen public function from an example, mostly an image, to a feature vector."""

    @property
    def feature_dim(self) -> int | None:
        """Length of a feature vector; None where the images' own size decides."""

    @property
    def identity(self) -> str:
        """Name, hash of the weights, preprocessing and precision: two extractors of one identity give the same features."""

    def batches(self, images: Content) -> Iterator[NDArray[np.float32]]:
        """Features [b, K] of some images after the other, in order; rows not finite come out all zero, never dropped.

        At least one batch, empty where there are no images, so that K is known. Raises BadInput for what it cannot read.
        """


class Make(Protocol):
    """What a card's module offers under the name `make`."""

    def __call__(self, card: BackboneCard, device: str) -> Extractor: ...


def load(name: str, device: str = "cpu") -> Extractor:
    """The extractor of that name on a torch device. Raises BadInput for unknown names and damaged weights, DataMissing for
    weights or packages that are not here."""
    card = catalog.card(name)
    if card.is_language_model:
        raise BadInput(catalog.FIELD, name, "must be a backbone that gives features: a language model is trained itself")
    return cast(Make, import_module(card.module).make)(card, device)


def pictures(content: Content, name: str) -> Images:
    """The examples as a network reads them. Raises BadInput, naming the network, where they are no pictures."""
    if not isinstance(content, Images):
        raise BadInput(catalog.FIELD, name, catalog.NO_PICTURES)
    return content


def precision(device: str) -> str:
    """Part of an extractor's identity: half precision on a graphics card gives slightly other features."""
    return "half" if device.startswith("cuda") else "single"


def finite(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same rows with every row that holds NaN or infinity replaced by zeros.

    Dropping it instead would tell how many images break the network, and would shift all later rows.
    """
    return np.where(np.isfinite(features).all(axis=1, keepdims=True), features, np.float32(0))
