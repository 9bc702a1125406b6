"""Products of private rows with a public matrix: each row's product is a function of that row alone, to the last digit.

A kernel for matrix products orders and fuses its additions by the shape of what it multiplies and by where a row stands in
it. In floating point the same row then gives other last digits beside other people's rows, and where large terms cancel, the
last digits are all that is left. So factors are first brought onto grids that are so coarse that every product and every sum
of products is a whole number of at most 2^53. Those are exact in double precision: no order, block, fused product, number of
threads or processor can change them, nor can other rows, which enter no sum of this row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.sums import finite_rows

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
