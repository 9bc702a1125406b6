"""Sums of clipped gradients of last layers in which one example is worth one example, to the last digit.

Noise hides a change of a sum by at most the clipping norm. What must not change by more is the sum as it is computed, and
floating-point sums move in every digit when one term joins them. Here they do not, for two reasons.

1. What an example adds depends on the example and the weights alone. Logits come from products of one fixed public shape,
   tiles of `tile_size` rows of which the last is filled up, so that the size of a batch does not decide how a kernel adds
   up, and in double precision: single-precision kernels add up in another order at some places of a tile. All else is done
   example by example, with examples innermost and none of them in the remainder behind the vector instructions. This is a
   property of kernels, not of arithmetic: tests/methods/test_head_gradients.py compares the bits on those at hand.
2. What examples add is summed without rounding. Of example i, the gradient (p_i - onehot(y_i)) ⊗ row_i clipped to C is

       C R_i ⊗ X_i / (n_r n_x),   R_i = whole numbers [columns], |R_i| <= n_r,   X_i = whole numbers [K+1], |X_i| <= n_x:

   X_i is the direction of its row in steps of 1 / n_x, R_i the residual at the length left to it, in steps of 1 / n_r, both
   cut off toward zero, which makes no length grow. Sums of R_i ⊗ X_i are whole numbers: `exact_product` keeps them within
   2^24 (2^53 in double precision), where every order of additions, fused or not, on any number of cores, gives the same.

So, in units of C, the sums of neighbours differ by R_i ⊗ X_i / (n_r n_x) exactly, whose length is at most 1.

Lengths bound what they should although they are computed with rounding. With u half the distance from 1 to the next number,
a computed sum of k squares is at least (1 - (k + 2) u) times the true one, less what squares lost that are too small for a
number (each below 2^-126). Both divisors are therefore raised by a relative 2 (k + 8) u, which covers root, division and
product as well; the 1 that ends every row, and Opacus' stabiliser, here at least 2^-50, exceed what was lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
# A row with a number beyond it keeps its direction and gets this length: no weight makes its logits infinite, and clipped it
# is worth what it was before, for its gradient is longer than the clipping norm unless its class is certain.
LARGEST_INPUT = 2.0**20
_STABILISER = 1e-6  # of the norm that clips, as Opacus has it
_LANES = 16  # tiles are multiples of the numbers in the widest vector, so that no example is in a remainder
_RESIDUAL_STEPS = {np.dtype(np.float32): 2.0**9, np.dtype(np.float64): 2.0**22}  # n_r
_LARGEST_WHOLE = {np.dtype(np.float32): 2.0**24, np.dtype(np.float64): 2.0**53}  # up to here every one is exact


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Examples as the steps read them, each row a function of the example alone.

    `rows` [n, K+1]: features, and a one at the end; `lengths` [n]: theirs; `directions` [n, K+1]: X above, whole numbers;
    `n_steps`: n_x. `targets` [n]: places of the labels in the columns. `allowed` [epsilons, columns]: the budgets' label
    spaces; `outside`: 0 in them, -inf outside (a budget without any label gets zeros, and no example ever counts there).
    """

    rows: Floats
    lengths: Floats
    directions: Floats
    width: float
    n_steps: float
    targets: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    outside: Floats

    @classmethod
    def of(
        cls,
        features: NDArray[np.generic],
        targets: NDArray[np.int64],
        allowed: NDArray[np.bool_],
        expected_batch: float,
        dtype: np.dtype[np.floating],
    ) -> Prepared:
        """Of features [n, K] with targets [n]."""
        rows = with_bias(features, dtype)
        n_steps = direction_steps(rows.shape[1], expected_batch, dtype)
        lengths = np.sqrt(np.einsum("nk,nk->n", rows, rows))
        np.maximum(lengths, 1, out=lengths)  # a row that counts zero divides by nothing
        lengths *= 1 + _allowance(rows.shape[1], dtype)
        directions = rows * (n_steps / lengths)[:, None]
        np.trunc(directions, out=directions)
        usable = allowed | ~allowed.any(axis=1, keepdims=True)
        return cls(
            rows,
            lengths,
            directions,
            _largest(directions),
            n_steps,
            targets,
            allowed,
            np.where(usable, 0, -np.inf).astype(dtype),
        )


def with_bias(features: NDArray[np.generic], dtype: np.dtype[np.floating] | type[np.floating]) -> Floats:
    """Features [n, K] with a column of ones [n, K+1]; a row that is not finite becomes zero, bias included.

    A row with a number beyond `LARGEST_INPUT` is shortened to that length, whatever finite numbers it holds.
    """
    rows = np.ones((len(features), features.shape[1] + 1), dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        rows[:, :-1] = features
    if not _largest(rows) <= LARGEST_INPUT:
        far = np.flatnonzero(~(np.abs(rows).max(axis=1) <= LARGEST_INPUT))
        wide = np.ones((len(far), rows.shape[1]))
        wide[:, :-1] = features[far]
        wide[~np.isfinite(wide).all(axis=1)] = 0
        wide /= np.maximum(np.abs(wide).max(axis=1, keepdims=True), 1)
        rows[far] = wide * (LARGEST_INPUT / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-300))
    return rows


def tile_size(expected_batch: float) -> int:
    """Rows of one product: public, and so many that a batch rarely needs a second (one time in forty)."""
    return _LANES * math.ceil((expected_batch + 2 * math.sqrt(expected_batch) + 1) / _LANES)


def direction_steps(n_inputs: int, expected_batch: float, dtype: np.dtype[np.floating]) -> float:
    """n_x, a public power of two: as fine as one product of a usual batch allows, from 2^8 to 2^12 in single precision.

    The largest number of a direction is taken for six times that of a vector whose numbers are all alike.
    """
    if dtype == np.float64:
        return 2.0**22
    fine = _LARGEST_WHOLE[dtype] / _RESIDUAL_STEPS[dtype] * math.sqrt(n_inputs) / (6 * max(1.0, expected_batch))
    return float(2.0 ** min(12, max(8, math.floor(math.log2(fine)))))


def clipped_sums(data: Prepared, batch: NDArray[np.int64], weights: Floats, clips: Floats, tile: int) -> Floats:
    """Sums over a batch of gradients clipped to C, in units of C and exact; for C = inf as they are, and rounded.

    Args: batch [b]: places in the data; weights [epsilons, columns, K+1]; clips [epsilons]; tile: see `tile_size`.
    Returns: [epsilons, columns, K+1], of `weights`' precision, or double where that cannot hold them.
    """
    is_clipped = np.isfinite(clips)
    found = np.zeros_like(weights)
    for start in range(0, len(batch), tile):
        piece = batch[start : start + tile]
        residuals = clipped_residuals(data, piece, weights, clips, tile)
        part = _clipped(data, piece, residuals if is_clipped.all() else residuals[is_clipped])
        if not is_clipped.all():
            clipped, part = part, np.empty(weights.shape, part.dtype)
            part[is_clipped], part[~is_clipped] = clipped, residuals[~is_clipped] @ data.rows.take(piece, axis=0)
        found = part if start == 0 else found + part.astype(np.float64)
    return found


def _clipped(data: Prepared, piece: NDArray[np.int64], residuals: Floats) -> Floats:
    n_budgets, n_columns, _ = residuals.shape
    rows = residuals.reshape(n_budgets * n_columns, len(piece))
    found = exact_product(rows, data.directions.take(piece, axis=0), data.width)
    found *= 1 / (data.n_steps * _RESIDUAL_STEPS[data.rows.dtype])  # a power of two
    return found.reshape(n_budgets, n_columns, found.shape[1])


def clipped_residuals(data: Prepared, piece: NDArray[np.int64], weights: Floats, clips: Floats, tile: int) -> Floats:
    """R above, of at most `tile` examples: whole numbers. For C = inf plain residuals p_i - onehot(y_i).

    The gradient's length is the product of the two lengths, and clipping one factor for each example and budget,
    min(1, C / (length + 1e-6)). Returns: [epsilons, columns, b].
    """
    filled = np.zeros(tile, np.int64)  # places behind the piece's are computed, too, and not used
    filled[: len(piece)] = piece
    n_budgets, n_columns = data.allowed.shape
    flat = weights.reshape(n_budgets * n_columns, weights.shape[2]).astype(np.float64)
    wide = flat @ data.rows.take(filled, axis=0).astype(np.float64).T
    residuals: Floats = wide.astype(weights.dtype).reshape(n_budgets, n_columns, tile)
    is_open = data.allowed.all()
    if not is_open:
        residuals += data.outside[:, :, None]
    residuals -= residuals.max(axis=1, keepdims=True, initial=-np.inf)
    np.exp(residuals, out=residuals)
    sums = residuals.sum(axis=1)
    targets = data.targets[filled]
    # (exp - sum * onehot) / sum is the residual: the division waits for the clipping factor, which is one more.
    residuals[:, targets, np.arange(tile)] -= sums
    norms = np.sqrt(np.einsum("ecb,ecb->eb", residuals, residuals))
    per_length = sums / data.lengths[filled]
    longest = np.maximum(clips[:, None] * per_length, norms + _STABILISER * per_length)
    steps = _RESIDUAL_STEPS[residuals.dtype] / (1 + _allowance(n_columns, residuals.dtype))
    is_clipped = np.isfinite(clips)
    factors = np.where(is_clipped[:, None], steps / longest, 1 / sums)
    if not is_open:  # an example outside a budget's label space is not in that budget's data
        factors = np.where(data.allowed[:, targets], factors, 0)
    residuals *= factors[:, None, :]
    if is_clipped.all():
        np.trunc(residuals, out=residuals)
    else:
        residuals[is_clipped] = np.trunc(residuals[is_clipped])
    return residuals[:, :, : len(piece)]


def exact_product(left: Floats, right: Floats, width: float) -> Floats:
    """left [m, b] @ right [b, k] of whole numbers without rounding, in double precision where single would round.

    A product of which no sum of absolute terms reaches `_LARGEST_WHOLE` is exact in any order of additions; others are added
    up from halves of b, in double precision, which holds sums of 2^32 examples of 2^21 each.
    """
    largest = _LARGEST_WHOLE[left.dtype]
    is_small = len(right) * width * _RESIDUAL_STEPS[left.dtype] <= largest or len(right) < 2
    if is_small or 2 * _heaviest(left) * width <= largest:  # twice: single precision may have rounded the sums
        return left @ right
    half = len(right) // 2
    parts = (exact_product(left[:, :half], right[:half], width), exact_product(left[:, half:], right[half:], width))
    return np.add(*parts, dtype=np.float64)


def _largest(values: Floats) -> float:
    """The largest absolute value; no number where one is none."""
    return float(np.maximum(values.max(initial=0), -values.min(initial=0)))


def _heaviest(left: Floats) -> float:
    """The largest sum of absolute values in a row."""
    return float(np.abs(left).sum(axis=1).max(initial=0))


def _allowance(n_terms: int, dtype: np.dtype[np.floating]) -> float:
    """What the docstring above raises a divisor by."""
    return (n_terms + 8) * float(np.finfo(dtype).eps)
