"""The labels of a dataset without its images, for previews of streams, in the numbering that `load` uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import catalog
from dpcl_core.data.caps import Caps
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.dataset import Source
from dpcl_core.data.outline import Outline, Part
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
    return _read(card, tuple(outlines), Caps.of(data), keyed)


def joined(card: DatasetCard, outlines: Sequence[Outline], *, keyed: bool) -> Labels:
    """The members' examples one after another, with labels shifted so that members share none.

    `keyed`: with the training examples' keys.
    """
    keys = np.concatenate([member.train.keys() for member in outlines]) if keyed else None
    if not card.members:
        only = outlines[0]
        classes = card.classes or only.classes
        # The classes of a source are public: all for a style, its own for a member set or a family of texts.
        own_classes = {name: tuple(classes.index(label) for label in labels) for name, labels in card.sources}
        sources = [Source(name, own_classes.get(name, tuple(range(len(classes))))) for name in only.sources]
        train, test = (
            Labelled(part.labels, part.sources, part.rows if part.of_words else None) for part in (only.train, only.test)
        )
    else:
        classes = card.classes
        first = np.cumsum([0] + [len(member.classes) for member in outlines]).tolist()
        sources = [Source(name, tuple(range(*ends))) for name, ends in zip(card.members, pairwise(first), strict=True)]
        train = _shifted([member.train for member in outlines], first)
        test = _shifted([member.test for member in outlines], first)
    n_train = sum(member.n_train for member in outlines)
    return Labels(classes, replace(train, keys=keys), test, tuple(sources), n_train)


@lru_cache(maxsize=8)
def _read(card: DatasetCard, outlines: tuple[Outline, ...], caps: Caps, keyed: bool) -> Labels:
    return joined(card, [outline.thinned(caps) for outline in outlines], keyed=keyed)


def _shifted(parts: Sequence[Part], first: Sequence[int]) -> Labelled:
    labels = [part.labels + start for part, start in zip(parts, first, strict=False)]
    sources = [np.full(len(part.labels), index) for index, part in enumerate(parts)]
    return Labelled(np.concatenate(labels), np.concatenate(sources))
