"""Loads datasets into memory, whole or as a subset: bundled, from this computer or from the hub; and public examples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data import catalog, dataset, files, parquet, sheets, tables, tagged
from dpcl_core.data.card import Caps, DatasetCard, Kind
from dpcl_core.data.catalog import Sizes, truthful_title
from dpcl_core.data.columns import Image, is_text, pq
from dpcl_core.data.dataset import Content, Dataset, Images, Source, Split, Windows
from dpcl_core.data.outline import Outline, Part, outline
from dpcl_core.data.rows import digits
from dpcl_core.data.texts import Canary, Sentences, Texts
from dpcl_core.errors import BadInput
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
    classes = card.classes or outlines[0].classes
    first = np.cumsum([0] + [len(member.classes) for member in outlines]).tolist()
    # The classes of a source are public: all for a style, its own for a member set or a family of texts.
    own_classes = {name: tuple(map(classes.index, labels)) for name, labels in card.sources}
    own_classes |= {name: tuple(range(*ends)) for name, ends in zip(card.members, pairwise(first), strict=False)}
    names = card.members or outlines[0].sources
    sources = tuple(Source(name, own_classes.get(name, tuple(range(len(classes))))) for name in names)
    train, test = _joined([member.train for member in outlines], first), _joined([member.test for member in outlines], first)
    keys = np.concatenate([member.train.keys() for member in outlines]) if keyed else None
    return Labels(classes, replace(train, keys=keys), test, sources, sum(member.n_train for member in outlines))


def _joined(parts: Sequence[Part], first: Sequence[int]) -> Labelled:
    """The labels of several members after one another, from these numbers on; each member is a source."""
    if len(parts) == 1:
        return Labelled(parts[0].labels, parts[0].sources, parts[0].rows if parts[0].of_words else None)
    labels = [part.labels + start for part, start in zip(parts, first, strict=False)]
    sources = [np.full(len(part.labels), index) for index, part in enumerate(parts)]
    return Labelled(np.concatenate(labels), np.concatenate(sources))


@lru_cache(maxsize=8)
def _read_labels(card: DatasetCard, outlines: tuple[Outline, ...], caps: Caps, keyed: bool) -> Labels:
    return join_members(card, [outline.thinned(caps) for outline in outlines], keyed=keyed)


def load_dataset(data: DataSpec, *, undeclared: bool = False) -> Dataset:
    """The dataset that the settings name, with pictures still encoded; the same rows for every seed and budget.

    `undeclared`: with the training examples of undeclared labels, as candidates for a learned list.

    Searches the folder `DPCL_DATA`, the download cache, the Hugging Face hub. Raises DataMissing naming the files to add and
    their folder, BadInput naming file, row and what is allowed.
    """
    card = catalog.card(data.dataset)
    members = catalog.members(card)
    full = []
    for member, here in zip(members, catalog.outlines(card), strict=True):
        if here is None:
            files.fetch(member)
        full.append(here or outline(member))
    thinned = [(one.opened() if undeclared else one).thinned(Caps.of(data)) for one in full]
    named = join_members(card, thinned, keyed=True)
    parts = []
    for read, split in zip(zip(*map(_read, thinned), strict=True), (named.train, named.test), strict=True):
        texts, images = [one for one in read if isinstance(one, Texts)], [one for one in read if isinstance(one, Images)]
        content = (tables.joined_texts(texts) if texts else parquet.concatenated(images, None)) if card.members else read[0]
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


def _read(outlined: Outline) -> tuple[Content, Content]:
    """The examples of the training and test parts."""
    train, test = (outlined.train.contents, outlined.train.rows), (outlined.test.contents, outlined.test.rows)
    card = train[0].card
    if card.kind == "sensor":
        accelerations = parquet.read_windows(*train), parquet.read_windows(*test)
        if card.scaled_by == "training":
            return dataset.z_scored(*accelerations)
        return dataset.in_range(accelerations[0]), dataset.in_range(accelerations[1])
    if card.kind == "tagged":
        return tagged.read_sentences(*train), tagged.read_sentences(*test)
    if card.kind in ("table", "embedding"):
        return tables.read_vectors(*train, *test)
    if card.kind == "text":
        # In a single divided file the numbers of test rows, too, skip malformed lines as those of training rows do.
        return tables.TextSheet(train[0]).texts(train[1]), tables.TextSheet(test[0]).texts(test[1])
    # A file or folder of the user's own, divided by coins: nobody chose what is in its test part, so no error names a row.
    tested = _images(replace(test[0], is_private=test[0].is_private and card.is_own), test[1])
    trained = _images(replace(train[0], card=replace(card, shape=card.shape or tested.shape)), train[1])
    if trained.shape != tested.shape:
        both = (trained.shape, tested.shape)
        shapes = " and ".join("image files" if one is None else f"pixels of {'x'.join(map(str, one))}" for one in both)
        raise BadInput(f"{card.name} images", shapes, "train and test must hold images of the same form and size")
    return trained, tested


def _images(of: files.Contents, rows: NDArray[np.int64]) -> Images:
    if not of.paths:
        return digits()[0].take(rows)
    return parquet.read_images(of, rows) if of.paths[0].suffix == ".parquet" else tables.read_images(of, rows)


# Anchors: public sentences that describe distributions of texts, from Wikipedia if present, else synthetic ones.

_MOST_SENTENCES = 2_000
SENTENCES = "sentences.json"  # in the assets of a page
_FOLDER, _FILE = "anchors_wikipedia", "anchors.parquet"
_SEED = 20_250_919  # a public constant: the same sentences, words and examples in every run
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
    with sheets.readable(path, _FILE, sheets.NO_PARQUET):
        table = pq.read_table(path)
    if "text" not in table.column_names or not is_text(table.schema.field("text").type):
        raise BadInput(_FILE, ", ".join(table.column_names), "must have a column text of public sentences")
    strings = [string for string in table["text"].to_pylist() if string and string.strip()]
    if not strings:
        raise BadInput(_FILE, "no sentences", "must hold at least one public sentence")
    return strings[:_MOST_SENTENCES], "sentences of the English Wikipedia"


# Public examples of the kind that a method learns from: anchors, and what its public axes are fitted to.
#
# Made of public things alone: sentences, two photographs that come with scikit-learn, and numbers drawn within public
# ranges. No private row has a part in them, so that they cost no privacy; of the data only the kind and the public form are
# read.


N_ANCHORS = 2_000
_PHOTOGRAPHS = ("china.jpg", "flower.jpg")
_SIDE = 32  # of a cut-out, where the data have no public size
_SMALLEST = 32  # pixels of a photograph that a cut-out shows at least, along a side
_WAVES = 3


def public_examples(content: Content) -> PublicSentences:
    """Public examples of the same kind and public form as these, whose rows are not looked at; the title says what they are.

    Raises BadInput for a file of public sentences that has none.
    """
    if isinstance(content, Texts | Sentences):
        return public_sentences(is_tagged=isinstance(content, Sentences))
    random = np.random.default_rng(_SEED)
    if isinstance(content, Images):
        made: Content = cut_outs(content.shape, random)
        title = f"{N_ANCHORS:,} cut-outs of two photographs that come with scikit-learn (CC BY)"
    elif isinstance(content, Windows):
        made, title = Windows(_signals(content.shape, random)), f"{N_ANCHORS:,} made-up sums of {_WAVES} waves"
    else:
        drawn = random.uniform(-1, 1, (N_ANCHORS, *content.shape)).astype(np.float32)
        made, title = replace(content, values=drawn), f"{N_ANCHORS:,} made-up rows, each number drawn from its public range"
    return PublicSentences(made, np.arange(N_ANCHORS, dtype=np.int64), title)


@lru_cache(maxsize=2)
def shown(kind: Kind, shape: tuple[int, ...]) -> tuple[Image.Image | str, ...]:
    """The public examples as pictures, or as sentences, in the order of their features; empty for made-up numbers and words.

    `shape`: of pictures, as a dataset's card has it; empty: they differ in size.
    """
    if kind == "text":
        sentences = public_sentences().content
        assert isinstance(sentences, Texts)
        return tuple(sentences.strings)
    if kind != "image":
        return ()
    size = (shape[0], shape[1], shape[2]) if shape else None
    pixels = np.asarray(cut_outs(size, np.random.default_rng(_SEED)).content)
    return tuple(Image.fromarray(one[..., 0] if one.shape[-1] == 1 else one) for one in pixels)


def cut_outs(shape: tuple[int, int, int] | None, random: np.random.Generator) -> Images:
    """Squares of the photographs at random places and sizes, in the public shape of the data, or at 32 pixels in colour.

    Made here, or as they were made for a page, which lacks the photographs and what opens them.
    """
    height, width, n_channels = shape or (_SIDE, _SIDE, 3)
    if shape is not None and (kept := paths.assets_dir() / name_of(shape)).is_file():
        return Images(np.load(kept, allow_pickle=False), shape)
    folder = resources.files("sklearn.datasets") / "images"
    opened = []
    for name in _PHOTOGRAPHS:
        with (folder / name).open("rb") as file, Image.open(file) as read:
            opened.append(read.convert("L" if n_channels == 1 else "RGB"))
    pixels: NDArray[np.uint8] = np.empty((N_ANCHORS, height, width, n_channels), np.uint8)
    for place in range(N_ANCHORS):
        photograph = opened[place % len(opened)]
        side = int(random.integers(_SMALLEST, min(photograph.size), endpoint=True))
        left, top = (int(random.integers(0, length - side, endpoint=True)) for length in photograph.size)
        part = photograph.resize((width, height), box=(left, top, left + side, top + side))
        pixels[place] = np.asarray(part).reshape(height, width, n_channels)
    return Images(pixels, (height, width, n_channels))


def name_of(shape: tuple[int, int, int]) -> str:
    """The file of the cut-outs of this shape in the assets of a page."""
    return f"cut_outs_{'x'.join(map(str, shape))}.npy"


def _signals(shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    """Smooth made-up windows in [-1, 1]: on each axis a constant, as gravity is, and waves of random speed and height."""
    n_samples, n_axes = shape
    still = random.uniform(-0.5, 0.5, (N_ANCHORS, 1, n_axes))
    size, times = (_WAVES, N_ANCHORS, 1, n_axes), np.linspace(0, 2 * np.pi, n_samples)[:, None]
    speeds, phases, heights = (random.uniform(low, high, size) for low, high in ((0.5, 15.0), (0.0, 2 * np.pi), (0.0, 0.3)))
    return np.asarray(np.clip(still + (heights * np.sin(speeds * times + phases)).sum(axis=0), -1, 1), dtype=np.float32)
