"""Columns of Arrow tables: what type they have, and their values in a form that no other row's cell can change."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from dpcl_core.data.coins import EXACT, TRUTH, word
from dpcl_core.errors import BadInput


class Late(ModuleType):
    """A module that is loaded when something of it is first used: it is large, and most of the app needs none of it."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = map(Late, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))

__all__ = ["pa", "pc", "pq"]
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def truths(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """`truth` of each cell."""
    places = pc.index_in(cells, pa.array([*TRUTH], cells.type))
    return pc.coalesce(pa.array([*TRUTH.values()], cells.type).take(places), cells)


def values_of(column: pa.ChunkedArray) -> list[object]:
    """The values of a column of any nesting; None for one with text that is not UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_python_value(one) for one in column]


def _python_value(one: pa.Scalar) -> object:
    try:
        return one.as_py()
    except UnicodeDecodeError:
        return None


def canonical(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A typed column in a type that one cell more or less cannot change: words, numbers or what else it holds."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_null(kind):
        return values.cast(pa.large_string())
    if pa.types.is_decimal(kind):  # by its digits: Arrow's own cast rounds by the scale, which one cell can widen for all
        return values.cast(pa.large_string()).cast(pa.float64())
    if pa.types.is_duration(kind):
        counts = values.cast(pa.int64()).to_pylist()
        times = _NANOSECONDS[kind.unit]
        return pa.chunked_array([pa.array([None if n is None else str(n * times) for n in counts], pa.large_string())])
    if pa.types.is_temporal(kind):  # moments with a zone in that of Greenwich: one row can give a column its zone, and unit
        zoneless = values.cast(pa.timestamp(kind.unit)) if pa.types.is_timestamp(kind) else values
        return _canonical_words(zoneless.cast(pa.large_string()))
    if pa.types.is_integer(kind):
        largest = pc.min_max(values.cast(pa.float64(), safe=False))
        is_small = all(one is None or abs(one) < EXACT for one in largest.as_py().values())
        return values if is_small else values.cast(pa.float64(), safe=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _canonical_words(values.cast(pa.large_string()))
    return values


def _canonical_words(values: pa.ChunkedArray) -> pa.ChunkedArray:
    whole = values.combine_chunks()
    may_change = pc.fill_null(pc.match_substring_regex(whole, r"\.0+\s*$|:"), False)
    words = [word(one) for one in whole.filter(may_change).to_pylist()]
    return pa.chunked_array([pc.replace_with_mask(whole, may_change, pa.array(words, whole.type))]) if words else values


def whole_numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The whole numbers of a column of floating point as such; anything else is missing."""
    is_whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), float(EXACT)))
    return pc.if_else(is_whole, values, pa.scalar(None, values.type)).cast(pa.int64())


def doubles(values: pa.Array | pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Numbers in double precision; an empty one is not-a-number."""
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as text; a value that is not UTF-8 becomes null."""
    as_text = column.cast(pa.large_string(), safe=False)
    try:
        as_text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.chunked_array([pa.array(map(_decoded, column.to_pylist()), pa.large_string())])
    return as_text


def decodable(table: pa.Table) -> pa.Table:
    """The table with text columns in which every value is UTF-8 or null."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if is_text(column.type) and not pa.types.is_dictionary(column.type):
            plain = column.cast(pa.large_string(), safe=False).cast(pa.large_binary(), safe=False)
            table = table.set_column(place, name, as_text(plain))
    return table


def _decoded(value: bytes | None) -> str | None:
    """A value as text; None where it is not UTF-8."""
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type has text, plain or dictionary-encoded."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column's entries are lists of any Arrow kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def without_struct(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, or the bytes in it where it is a struct of bytes and path."""
    is_struct = pa.types.is_struct(column.type) and "bytes" in [field.name for field in column.type]
    return pc.struct_field(column, "bytes") if is_struct else column


def is_binary(kind: pa.DataType) -> bool:
    """Whether a column of this type has bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


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
        return [None if value is None or value != value else f"{value:.0f}" if value == _int_of(value) else repr(value)
                for value in values]  # fmt: skip
    raise BadInput(field, str(kind), "must hold words or numbers")


def _int_of(value: float) -> float:
    """The value where it is a whole number that double precision holds exactly, else not a number."""
    return value if abs(value) < 2**53 and value == int(value) else float("nan")
