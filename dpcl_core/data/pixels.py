"""Reads and checks pixels stored as lists of numbers in a parquet column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcl_core.data import canonical
from dpcl_core.data.images import MAX_SIDE
from dpcl_core.errors import BadInput


def pixels_of(
    column: pa.Array, shape: tuple[int, int, int] | None, shown: str, rows: NDArray[np.int64], *, by_row: bool
) -> NDArray[np.uint8]:
    """Pixels [n, H, W, C] of a column of lists: one flat list per row for a known `shape`, else nested H x W (x C).

    `rows` [n]: the rows' numbers in the file, for messages.
    Fractions must be in [0, 1] and become round(255 v); whole numbers must be in 0 ... 255. Which of them a row has, its
    column's type says; `by_row`: its own values, as one row of fractions would change the type of all.
    Raises BadInput naming the first row with another size, NaN, null, or a value out of range.
    """
    sizes: list[int] = []
    values: pa.Array = column
    n_rows = len(column)
    if not n_rows:
        return np.zeros((0, *(shape or (1, 1, 1))), np.uint8)
    while is_list(values.type):
        values, size = _flattened(values, sizes, shown, rows)
        sizes.append(size)
    height, width, channels = _shape(tuple(sizes), shape, shown)
    numbers = _by_row(values, shown, rows) if by_row else _checked(values, shown, rows)
    return numbers.reshape(n_rows, height, width, channels)


def _flattened(values: pa.Array, sizes: list[int], shown: str, rows: NDArray[np.int64]) -> tuple[pa.Array, int]:
    """The concatenated content of the lists, and their common length."""
    lengths = np.asarray(pc.list_value_length(values).fill_null(0))
    size = int(lengths.max())
    for place in np.flatnonzero(lengths != size)[:1]:
        row = rows[int(place) // int(np.prod(sizes, dtype=np.int64))]
        allowed = f"must have {size} values there, as other rows have"
        raise BadInput(f"{shown} row {row}, image", f"a list of {lengths[place]}", allowed)
    if size == 0:
        raise BadInput(f"{shown} row {rows[0]}, image", "an empty list", "must hold pixels")
    return values.flatten(), size


def _shape(sizes: tuple[int, ...], shape: tuple[int, int, int] | None, shown: str) -> tuple[int, int, int]:
    if shape is not None and sizes in ((int(np.prod(shape)),), shape, shape[:2] if shape[2] == 1 else shape):
        return shape
    shown_sizes = "x".join(map(str, sizes))
    if shape is not None:
        raise BadInput(f"{shown} column image", f"lists of {shown_sizes}", f"must have {'x'.join(map(str, shape))} pixels")
    if len(sizes) == 2:
        sizes = (*sizes, 1)
    if len(sizes) != 3 or sizes[2] not in (1, 3) or max(sizes[:2]) > MAX_SIDE:
        allowed = f"must be lists of height x width, or height x width x 1 or 3, of at most {MAX_SIDE}x{MAX_SIDE} pixels"
        raise BadInput(f"{shown} column image", f"lists of {shown_sizes}", allowed)
    return sizes


def _by_row(values: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Pixels [n, size]: fractions in a row without a value above 1."""
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise BadInput(f"{shown} column image", str(values.type), "must hold the bytes of image files, or lists of pixels")
    numbers = canonical.double(values).reshape(len(rows), -1)
    is_fraction = (numbers <= 1).all(axis=1, keepdims=True)
    fits = (numbers >= 0) & (is_fraction | ((numbers <= 255) & (numbers == np.rint(numbers))))  # written so that NaN fails
    for place in np.flatnonzero(~fits.all(axis=1))[:1]:
        allowed = "must be whole numbers from 0 to 255, or numbers from 0 to 1"
        found = numbers[place][~fits[place]][0]
        raise BadInput(f"{shown} row {rows[place]}, image", f"pixel {found:g}", allowed)
    return np.rint(np.where(is_fraction, numbers * 255, numbers)).astype(np.uint8)


def _checked(values: pa.Array, shown: str, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise BadInput(f"{shown} column image", str(values.type), "must hold the bytes of image files, or lists of pixels")
    numbers: NDArray[np.number] = values.to_numpy(zero_copy_only=False)  # a missing number becomes NaN
    per_row = len(numbers) // len(rows)
    is_fraction = pa.types.is_floating(values.type)
    top = 1 if is_fraction else 255
    allowed = "must be a number from 0 to 1" if is_fraction else "must be a whole number from 0 to 255"
    for place in np.flatnonzero(~((numbers >= 0) & (numbers <= top)))[:1]:  # written so that NaN fails
        raise BadInput(f"{shown} row {rows[place // per_row]}, image", f"pixel {numbers[place]}", allowed)
    return np.rint(numbers * 255).astype(np.uint8) if is_fraction else numbers.astype(np.uint8)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column's entries are lists of any Arrow kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
