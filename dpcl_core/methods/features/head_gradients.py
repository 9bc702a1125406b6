"""Sums of clipped gradients of last layers in which one example is worth one example, to the last digit.

Noise hides a change of a sum by at most the clipping norm. What must not change by more is the sum as it is computed, and
floating-point sums move in every digit when one term joins them. Here they do not, for two reasons.

1. What an example adds depends on the example and the weights alone. Logits are sums without rounding: an example is read
   as the direction X_i below, weights as whole numbers, and no sum of absolute products reaches 2^24 (2^53 in double
   precision), so that every order of additions, fused or not, on any number of cores, gives the same. All else is done
   example by example, with examples innermost, as many as vector instructions take at once and none behind them. That a
   function gives the same number at every place of a vector is a property of kernels, not of arithmetic:
   tests/methods/features/test_head_gradients.py compares the bits on those at hand.
2. What examples add is summed without rounding. Of example i, the gradient (p_i - onehot(y_i)) ⊗ row_i clipped to C is

       C R_i ⊗ X_i / (n_r n_x),   R_i = whole numbers [columns], |R_i| <= n_r,   X_i = whole numbers [K+1], |X_i| <= n_x:

   X_i is the direction of its row in steps of 1 / n_x, R_i the residual at the length left to it, in steps of 1 / n_r, both
   cut off toward zero, which makes no length grow. Sums of R_i ⊗ X_i are whole numbers: `exact_product` keeps them within
   2^24 (2^53), with the same effect. (X_i is kept times 1 / (n_r n_x), a power of two, which changes no digit.)

So, in units of C, the sums of neighbours differ by R_i ⊗ X_i / (n_r n_x) exactly, whose length is at most 1.

Lengths bound what they should although they are computed with rounding. With u half the distance from 1 to the next number,
a computed sum of k squares is at least (1 - (k + 2) u) times the true one, less what squares lost that are too small for a
number (each below 2^-126). Both divisors are therefore raised by a relative 2 (k + 8) u, which covers root, division and
products as well; the 1 that ends every row, and Opacus' stabiliser, exceed what was lost. Weights likewise: theirs are below
2^-40 where squares were lost, which is added to their length.
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
_LANES = 16  # batches are filled up to whole vectors of the widest kind: remainders are slow
_RESIDUAL_STEPS = {np.dtype(np.float32): 2.0**9, np.dtype(np.float64): 2.0**22}  # n_r
_LARGEST_WHOLE = {np.dtype(np.float32): 2.0**24, np.dtype(np.float64): 2.0**53}  # up to here every one is exact


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Examples as the steps read them, each row a function of the example alone.

    `rows` [n, K+1]: features, and a one at the end; `lengths` [n]: theirs; `directions` [n, K+1]: X above over n_r n_x,
    multiples of `unit` = 1 / (n_r n_x) up to `widest`. `targets` [n]: places of the labels in the columns. `allowed`
    [epsilons, columns]: the budgets' label spaces; `outside`: 0 in them, -inf outside (a budget without any label gets
    zeros, and no example ever counts there), None where every space is all columns. `residual_steps`: n_r over what raises
    its divisor; `per_length`: a step of whole weights over the length of all.
    """

    rows: Floats
    lengths: Floats
    directions: Floats
    widest: float
    unit: float
    targets: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    outside: Floats | None
    residual_steps: float
    per_length: float

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
        width = rows.shape[1]
        n_steps = direction_steps(width, expected_batch, dtype)
        lengths = np.sqrt(np.einsum("nk,nk->n", rows, rows))
        np.maximum(lengths, 1, out=lengths)  # a row that counts zero divides by nothing
        lengths *= 1 + _allowance(width, dtype)
        directions = rows * (n_steps / lengths)[:, None]
        np.trunc(directions, out=directions)
        unit = 1 / (n_steps * _RESIDUAL_STEPS[dtype])
        directions *= unit
        usable = allowed | ~allowed.any(axis=1, keepdims=True)
        return cls(
            rows,
            lengths,
            directions,
            _largest(directions),
            unit,
            targets,
            allowed,
            None if allowed.all() else np.where(usable, 0, -np.inf).astype(dtype),
            _RESIDUAL_STEPS[dtype] / (1 + _allowance(allowed.shape[1], dtype)),
            (1 + _allowance(allowed.shape[1] * width, dtype)) / (_LARGEST_WHOLE[dtype] / n_steps - math.sqrt(width)),
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


def direction_steps(n_inputs: int, expected_batch: float, dtype: np.dtype[np.floating]) -> float:
    """n_x, a public power of two: as fine as one product of a usual batch allows, from 2^8 to 2^11 in single precision.

    The largest number of a direction is taken for six times that of a vector whose numbers are all alike.
    """
    if dtype == np.float64:
        return 2.0**22
    fine = _LARGEST_WHOLE[dtype] / _RESIDUAL_STEPS[dtype] * math.sqrt(n_inputs) / (6 * max(1.0, expected_batch))
    return float(2.0 ** min(11, max(8, math.floor(math.log2(fine)))))


def clipped_sums(data: Prepared, batch: NDArray[np.int64], weights: Floats, clips: Floats) -> tuple[Floats, Floats]:
    """Sums over a batch of gradients: of the first budgets clipped to C, in units of C and exact; of others as they are.

    Args: batch [b]: places in the data; weights [epsilons, columns, K+1]; clips [k]: C of the first k budgets.
    Returns: [k, columns, K+1], of `weights`' precision, or double where that cannot hold them; [epsilons - k, columns, K+1].
    """
    hidden, others = weights[: len(clips)], weights[len(clips) :]
    if len(batch) == 0:
        return np.zeros_like(hidden), np.zeros_like(others)
    filled = np.zeros(_LANES * -(-len(batch) // _LANES), np.int64)  # what is behind the batch is not used
    filled[: len(batch)] = batch
    directions = data.directions.take(filled, axis=0)
    rows = data.rows.take(filled, axis=0) if len(clips) < len(weights) else None
    residuals = clipped_residuals(data, filled, directions, rows, weights, clips)
    if len(clips):
        own = residuals[: len(clips)]
        np.trunc(own, out=own)
        left = own.reshape(-1, len(filled))[:, : len(batch)]
        hidden = exact_product(left, directions[: len(batch)], data.widest, data.unit).reshape(hidden.shape)
    if rows is not None:
        others = residuals[len(clips) :, :, : len(batch)] @ rows[: len(batch)]
    return hidden, others


def clipped_residuals(
    data: Prepared,
    batch: NDArray[np.int64],
    directions: Floats,
    rows: Floats | None,
    weights: Floats,
    clips: Floats,
) -> Floats:
    """R above of a batch, before it is cut off; of budgets that are not clipped plain residuals p_i - onehot(y_i).

    The gradient's length is the product of the two lengths, and clipping one factor for each example and budget,
    min(1, C / (length + 1e-6)). Args: batch [b], of whole lanes; directions, rows [b, K+1]: the data's at these places, rows
    None where all budgets are clipped. Returns: [epsilons, columns, b].
    """
    n_budgets, n_columns, width = weights.shape
    n, n_clipped, n_steps = len(batch), len(clips), _RESIDUAL_STEPS[weights.dtype]
    residuals = np.empty((n_budgets, n_columns, n), weights.dtype)
    lengths = data.lengths.take(batch)
    if n_clipped:
        whole, per_step = whole_weights(data, weights[:n_clipped])
        own = residuals[:n_clipped]
        np.matmul(whole.reshape(n_clipped * n_columns, width), directions.T, out=own.reshape(n_clipped * n_columns, n))
        per_step *= n_steps
        own *= (per_step[:, None] * lengths)[:, None]
    if rows is not None:
        np.matmul(weights[n_clipped:], rows.T, out=residuals[n_clipped:])
    if data.outside is not None:
        residuals += data.outside[:, :, None]
    residuals -= np.maximum.reduce(residuals, axis=1, keepdims=True)
    np.exp(residuals, out=residuals)
    sums = np.add.reduce(residuals, axis=1)
    targets = data.targets.take(batch)
    places = targets * n
    places += np.arange(n)
    # (exp - sum * onehot) / sum is the residual: the division waits for the clipping factor, which is one more.
    residuals.reshape(-1)[places + np.arange(0, residuals.size, n_columns * n)[:, None]] -= sums
    factors = np.empty_like(sums)
    if n_clipped:
        own, total = residuals[:n_clipped], sums[:n_clipped]
        longest = np.sqrt(np.einsum("ecb,ecb->eb", own, own))
        longest *= lengths
        longest += total * _STABILISER
        np.maximum(longest, total * clips[:, None], out=longest)
        lengths *= data.residual_steps
        np.divide(lengths, longest, out=factors[:n_clipped])
    if rows is not None:
        np.divide(1, sums[n_clipped:], out=factors[n_clipped:])
    if data.outside is not None:  # an example outside a budget's label space is not in that budget's data
        factors = np.where(data.allowed[:, targets], factors, 0)
    residuals *= factors[:, None]
    return residuals


def whole_weights(data: Prepared, weights: Floats) -> tuple[Floats, Floats]:
    """Weights [k, columns, K+1] as whole numbers, and what a step is for each budget [k].

    A budget's weights together are no longer than the largest whole number over n_x, less what rounding adds to a column's:
    by Cauchy and Schwarz no sum of absolute products with a direction is larger than that number.
    """
    flat = weights.reshape(len(weights), -1)
    per_step = np.sqrt(np.vecdot(flat, flat))
    per_step += 2.0**-40
    per_step *= data.per_length
    whole = flat / per_step[:, None]
    np.rint(whole, out=whole)
    return whole.reshape(weights.shape), per_step


def exact_product(left: Floats, right: Floats, widest: float, unit: float) -> Floats:
    """left [m, b] @ right [b, k] without rounding, in double precision where single would round.

    Of whole numbers up to n_r, and multiples of a power of two `unit` up to `widest`. A product of which no sum of absolute
    terms reaches `_LARGEST_WHOLE` units is exact in any order of additions; others are added up from halves of b, in double
    precision, which holds sums of 2^32 examples of 2^21 each.
    """
    largest = _LARGEST_WHOLE[left.dtype] * unit
    is_small = len(right) * widest * _RESIDUAL_STEPS[left.dtype] <= largest or len(right) < 2
    if is_small or 2 * _heaviest(left) * widest <= largest:  # twice: single precision may have rounded the sums
        return left @ right
    half = len(right) // 2
    parts = (
        exact_product(left[:, :half], right[:half], widest, unit),
        exact_product(left[:, half:], right[half:], widest, unit),
    )
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
