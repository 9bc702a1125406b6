"""Columns of a table in memory, whatever file they come from: words, numbers or vectors, each cell by itself alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.coins import EXACT, word
from dpcl_core.errors import BadInput
from dpcl_core.later import Late

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from PIL import Image, ImageOps
else:
    pa, pc, pq = map(Late, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))
    Image, ImageOps = map(Late, ("PIL.Image", "PIL.ImageOps"))

__all__ = ["Image", "ImageOps", "pa", "pc", "pq"]
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
Holds = Literal["text", "words", "numbers", "vectors", "bytes", "nested"]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What a column holds, its n values, and its type in messages.

    Text and other words (dates, truth values) are `str` or None, numbers an array with NaN for none, vectors an array for
    each row or None; bytes and nested values are no features.
    """

    holds: Holds
    values: Sequence[Any] | NDArray[Any]
    kind: str = "text"

    def take(self, rows: NDArray[np.int64]) -> Column:
        """The cells of these rows, in this order."""
        if isinstance(self.values, np.ndarray):
            return replace(self, values=self.values[rows])
        return replace(self, values=[self.values[row] for row in rows.tolist()])

    def words(self, field: str) -> list[str | None]:
        """The cells as words, whole numbers without a point. Raises BadInput for other values than words and numbers."""
        if self.holds in ("text", "words"):
            return list(self.values)
        if self.holds != "numbers":
            raise BadInput(field, self.kind, "must hold words or numbers")
        return [None if value != value else _digits(value) for value in np.asarray(self.values).tolist()]


def _digits(value: float) -> str:
    is_whole = isinstance(value, float) and abs(value) < EXACT and value == int(value)
    return f"{value:.0f}" if is_whole else repr(value)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of `n_rows` cells each, by name."""

    columns: Mapping[str, Column]
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def take(self, rows: NDArray[np.int64]) -> Table:
        """These rows, in this order."""
        return Table({name: column.take(rows) for name, column in self.columns.items()}, len(rows))


def form(table: Table) -> tuple[tuple[str, Holds], ...]:
    """The names of a table's columns, and what they hold."""
    return tuple((name, column.holds) for name, column in table.columns.items())


def joined(tables: Sequence[Table]) -> Table:
    """The rows of all tables. Raises ValueError unless they have the same columns, and these hold the same."""
    first = tables[0]
    if len(set(map(form, tables))) > 1:
        raise ValueError("other columns")
    columns = {}
    for name, column in first.columns.items():
        parts = [table[name].values for table in tables]
        is_array = all(isinstance(part, np.ndarray) and part.shape[1:] == parts[0].shape[1:] for part in parts)  # type: ignore[union-attr]
        columns[name] = replace(column, values=np.concatenate(parts) if is_array else [*chain(*parts)])
    return Table(columns, sum(map(len, tables)))


def of_arrow(values: pa.ChunkedArray, version: int, *, is_vector: bool = False) -> Column:
    """An Arrow column. From the second rule of coins (`version`) on, one cell more or less changes no other, whatever type
    it gives the column; text that is not UTF-8 is missing.

    `is_vector`: lists of numbers become vectors. By the first rule they always do.
    """
    kind, types, is_exact, shown = values.type, pa.types, version == 1, str(values.type)
    if types.is_dictionary(kind):
        if is_text(kind):
            found: list[str | None] = []
            for chunk in values.chunks:
                distinct = [*_canonical(values_of(chunk.dictionary), version), None]
                found += [distinct[-1 if place is None else place] for place in chunk.indices.to_pylist()]
            return Column("text", found, shown)
        values, kind = values.cast(kind.value_type), kind.value_type
    if types.is_null(kind):
        return Column("text", [None] * len(values), shown)
    if is_text(kind):
        return Column("text", _canonical(values_of(values), version), shown)
    if types.is_decimal(kind) and not is_exact:  # by its digits: Arrow rounds by the scale, which one cell can widen for all
        return Column("numbers", values.cast(pa.large_string()).cast(pa.float64()).to_numpy(), shown)
    if types.is_integer(kind) and not is_exact:
        ends = pc.min_max(values.cast(pa.float64(), safe=False)).as_py().values()
        if any(one is not None and abs(one) >= EXACT for one in ends):
            values = values.cast(pa.float64(), safe=False)
    if is_number(kind):
        return Column("numbers", values.to_numpy(), shown)
    if types.is_duration(kind) and not is_exact:
        times = _NANOSECONDS[kind.unit]
        return Column("text", [None if n is None else str(n * times) for n in values.cast(pa.int64()).to_pylist()], shown)
    if types.is_temporal(kind) and not is_exact:  # moments in Greenwich: one row can give a column its zone, and unit
        zoneless = values.cast(pa.timestamp(kind.unit)) if types.is_timestamp(kind) else values
        return Column("text", _canonical(zoneless.cast(pa.large_string()).to_pylist(), version), shown)
    if types.is_boolean(kind) or types.is_decimal(kind) or types.is_temporal(kind):
        with suppress(pa.ArrowException):  # a time zone that nobody knows
            return Column("words", values.cast(pa.large_string()).to_pylist(), shown)
        return Column("nested", [None] * len(values), shown)
    if is_list(kind) and is_number(kind.value_type) and (is_vector or is_exact):
        return Column("vectors", _vectors(values), shown)
    return Column("bytes" if is_binary(kind) else "nested", values_of(values), shown)


def _vectors(values: pa.ChunkedArray) -> NDArray[Any] | list[Any]:
    """An array for each list or None; one array [n, K], which takes no more memory than its numbers, where all have K."""
    if values.num_chunks == 1 and len(values) and not values.null_count:
        (chunk,), lengths = values.chunks, pc.min_max(pc.list_value_length(values)).as_py()
        if lengths["min"] == lengths["max"]:
            return np.reshape(chunk.flatten().to_numpy(zero_copy_only=False), (len(chunk), lengths["min"]))
    return list(values.to_numpy())


def _canonical(cells: Sequence[Any], version: int) -> list[str | None]:
    return [cell if cell is None or version == 1 else word(cell) for cell in cells]


def values_of(column: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values of a column of any nesting; None for one with text that is not UTF-8."""
    with suppress(UnicodeDecodeError):
        return list(column.to_pylist())
    found: list[object] = [None] * len(column)
    for place, one in enumerate(column):
        with suppress(UnicodeDecodeError):
            found[place] = one.as_py()
    return found


def doubles(values: pa.Array) -> NDArray[np.float64]:
    """Numbers in double precision; an empty one is not-a-number."""
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type has whole numbers or floating point."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has text, plain or dictionary-encoded."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column's entries are lists of any Arrow kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether a column of this type has bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def without_struct(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, or the bytes in it where it is a struct of bytes and path."""
    is_struct = pa.types.is_struct(column.type) and "bytes" in [field.name for field in column.type]
    return pc.struct_field(column, "bytes") if is_struct else column
