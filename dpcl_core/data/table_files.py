"""Reads rows of tables and precomputed embeddings, with labels, from CSV, TSV, JSON lines, parquet and NPZ files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcl_core.data import named_rows, row_encoding, sheets
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.named_rows import LABEL_COLUMN
from dpcl_core.data.rows import PublicFacts, Rows, by_piece
from dpcl_core.data.vectors import Vectors
from dpcl_core.errors import BadInput


class TableSheet:
    """The files of a split of a table or of embeddings. Raises BadInput on opening for an unusable file or header.

    Every row with a label is usable: what its other cells hold is mapped by public rules.
    """

    def __init__(
        self, parts: Sequence[Path], card: DatasetCard, needed: Sequence[str] = (LABEL_COLUMN,), more: Sequence[str] = (), *,
        is_private: bool,
    ) -> None:  # fmt: skip
        self._card, wanted = card, (*named_rows.COLUMNS, *more)
        read = [sheets.columns_of(path, card, needed, wanted, is_private=is_private) for path in parts]
        self._pieces = [(sheets.shown_name(card, path), table) for path, table in zip(parts, read, strict=True)]
        self.has_sources = named_rows.have_sources(read)

    def __len__(self) -> int:
        return sum(table.num_rows for _, table in self._pieces)

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`; labels are words, numbered in alphabetical order, whole numbers first and by value."""
        parts = list(by_piece((table.num_rows for _, table in self._pieces), rows))
        return named_rows.checked(self._pieces, parts, self._card, known)


def read_vectors(
    card: DatasetCard,
    train: tuple[Sequence[Path], NDArray[np.int64]],
    test: tuple[Sequence[Path], NDArray[np.int64]],
    *,
    is_divided: bool,
) -> tuple[Vectors, Vectors]:
    """The values of these rows (ascending) of both parts, in the form that the public test part has.

    `is_divided`: both are parts of one file. Raises BadInput for columns that cannot be used, naming file and column.
    """
    tables = [taken(*train, card, is_private=True), taken(*test, card, is_private=is_divided)]
    shown = sheets.shown_name(card, test[0][0])
    encoding = row_encoding.planned(card, tables[1], shown)
    trained, tested = (Vectors(encoding.values(table, shown), encoding.document()) for table in tables)
    return trained, tested


def taken(paths: Sequence[Path], rows: NDArray[np.int64], card: DatasetCard, *, is_private: bool) -> pa.Table:
    """All columns of these rows of a part. Raises BadInput for pieces of several forms."""
    pieces = [sheets.columns_of(path, card, (), None, is_private=is_private) for path in paths]
    parts = by_piece((piece.num_rows for piece in pieces), rows)
    found = [piece.take(pa.array(part)) for piece, part in zip(pieces, parts, strict=True)]
    try:
        return found[0] if len(found) == 1 else pa.concat_tables(found)
    except pa.ArrowException:
        allowed = "every piece of a split must have the same columns, of the same types"
        raise BadInput(card.name, f"{len(found)} pieces", allowed) from None
