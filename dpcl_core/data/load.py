"""Loads datasets into memory, whole or as a subset: bundled, from this computer or from the hub; and public sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data import catalog, dataset, files, parquet, sheets, tables, tagged
from dpcl_core.data.card import Caps, DatasetCard
from dpcl_core.data.catalog import Sizes, truthful_title
from dpcl_core.data.columns import is_text, pq
from dpcl_core.data.dataset import Content, Dataset, Source, Split
from dpcl_core.data.files import DataFiles
from dpcl_core.data.images import Images
from dpcl_core.data.outline import Outline, Part, outline
from dpcl_core.data.rows import digits
from dpcl_core.data.tables import TextSheet, joined_texts
from dpcl_core.data.texts import Canary, Sentences, Texts
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.spec import DataSpec

# The labels of a dataset without its images, for previews of streams, in the numbering that `load` uses.


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


def read_labels(data: DataSpec, *, keyed: bool) -> Labels | None:
    """The labels of a dataset or its subset, cached until a file changes; None where it would have to be downloaded.

    `keyed`: with the training examples' keys, which requires reading the files in full. Raises BadInput for an unknown name
    or files that cannot be used, DataMissing for own data that do not exist.
    """
    card = catalog.card(data.dataset)
    outlines = [outline for outline in catalog.outlines(card) if outline is not None]
    if len(outlines) < len(catalog.members(card)):
        return None
    return _read_labels(card, tuple(outlines), Caps.of(data), keyed)


def join_members(card: DatasetCard, outlines: Sequence[Outline], *, keyed: bool) -> Labels:
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
def _read_labels(card: DatasetCard, outlines: tuple[Outline, ...], caps: Caps, keyed: bool) -> Labels:
    return join_members(card, [outline.thinned(caps) for outline in outlines], keyed=keyed)


def _shifted(parts: Sequence[Part], first: Sequence[int]) -> Labelled:
    labels = [part.labels + start for part, start in zip(parts, first, strict=False)]
    sources = [np.full(len(part.labels), index) for index, part in enumerate(parts)]
    return Labelled(np.concatenate(labels), np.concatenate(sources))


def load_dataset(data: DataSpec, *, undeclared: bool = False) -> Dataset:
    """The dataset that the settings name, with pictures still encoded; the same rows for every seed and budget.

    `undeclared`: with the training examples of undeclared labels, as candidates for a learned list.

    Searches the folder `DPCL_DATA`, the download cache, the Hugging Face hub. Raises DataMissing naming the files to add and
    their folder, BadInput naming file, row and what is allowed.
    """
    card = catalog.card(data.dataset)
    members = catalog.members(card)
    data_files = [_find(member) for member in members]
    full = [outline(member, files_) for member, files_ in zip(members, data_files, strict=True)]
    chosen = [one.opened() for one in full] if undeclared else full
    thinned = [one.thinned(Caps.of(data)) for one in chosen]
    pairs = [_read(*member) for member in zip(members, data_files, thinned, strict=True)]
    named = join_members(card, thinned, keyed=True)
    parts = []
    for read, split in zip(zip(*pairs, strict=True), (named.train, named.test), strict=True):
        texts, images = [one for one in read if isinstance(one, Texts)], [one for one in read if isinstance(one, Images)]
        content = (joined_texts(texts) if texts else parquet.concatenated(images, None)) if card.members else read[0]
        parts.append(Split(content, split.labels, split.sources, split.keys))
    train, test = parts
    canaries: tuple[Canary, ...] = ()
    if card.made_per_source:
        from dpcl_core.data.synthetic import plant

        train, canaries = plant(train, tuple(source.name for source in named.sources))
    return Dataset(
        name=card.name,
        title=truthful_title(card, members, [Sizes.of(part) for part in thinned], [Sizes.of(part) for part in full]),
        classes=named.classes,
        train=train,
        test=test,
        sources=named.sources,
        canaries=canaries,
        n_people=named.n_train,
        undeclared=tuple(name for one in full for name in one.undeclared) if undeclared else (),
    )


def _find(card: DatasetCard) -> DataFiles | None:
    """The dataset's files, downloaded if necessary; None for the bundled one."""
    if card.name == catalog.BUNDLED:
        return None
    try:
        return files.find(card)
    except DataMissing:
        if card.hub is None:
            raise
        files.fetch(card)
        return files.find(card)


def _read(card: DatasetCard, data_files: DataFiles | None, rows: Outline) -> tuple[Content, Content]:
    """The examples of the training and test parts."""
    train_paths, test_paths = (data_files.train, data_files.test or data_files.train) if data_files else ((), ())
    train_rows, test_rows = rows.train.rows, rows.test.rows
    # A file or folder of the user's own, divided by coins: nobody chose what is in its test part, so no error names a row.
    is_divided = card.is_own and data_files is not None and not data_files.test
    train, test = (train_paths, train_rows), (test_paths, test_rows)
    if card.kind == "sensor":
        accelerations = [parquet.read_windows(paths, card, of_part) for paths, of_part in (train, test)]
        if card.scaled_by == "training":
            return dataset.z_scored(*accelerations)
        return dataset.in_range(accelerations[0]), dataset.in_range(accelerations[1])
    if card.kind == "tagged":
        return tagged.read_sentences(*train, card), tagged.read_sentences(*test, card)
    if card.kind in ("table", "embedding"):
        return tables.read_vectors(card, train, test, is_divided=is_divided)
    if card.kind == "text":
        # In a single divided file the numbers of test rows, too, skip malformed lines as those of training rows do.
        is_single = data_files is not None and not data_files.test
        texts = TextSheet(train_paths, card, is_private=True).texts(train_rows)
        return texts, TextSheet(test_paths, card, is_private=is_single).texts(test_rows)
    tested = _images(card, *test, is_private=is_divided)
    trained = _images(replace(card, shape=card.shape or tested.shape), *train, is_private=True)
    if trained.shape != tested.shape:
        shapes = f"{_shown(trained.shape)} and {_shown(tested.shape)}"
        raise BadInput(f"{card.name} images", shapes, "train and test must hold images of the same form and size")
    return trained, tested


def _images(card: DatasetCard, paths: tuple[Path, ...], rows: NDArray[np.int64], *, is_private: bool) -> Images:
    if not paths:
        return digits()[0].take(rows)
    if paths[0].suffix == ".parquet":
        return parquet.read_images(paths, card, rows, is_private=is_private)
    return tables.read_images(paths[0], card, rows, is_private=is_private)


def _shown(shape: tuple[int, int, int] | None) -> str:
    return "image files" if shape is None else f"pixels of {'x'.join(map(str, shape))}"


# Anchors: public sentences that describe distributions of texts, from Wikipedia if present, else synthetic ones.

_MOST_SENTENCES = 2_000
SENTENCES = "sentences.json"  # in the assets of a page
_FOLDER, _FILE = "anchors_wikipedia", "anchors.parquet"
_SEED = 20_250_919  # a public constant: the same sentences and words in every run
_OF_WORDS, _WORDS = 500, 4  # sentences that words are taken from, for tagged data, and words of each


@dataclass(frozen=True, slots=True, eq=False)
class PublicSentences:
    """Public sentences. `rows` int64 [p], p <= 2,000: the rows whose features are used; `title` names them truthfully."""

    content: Content
    rows: NDArray[np.int64]
    title: str


def public_sentences(*, is_tagged: bool = False) -> PublicSentences:
    """The public sentences; with `is_tagged`, four words from each of 500 sentences instead of whole sentences.

    Raises BadInput for a file without sentences.
    """
    strings, title = _sentences()
    if not is_tagged:
        return PublicSentences(Texts(strings), np.arange(len(strings), dtype=np.int64), f"{len(strings):,} {title}")
    words = [tuple(string.split()) for string in strings[:_OF_WORDS]]
    random = np.random.default_rng(_SEED)
    lengths = np.array([len(one) for one in words])
    chosen = [first + random.permutation(n)[:_WORDS] for first, n in zip(np.cumsum(lengths) - lengths, lengths, strict=True)]
    rows = np.sort(np.concatenate(chosen)).astype(np.int64)
    return PublicSentences(Sentences(words), rows, f"{len(rows):,} words of {len(words):,} {title}")


def invented() -> list[str]:
    """The invented sentences: made here, or as they were made for a page, which lacks what makes them."""
    made = paths.assets_dir() / SENTENCES
    if made.is_file():
        return cast("list[str]", json.loads(made.read_bytes()))
    from dpcl_core.data.synthetic import companion  # the generator of texts is slow to load, and only this needs it

    return list(companion(_MOST_SENTENCES, _SEED).strings)


def _sentences() -> tuple[list[str], str]:
    folder = paths.data_dir()
    path = None if folder is None else paths.inside(folder / _FOLDER, _FILE, "anchors")
    if path is None or not path.is_file():
        return invented(), "invented texts of this project's public corpus"
    with sheets.readable(path, _FILE):
        table = pq.read_table(path)
    if "text" not in table.column_names or not is_text(table.schema.field("text").type):
        raise BadInput(_FILE, ", ".join(table.column_names), "must have a column text of public sentences")
    strings = [string for string in table["text"].to_pylist() if string and string.strip()]
    if not strings:
        raise BadInput(_FILE, "no sentences", "must hold at least one public sentence")
    return strings[:_MOST_SENTENCES], "sentences of the English Wikipedia"
