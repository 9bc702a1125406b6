"""Rows on a public grid and their exact sums: the sums of neighbours differ by exactly one row.

In floating point, the last digits of a sum depend on order, processor and fused products, and a row of length 1 may come
out longer by rounding. So every row is first brought onto a grid, at a length that stays below its bound, and numbers on a
grid are added exactly: what is proved for real sums then holds for the computed ones.

Lengths: a computed sum of K squares, in any order, has a relative error of at most K 2^-53, so has its root, and a
division, a product and the factor's own rounding add less than 2^-50. `shortened` takes off 2^-32 + K 2^-52. So a row's
exact length is at most bound (1 - 2^-33), and truncation makes none longer. That margin also exceeds the rounding of a
multiplier std / bound in the ledger (2^-51 of it): the recorded multiplier is never larger than the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

STEP = 2.0**-30  # grid of rows of length 1
_CLIENT_STEP = 2.0**-38  # grid of clients' vectors, in units of the bound: at most 10,000 clients are summed
_BLOCK = 1 << 14  # numbers: 128 kB in float64; what is larger, the C library fetches from the system anew each time


def row_blocks(n_rows: int, width: int, most: int = _BLOCK) -> Iterator[slice]:
    """Slices of rows small enough that working copies in float64 stay in the processor's cache, whatever the data's size."""
    step = max(1, most // max(1, width))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def by_blocks(
    rows: NDArray[np.generic], n_columns: int, made_of: Callable[[NDArray[np.generic]], NDArray[np.float64]]
) -> NDArray[np.float32]:
    """Applies a function of single rows to rows [n, K], block by block: float32 [n, n_columns]."""
    made = np.empty((len(rows), n_columns), np.float32)
    for part in row_blocks(*rows.shape):
        made[part] = made_of(rows[part])
    return made


def shortened(width: int) -> float:
    """Length allowed to a row of `width` numbers before rounding, as a share of its bound."""
    return 1 - 2.0**-32 - width * 2.0**-52


def on_grid(values: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Values truncated to multiples of `step`, a power of two, in place. Exact for values below 2^53 steps."""
    values *= 1 / step
    np.trunc(values, out=values)
    values *= step
    return values


def finite_rows(rows: NDArray[np.generic]) -> NDArray[np.float64]:
    """Rows [..., K] in double precision; rows with a non-finite number become zero.

    Each row's numbers lie side by side, as numpy adds them in another order for other layouts and numbers of rows.
    """
    doubles = np.array(rows, dtype=np.float64, order="C")
    doubles[~np.isfinite(doubles).all(axis=-1)] = 0.0
    return doubles


def unit_rows(features: NDArray[np.generic]) -> NDArray[np.float64]:
    """Rows scaled to length 1, less 2^-32, on the grid of `STEP`; rows of zeros or non-finite rows give zero.

    No row is longer than 1 - 2^-33 as a real vector. Args: features [n, K].
    """
    return on_grid(_scaled_to(finite_rows(features), shortened(features.shape[1])), STEP)


class UnitRows:
    """`unit_rows` of some rows [n] of a table: each row is scaled once, whoever asks for it, and kept in whole steps.

    A row of length 1 has at most 2^30 steps, so that all of them take as much memory as in single precision.
    """

    def __init__(self, table: NDArray[np.generic], rows: NDArray[np.int64]) -> None:
        self.table, self.rows = table, rows
        self._steps, self._is_scaled = np.zeros(table.shape, np.int32), np.zeros(len(table), np.bool_)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.table.shape[1]

    def at(self, rows: NDArray[np.int64]) -> UnitRows:
        """Other rows of the same table."""
        found = copy(self)
        found.rows = rows
        return found

    def of(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rows at these places, as `unit_rows` gives them."""
        rows = self.rows[places]
        if len(fresh := rows[~self._is_scaled[rows]]):
            self._steps[fresh] = unit_rows(self.table[fresh]) / STEP
            self._is_scaled[fresh] = True
        return np.multiply(self._steps[rows], STEP, dtype=np.float64)


def coarse_unit_rows(features: NDArray[np.generic], step: float) -> NDArray[np.float64]:
    """Rows scaled to length 1 on a coarse grid, where truncation would add up to a bias: rounded to the nearest grid point.

    That moves a row by at most sqrt(K) / 2 steps; rows are made shorter by more than that beforehand.
    """
    width = features.shape[1]
    return np.rint(_scaled_to(finite_rows(features), shortened(width) - math.sqrt(width) * step) / step) * step


def _scaled_to(rows: NDArray[np.float64], length: float) -> NDArray[np.float64]:
    """The rows at this length, in place; rows of zeros stay."""
    largest = np.maximum(rows.max(axis=1, keepdims=True, initial=0.0), -rows.min(axis=1, keepdims=True, initial=0.0))
    rows /= np.where(largest > 0, largest, 1.0)  # squares of large values stay finite
    norms = np.linalg.norm(rows, axis=1, keepdims=True) / length
    rows /= np.where(norms > 0, norms, 1.0)
    return rows


def clipped_rows(vectors: NDArray[np.floating], bound: float) -> NDArray[np.float64]:
    """Vectors along the last axis, shortened to length `bound`, less 2^-32 of it, where longer; on a grid below 2^-38 of it.

    Those of infinite or undefined length become zero. No row is longer than bound (1 - 2^-33) as a real vector. Sums of up
    to 16,384 are exact in floating point, in any order.
    """
    longest = bound * shortened(vectors.shape[-1])
    rows = finite_rows(vectors)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    factors = np.divide(longest, lengths, out=np.ones_like(lengths), where=lengths > longest)
    return on_grid(rows * factors, math.ldexp(1.0, math.frexp(bound)[1] - 1) * _CLIENT_STEP)


class ExactSum:
    """A sum of arrays of multiples of `step`, kept in integers: the same in any order, on any processor.

    Holds up to 2^63 steps; `value` is clipped at 2^53 (projection onto a box, which moves no two sums farther apart). With
    rows on the grid of `STEP` that is 8 million of the longest rows in one direction.
    """

    def __init__(self, shape: tuple[int, ...], step: float) -> None:
        self.steps, self._step = np.zeros(shape, dtype=np.int64), step

    def add(self, values: NDArray[np.float64], places: NDArray[np.intp] | slice = slice(None)) -> None:
        """Adds multiples of the step, each below 2^53 steps, so that sums formed by the caller were exact as well.

        `places`: where along the first axis, each at most once.
        """
        self.steps[places] += (values * (1 / self._step)).astype(np.int64)

    def value(self) -> NDArray[np.float64]:
        return np.clip(self.steps, -(2**53), 2**53).astype(np.float64) * self._step


# Products of private rows with a public matrix: each row's product is a function of that row alone, to the last digit.
#
# A kernel for matrix products orders and fuses its additions by the shape of what it multiplies and by where a row stands in
# it. In floating point the same row then gives other last digits beside other people's rows, and where large terms cancel,
# the last digits are all that is left. So factors are first brought onto grids that are so coarse that every product and
# every sum of products is a whole number of at most 2^53. Those are exact in double precision: no order, block, fused
# product, number of threads or processor can change them, nor can other rows, which enter no sum of this row.


_ROW_BITS = 24  # as single precision; the matrix gets what is left of 53


class RowProducts:
    """Multiplies rows by a finite public matrix [K, A], K < 2^28, whose columns are rounded once, here.

    A row is rounded to 24 bits below its largest number, a column to 29 - b bits below its largest, for K < 2^b. Products of
    whole numbers of at most 2^24 and 2^(29 - b) and sums of K of them are at most K 2^(53 - b) < 2^53.
    """

    def __init__(self, matrix: NDArray[np.floating]) -> None:
        doubles = np.asarray(matrix, dtype=np.float64)
        self._columns, self._exponents = _whole(doubles, 53 - _ROW_BITS - len(matrix).bit_length(), axis=0)

    def of(self, rows: NDArray[np.generic]) -> NDArray[np.float64]:
        """About rows @ matrix, float64 [n, A], of rows [n, K]; zeros for a row with a number that is not finite.

        Around the exact product, all steps work on one row or number alone: the largest number, powers of two, rounding.
        """
        whole, exponents = _whole(finite_rows(rows), _ROW_BITS, axis=1)
        products: NDArray[np.float64] = np.ldexp(whole @ self._columns, exponents + self._exponents)
        return products


def _whole(values: NDArray[np.float64], bits: int, axis: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Whole numbers of at most 2^bits and exponents: values are about whole 2^exponent, with one exponent along the axis."""
    exponents = np.frexp(np.abs(values).max(axis=axis, keepdims=True, initial=0.0))[1] - np.int32(bits)
    return np.rint(np.ldexp(values, -exponents)), exponents
