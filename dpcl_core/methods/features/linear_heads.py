"""Last layers trained by DP-SGD on cached features; all budgets of a seed share one wide matrix product.

The sensitivity of the sums of clipped gradients holds exactly, for the sums as computed in floating point.

Noise hides a change of a sum by at most the clipping norm. The bound must hold for the computed sum, yet one more term can
change every digit of a floating-point sum. Here it cannot, for two reasons.

1. An example's contribution depends on the example and the weights alone. Logits are sums without rounding: an example
   enters as the direction X_i below, weights as integers, and no sum of absolute products reaches 2^24 (2^53 in double
   precision), so that every order of additions, fused or not, on any number of cores, gives the same result. Everything else
   is computed per example, with examples along the innermost axis, padded to whole vector registers. That a function gives
   the same number at every position of a vector is a property of kernels, not of arithmetic:
   tests/methods/features/test_head_gradients.py compares the bits on the kernels at hand.
2. Contributions are summed without rounding. The gradient (p_i - onehot(y_i)) ⊗ row_i of example i, clipped to C, is

       C R_i ⊗ X_i / (n_r n_x),   R_i integer [columns], |R_i| <= n_r,   X_i integer [K+1], |X_i| <= n_x:

   X_i is the direction of its row in steps of 1 / n_x, R_i the residual scaled to the length that clipping leaves, in steps
   of 1 / n_r; both are truncated toward zero, so no length grows. Sums of R_i ⊗ X_i are integers: `exact_product` keeps them
   within 2^24 (2^53), so they are exact too. (X_i is stored times 1 / (n_r n_x), a power of two, which changes no digit.)

So, in units of C, the sums of neighbours differ by exactly R_i ⊗ X_i / (n_r n_x), whose length is at most 1.

The lengths are upper bounds although they are computed with rounding. With u half the distance from 1 to the next number, a
computed sum of k squares is at least (1 - (k + 2) u) times the true one, minus the squares that underflow (each below
2^-126). Both divisors are therefore raised by a relative 2 (k + 8) u, which also covers root, division and products; the 1
that ends every row, and Opacus' stabiliser, exceed what underflow loses. Likewise for weights: only weights below 2^-40 lose
their squares, and that number is added to their length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Adam, Schedule, diverged
from dpcl_core.privacy.gaussian import grid32
from dpcl_core.privacy.noise import Batches, Noise, additions32

if TYPE_CHECKING:
    from dpcl_core.methods.features.adapters import Directions

Floats = NDArray[np.floating]
# A row with a larger entry keeps its direction and is shortened to this length, so that no weight makes its logits infinite.
# Clipping leaves it the same contribution as before: its gradient exceeds the clipping norm unless its class is certain.
LARGEST_INPUT = 2.0**20
_STABILISER = 1e-6  # added to the norm in clipping, as in Opacus
_LANES = 16  # batches are padded to a multiple of the widest vector register: remainders are slow
_RESIDUAL_STEPS = {np.dtype(np.float32): 2.0**9, np.dtype(np.float64): 2.0**22}  # n_r
_LARGEST_WHOLE = {np.dtype(np.float32): 2.0**24, np.dtype(np.float64): 2.0**53}  # all integers up to here are exact


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Examples prepared for the steps; each row is a function of its example alone.

    `rows` [n, K+1]: features and a final 1, None if all budgets are clipped; `lengths` [n]: their L2 norms; `directions` [n,
    K+1]: X above over n_r n_x, multiples of `unit` = 1 / (n_r n_x) up to `widest`. `targets` [n]: column indices of the
    labels. `allowed` [epsilons, columns]: the budgets' label spaces; `outside`: 0 inside them, -inf outside (all zeros for a
    budget without labels, where no example counts), None if every space is all columns. `residual_steps`: n_r divided by the
    factor that raises its divisor; `per_length`: grid step of integer weights, divided by the length of all weights.
    """

    rows: Floats | None
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
        cls, features: NDArray[np.generic], targets: NDArray[np.int64], allowed: NDArray[np.bool_], expected_batch: float,
        dtype: np.dtype[np.floating], *, all_clipped: bool = False,
    ) -> Prepared:
        """Prepares features [n, K] with targets [n]; `all_clipped`: for steps whose budgets all clip, which need no rows."""
        rows = with_bias(features, dtype)
        width = rows.shape[1]
        n_steps = direction_steps(width, expected_batch, dtype)
        lengths = np.sqrt(np.einsum("nk,nk->n", rows, rows))
        np.maximum(lengths, 1, out=lengths)  # avoids a division by zero for rows that count zero
        lengths *= 1 + _allowance(width, dtype)
        directions = np.multiply(rows, (n_steps / lengths)[:, None], out=rows if all_clipped else None)
        np.trunc(directions, out=directions)
        unit = 1 / (n_steps * _RESIDUAL_STEPS[dtype])
        directions *= unit
        usable = allowed | ~allowed.any(axis=1, keepdims=True)
        return cls(
            None if all_clipped else rows,
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
    """Features [n, K] with a column of ones [n, K+1]; a non-finite row becomes zero, bias included.

    A row with an entry beyond `LARGEST_INPUT` is shortened to that length, however large its finite entries.
    """
    rows = np.empty((len(features), features.shape[1] + 1), dtype=dtype)
    rows[:, -1] = 1
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
    """n_x, a public power of two: as fine as one exact product of an expected batch allows, 2^8 to 2^11 in single precision.

    Assumes that the largest entry of a direction is six times that of a vector with equal entries.
    """
    if dtype == np.float64:
        return 2.0**22
    fine = _LARGEST_WHOLE[dtype] / _RESIDUAL_STEPS[dtype] * math.sqrt(n_inputs) / (6 * max(1.0, expected_batch))
    return float(2.0 ** min(11, max(8, math.floor(math.log2(fine)))))


def clipped_sums(
    data: Prepared, batch: NDArray[np.int64], weights: Floats, clips: Floats, on_card: Directions | None = None,
    room: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Gradient sums over a batch: exact, clipped and in units of C for the first k budgets; plain for the others.

    Args: batch [b]: row indices; weights [epsilons, columns, K+1]; clips [k]: C of the first k budgets; on_card: the
    directions on a graphics card, where the products of the first k budgets are then computed, as exactly; room: an array
    like `weights` that is overwritten, and holds the sums where they fit, so that a step stays in the processor's cache.
    Returns: [k, columns, K+1], in the precision of `weights`, or double where that cannot hold them exactly;
    [epsilons - k, columns, K+1].
    """
    hidden, others = weights[: len(clips)], weights[len(clips) :]
    if len(batch) == 0:
        return np.zeros_like(hidden), np.zeros_like(others)
    room = np.empty_like(weights) if room is None else room
    filled = np.zeros(_LANES * -(-len(batch) // _LANES), np.intp)  # the padding is not used
    filled[: len(batch)] = batch
    directions = data.directions.take(batch, axis=0) if on_card is None else on_card.take(filled)
    rows = None
    if len(clips) < len(weights):
        assert data.rows is not None  # else `all_clipped` was said of a budget that is not
        rows = data.rows.take(filled, axis=0)
    residuals = clipped_residuals(data, filled, directions, rows, weights, clips, room)
    if len(clips):
        clipped = residuals[: len(clips)]
        np.trunc(clipped, out=clipped)
        weights_of_batch = clipped.reshape(-1, len(filled))[:, : len(batch)]
        if isinstance(directions, np.ndarray):
            flat = room[: len(clips)].reshape(-1, weights.shape[2])
            product = exact_product(weights_of_batch, directions, data.widest, data.unit, flat)
        else:
            product = directions.sums(weights_of_batch)
            if _is_exact(weights_of_batch, len(batch), data.widest, data.unit):
                product = product.astype(weights.dtype)
        hidden = product.reshape(hidden.shape)
    if rows is not None:
        others = np.matmul(residuals[len(clips) :, :, : len(batch)], rows[: len(batch)], out=room[len(clips) :])
    return hidden, others


def clipped_residuals(
    data: Prepared, batch: NDArray[np.int64], directions: Floats | Directions, rows: Floats | None, weights: Floats,
    clips: Floats, room: Floats | None = None,
) -> Floats:
    """R above for a batch, before truncation; for budgets without clipping, plain residuals p_i - onehot(y_i).

    The gradient's length is the product of the two lengths; clipping is one factor per example and budget,
    min(1, C / (length + 1e-6)). Args: batch [b], a multiple of `_LANES`; directions [n, K+1] of its first n examples (in
    memory here; the others are padding); rows [b, K+1] of the batch, None if all budgets are clipped; room: overwritten,
    like `weights`. Returns: [epsilons, columns, b].
    """
    n_budgets, n_columns, width = weights.shape
    n, n_clipped, n_steps = len(batch), len(clips), _RESIDUAL_STEPS[weights.dtype]
    residuals = np.empty((n_budgets, n_columns, n), weights.dtype)
    lengths = data.lengths.take(batch)
    if n_clipped:
        whole, per_step = whole_weights(data, weights[:n_clipped], None if room is None else room[:n_clipped])
        clipped, flat = residuals[:n_clipped], whole.reshape(n_clipped * n_columns, width)
        if isinstance(directions, np.ndarray):
            own = len(directions)
            np.matmul(flat, directions.T, out=clipped.reshape(n_clipped * n_columns, n)[:, :own])
            clipped[:, :, own:] = 0
        else:
            clipped[:] = directions.scores(flat).reshape(clipped.shape)
        per_step *= n_steps
        clipped *= (per_step[:, None] * lengths)[:, None]
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
    # (exp - sum * onehot) / sum is the residual: the division is merged with the clipping factor below.
    residuals.reshape(-1)[places + np.arange(0, residuals.size, n_columns * n)[:, None]] -= sums
    factors = np.empty_like(sums)
    if n_clipped:
        clipped, total = residuals[:n_clipped], sums[:n_clipped]
        longest = np.sqrt(np.einsum("ecb,ecb->eb", clipped, clipped))
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


def whole_weights(data: Prepared, weights: Floats, out: Floats | None = None) -> tuple[Floats, Floats]:
    """Weights [k, columns, K+1] as integers, and the grid step of each budget [k].

    The norm of a budget's integer weights is at most the largest exact integer over n_x, minus what rounding can add to a
    column's norm. By Cauchy-Schwarz no sum of absolute products with a direction exceeds that largest integer.
    """
    flat = weights.reshape(len(weights), -1)
    per_step = np.sqrt(np.vecdot(flat, flat))
    per_step += 2.0**-40
    per_step *= data.per_length
    whole = np.divide(flat, per_step[:, None], out=None if out is None else out.reshape(flat.shape))
    np.rint(whole, out=whole)
    return whole.reshape(weights.shape), per_step


def exact_product(left: Floats, right: Floats, widest: float, unit: float, out: Floats | None = None) -> Floats:
    """left [m, b] @ right [b, k] without rounding, in double precision where single would round.

    `left` holds integers up to n_r, `right` multiples of a power of two `unit` up to `widest`. If no sum of absolute terms
    reaches `_LARGEST_WHOLE` units, the product is exact in any order of additions; otherwise the halves of b are multiplied
    separately and added in double precision, which holds sums of 2^32 examples of 2^21 each. `out` holds the product where
    it is exact.
    """
    if _is_exact(left, len(right), widest, unit):
        product: Floats = np.matmul(left, right, out=out)
        return product
    half = len(right) // 2
    first, second = (left[:, :half], right[:half]), (left[:, half:], right[half:])
    return np.add(exact_product(*first, widest, unit), exact_product(*second, widest, unit), dtype=np.float64)


def _is_exact(left: Floats, n_terms: int, widest: float, unit: float) -> bool:
    """Whether the precision of `left` holds its sums of so many terms, whatever `right` is (see `exact_product`)."""
    largest = _LARGEST_WHOLE[left.dtype] * unit
    is_small = n_terms * widest * _RESIDUAL_STEPS[left.dtype] <= largest or n_terms < 2
    # Otherwise by the largest sum of absolute values in a row; factor 2: single precision may have rounded these sums.
    return is_small or 2 * float(np.abs(left).sum(axis=1).max(initial=0)) * widest <= largest


def _largest(values: Floats) -> float:
    """The largest absolute value; NaN if any value is NaN."""
    return float(np.maximum(values.max(initial=0), -values.min(initial=0)))


def _allowance(n_terms: int, dtype: np.dtype[np.floating]) -> float:
    """Relative increase of a divisor, 2 (k + 8) u, as the module docstring derives it."""
    return (n_terms + 8) * float(np.finfo(dtype).eps)


# The classifiers and their training.


Spaces = Sequence[Sequence[int]]
_MOST_IN_SINGLE = 2.0**7


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """Linear classifiers of one seed, one per budget, over the labels in `columns`.

    `weights` [epsilons, columns, K+1], the bias last; `allowed` [epsilons, columns]: the labels in each one's space.
    """

    weights: NDArray[np.floating]
    columns: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    n_classes: int

    def logits(self, features: NDArray[np.generic]) -> NDArray[np.floating]:
        """[epsilons, n, classes] of features [n, K]; -inf outside a budget's label space."""
        logits = np.full((len(self.weights), len(features), self.n_classes), -np.inf, dtype=self.weights.dtype)
        scores = with_bias(features, self.weights.dtype) @ self.weights.transpose(0, 2, 1)
        logits[:, :, self.columns] = np.where(self.allowed[:, None, :], scores, -np.inf)
        return logits

    def widened(self, spaces: Spaces) -> Heads:
        """The same classifiers over more labels: those of another list, one for each budget, start with zero weights."""
        if all(set(space) <= set(self.columns[own]) for space, own in zip(spaces, self.allowed, strict=True)):
            return self
        both = [(*self.columns[own].tolist(), *space) for space, own in zip(spaces, self.allowed, strict=True)]
        wider = fresh(both, self.weights.shape[2] - 1, self.n_classes, self.weights.dtype.type)
        wider.weights[:, np.searchsorted(wider.columns, self.columns)] = self.weights
        return wider

    def released(self, place: int) -> Mapping[str, NDArray[np.generic]]:
        """`weights` [classes, K+1] of the budget at this index, zero outside its `labels` [classes]."""
        space = self.columns[self.allowed[place]]
        weights = np.zeros((self.n_classes, self.weights.shape[2]), dtype=self.weights.dtype)
        weights[space] = self.weights[place, self.allowed[place]]
        return {"weights": weights, "labels": np.isin(np.arange(self.n_classes), space)}


def fresh(spaces: Spaces, n_features: int, n_classes: int, dtype: type[np.floating] = np.float32) -> Heads:
    """Untrained classifiers with zero weights, each over its own label space."""
    columns = np.asarray(sorted(set().union(*map(set, spaces))), dtype=np.int64)
    allowed = np.array([np.isin(columns, list(space)) for space in spaces]).reshape(len(spaces), len(columns))
    return Heads(np.zeros((len(spaces), len(columns), n_features + 1), dtype), columns, allowed, n_classes)


def join_heads(parts: Sequence[Heads]) -> Heads:
    """All budgets of several heads with the same columns, as one."""
    weights, allowed = (np.concatenate(both) for both in zip(*((part.weights, part.allowed) for part in parts), strict=True))
    return Heads(weights, parts[0].columns, allowed, parts[0].n_classes)


def train_heads(
    start: Heads, features: NDArray[np.generic], labels: NDArray[np.int64], plan: Schedule,
    noise_multipliers: Sequence[float], batches: Batches, noises: Sequence[Noise], device: str = "cpu",
) -> Generator[int, None, Heads]:
    """DP-SGD with Adam on cross-entropy from `start`: yields the steps taken so far, returns the trained classifiers.

    One batch sequence serves all budgets, noise never does. An example whose label is not in a budget's space counts zero
    there (Tobaben et al., Eq. 6); an empty batch, or no examples at all, runs the same noisy steps. A noise multiplier of 0
    trains without noise and without clipping. The caller must have written the training to the ledgers.

    Sensitivity: one example changes a step's sum by one gradient over weights and bias together, clipped to length
    `plan.clip_norm`; replacing one, by at most twice that. The module docstring proves it for the sums as computed. Noise is
    added to sums in units of the clipping norm, so its standard deviation is the multiplier itself.

    Args: features [n, K]; labels [n] int64, inside `start.columns` or not; device: a graphics card for the products of
    budgets with noise, in single precision. They are exact, so the classifiers do not depend on it.
    Raises: Diverged as soon as a weight of any budget exceeds `LARGEST_WEIGHT`, for all budgets of the seed.
    """
    places = np.flatnonzero(np.isin(labels, start.columns))
    targets = np.searchsorted(start.columns, labels[places])
    sigmas = np.asarray(noise_multipliers)
    order = np.argsort(sigmas == 0, kind="stable")  # budgets without noise last
    n_hidden = int(np.count_nonzero(sigmas))
    weights = start.weights[order]
    features = features if len(places) == len(labels) else features[places]
    allowed, all_clipped = start.allowed[order], n_hidden == len(weights)
    data = Prepared.of(features, targets, allowed, plan.expected_batch, weights.dtype, all_clipped=all_clipped)
    adam, gradient = Adam(weights, plan.learning_rate), np.empty_like(weights)
    hidden, others = gradient[:n_hidden], gradient[n_hidden:]
    ordered = [noises[place] for place in order[:n_hidden]]
    add = _addition(ordered, sigmas[order[:n_hidden]].tolist(), weights[0], plan.n_steps) if ordered else None
    clips = np.full(n_hidden, plan.clip_norm, dtype=weights.dtype)
    mean, clipped_mean = 1 / plan.expected_batch, weights.dtype.type(plan.clip_norm / plan.expected_batch)
    there = None if device == "cpu" or not n_hidden else _on_card(data.directions, device)
    for step in range(plan.n_steps):
        clipped, plain = clipped_sums(data, batches.draw(len(places)), weights, clips, there, gradient)
        if add is not None:
            np.multiply(add(clipped), clipped_mean, out=hidden)
        if n_hidden < len(weights):
            np.multiply(plain, mean, out=others)
        adam.step(weights, gradient)
        flat = weights.reshape(-1)
        # Below the first bound none can be larger: one pass over the weights instead of two.
        if not (flat.dot(flat) < LARGEST_WEIGHT**2 / 2 or _largest(weights) <= LARGEST_WEIGHT):
            raise diverged(step, plan)
        yield step + 1
    return Heads(weights[np.argsort(order)], start.columns, start.allowed, start.n_classes)


def _on_card(directions: Floats, device: str) -> Directions | None:
    """The directions on a graphics card; None for double precision, and where they do not fit."""
    if directions.dtype != np.float32:
        return None
    from dpcl_core.methods.features.adapters import Directions  # loads torch, which other heads do not need

    return Directions.of(directions, device)


def _addition(
    noises: Sequence[Noise], multipliers: Sequence[float], like: Floats, n_steps: int
) -> Callable[[Floats], Floats]:
    """A function that adds noise of these standard deviations, drawn ahead, to a step's sums [budgets, columns, K+1].

    Sums in double precision are put on the same grid and get the same final rounding as sums in single precision, so the
    output does not reveal which of the two a batch needed. Their remainder beside the grid fits single precision as long as
    the grid is no coarser than 2^5; larger noise is always added in double precision.
    """
    if like.dtype == np.float64 or max(multipliers) > _MOST_IN_SINGLE:
        both = list(zip(noises, multipliers, strict=True))
        return lambda sums: np.stack(
            [noise.added(row.astype(np.float64), std) for row, (noise, std) in zip(sums, both, strict=True)]
        ).astype(like.dtype)
    add = additions32(noises, multipliers, like.size, n_steps)
    steps = np.array([grid32(std) for std in multipliers])[:, None, None]

    def added(sums: Floats) -> Floats:
        if sums.dtype == np.float32:
            return add(sums)
        on_grid = np.rint(sums / steps) * steps
        noisy: Floats = (on_grid + add((sums - on_grid).astype(np.float32))).astype(np.float32)
        return noisy

    return added
