"""Datasets read into memory: bundled, from this computer or from the hub, whole or in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpcl_core.data import bundled, catalog, files, folder, hub, labels, parquet, tagged_files, text_files, windows
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.dataset import Content, Dataset, Split
from dpcl_core.data.files import Found
from dpcl_core.data.images import Images
from dpcl_core.data.outline import Outline, Part, outline
from dpcl_core.data.texts import Canary, Texts
from dpcl_core.data.title import Sizes, title
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.spec import DataSpec


def load(data: DataSpec, *, undeclared: bool = False) -> Dataset:
    """The dataset that the settings name, pictures still encoded, in the same rows for every seed and budget.

    `undeclared`: with the training examples whose labels nobody declared, as candidates for a learned list.

    Looked for in the folder `DPCL_DATA`, the download cache, the Hugging Face hub. Raises DataMissing saying what to put
    where, BadInput naming file, row and what is allowed.
    """
    card = catalog.card(data.dataset)
    members = catalog.members(card)
    found = [_find(member) for member in members]
    full = [outline(member, files_) for member, files_ in zip(members, found, strict=True)]
    chosen = [whole.opened() for whole in full] if undeclared else full
    kept = [whole.thinned(data.train_per_class, data.test_per_class, data.train_per_source) for whole in chosen]
    pairs = [_read(*member) for member in zip(members, found, kept, strict=True)]
    named = labels.joined(card, kept, keyed=True)
    train, test = (
        Split(_together(read) if card.members else read[0], split.labels, split.sources, split.keys)
        for read, split in zip(zip(*pairs, strict=True), (named.train, named.test), strict=True)
    )
    canaries: tuple[Canary, ...] = ()
    if card.made_per_source:
        from dpcl_core.data.synthetic.canaries import plant

        train, canaries = plant(train, tuple(source.name for source in named.sources))
    return Dataset(
        name=card.name,
        title=title(card, members, [Sizes.of(part) for part in kept], [Sizes.of(part) for part in full]),
        classes=named.classes,
        train=train,
        test=test,
        sources=named.sources,
        canaries=canaries,
        n_people=named.n_train,
        undeclared=tuple(name for whole in full for name in whole.undeclared) if undeclared else (),
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


def _together(read: Sequence[Content]) -> Images | Texts:
    """The pictures or the texts of all members."""
    if texts := [one for one in read if isinstance(one, Texts)]:
        return text_files.joined(texts)
    return parquet.concatenated([one for one in read if isinstance(one, Images)], None)


def _read(card: DatasetCard, found: Found | None, kept: Outline) -> tuple[Content, Content]:
    """What the examples of both splits are."""
    files_ = (found.train, found.test or found.train) if found else ((), ())
    if card.kind == "sensor":
        trained, tested = (
            parquet.read_windows(paths, card, part.rows) for paths, part in zip(files_, (kept.train, kept.test), strict=True)
        )
        if card.scaled_by == "training":
            return windows.z_scored(trained, tested)
        return windows.in_range(trained), windows.in_range(tested)
    if card.kind == "tagged":
        words = [
            tagged_files.read_sentences(paths, card, part.rows)
            for paths, part in zip(files_, (kept.train, kept.test), strict=True)
        ]
        return words[0], words[1]
    if card.kind == "text":
        # Of one file that is divided the test rows, too, are counted as the training rows were.
        is_divided = found is not None and not found.test
        texts = text_files.read_texts(files_[0], card, kept.train.rows, is_private=True)
        return texts, text_files.read_texts(files_[1], card, kept.test.rows, is_private=is_divided)
    test = _images(card, files_[1], kept.test, is_private=False)
    train = _images(replace(card, shape=card.shape or test.shape), files_[0], kept.train, is_private=True)
    if train.shape != test.shape:
        shapes = f"{_shown(train.shape)} and {_shown(test.shape)}"
        raise BadInput(f"{card.name} images", shapes, "train and test must hold images of the same form and size")
    return train, test


def _images(card: DatasetCard, parts: tuple[Path, ...], part: Part, *, is_private: bool) -> Images:
    if not parts:
        return bundled.digits()[0].take(part.rows)
    if parts[0].name.endswith(".parquet"):
        return parquet.read_images(parts, card, part.rows, is_private=is_private)
    return folder.read_images(parts[0], card, part.rows, is_private=is_private)


def _shown(shape: tuple[int, int, int] | None) -> str:
    return "image files" if shape is None else f"pixels of {'x'.join(map(str, shape))}"
