"""Which rows of a dataset's files are its training and test examples: labels and sources, but no image yet."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data import bundled, coins, files, folder, parquet, tagged_files, text_files
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.contents import Contents
from dpcl_core.data.files import Found
from dpcl_core.data.rows import Door, Known, Rows, sound
from dpcl_core.errors import BadInput

# Public constants: the same division and the same subset for every run, seed and person. Under the first the bundled digits
# fall into 1,347 and 450.
_DIVISION, _SUBSET = 20_251_040, 20_250_917
HELD_OUT = 0.2  # of a person's own data, for testing


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One split: labels int64 [n], sources int64 [n] or None, and the row of its file that each example is, or is in.

    `contents`: the files that the rows are of. `of_words`: examples are the words of sentences, a row of the file each.
    """

    labels: NDArray[np.int64]
    sources: NDArray[np.int64] | None
    rows: NDArray[np.int64]
    contents: Contents
    of_words: bool = False

    def take(self, which: NDArray[np.int64]) -> Part:
        """These examples, in this order."""
        sources = None if self.sources is None else self.sources[which]
        return replace(self, labels=self.labels[which], sources=sources, rows=self.rows[which])

    def keys(self) -> NDArray[np.uint64]:
        """What public coins are tossed from, uint64 [n]: the row's own bytes, words those of their sentence. Reads files."""
        return self.contents.keys()[self.rows]


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A dataset without its images. `sources` are names that the parts' sources index. The test part has every class.

    `n_train`: the public nominal number of training examples. `undeclared`: the other labels of training examples, private,
    where neither card nor schema tells all; `open_train`: the training part with those, numbered from `classes` on.
    """

    classes: tuple[str, ...]
    sources: tuple[str, ...]
    train: Part
    test: Part
    n_train: int
    undeclared: tuple[str, ...]
    open_train: Part

    def opened(self) -> Outline:
        """The outline whose training part has the undeclared labels, too."""
        return replace(self, train=self.open_train)

    def thinned(
        self, train_per_class: int | None, test_per_class: int | None, train_per_source: int | None = None
    ) -> Outline:
        """The outline with about so many training examples of each class or of each source, and at most so many test
        examples a class. Of words whole sentences are counted, of each source whichever it is.

        Each training example is kept with the chance cap / nominal size of its class or source, by a coin of its own; a
        smaller subset lies within a larger. An undeclared class counts as one of mean size. The test part is public, so
        there the first so many of a public order stay.
        """
        train, (cap, by_source) = self.train, _cap(train_per_class, train_per_source)
        if cap is not None:
            kinds, of_row = _kinds(train, by_source=by_source)
            sizes = self._nominal_sizes(by_source=by_source)
            sizes = np.append(sizes, np.full(len(self.undeclared), sizes.mean()))
            chance = (cap / sizes)[kinds][of_row]
            train = train.take(np.flatnonzero(coins.tossed(train.keys(), np.random.default_rng(_SUBSET)) < chance))
        n_train = self.n_kept(train_per_class, train_per_source)
        return replace(self, train=train, n_train=n_train, test=_thinned(self.test, test_per_class))

    def n_kept(self, train_per_class: int | None, train_per_source: int | None = None) -> int:
        """The public nominal number of training examples under this cap; reads nothing."""
        cap, by_source = _cap(train_per_class, train_per_source)
        if cap is None:
            return self.n_train
        sizes = self._nominal_sizes(by_source=by_source)
        return round(self.n_train * float(np.minimum(sizes, cap).sum() / sizes.sum()))

    def _nominal_sizes(self, *, by_source: bool) -> NDArray[np.float64]:
        """Public numbers of training examples of each class, or of examples or sentences of each source: as the test part
        has them."""
        kinds, of_row = _kinds(self.test, by_source=by_source)
        n_kinds = max(1, len(self.sources)) if by_source or self.test.of_words else len(self.classes)
        found = np.bincount(kinds, minlength=n_kinds)
        n_units = self.n_train * len(kinds) / len(of_row)  # of words, as many a sentence as in the test part
        return n_units * np.where(found > 0, found / len(kinds), 1 / n_kinds)


def outline(card: DatasetCard, found: Found | None) -> Outline:
    """The outline of one dataset's files (None: the bundled one), kept until a file changes.

    Raises BadInput naming file, row and what is allowed.
    """
    return _outline(card, found, () if found is None else tuple(_stamp(found, card)))


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """The files of a dataset with what is public about them; the training rows, `trained`, are not judged yet."""

    own: Door
    trained: NDArray[np.int64]
    public: Rows
    tested: NDArray[np.int64]
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    known: Known
    contents: Sequence[Contents]


@lru_cache(maxsize=32)
def _outline(card: DatasetCard, found: Found | None, stamp: tuple[tuple[str, int], ...]) -> Outline:
    """The test part is judged first, one and all: it is public. What it says, and the card, is all that training rows are
    held against; those that do not fit count as no examples."""
    data = _opened(card, found, stamp)
    kept = sound(data.own, data.trained, data.known)
    private = data.own.judged(kept, data.known)
    test = _part(data.public, data.tested, data.sources, data.contents[-1])
    numbered, undeclared = _numbered(private, len(data.classes))
    everything = _part(numbered, kept, data.sources, data.contents[0])
    train = everything.take(np.flatnonzero(numbered.labels < len(data.classes))) if undeclared else everything
    n_found = len(private) if train.of_words else len(data.trained)
    n_train = _n_train(card, found, n_found, test)
    return Outline(data.classes, data.sources, train, test, n_train, undeclared, everything)


def refused(card: DatasetCard, found: Found) -> tuple[int, list[BadInput]]:
    """How many training rows there are, and what is wrong with each that counts as no example: for their owner alone."""
    data, wrong = _opened(card, found, tuple(_stamp(found, card))), list[BadInput]()
    sound(data.own, data.trained, data.known, wrong)
    return len(data.trained), wrong


def _opened(card: DatasetCard, found: Found | None, stamp: tuple[tuple[str, int], ...]) -> _Opened:
    contents = [Contents(card, paths, stamp) for paths in ((found.train, found.test) if found else ((), ()))]
    own = opened(card, found.train if found else (), is_private=True)
    other = opened(card, found.test, is_private=False) if found and found.test else None
    tested, trained = np.arange(len(other or ()), dtype=np.int64), np.arange(len(own), dtype=np.int64)
    if other is None:
        is_test = coins.tossed(contents[0].keys(), np.random.default_rng(_DIVISION)) < (card.held_out or 0)
        tested, trained = np.flatnonzero(is_test), np.flatnonzero(~is_test)
    elif own.has_sources != other.has_sources:
        raise BadInput(card.name, parquet.SOURCE_COLUMN, "must be a column of both train and test, or of neither")
    public = (other or own).judged(tested, None)
    classes, sources = _classes(card, public), _source_names(card, public)
    _refuse_missing(card, public.labels, classes)
    known = known_of(card, public, classes, sources)
    return _Opened(own, trained, public, tested, classes, sources, known, contents if other else contents[:1])


def opened(card: DatasetCard, paths: Sequence[Path], *, is_private: bool) -> Door:
    """The files of a split (none: the bundled digits). Raises BadInput for files or headers that will not do."""
    if not paths:
        return bundled.Digits()
    if paths[0].is_dir():
        return folder.FolderSheet(paths[0], card, is_private=is_private)
    if card.kind == "tagged":
        return tagged_files.TaggedSheet(paths, card, is_private=is_private)
    if card.kind == "text":
        return text_files.TextSheet(paths, card, is_private=is_private)
    return parquet.Sheet(paths, card, is_private=is_private)


def known_of(card: DatasetCard, public: Rows, classes: Sequence[str], sources: Sequence[str]) -> Known:
    """What training rows are held against."""
    numbers = public.numbers or {name: place for place, name in enumerate(classes)}
    is_open = card.is_own and not card.classes and card.kind != "tagged"  # BIO tags are fixed in pairs
    return Known(len(classes), numbers, frozenset(sources) if sources else None, card.shape or public.shape, is_open)


def _numbered(private: Rows, n_classes: int) -> tuple[Rows, tuple[str, ...]]:
    """The rows with labels beyond the classes numbered one after another, and what these are called."""
    beyond = np.unique(private.labels[private.labels >= n_classes])
    if not len(beyond):
        return private, ()
    places = n_classes + np.searchsorted(beyond, private.labels)
    labels = np.where(private.labels < n_classes, private.labels, places).astype(np.int64)
    return replace(private, labels=labels), tuple(private.names.get(label, str(label)) for label in beyond.tolist())


def _n_train(card: DatasetCard, found: Found | None, n_found: int, test: Part) -> int:
    """The public nominal number of training examples.

    A benchmark's is what its files hold, taken as public: the statement says so. The bundled digits are always all there,
    as their card counts them. Of a person's own data nothing of the training part is counted: it is what their schema says
    or, without one, four for each test example, as in a division by 80 and 20.
    """
    if not card.is_own:
        return card.n_train if found is None else n_found
    share = card.held_out or HELD_OUT
    return card.n_train or round(len(test.labels) * (1 - share) / share)


def _classes(card: DatasetCard, public: Rows) -> tuple[str, ...]:
    """The card's class names where it has them, else those of the test part, else the numbers."""
    if card.classes:
        for label, name in public.names.items():
            if name in card.classes and label < len(card.classes) and card.classes[label] != name:
                raise BadInput(f"{card.name} label {label}", name, f"is {card.classes[label]} in {card.title} as published")
        return card.classes
    n_classes = card.n_classes or int(public.labels.max(initial=0)) + 1
    names = tuple(public.names.get(label, str(label)) for label in range(n_classes))
    (most_common, times), *_ = Counter(names).most_common(1)
    if times > 1:
        raise BadInput(f"{card.name} class", most_common, "two labels must not have the same name")
    return names


def _refuse_missing(card: DatasetCard, labels: NDArray[np.int64], classes: tuple[str, ...]) -> None:
    """Raises BadInput for a test part that lacks a class; of own data, one that no schema declares."""
    if card.kind == "tagged":  # a rare type of name may miss in a part
        if not len(labels):
            raise BadInput(f"{card.name} test", "no sentences", "must have a sentence")
        return
    n_classes = len(classes)
    sizes = np.bincount(labels, minlength=n_classes)
    if len(sizes) > n_classes:
        raise BadInput(f"{card.name} test", f"label {len(sizes) - 1}", f"must be one of {n_classes} classes")
    for label in np.flatnonzero(sizes == 0)[:1]:
        if not (card.is_own and card.classes and len(labels)):
            allowed = f"the test part must have an example of all {n_classes} classes, 0 to {n_classes - 1}"
            name = "" if classes[label] == str(label) else f" ({classes[label]})"
            raise BadInput(f"{card.name} test", f"no label {label}{name}", allowed)


def _source_names(card: DatasetCard, public: Rows) -> tuple[str, ...]:
    found = set() if public.sources is None else set(public.sources.tolist())
    if not found or not card.sources:
        return tuple(sorted(found, key=_natural))
    for name in sorted(found - {name for name, _ in card.sources}):
        raise BadInput(f"{card.name} {parquet.source_column(card)}", name, "is none of the sources of this dataset")
    return tuple(name for name, _ in card.sources)


def _natural(name: str) -> tuple[int, str]:
    """Names that begin with a number come in its order: 5 Hz before 10 Hz."""
    digits = len(name) - len(name.lstrip("0123456789"))
    return int(name[:digits] or -1), name


def _part(found: Rows, rows: NDArray[np.int64], names: tuple[str, ...], contents: Contents) -> Part:
    sources = None
    if found.sources is not None:
        told, of_row = np.unique(found.sources, return_inverse=True)
        sources = np.asarray([names.index(name) for name in told], dtype=np.int64)[of_row]
    if found.sentences is not None:
        return Part(found.labels, sources, found.sentences, contents, of_words=True)
    return Part(found.labels, sources, rows, contents)


def _thinned(part: Part, per_class: int | None) -> Part:
    """At most so many of each kind, by their rank in a public order: for public rows alone, as one more moves others."""
    if per_class is None:
        return part
    kinds, of_row = _kinds(part, by_source=False)
    return part.take(np.flatnonzero((_places(kinds) < per_class)[of_row]))


def _cap(per_class: int | None, per_source: int | None) -> tuple[int | None, bool]:
    """The cap that is set, and whether it is one of sources; settings allow one of the two."""
    return (per_class, False) if per_source is None else (per_source, True)


def _kinds(part: Part, *, by_source: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What subsets count, by what: examples by class or by source, or whole sentences by source; and which of them each
    example is in. A dataset without sources is one."""
    sources = np.zeros(len(part.rows), dtype=np.int64) if part.sources is None else part.sources
    if not part.of_words:
        return sources if by_source else part.labels, np.arange(len(part.labels))
    _, first, of_row = np.unique(part.rows, return_index=True, return_inverse=True)
    return sources[first], of_row


def _places(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each row's place (0, 1, ...) within its class, in a public order."""
    by_class = np.lexsort((np.random.default_rng(_SUBSET).random(len(labels)), labels))
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    places = np.empty(len(labels), dtype=np.int64)
    places[by_class] = np.arange(len(labels)) - starts[labels[by_class]]
    return places


def _stamp(found: Found, card: DatasetCard) -> Sequence[tuple[str, int]]:
    """What changes when the files do."""
    try:
        if found.is_folder:
            return [entry for split in (*found.train, *found.test) for entry in folder.stamp(split)]
        return [pair for path in (*found.train, *found.test) for pair in _of_file(path)]
    except OSError as error:
        raise BadInput(files.FIELD, card.name, "its folder must be readable by you") from error


def _of_file(path: Path) -> tuple[tuple[str, int], tuple[str, int]]:
    status = os.stat(path)
    return (path.name, status.st_mtime_ns), (path.name, status.st_size)
