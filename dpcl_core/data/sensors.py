"""Reads and checks sensor windows in a parquet file: a column of lists of numbers and one of rates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpcl_core.data.pixels import is_list
from dpcl_core.data.windows import AXES, RATES, SAMPLES, source_name
from dpcl_core.errors import BadInput

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
