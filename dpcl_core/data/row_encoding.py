"""How a row of a table or of embeddings becomes values: by public facts alone, so that any row can be encoded later, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcl_core.data import sheets, table_features
from dpcl_core.data.arrays import EMBEDDING_COLUMN, MAX_WIDTH
from dpcl_core.data.card import DatasetCard, Feature
from dpcl_core.data.pixels import is_list
from dpcl_core.errors import BadInput


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """The features of a row, each with its number of values; of an embedding, the columns that hold it.

    `is_embedding`: the values are scaled to length 1 together. `has_names`: the file's first line names its columns.
    """

    features: tuple[Feature, ...]
    widths: tuple[int, ...]
    is_embedding: bool = False
    has_names: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(feature.name for feature in self.features)

    def lacking(self, names: Sequence[str]) -> list[str]:
        """The columns that a file with these ones lacks."""
        return [name for name in self.names if name not in names]

    def values(self, table: pa.Table, shown: str) -> NDArray[np.float32]:
        """The values float32 [n, sum of widths] of a table's rows, in [-1, 1]; a missing column counts as missing values.

        Raises BadInput for a column whose type no value can have; `shown`: the file's name in messages.
        """
        columns = {name: table[name] for name in self.names if name in table.column_names}
        if not self.is_embedding:
            return table_features.encoded(columns, self.features, self.widths, len(table))
        if self.names == (EMBEDDING_COLUMN,):
            return units(_of_lists(columns.get(EMBEDDING_COLUMN), self.widths[0], len(table), shown))
        missing = np.full(len(table), np.nan)
        parts = [
            table_features.numbers(columns[name], f"{shown} column {name}") if name in columns else missing
            for name in self.names
        ]
        return units(np.stack(parts, axis=1))

    def document(self) -> str:
        """Itself as JSON, which `read` takes."""
        return json.dumps(asdict(self))


def read(document: str) -> RowEncoding:
    """The encoding that a document describes."""
    found = json.loads(document)
    features = tuple(Feature(**{**one, "categories": tuple(one["categories"])}) for one in found["features"])
    return RowEncoding(features, tuple(found["widths"]), found["is_embedding"], found["has_names"])


def planned(card: DatasetCard, public: pa.Table, shown: str) -> RowEncoding:
    """The encoding of a dataset's rows, by its schema and its public rows. Raises BadInput for columns of no use."""
    names = [name for name in public.column_names if name not in sheets.CANONICAL.values()]
    if card.kind == "embedding":
        held = (EMBEDDING_COLUMN,) if EMBEDDING_COLUMN in names else tuple(names)
        n_values = _length(public[EMBEDDING_COLUMN], shown) if EMBEDDING_COLUMN in names else len(names)
        if not 1 <= n_values <= MAX_WIDTH:
            allowed = f"must have 1 to {MAX_WIDTH:,} numbers a row"
            raise BadInput(f"{shown} {EMBEDDING_COLUMN}", f"{n_values} numbers", allowed)
        widths = (n_values,) if EMBEDDING_COLUMN in names else (1,) * n_values
        return RowEncoding(tuple(map(Feature, held)), widths, is_embedding=True, has_names=card.has_names)
    for name in [feature.name for feature in card.features if feature.name in names] or names:
        if pa.types.is_nested(public[name].type) or pa.types.is_binary(public[name].type):
            allowed = "must hold words or numbers, or be left out of the file"
            raise BadInput(f"{card.name} column {name}", str(public[name].type), allowed)
    columns = {name: public[name] for name in names if not pa.types.is_nested(public[name].type)}
    features = table_features.planned(names, columns, card.features)
    widths = tuple(table_features.width(feature, columns[feature.name]) for feature in features)
    return RowEncoding(features, widths, has_names=card.has_names)


def units(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows [n, K] scaled to length 1; zeros for one with a missing or an infinite value."""
    finite = np.isfinite(values).all(axis=1, keepdims=True)
    values = np.where(finite, values, 0.0)
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)  # squares of large values stay finite
    values = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    scaled = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    found: NDArray[np.float32] = np.clip(scaled, -1, 1).astype(np.float32)
    return found


def _length(column: pa.ChunkedArray, shown: str) -> int:
    """The length of the first list of a column of lists."""
    _check_lists(column, shown)
    lengths = pc.list_value_length(column).drop_null()
    return int(lengths[0].as_py()) if len(lengths) else 0


def _of_lists(column: pa.ChunkedArray | None, n_values: int, n_rows: int, shown: str) -> NDArray[np.float64]:
    """The lists of a column as rows float64 [n, n_values]; not-a-number for a list of another length and for null."""
    values = np.full((n_rows, n_values), np.nan)
    if column is None:
        return values
    _check_lists(column, shown)
    fits = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(column), n_values), False))
    chosen = column.filter(pa.array(fits)).combine_chunks()
    flat = np.asarray(chosen.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    values[fits] = flat.reshape(-1, n_values)
    return values


def _check_lists(column: pa.ChunkedArray, shown: str) -> None:
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise BadInput(f"{shown} column {EMBEDDING_COLUMN}", str(kind), "must hold lists of numbers")
