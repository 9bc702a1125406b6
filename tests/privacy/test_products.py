"""Products of rows with a public matrix are exact sums of numbers on grids, so no row depends on another."""

from __future__ import annotations

import numpy as np
import pytest

from dpcl_core.privacy.sums import RowProducts

GENERATOR = np.random.default_rng(3)


@pytest.mark.parametrize("width", [1, 2, 1023, 1024, 2047])
def test_no_order_of_additions_changes_a_digit(width: int) -> None:
    """Numbers near the largest that are possible, all of one sign: their sums come as close to 2^53 as they can."""
    rows, matrix = 1 - GENERATOR.random((40, width)) / 256, 1 - GENERATOR.random((width, 30)) / 256
    found = RowProducts(matrix).of(rows)
    for _ in range(5):
        order = GENERATOR.permutation(width)
        np.testing.assert_array_equal(RowProducts(matrix[order]).of(rows[:, order]), found)


def test_numbers_of_24_and_of_18_bits_are_multiplied_without_rounding() -> None:
    rows = GENERATOR.integers(1 - 2**24, 2**24, (20, 1280))
    matrix = GENERATOR.integers(1 - 2**18, 2**18, (1280, 7))
    rows[:, 0], matrix[0] = 2**24 - 1, 2**18 - 1  # no row and no column is on a coarser grid
    for scale in (2.0**-900, 2.0**-140, 1.0, 2.0**100):  # a row's and a column's own grids
        np.testing.assert_array_equal(RowProducts(matrix * 2.0**-30).of(rows * scale), (rows @ matrix) * (scale * 2.0**-30))


def test_rows_that_are_not_finite_and_rows_of_zeros_give_zeros() -> None:
    rows, matrix = GENERATOR.standard_normal((5, 9)), GENERATOR.standard_normal((9, 4))
    rows[1], rows[2, 3], rows[4, 0] = 0, np.inf, np.nan
    matrix[:, 2] = 0
    found = RowProducts(matrix).of(rows)
    assert not found[[1, 2, 4]].any()
    assert not found[:, 2].any()
    np.testing.assert_allclose(found[[0, 3]], rows[[0, 3]] @ matrix, rtol=0, atol=1e-5)
    assert RowProducts(matrix).of(rows[:0]).shape == (0, 4)
