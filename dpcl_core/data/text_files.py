"""Reads texts and labels from parquet files, or from the user's own CSV files with columns text and label."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcl_core.data import parquet
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.parquet import SOURCE_COLUMN
from dpcl_core.data.rows import PublicFacts, Rows, by_piece
from dpcl_core.data.texts import KINDS, Span, Texts
from dpcl_core.errors import BadInput

LABEL_COLUMN, PERSON_COLUMN, SPANS_COLUMN = "label", "person", "spans"
_NO_TEXT = "must hold text; leave out rows without any"
_ROW = re.compile(r"Row #\d+: Expected \d+ columns, got \d+")


class TextSheet:
    """The files of a split of texts. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, parts: Sequence[Path], card: DatasetCard, *, is_private: bool) -> None:
        self._card = card
        self._declared = {name: place for place, name in enumerate(card.classes)}  # number of each label
        are_words = parts[0].suffix == ".csv" or _labels_are_words(parts[0], card)
        self._numbered = None if are_words else parquet.Sheet(parts, card, is_private=is_private)
        needed = ("text", LABEL_COLUMN) if are_words else ()
        wanted = (LABEL_COLUMN, SOURCE_COLUMN, *card.text_columns, "text", *_marks(parts[0]))
        self._pieces = [
            (parquet.shown_name(card, path), columns_of(path, card, needed, wanted, is_private=is_private)) for path in parts
        ]
        self.has_sources = all(SOURCE_COLUMN in table.column_names for _, table in self._pieces)

    def __len__(self) -> int:
        return sum(table.num_rows for _, table in self._pieces)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; words are numbered in alphabetical order, whole numbers first and by value."""
        words: list[str] = []
        domains: list[str] = []
        parts = by_piece((table.num_rows for _, table in self._pieces), rows)
        for (shown, table), chosen in zip(self._pieces, parts, strict=True):
            piece = table.take(pa.array(chosen))
            _texts(piece, chosen, self._card, shown)
            if self._numbered is None:
                piece_words = _words(piece, LABEL_COLUMN, shown, chosen)
                self._refuse_unknown(piece_words, known, shown, chosen)
                words += piece_words
                if self.has_sources:
                    domains += (named := _words(piece, SOURCE_COLUMN, shown, chosen))
                    allowed = known.sources if known else None
                    parquet.refuse_unknown(np.asarray(named, dtype=np.str_), allowed, f"{shown} row", SOURCE_COLUMN, chosen)
        if self._numbered is not None:
            return self._numbered.checked(rows, known)
        numbers = dict(known.numbers if known else self._declared)
        beyond = sorted(set(words) - numbers.keys(), key=_by_value)  # only where no list is given, or the list is open
        numbers |= {word: place for place, word in enumerate(beyond, start=len(numbers))}
        labels = np.array([numbers[word] for word in words], dtype=np.int64)
        sources = np.asarray(domains, dtype=np.str_) if self.has_sources else None
        return Rows(labels, {label: word for word, label in numbers.items()}, sources, numbers=numbers)

    def _refuse_unknown(self, words: Sequence[str], known: PublicFacts | None, shown: str, rows: NDArray[np.int64]) -> None:
        """Raises BadInput naming the first row of an unknown label."""
        allowed_labels = known.numbers if known else self._declared
        for place, word in enumerate(() if known and known.is_open else words):
            if allowed_labels and word not in allowed_labels:
                names = f"{', '.join(list(allowed_labels)[:12])}{' ...' if len(allowed_labels) > 12 else ''}"
                allowed = f"must be a label of the {'test part' if known else 'schema'}: {names}"
                raise BadInput(f"{shown} row {rows[place]}, {LABEL_COLUMN}", word, allowed)


def _marks(path: Path) -> tuple[str, ...]:
    return () if path.suffix == ".csv" else (PERSON_COLUMN, SPANS_COLUMN)


def read_texts(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64], *, is_private: bool) -> Texts:
    """The texts of these rows (ascending) of a split, with marked spans and people where a parquet file has them.

    `is_private`: malformed lines of a CSV file are skipped, as in `TextSheet`. Raises BadInput naming file, row and what is
    allowed, also for a blank text.
    """
    wanted = (*card.text_columns, "text", *_marks(parts[0]))
    tables = [columns_of(path, card, (), wanted, is_private=is_private) for path in parts]
    pieces = zip(parts, tables, by_piece((table.num_rows for table in tables), rows), strict=True)
    return joined(
        [_texts(table.take(pa.array(part)), part, card, parquet.shown_name(card, path)) for path, table, part in pieces]
    )


def joined(pieces: Sequence[Texts]) -> Texts:
    """The texts of all pieces, concatenated; spans and people only where every piece has them."""
    if len(pieces) == 1:
        return pieces[0]
    spans = [piece.spans for piece in pieces if piece.spans is not None]
    people = [piece.people for piece in pieces if piece.people is not None]
    return Texts(
        [string for piece in pieces for string in piece.strings],
        [marked for piece in spans for marked in piece] if len(spans) == len(pieces) else None,
        np.concatenate(people) if len(people) == len(pieces) else None,
    )


def _texts(table: pa.Table, rows: NDArray[np.int64], card: DatasetCard, shown: str) -> Texts:
    """The texts of a table; `rows` are the numbers of its rows in the file."""
    columns = ("text",) if "text" in table.column_names else card.text_columns
    if missing := [name for name in columns if name not in table.column_names]:
        raise BadInput(shown, "no column " + missing[0], f"must have a column {' and a column '.join(columns)}")
    lines = [_strings(table[name], name, rows, shown) for name in columns]
    strings = ["\n".join(pair) for pair in zip(*lines, strict=True)] if len(lines) > 1 else lines[0]
    for row, string in zip(rows, strings, strict=True):
        if not string.strip():
            raise BadInput(f"{shown} row {row}, {columns[-1]}", "nothing", _NO_TEXT)
    people = None
    if PERSON_COLUMN in table.column_names:
        if not pa.types.is_integer(table.schema.field(PERSON_COLUMN).type) or table[PERSON_COLUMN].null_count:
            raise BadInput(f"{shown} column {PERSON_COLUMN}", "no numbers", "must number the person that each text is about")
        people = table[PERSON_COLUMN].to_numpy().astype(np.int64)
    spans = None
    if SPANS_COLUMN in table.column_names:
        marked = table[SPANS_COLUMN].to_pylist()
        named = [f"{shown} row {row}" for row in rows]
        spans = [_spans(*one) for one in zip(marked, strings, named, strict=True)]
    return Texts(strings, spans, people)


def _spans(raw: object, string: str, shown: str) -> tuple[Span, ...]:
    """A row's spans. Raises BadInput for spans outside its text and for unknown kinds."""
    try:
        spans = tuple(Span(int(one["start"]), int(one["end"]), str(one["kind"])) for one in raw or ())  # type: ignore[attr-defined]
    except (TypeError, KeyError, ValueError):
        raise BadInput(f"{shown}, {SPANS_COLUMN}", raw, "must be a list of start, end and kind") from None
    for span in spans:
        if not 0 <= span.start < span.end <= len(string):
            allowed = f"must lie within the {len(string)} characters of its text"
            raise BadInput(f"{shown}, {SPANS_COLUMN}", f"{span.start} to {span.end}", allowed)
        if span.kind not in KINDS:
            raise BadInput(f"{shown}, {SPANS_COLUMN}", span.kind, f"must be one of {', '.join(KINDS)}")
    return spans


def columns_of(path: Path, card: DatasetCard, needed: Sequence[str], wanted: Sequence[str], *, is_private: bool) -> pa.Table:
    """Those of the wanted columns that a file has. Raises BadInput if it cannot be read or lacks a needed one."""
    shown = parquet.shown_name(card, path)
    if path.suffix == ".csv":
        table = _csv(path, shown, is_private)
        names = table.column_names
        table = table.select([name for name in dict.fromkeys(wanted) if name in names])
    else:
        with parquet.readable(path, shown), pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            table = file.read(columns=[name for name in dict.fromkeys(wanted) if name in names])
    for name in needed:
        if name not in names:
            commas = ", separated from others by commas" if path.suffix == ".csv" else ""
            raise BadInput(shown, ", ".join(names), f"must have a column {name}{commas}")
    if not table.num_rows and not is_private:
        raise BadInput(shown, "no rows", "must have at least one row")
    return table


def _csv(path: Path, shown: str, is_private: bool) -> pa.Table:
    """A CSV file, every column as text. Raises BadInput naming the error and its line.

    `is_private`: nothing about its rows is reported. Rows with another number of values are skipped, and a value that is not
    UTF-8 becomes null.
    """
    with parquet.readable(path, shown):
        content = path.read_bytes()
    header = content.partition(b"\n")[0] if is_private else content
    try:
        header.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{shown} line {line}", f"byte {content[error.start]:#04x}", "must be saved as UTF-8") from None
    parsing = _parsing((lambda _: "skip") if is_private else None)
    try:
        opened = pyarrow.csv.open_csv(pa.py_buffer(content), read_options=_reading(content), parse_options=parsing)
        names = opened.schema.names
        if repeated := [name for name in names if names.count(name) > 1]:
            raise BadInput(shown, f"two columns {repeated[0]}", "must name each column once")
        as_bytes = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.binary()), strings_can_be_null=False)
        table = pyarrow.csv.read_csv(pa.py_buffer(content), _reading(content), parsing, as_bytes)
        return pa.table({name: pa.array(map(_decoded, table[name].to_pylist()), pa.string()) for name in names})
    except pa.ArrowException as error:
        # The message has only the row's number: its text may be private, and messages are stored.
        row = _ROW.search(str(error))
        problem = "empty file" if not content.strip() else row.group() if row else "no table"
        allowed = 'must be a CSV file with a first line text,label, and texts with commas between quotes (")'
        raise BadInput(shown, problem, allowed) from None


def _parsing(on_malformed_row: Callable[[object], Literal["skip"]] | None) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=on_malformed_row)


def n_skipped(path: Path) -> int:
    """Number of malformed lines of a CSV file, for their owner only. Raises BadInput as reading it does."""
    skipped: list[object] = []

    def skip(row: object) -> Literal["skip"]:
        skipped.append(row)
        return "skip"

    with parquet.readable(path, path.name):
        content = path.read_bytes()
        as_they_are = pyarrow.csv.ConvertOptions(check_utf8=False)
        pyarrow.csv.read_csv(pa.py_buffer(content), _reading(content), _parsing(skip), as_they_are)
    return len(skipped)


def _decoded(value: bytes) -> str | None:
    """A value as text; None where it is not UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _reading(content: bytes) -> pyarrow.csv.ReadOptions:
    """Reads the whole file as one block, so that rows of any length fit and errors have row numbers."""
    return pyarrow.csv.ReadOptions(use_threads=False, block_size=min(len(content) + 1, 2**31 - 1))


def _labels_are_words(path: Path, card: DatasetCard) -> bool:
    with parquet.readable(path, parquet.shown_name(card, path)), pq.ParquetFile(path) as file:
        schema: pa.Schema = file.schema_arrow
    return LABEL_COLUMN in schema.names and parquet.is_text(schema.field(LABEL_COLUMN).type)


def _words(table: pa.Table, name: str, shown: str, rows: NDArray[np.int64]) -> list[str]:
    """A column of labels or sources: non-empty words; `rows` [n]: the rows' numbers in messages."""
    words = [word.strip() for word in _strings(table[name], name, rows, shown)]
    for row, word in zip(rows, words, strict=True):
        if not word:
            raise BadInput(f"{shown} row {row}, {name}", "nothing", f"must hold a {name}")
    return words


def _strings(column: pa.ChunkedArray, name: str, rows: NDArray[np.int64], shown: str) -> list[str]:
    parquet.refuse_other_than_text(column, name, shown, _NO_TEXT, rows)
    strings: list[str] = pc.cast(column, pa.large_string()).to_pylist()
    return strings


def _by_value(word: str) -> tuple[int, float, str]:
    """Sort key: whole numbers first, by value, then words in alphabetical order."""
    return (0, int(word), word) if word.isdecimal() else (1, 0, word)
