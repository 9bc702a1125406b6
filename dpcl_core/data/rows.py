"""The rows of a split before their content is read, and the check which of them are usable as examples.

An error in a public row (test part) is reported in one sentence. An unusable private row (training part) counts as no
example and is not reported: a message about it, or a run that stops, would be a release outside the ledger. Whether a row is
usable depends only on that row and on public facts.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data import coins
from dpcl_core.data.card import DatasetCard, Shape
from dpcl_core.data.columns import Column, Table
from dpcl_core.data.dataset import Images
from dpcl_core.data.schema import CONTROL
from dpcl_core.data.sheets import PERSON, TIME, first_names
from dpcl_core.errors import BadInput


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The cheap columns of some rows: labels int64 [n], names of labels where the file has them, sources by name or None.

    `numbers`: the label of each word, where labels are written as words. `sentences` int64 [n], ascending: the row of the
    file of each example, where examples are words; None: one example per row. `shape`: of pictures stored as pixel lists.
    """

    labels: NDArray[np.int64]
    names: Mapping[int, str]
    sources: NDArray[np.str_] | None
    sentences: NDArray[np.int64] | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    shape: Shape | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class PublicFacts:
    """Public facts known before a private row is read: from the card, a schema or the test part.

    `numbers`: the label of each class. `is_open`: labels beyond these classes are valid, too, because nothing declares the
    list complete.
    """

    numbers: Mapping[str, int]
    sources: frozenset[str] | None
    shape: Shape | None
    is_open: bool = False


class RowReader(Protocol):
    """The opened files of a split, with their headers checked."""

    def __len__(self) -> int:
        """Number of rows; of sentences, where words are tagged."""

    @property
    def has_sources(self) -> bool:
        """Whether there is a column of sources."""

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """The cheap columns of these rows (ascending), all checked. With `known`, labels and sources must be among its own,
        and names are not read. If `known` is open, a label beyond its classes is a number beyond theirs, named in
        `names` unless the file has only numbers.

        Raises BadInput naming file, row and what is allowed. Given `known`, rows pass together if each passes alone.
        """


def by_piece(sizes: Iterable[int], rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """For each piece of a split, with these numbers of rows: its part of `rows`, counted from the piece's start."""
    start = 0
    for size in sizes:
        yield rows[(rows >= start) & (rows < start + size)] - start
        start += size


def usable_rows(
    reader: RowReader, rows: NDArray[np.int64], known: PublicFacts | None, refused: dict[int, BadInput] | None = None
) -> NDArray[np.int64]:
    """The usable ones of these rows; the others count as no examples. `known`: None for the public part of a single file.

    `refused` gets the error of each unusable row, for their owner only.
    """
    if not len(rows):
        return rows
    try:
        reader.checked(rows, known)
    except MemoryError:
        raise
    except Exception as error:  # whatever a library makes of it: whether a run ends must not depend on one private row
        if len(rows) == 1:
            if refused is not None:
                unforeseen = BadInput(f"row {rows[0]}", type(error).__name__, "must be a row that can be read")
                refused[int(rows[0])] = error if isinstance(error, BadInput) else unforeseen
            return rows[:0]
        return np.concatenate([usable_rows(reader, half, known, refused) for half in np.array_split(rows, 2)])
    return rows


# The bundled dataset, which needs no download: scikit-learn's digits.


_INK = 15  # 16 levels of ink become 0, 15, ..., 240: exactly proportional


class Digits:
    """All digits, as the rows of a split."""

    has_sources = False

    def __len__(self) -> int:
        return len(digits()[1])

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        return Rows(digits()[1][rows], {}, None)


def digits() -> tuple[Images, NDArray[np.int64]]:
    """All 1,797 digits as raw pixels [1797, 8, 8, 1] with their labels.

    The file is read directly: importing scikit-learn for it takes seconds, reading it milliseconds.
    """
    table = np.loadtxt(digits_file(), delimiter=",", dtype=np.uint8)
    return Images((table[:, :64] * _INK).reshape(-1, 8, 8, 1), (8, 8, 1)), table[:, 64].astype(np.int64)


def digits_file() -> Path:
    """Where they lie: in scikit-learn's package, or among the assets of a page, which has no such package."""
    beside = paths.assets_dir() / "digits.csv.gz"
    package = find_spec("sklearn") if not beside.exists() else None
    if package is None or not package.submodule_search_locations:
        return beside
    return Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"


SOURCE_COLUMN, RATE_COLUMN = "domain", "rate_hz"


def source_column(card: DatasetCard) -> str:
    """The column with each row's source."""
    return RATE_COLUMN if card.kind == "sensor" else SOURCE_COLUMN


def refuse_unknown(
    sources: NDArray[np.str_], known: PublicFacts | None, shown: str, column: str, rows: NDArray[np.int64]
) -> None:
    """Raises BadInput naming the first row of an unknown source; does nothing where no sources are known."""
    if known is not None and known.sources is not None:
        for place in np.flatnonzero(~np.isin(sources, sorted(known.sources)))[:1]:
            raise BadInput(f"{shown} {rows[place]}, {column}", str(sources[place]), "is no source of the test part")


LABEL_COLUMN = "label"
WORD_COLUMNS = (LABEL_COLUMN, SOURCE_COLUMN, TIME, PERSON)
MAX_LETTERS = 200  # of a label or a source: both are shown
_NO_LIST = "must hold one label a row: a list is no label"
_MONTH = re.compile(r"(\d{4})-(\d{2})(?:\D.*)?", re.DOTALL)
_NO_LABELS = frozenset(("?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "null", "NULL"))


def have_sources(tables: Iterable[Table]) -> bool:
    """Whether every piece has a column that says where, or when, its rows belong."""
    return all({SOURCE_COLUMN, TIME} & table.columns.keys() for table in tables)


def checked_words(
    pieces: Sequence[tuple[str, Table, NDArray[np.int64]]], card: DatasetCard, known: PublicFacts | None
) -> Rows:
    """The labels and sources of these rows of each piece (its name in messages, its columns), as `rows.RowReader.checked`.

    Words are numbered in alphabetical order, whole numbers first and by value. The source of a row with a time is its month.
    """
    declared = {name: place for place, name in enumerate(card.classes)}
    words: list[str] = []
    places: list[str] = []
    has_sources = have_sources(piece for _, piece, _ in pieces)
    for shown, piece, chosen in pieces:
        if PERSON in piece.columns and piece[PERSON].holds == "numbers":  # which double precision may share with another's
            for at in np.flatnonzero(np.abs(np.asarray(piece[PERSON].values, np.float64)) >= coins.EXACT)[:1]:
                allowed = "must be text, or a smaller number"
                raise BadInput(f"{shown} row {chosen[at]}, person", "a number of 2^53 or more", allowed)
        markers = _NO_LABELS.difference(card.classes) if card.is_own and card.coins > 1 else frozenset()
        of_piece = _labels(piece[LABEL_COLUMN], LABEL_COLUMN, shown, chosen, markers)
        listed = known.numbers if known else declared
        for at, word in enumerate(() if known and known.is_open else of_piece):
            if listed and word not in listed:
                allowed = f"must be a label of the {'test part' if known else 'schema'}: {first_names(list(listed))}"
                raise BadInput(f"{shown} row {chosen[at]}, {LABEL_COLUMN}", word, allowed)
        words += of_piece
        if has_sources:
            named = _sources(piece, shown, chosen)
            refuse_unknown(np.asarray(named, dtype=np.str_), known, f"{shown} row", SOURCE_COLUMN, chosen)
            places += named
    numbers = dict(known.numbers if known else declared)
    by_value = {word: (0, int(word), word) if word.isdecimal() else (1, 0, word) for word in set(words) - numbers.keys()}
    beyond = sorted(by_value, key=by_value.__getitem__)  # only where no list is given, or the list is open
    numbers |= {word: place for place, word in enumerate(beyond, start=len(numbers))}
    labels = np.array([numbers[word] for word in words], dtype=np.int64)
    sources = np.asarray(places, dtype=np.str_) if has_sources else None
    return Rows(labels, {label: word for word, label in numbers.items()}, sources, numbers=numbers)


def _sources(piece: Table, shown: str, rows: NDArray[np.int64]) -> list[str]:
    if SOURCE_COLUMN in piece.columns:
        return _labels(piece[SOURCE_COLUMN], SOURCE_COLUMN, shown, rows)
    matches = [_MONTH.fullmatch((word or "").strip()) for word in piece[TIME].words(f"{shown} column time")]
    for row, match in zip(rows, matches, strict=True):
        if match is None or not 1 <= int(match[2]) <= 12:
            raise BadInput(f"{shown} row {row}, time", "no date", "must begin with a year and a month, such as 2024-05")
    return [f"{match[1]}-{match[2]}" for match in matches if match is not None]


def _labels(column: Column, name: str, shown: str, rows: NDArray[np.int64], markers: Collection[str] = ()) -> list[str]:
    """A column of labels or sources: words of 1 to 200 letters, but for these markers of missing ones; `rows` [n]: the rows'
    numbers in messages."""
    if markers and column.holds in ("nested", "vectors"):
        raise BadInput(f"{shown} column {name}", "a list", _NO_LIST)
    words = [(word or "").strip() for word in column.words(f"{shown} column {name}")]
    wrong = {word: why for word in set(words) if (why := _wrong(word, name, markers))}
    for row, word in zip(rows, words if wrong else (), strict=bool(wrong)):
        if word in wrong:
            raise BadInput(f"{shown} row {row}, {name}", *wrong[word])
    return words


def _wrong(word: str, name: str, markers: Collection[str]) -> tuple[str, str] | None:
    """What is wrong with a label or a source, and what is allowed."""
    if not word or word in markers:
        return "nothing", f"must hold a {name}" + (f", not a marker of a missing one ({word})" if word else "")
    if markers and word[0] + word[-1] in ("[]", "{}"):
        return "a list", _NO_LIST
    if len(word) > MAX_LETTERS or CONTROL.search(word):
        what = f"{len(word):,} characters" if len(word) > MAX_LETTERS else "a control character"
        return what, f"must have at most {MAX_LETTERS} characters, in one line"
    return None


# The public part of a split: its classes and sources.

_MOST_FRACTIONS = 10  # labels that are numbers with fractions
MAX_CLASSES = 10_000  # of the user's own data: a model has a row for each


def class_names(card: DatasetCard, public: Rows) -> tuple[str, ...]:
    """The card's class names if it has them, else those of the test part, else the numbers."""
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


def refuse_missing(card: DatasetCard, labels: NDArray[np.int64], classes: tuple[str, ...]) -> None:
    """Raises BadInput for a test part that lacks a class; in own data, a class that no schema declares."""
    if card.kind == "tagged":  # a part may lack a rare type of name
        if not len(labels):
            raise BadInput(f"{card.name} test", "no sentences", "must have a sentence")
        return
    n_classes = len(classes)
    if card.is_own and n_classes > MAX_CLASSES:
        allowed = f"must have at most {MAX_CLASSES:,} labels in its test part: choose a column of categories as target"
        raise BadInput(f"{card.name} test", f"{n_classes:,} labels", allowed)
    is_column = card.is_own and not card.classes and card.kind in ("text", "table", "embedding")
    if is_column and (what := _continuous(classes, len(labels))):
        allowed = "must be labels: choose a column of categories as target, or list them as classes in a schema"
        raise BadInput(f"{card.name} target", f"{n_classes:,} {what} in {len(labels):,} public rows", allowed)
    sizes = np.bincount(labels.astype(np.intp), minlength=n_classes)
    if len(sizes) > n_classes:
        raise BadInput(f"{card.name} test", f"label {len(sizes) - 1}", f"must be one of {n_classes} classes")
    for label in np.flatnonzero(sizes == 0)[:1]:
        if not (card.is_own and card.classes and len(labels)):
            allowed = f"the test part must have an example of all {n_classes} classes, 0 to {n_classes - 1}"
            name = "" if classes[label] == str(label) else f" ({classes[label]})"
            raise BadInput(f"{card.name} test", f"no label {label}{name}", allowed)


def _continuous(classes: Sequence[str], n_rows: int) -> str:
    """What these labels seem to be where a column measures something and names no classes; else empty."""
    try:
        values = [float(name) for name in classes]
    except ValueError:
        return ""
    if len(classes) > _MOST_FRACTIONS and any(value != int(value) for value in values if math.isfinite(value)):
        return "different numbers with fractions"
    return "different numbers" if len(classes) > max(2 * _MOST_FRACTIONS, n_rows / 2) else ""


def source_names(card: DatasetCard, public: Rows) -> tuple[str, ...]:
    """The card's sources if it has them, else those of the test part. Raises BadInput for one that the card lacks."""
    names = set() if public.sources is None else set(public.sources.tolist())
    if not names or not card.sources:
        starts = {name: name[: len(name) - len(name.lstrip("0123456789"))] for name in names}
        return tuple(sorted(names, key=lambda name: (int(starts[name] or -1), name)))  # 5 Hz before 10 Hz
    for name in sorted(names - {name for name, _ in card.sources}):
        raise BadInput(f"{card.name} {source_column(card)}", name, "is none of the sources of this dataset")
    return tuple(name for name, _ in card.sources)
