"""Reads rows of tables and precomputed embeddings, with labels, from CSV, TSV, JSON lines, parquet and NPZ files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcl_core.data import named_rows, sheets, table_features
from dpcl_core.data.arrays import EMBEDDING_COLUMN, MAX_WIDTH
from dpcl_core.data.card import DatasetCard, Feature
from dpcl_core.data.named_rows import LABEL_COLUMN
from dpcl_core.data.pixels import is_list
from dpcl_core.data.rows import PublicFacts, Rows, by_piece
from dpcl_core.data.vectors import Vectors
from dpcl_core.errors import BadInput


class TableSheet:
    """The files of a split of a table or of embeddings. Raises BadInput on opening for an unusable file or header.

    Every row with a label is usable: what its other cells hold is mapped by public rules.
    """

    def __init__(self, parts: Sequence[Path], card: DatasetCard, *, is_private: bool) -> None:
        self._card = card
        read = [sheets.columns_of(path, card, (LABEL_COLUMN,), named_rows.COLUMNS, is_private=is_private) for path in parts]
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
    tables = [_taken(*train, card, is_private=True), _taken(*test, card, is_private=is_divided)]
    if card.kind == "embedding":
        shown = sheets.shown_name(card, test[0][0])
        n_values = _width(tables[1], shown)
        return _units(tables[0], n_values, shown), _units(tables[1], n_values, shown)
    features, widths = plan(card, tables[1])
    named = [{name: table[name] for name in table.column_names} for table in tables]
    values = [table_features.encoded(one, features, widths, len(table)) for one, table in zip(named, tables, strict=True)]
    return Vectors(values[0]), Vectors(values[1])


def plan(card: DatasetCard, public: pa.Table) -> tuple[tuple[Feature, ...], tuple[int, ...]]:
    """The features that rows of the table have, with their numbers of values, by the schema and the public rows."""
    names = [name for name in public.column_names if name not in sheets.CANONICAL.values()]
    for name in names:
        if pa.types.is_nested(public[name].type) or pa.types.is_binary(public[name].type):
            allowed = "must hold words or numbers, or be left out of the file"
            raise BadInput(f"{card.name} column {name}", str(public[name].type), allowed)
    columns = {name: public[name] for name in names}
    features = table_features.planned(names, columns, card.features)
    return features, tuple(table_features.width(feature, columns[feature.name]) for feature in features)


def public_rows(card: DatasetCard, paths: Sequence[Path], rows: NDArray[np.int64], *, is_divided: bool) -> pa.Table:
    """All columns of these rows of the public part."""
    return _taken(paths, rows, card, is_private=is_divided)


def _taken(paths: Sequence[Path], rows: NDArray[np.int64], card: DatasetCard, *, is_private: bool) -> pa.Table:
    pieces = [sheets.columns_of(path, card, (), None, is_private=is_private) for path in paths]
    parts = by_piece((piece.num_rows for piece in pieces), rows)
    taken = [piece.take(pa.array(part)) for piece, part in zip(pieces, parts, strict=True)]
    try:
        return taken[0] if len(taken) == 1 else pa.concat_tables(taken)
    except pa.ArrowException:
        allowed = "every piece of a split must have the same columns, of the same types"
        raise BadInput(card.name, f"{len(taken)} pieces", allowed) from None


def _width(public: pa.Table, shown: str) -> int:
    """The number of values of an embedding: of a column of lists the first public row's, else one for each column."""
    if EMBEDDING_COLUMN not in public.column_names:
        n_values = len([name for name in public.column_names if name not in sheets.CANONICAL.values()])
    else:
        kind = public[EMBEDDING_COLUMN].type
        if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
            raise BadInput(f"{shown} column {EMBEDDING_COLUMN}", str(kind), "must hold lists of numbers")
        lengths = pc.list_value_length(public[EMBEDDING_COLUMN]).drop_null()
        n_values = lengths[0].as_py() if len(lengths) else 0
    if not 1 <= n_values <= MAX_WIDTH:
        raise BadInput(f"{shown} {EMBEDDING_COLUMN}", f"{n_values} numbers", f"must have 1 to {MAX_WIDTH:,} numbers a row")
    return n_values


def _units(table: pa.Table, n_values: int, shown: str) -> Vectors:
    """Embeddings scaled to length 1; zeros for one with another number of values, a missing or an infinite one."""
    if EMBEDDING_COLUMN in table.column_names:
        values = _of_lists(table[EMBEDDING_COLUMN], n_values, shown)
    else:
        names = [name for name in table.column_names if name not in sheets.CANONICAL.values()][:n_values]
        columns = [table_features.numbers(table[name], f"{shown} column {name}") for name in names]
        columns += [np.full(len(table), np.nan)] * (n_values - len(names))
        values = np.stack(columns, axis=1)
    finite = np.isfinite(values).all(axis=1, keepdims=True)
    values = np.where(finite, values, 0.0)
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)  # squares of large values stay finite
    values = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    units = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    return Vectors(np.clip(units, -1, 1).astype(np.float32))


def _of_lists(column: pa.ChunkedArray, n_values: int, shown: str) -> NDArray[np.float64]:
    """The lists of a column as rows float64 [n, n_values]; not-a-number for a list of another length and for null."""
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise BadInput(f"{shown} column {EMBEDDING_COLUMN}", str(kind), "must hold lists of numbers")
    fits = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(column), n_values), False))
    values = np.full((len(column), n_values), np.nan)
    chosen = column.filter(pa.array(fits)).combine_chunks()
    flat = np.asarray(chosen.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    values[fits] = flat.reshape(-1, n_values)
    return values
