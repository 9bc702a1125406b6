"""Datasets read into memory: bundled, from this computer or from the hub, whole or in part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import bundled, catalog, files, folder, hub, parquet
from dpcl_core.data.cards import DatasetCard
from dpcl_core.data.dataset import Dataset, Source, Split
from dpcl_core.data.files import Found
from dpcl_core.data.outline import Outline, Part, outline
from dpcl_core.data.title import Sizes, title
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.spec import DataSpec


def load(data: DataSpec) -> Dataset:
    """The dataset that the settings name, images still encoded, in the same rows for every seed and budget.

    Looked for in the folder `DPCL_DATA`, the download cache, the Hugging Face hub. Raises DataMissing saying what to put
    where, BadInput naming file, row and what is allowed.
    """
    card = catalog.card(data.dataset)
    members = catalog.members(card)
    found = [_find(member) for member in members]
    full = [outline(member, files_) for member, files_ in zip(members, found, strict=True)]
    kept = [whole.thinned(data.train_per_class, data.test_per_class) for whole in full]
    parts = [_read(*member) for member in zip(members, found, kept, strict=True)]
    train, test = (_joined(card, splits, kept) for splits in zip(*parts, strict=True))
    return Dataset(
        name=card.name,
        title=title(card, members, [Sizes.counted(part) for part in kept], [Sizes.counted(part) for part in full]),
        classes=card.classes or kept[0].classes,
        train=train,
        test=test,
        sources=_sources(card, kept),
    )


def _find(card: DatasetCard) -> Found | None:
    """The dataset's files, downloaded if need be; None for the bundled one."""
    if card.name == catalog.BUNDLED:
        return None
    try:
        return files.find(card)
    except DataMissing:
        if card.hub is None:
            raise
        hub.fetch(card)
        return files.find(card)


def _read(card: DatasetCard, found: Found | None, kept: Outline) -> tuple[Split, Split]:
    files_ = (found.train, found.test or found.train) if found else ((), ())
    train, test = (_split(card, *split) for split in zip(files_, (kept.train, kept.test), strict=True))
    if train.images.shape != test.images.shape:
        shapes = f"{_shown(train.images.shape)} and {_shown(test.images.shape)}"
        raise BadInput(f"{card.name} images", shapes, "train and test must hold images of the same form and size")
    return train, test


def _split(card: DatasetCard, parts: tuple[Path, ...], part: Part) -> Split:
    if not parts:
        images = bundled.digits()[0].take(part.rows)
    elif parts[0].name.endswith(".parquet"):
        images = parquet.read_images(parts, card, part.rows)
    else:
        images = folder.read_images(folder.listing(parts[0], card), parts[0], card, part.rows)
    return Split(images, part.labels, part.sources)


def _shown(shape: tuple[int, int, int] | None) -> str:
    return "image files" if shape is None else f"pixels of {'x'.join(map(str, shape))}"


def _joined(card: DatasetCard, splits: tuple[Split, ...], outlines: list[Outline]) -> Split:
    """The members' examples one after another: each keeps its own labels, shifted behind those of the members before it."""
    if not card.members:
        return splits[0]
    first = np.cumsum([0] + [len(member.classes) for member in outlines])
    labels = [split.labels + start for split, start in zip(splits, first[:-1], strict=True)]
    sources: list[NDArray[np.int64]] = [np.full(len(split), index) for index, split in enumerate(splits)]
    images = parquet.concatenated([split.images for split in splits], None)
    return Split(images, np.concatenate(labels), np.concatenate(sources))


def _sources(card: DatasetCard, outlines: list[Outline]) -> tuple[Source, ...]:
    """Which classes a source can hold is public: a member set its own, a style all of them."""
    if not card.members:
        everything = tuple(range(len(outlines[0].classes)))
        return tuple(Source(name, everything) for name in outlines[0].sources)
    first = np.cumsum([0] + [len(member.classes) for member in outlines])
    return tuple(
        Source(name, tuple(range(int(first[index]), int(first[index + 1])))) for index, name in enumerate(card.members)
    )
