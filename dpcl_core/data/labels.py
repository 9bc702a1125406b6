"""The labels of a dataset without its images, for previews of streams, in the numbering that `load` uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.dataset import Source
from dpcl_core.data.outline import Outline, Part
from dpcl_core.data.title import Caps
from dpcl_core.spec import DataSpec


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Labels int64 [n] of a split, and the source of each example as an index (None: the dataset has no sources).

    `sentences` int64 [n]: the sentence of each example, where examples are words. `keys` uint64 [n]: keys of public coins;
    None where not requested.
    """

    labels: NDArray[np.int64]
    sources: NDArray[np.int64] | None
    sentences: NDArray[np.int64] | None = None
    keys: NDArray[np.uint64] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Both splits of a dataset without their images; labels index `classes`. Compared by identity.

    `n_train`: the public nominal number of training examples.
    """

    classes: tuple[str, ...]
    train: Labelled
    test: Labelled
    sources: tuple[Source, ...]
    n_train: int


def read(data: DataSpec, *, keyed: bool) -> Labels | None:
    """The labels of a dataset or its subset, cached until a file changes; None where it would have to be downloaded.

    `keyed`: with the training examples' keys, which requires reading the files in full. Raises BadInput for an unknown name
    or files that cannot be used, DataMissing for own data that do not exist.
    """
    card = catalog.card(data.dataset)
    outlines = [outline for outline in catalog.outlines(card) if outline is not None]
    if len(outlines) < len(catalog.members(card)):
        return None
    caps = Caps(data.train_per_class, data.test_per_class, data.train_per_source)
    return _read(card, tuple(outlines), caps, keyed)


def joined(card: DatasetCard, outlines: Sequence[Outline], *, keyed: bool) -> Labels:
    """The members' examples one after another, with labels shifted so that members share none.

    `keyed`: with the training examples' keys.
    """
    keys = np.concatenate([member.train.keys() for member in outlines]) if keyed else None
    n_train = sum(member.n_train for member in outlines)
    if not card.members:
        only = outlines[0]
        classes = card.classes or only.classes
        # The classes of a source are public: all for a style, its own for a member set or a family of texts.
        held = {name: tuple(classes.index(label) for label in labels) for name, labels in card.sources}
        everything = tuple(range(len(classes)))
        train, test = (
            Labelled(part.labels, part.sources, part.rows if part.of_words else None) for part in (only.train, only.test)
        )
        named = tuple(Source(name, held.get(name, everything)) for name in only.sources)
        return Labels(classes, replace(train, keys=keys), test, named, n_train)
    first = np.cumsum([0] + [len(member.classes) for member in outlines]).tolist()
    sources = [Source(name, tuple(range(first[index], first[index + 1]))) for index, name in enumerate(card.members)]
    train, test = (
        _shifted(parts, first) for parts in ([member.train for member in outlines], [member.test for member in outlines])
    )
    return Labels(card.classes, replace(train, keys=keys), test, tuple(sources), n_train)


@lru_cache(maxsize=8)
def _read(card: DatasetCard, outlines: tuple[Outline, ...], caps: Caps, keyed: bool) -> Labels:
    thinned = [outline.thinned(caps.train_per_class, caps.test_per_class, caps.train_per_source) for outline in outlines]
    return joined(card, thinned, keyed=keyed)


def _shifted(parts: Sequence[Part], first: Sequence[int]) -> Labelled:
    labels = [part.labels + start for part, start in zip(parts, first, strict=False)]
    sources = [np.full(len(part.labels), index) for index, part in enumerate(parts)]
    return Labelled(np.concatenate(labels), np.concatenate(sources))
