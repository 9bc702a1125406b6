"""Precomputed embeddings in NPZ files: one array of rows, one of labels, nothing pickled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpcl_core.data.images import is_list
from dpcl_core.data.windows import AXES, RATES, SAMPLES, source_name
from dpcl_core.errors import BadInput

# Reads and checks sensor windows in a parquet file: a column of lists of numbers and one of rates.


WINDOW_COLUMN = "window"
RATE_COLUMN = "rate_hz"
_SIZE = SAMPLES * AXES
_WINDOW = f"must be a list of {_SIZE} numbers, {SAMPLES} samples of {AXES} axes in m/s^2"


def windows_of(column: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Accelerations float32 [n, 100, 3] of a column of lists, sample after sample; `rows` [n]: row numbers in messages.

    Raises BadInput naming the first row with another number of values, null, or a non-finite value.
    """
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise BadInput(f"{shown} column {WINDOW_COLUMN}", str(kind), _WINDOW)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    for row in np.flatnonzero(lengths != _SIZE)[:1]:
        raise BadInput(f"{shown} row {rows[row]}, {WINDOW_COLUMN}", f"a list of {lengths[row]}", _WINDOW)
    # A missing number becomes NaN, one too large for 32 bits infinity.
    with np.errstate(over="ignore"):
        values: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    for place in np.flatnonzero(~np.isfinite(values))[:1]:
        raise BadInput(
            f"{shown} row {rows[place // _SIZE]}, {WINDOW_COLUMN}", float(values[place]), f"{_WINDOW}, all of them finite"
        )
    return values.reshape(-1, SAMPLES, AXES)


def sources_of(column: pa.ChunkedArray, shown: str, rows: NDArray[np.int64]) -> NDArray[np.str_]:
    """The source name of each row's rate; `rows` [n]: the rows' numbers in messages.

    Raises BadInput for a column that is not numeric, and naming the first row of another rate.
    """
    allowed = f"must be {', '.join(map(str, RATES[:-1]))} or {RATES[-1]} samples a second"
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise BadInput(f"{shown} column {RATE_COLUMN}", str(column.type), allowed)
    rates: NDArray[np.float64] = column.to_numpy().astype(np.float64)  # null becomes NaN, which is no valid rate either
    for row in np.flatnonzero(~np.isin(rates, RATES))[:1]:
        value = "nothing" if np.isnan(rates[row]) else f"{rates[row]:g}"
        raise BadInput(f"{shown} row {rows[row]}, {RATE_COLUMN}", value, allowed)
    names = np.asarray([source_name(rate) for rate in RATES], dtype=np.str_)
    return names[np.searchsorted(RATES, rates)]


EMBEDDING_COLUMN = "embedding"
MAX_WIDTH = 65_536
_MAX_BYTES = 4 * 2**30
_ROWS = ("embeddings", "embedding", "features", "x", "X", "arr_0")
# By column: the names that its array may have.
_OTHERS = {
    "label": ("labels", "label", "y", "arr_1"), "domain": ("domain", "source"), "person": ("person",), "time": ("time",),
}  # fmt: skip
_KNOWN = {name for names in _OTHERS.values() for name in names}
_FORM = (
    f"must hold a float array [rows, width] called {_ROWS[0]} (or {', '.join(_ROWS[1:])}) and an array [rows] called labels "
    "(or y), saved by numpy.savez without objects"
)


def table(content: bytes, shown: str, *, version: int = 2) -> pa.Table:
    """The arrays as a table, each a column: fixed-size lists of float32, and text or numbers.

    One missing value makes floating point of an array of whole numbers or of truth values. So all of them are so here, but
    by the first rule (`version` = 1), which made words of them.

    Raises BadInput naming the array and what is allowed; sizes are checked in the headers before anything is unpacked.
    """
    found = _arrays(content, shown)
    name = next((name for name in _ROWS if name in found), None)
    if name is None:
        raise BadInput(shown, ", ".join(found) or "no arrays", _FORM)
    values = found[name]
    if values.ndim != 2 or values.dtype.kind not in "fiu" or not 1 <= values.shape[1] <= MAX_WIDTH:
        width = "x".join(map(str, values.shape[1:]))
        raise BadInput(f"{shown} {name}", f"{values.dtype} [rows, {width}]", f"{_FORM}; the width is at most {MAX_WIDTH:,}")
    with np.errstate(over="ignore"):
        flat = np.ascontiguousarray(values, dtype=np.float32).ravel()
    columns: dict[str, pa.Array] = {EMBEDDING_COLUMN: pa.FixedSizeListArray.from_arrays(pa.array(flat), values.shape[1])}
    for other, of in found.items():
        if of.shape == (len(values),) or other in _KNOWN:
            if of.shape != (len(values),) or of.dtype.kind not in "biufUS":
                allowed = "must have one number or word for each row"
                raise BadInput(f"{shown} {other}", f"{of.dtype}, {of.ndim} axes", allowed)
            is_number = version > 1 and of.dtype.kind in "biuf"
            columns[other] = pa.array(of.astype(np.float64), from_pandas=True) if is_number else _words(of)
    return pa.table(columns)


def names(path: Path, shown: str) -> list[str]:
    """The columns of `table`, from the headers of the arrays alone. Raises BadInput for what is no NPZ file."""
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {
                one.filename.removesuffix(".npy"): _header(archive, one)[0]
                for one in archive.infolist() if one.filename.endswith(".npy")
            }  # fmt: skip
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise BadInput(shown, "no arrays", _FORM) from error
    rows = next((shapes[name] for name in _ROWS if name in shapes), None)
    if rows is None:
        raise BadInput(shown, ", ".join(shapes) or "no arrays", _FORM)
    return [EMBEDDING_COLUMN, *(name for name, shape in shapes.items() if shape == rows[:1] or name in _KNOWN)]


def canonical(columns: Sequence[str], taken: Collection[str]) -> list[str]:
    """These columns of `table` with the readers' names, but for those names that a column has by its role (`taken`)."""
    usual = {
        found: name for name, names in _OTHERS.items() if name not in taken
        and (found := next((one for one in names if one in columns), None)) is not None
    }  # fmt: skip
    return [usual.get(column, column) for column in columns]


def _words(values: NDArray[np.generic]) -> pa.Array:
    words = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in values.tolist()]
    return pa.array([word if word.isprintable() else None for word in words], pa.large_string())


def _arrays(content: bytes, shown: str) -> Mapping[str, NDArray[np.generic]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
            for member in members:
                _check(archive, member, shown)
            return {
                one.filename.removesuffix(".npy"): npy.read_array(archive.open(one), allow_pickle=False) for one in members
            }
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many kinds of error, all with the same meaning for the user
        raise BadInput(shown, "other bytes", _FORM) from error


def _check(archive: zipfile.ZipFile, member: zipfile.ZipInfo, shown: str) -> None:
    """Raises BadInput for an array of objects, one of another size than its header announces, and a huge one."""
    shape, dtype = _header(archive, member)
    field = f"{shown} {member.filename.removesuffix('.npy')}"
    if dtype.hasobject:
        raise BadInput(field, "objects", f"{_FORM}: pickled objects could run any program")
    size = int(np.prod([int(side) for side in shape], dtype=object)) * dtype.itemsize
    if size > _MAX_BYTES or member.file_size > _MAX_BYTES or size > member.file_size:
        raise BadInput(field, f"{size:,} bytes", f"must have at most {_MAX_BYTES:,} bytes, and as many as its header says")


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """The shape and dtype that an array announces."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)
    return shape, dtype
