"""Reads texts and labels from parquet files, or from the user's own tables with a column of text and one of labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcl_core.data import parquet, sheets
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.named_rows import LABEL_COLUMN
from dpcl_core.data.rows import PublicFacts, Rows, by_piece
from dpcl_core.data.sheets import columns_of
from dpcl_core.data.tables import TableSheet
from dpcl_core.data.texts import KINDS, Span, Texts
from dpcl_core.errors import BadInput

PERSON_COLUMN, SPANS_COLUMN = "person", "spans"
_NO_TEXT = "must hold text; leave out rows without any"


class TextSheet(TableSheet):
    """The files of a split of texts. Raises BadInput on opening for an unusable file or header."""

    def __init__(self, parts: Sequence[Path], card: DatasetCard, *, is_private: bool) -> None:
        are_words = parts[0].suffix != ".parquet" or bool(card.roles) or card.is_own or _labels_are_words(parts[0], card)
        self._numbered = None if are_words else parquet.Sheet(parts, card, is_private=is_private)
        needed = ("text", LABEL_COLUMN) if are_words else ()
        more = (*card.text_columns, "text", *_marks(parts[0], card))
        super().__init__(parts, card, needed, more, is_private=is_private)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; words are numbered in alphabetical order, whole numbers first and by value."""
        parts = by_piece((table.num_rows for _, table in self._pieces), rows)
        for (shown, table), chosen in zip(self._pieces, parts, strict=True):
            _texts(table.take(pa.array(chosen)), chosen, self._card, shown)
        return super().checked(rows, known) if self._numbered is None else self._numbered.checked(rows, known)


def _marks(path: Path, card: DatasetCard) -> tuple[str, ...]:
    """Columns of marks. Whom a text is about only our own corpora say: of own data a schema names the column of people."""
    marks = (SPANS_COLUMN,) if card.is_own else (PERSON_COLUMN, SPANS_COLUMN)
    return marks if path.suffix == ".parquet" else ()


def read_texts(parts: Sequence[Path], card: DatasetCard, rows: NDArray[np.int64], *, is_private: bool) -> Texts:
    """The texts of these rows (ascending) of a split, with marked spans and people where a parquet file has them.

    `is_private`: malformed lines of a CSV file are skipped, as in `TextSheet`. Raises BadInput naming file, row and what is
    allowed, also for a blank text.
    """
    wanted = (*card.text_columns, "text", *_marks(parts[0], card))
    tables = [columns_of(path, card, (), wanted, is_private=is_private) for path in parts]
    pieces = zip(parts, tables, by_piece((table.num_rows for table in tables), rows), strict=True)
    return joined(
        [_texts(table.take(pa.array(part)), part, card, sheets.shown_name(card, path)) for path, table, part in pieces]
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
    except (TypeError, KeyError, ValueError, OverflowError):
        raise BadInput(f"{shown}, {SPANS_COLUMN}", raw, "must be a list of start, end and kind") from None
    for span in spans:
        if not 0 <= span.start < span.end <= len(string):
            allowed = f"must lie within the {len(string)} characters of its text"
            raise BadInput(f"{shown}, {SPANS_COLUMN}", f"{span.start} to {span.end}", allowed)
        if span.kind not in KINDS:
            raise BadInput(f"{shown}, {SPANS_COLUMN}", span.kind, f"must be one of {', '.join(KINDS)}")
    return spans


def _labels_are_words(path: Path, card: DatasetCard) -> bool:
    with sheets.parquet_file(path, sheets.shown_name(card, path)) as file:
        schema: pa.Schema = file.schema_arrow
    return LABEL_COLUMN in schema.names and sheets.is_text(schema.field(LABEL_COLUMN).type)


def _strings(column: pa.ChunkedArray, name: str, rows: NDArray[np.int64], shown: str) -> list[str]:
    parquet.refuse_other_than_text(column, name, shown, _NO_TEXT, rows)
    strings: list[str] = column.cast(pa.large_string()).to_pylist()
    return strings
