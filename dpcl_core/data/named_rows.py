"""Rows whose labels and sources are written as words: texts, tables, embeddings."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcl_core.data import coins, parquet
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.parquet import SOURCE_COLUMN
from dpcl_core.data.rows import PublicFacts, Rows
from dpcl_core.data.schema import CONTROL
from dpcl_core.data.sheets import PERSON, TIME, is_text
from dpcl_core.errors import BadInput

LABEL_COLUMN = "label"
COLUMNS = (LABEL_COLUMN, SOURCE_COLUMN, TIME, PERSON)
MAX_LETTERS = 200  # of a label or a source: both are shown
_NO_LIST = "must hold one label a row: a list is no label"
_MONTH = re.compile(r"(\d{4})-(\d{2})(?:\D.*)?", re.DOTALL)
_NO_LABELS = frozenset(("?", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "null", "NULL"))


def have_sources(tables: Sequence[pa.Table]) -> bool:
    """Whether every piece has a column that says where, or when, its rows belong."""
    return all({SOURCE_COLUMN, TIME} & set(table.column_names) for table in tables)


def checked(
    pieces: Sequence[tuple[str, pa.Table]], parts: Sequence[NDArray[np.int64]], card: DatasetCard, known: PublicFacts | None
) -> Rows:
    """The labels and sources of these rows of each piece (its name in messages, its columns), as `rows.RowReader.checked`.

    Words are numbered in alphabetical order, whole numbers first and by value. The source of a row with a time is its month.
    """
    declared = {name: place for place, name in enumerate(card.classes)}
    words: list[str] = []
    places: list[str] = []
    has_sources = have_sources([table for _, table in pieces])
    for (shown, table), chosen in zip(pieces, parts, strict=True):
        piece = table.take(pa.array(chosen))
        if PERSON in piece.column_names:
            _refuse_inexact(piece[PERSON], shown, chosen)
        markers = _NO_LABELS.difference(card.classes) if card.is_own and card.coins > 1 else frozenset()
        of_piece = _words(piece[LABEL_COLUMN], LABEL_COLUMN, shown, chosen, markers)
        _refuse_unknown(of_piece, declared, known, shown, chosen)
        words += of_piece
        if has_sources:
            named = _sources(piece, shown, chosen)
            allowed = known.sources if known else None
            parquet.refuse_unknown(np.asarray(named, dtype=np.str_), allowed, f"{shown} row", SOURCE_COLUMN, chosen)
            places += named
    numbers = dict(known.numbers if known else declared)
    beyond = sorted(set(words) - numbers.keys(), key=_by_value)  # only where no list is given, or the list is open
    numbers |= {word: place for place, word in enumerate(beyond, start=len(numbers))}
    labels = np.array([numbers[word] for word in words], dtype=np.int64)
    sources = np.asarray(places, dtype=np.str_) if has_sources else None
    return Rows(labels, {label: word for word, label in numbers.items()}, sources, numbers=numbers)


def as_words(column: pa.ChunkedArray, field: str) -> list[str | None]:
    """The values of a column as words, whole numbers without a point; null stays null. Raises BadInput for a nested one."""
    kind = column.type
    if is_text(kind):
        words: list[str | None] = pc.cast(column, pa.large_string()).to_pylist()
        return words
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
        try:
            words = column.cast(pa.large_string()).to_pylist()
        except pa.ArrowException:  # a time zone that nobody knows
            raise BadInput(field, str(kind), "must hold words, numbers or dates") from None
        return words
    if pa.types.is_floating(kind):
        values = column.to_pylist()
        return [None if value is None or value != value else f"{value:.0f}" if value == int_of(value) else repr(value)
                for value in values]  # fmt: skip
    raise BadInput(field, str(kind), "must hold words or numbers")


def int_of(value: float) -> float:
    """The value where it is a whole number that double precision holds exactly, else not a number."""
    return value if abs(value) < 2**53 and value == int(value) else float("nan")


def _sources(piece: pa.Table, shown: str, rows: NDArray[np.int64]) -> list[str]:
    if SOURCE_COLUMN in piece.column_names:
        return _words(piece[SOURCE_COLUMN], SOURCE_COLUMN, shown, rows)
    words = as_words(piece[TIME], f"{shown} column time")
    matches = [_MONTH.fullmatch((word or "").strip()) for word in words]
    for row, match in zip(rows, matches, strict=True):
        if match is None or not 1 <= int(match[2]) <= 12:
            raise BadInput(f"{shown} row {row}, time", "no date", "must begin with a year and a month, such as 2024-05")
    return [f"{match[1]}-{match[2]}" for match in matches if match is not None]


def _refuse_inexact(people: pa.ChunkedArray, shown: str, rows: NDArray[np.int64]) -> None:
    """Raises BadInput naming the first row whose person is a number that double precision may share with another's."""
    if not (pa.types.is_integer(people.type) or pa.types.is_floating(people.type)):
        return
    for place in np.flatnonzero(np.abs(coins.double(people)) >= coins.EXACT)[:1]:
        raise BadInput(f"{shown} row {rows[place]}, person", "a number of 2^53 or more", "must be text, or a smaller number")


def _refuse_unknown(
    words: Sequence[str], declared: dict[str, int], known: PublicFacts | None, shown: str, rows: NDArray[np.int64]
) -> None:
    """Raises BadInput naming the first row of an unknown label."""
    allowed_labels = known.numbers if known else declared
    for place, word in enumerate(() if known and known.is_open else words):
        if allowed_labels and word not in allowed_labels:
            names = f"{', '.join(list(allowed_labels)[:12])}{' ...' if len(allowed_labels) > 12 else ''}"
            allowed = f"must be a label of the {'test part' if known else 'schema'}: {names}"
            raise BadInput(f"{shown} row {rows[place]}, {LABEL_COLUMN}", word, allowed)


def _words(
    column: pa.ChunkedArray, name: str, shown: str, rows: NDArray[np.int64], markers: Collection[str] = ()
) -> list[str]:
    """A column of labels or sources: words of 1 to 200 letters, but for these markers of missing ones; `rows` [n]: the rows'
    numbers in messages."""
    if markers and pa.types.is_nested(column.type):
        raise BadInput(f"{shown} column {name}", "a list", _NO_LIST)
    words = [(word or "").strip() for word in as_words(column, f"{shown} column {name}")]
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


def _by_value(word: str) -> tuple[int, int, str]:
    """Sort key: whole numbers first, by value, then words in alphabetical order."""
    return (0, int(word), word) if word.isdecimal() else (1, 0, word)
