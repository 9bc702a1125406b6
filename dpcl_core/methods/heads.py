"""Last layers trained by DP-SGD on cached features, the budgets of one seed side by side in one wide product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.adam import Adam
from dpcl_core.methods.schedule import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.privacy.noise import Batches, Noise

Spaces = Sequence[Sequence[int]]
OnStep = Callable[[int], None]
_AT_ONCE = 2**16  # numbers of noise in one draw: many enough to hide the call, few enough for the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """Linear classifiers of one seed, one a budget, over the labels in `columns`.

    `weights` [epsilons, columns, K+1], the bias last; `allowed` [epsilons, columns]: the labels in each one's space.
    """

    weights: NDArray[np.floating]
    columns: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    n_classes: int

    def logits(self, features: NDArray[np.generic]) -> NDArray[np.floating]:
        """[epsilons, n, classes] of features [n, K]; -inf outside a budget's label space."""
        found = np.full((len(self.weights), len(features), self.n_classes), -np.inf, dtype=self.weights.dtype)
        scores = with_bias(features, self.weights.dtype) @ self.weights.transpose(0, 2, 1)
        found[:, :, self.columns] = np.where(self.allowed[:, None, :], scores, -np.inf)
        return found

    def released(self, place: int) -> Mapping[str, NDArray[np.generic]]:
        """`weights` [classes, K+1] of the budget at this place, zero outside its `labels` [classes]."""
        own = self.columns[self.allowed[place]]
        weights = np.zeros((self.n_classes, self.weights.shape[2]), dtype=self.weights.dtype)
        weights[own] = self.weights[place, self.allowed[place]]
        return {"weights": weights, "labels": np.isin(np.arange(self.n_classes), own)}


def fresh(spaces: Spaces, n_features: int, n_classes: int, dtype: type[np.floating] = np.float32) -> Heads:
    """Classifiers of weight zero, each over its own label space."""
    columns = np.asarray(sorted(set().union(*map(set, spaces))), dtype=np.int64)
    allowed = np.array([np.isin(columns, list(space)) for space in spaces]).reshape(len(spaces), len(columns))
    return Heads(np.zeros((len(spaces), len(columns), n_features + 1), dtype), columns, allowed, n_classes)


def joined(parts: Sequence[Heads]) -> Heads:
    """The budgets of several, which have the same columns, in one."""
    weights, allowed = (np.concatenate(both) for both in zip(*((part.weights, part.allowed) for part in parts), strict=True))
    return Heads(weights, parts[0].columns, allowed, parts[0].n_classes)


def with_bias(features: NDArray[np.generic], dtype: np.dtype[np.floating] | type[np.floating]) -> NDArray[np.floating]:
    """Features [n, K] with a column of ones [n, K+1]; a row that is not finite becomes zero, bias included."""
    rows = np.ones((len(features), features.shape[1] + 1), dtype=dtype)
    rows[:, :-1] = features
    broken = ~np.isfinite(rows).all(axis=1)
    rows[broken] = 0
    return rows


def nobody_listens(step: int) -> None:
    """What is told of a step where nobody wants to know."""


def trained(
    start: Heads,
    features: NDArray[np.generic],
    labels: NDArray[np.int64],
    plan: Schedule,
    noise_multipliers: Sequence[float],
    batches: Batches,
    noises: Sequence[Noise],
    on_step: OnStep = nobody_listens,
) -> Heads:
    """The classifiers after `plan.n_steps` steps of DP-SGD with Adam on cross-entropy, from `start`.

    One batch sequence serves all budgets, noise never does. An example whose label is not in a budget's space counts zero
    there (Tobaben et al., Eq. 6); no examples at all, or an empty batch, runs the same noisy steps. A noise multiplier of 0
    trains without noise and without clipping. The caller has written the training into the ledgers.

    Sensitivity: one example changes a step's sum by one gradient over weights and bias together, clipped to length
    `plan.clip_norm`; replacing one, by at most twice that.

    Args: features [n, K]; labels [n] int64, of `start.columns` or not.
    Raises: Diverged as soon as a weight of any budget leaves the bound of `schedule`, for all budgets of the seed.
    """
    places = np.flatnonzero(np.isin(labels, start.columns))
    data = Prepared.of(start, features[places], labels[places])
    weights = start.weights.copy()
    adam = Adam(weights, plan.learning_rate)
    draws = [
        _scaled(noise, weights[0], plan.noise_std(sigma), plan.n_steps) if sigma > 0 else None
        for sigma, noise in zip(noise_multipliers, noises, strict=True)
    ]
    clips = np.array([plan.clip_norm if sigma > 0 else np.inf for sigma in noise_multipliers], dtype=weights.dtype)
    for step in range(plan.n_steps):
        gradient = mean_gradient(data, batches.draw(len(data.rows)), weights, clips, plan.expected_batch)
        for part, draw in zip(gradient, draws, strict=True):
            if draw is not None:
                part += next(draw)
        adam.step(weights, gradient)
        if not max(weights.max(initial=0), -weights.min(initial=0)) <= LARGEST_WEIGHT:  # nor where a weight is no number
            raise diverged(step, plan)
        on_step(step)
    return Heads(weights, start.columns, start.allowed, start.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Examples as the steps read them: rows [n, K+1] with a one at the end, their lengths [n], and places of labels [n].

    `allowed` [epsilons, columns]: the budgets' label spaces; `outside`: 0 in them, -inf outside (a budget without any label
    gets zeros, and no example ever counts there).
    """

    rows: NDArray[np.floating]
    lengths: NDArray[np.floating]
    targets: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    outside: NDArray[np.floating]

    @classmethod
    def of(cls, start: Heads, features: NDArray[np.generic], labels: NDArray[np.int64]) -> Prepared:
        """Of features [n, K] whose labels [n] are all among the columns."""
        rows = with_bias(features, start.weights.dtype)
        usable = start.allowed | ~start.allowed.any(axis=1, keepdims=True)
        return cls(
            rows,
            np.sqrt(np.einsum("nk,nk->n", rows, rows)),
            np.searchsorted(start.columns, labels),
            start.allowed,
            np.where(usable, 0, -np.inf).astype(rows.dtype),
        )


def _scaled(noise: Noise, like: NDArray[np.floating], std: float, n_steps: int) -> Iterator[NDArray[np.floating]]:
    """Noise of that standard deviation for one step after the other; of small models for many steps in one draw."""
    draw = noise.normal32 if like.dtype == np.float32 else noise.normal
    while n_steps:
        ahead = min(n_steps, max(1, _AT_ONCE // max(1, like.size)))  # a learned list may be empty
        drawn = draw((ahead, *like.shape))
        drawn *= std
        yield from drawn
        n_steps -= ahead


def mean_gradient(
    data: Prepared,
    batch: NDArray[np.int64],
    weights: NDArray[np.floating],
    clips: NDArray[np.floating],
    expected_batch: float,
) -> NDArray[np.floating]:
    """Sum of the batch's clipped gradients over the expected batch size, without noise yet: [epsilons, columns, K+1]."""
    rows = data.rows.take(batch, axis=0)
    taken = Prepared(rows, data.lengths[batch], data.targets[batch], data.allowed, data.outside)
    residuals = clipped_residuals(taken, weights, clips, 1 / expected_batch)
    gradient: NDArray[np.floating] = residuals.reshape(weights[..., 0].size, len(batch)) @ rows
    return gradient.reshape(weights.shape)


def clipped_residuals(
    data: Prepared, weights: NDArray[np.floating], clips: NDArray[np.floating], scale: float = 1.0
) -> NDArray[np.floating]:
    """What to multiply with the rows for `scale` times the sum of their clipped per-example gradients, none of them formed.

    The gradient of example i is (p_i - onehot(y_i)) ⊗ row_i, so its length is the product of the two lengths and clipping
    is one factor for each example and budget, min(1, C / (length + 1e-6)) as Opacus has it. Examples lie innermost, so that
    sums over labels run over whole vectors.

    Args: data: one batch; weights [epsilons, columns, K+1]; clips [epsilons], inf: no clipping.
    Returns: [epsilons, columns, b].
    """
    n_budgets, n_columns = data.allowed.shape
    wide = weights.reshape(n_budgets * n_columns, weights.shape[2]) @ data.rows.T
    residuals: NDArray[np.floating] = wide.reshape(n_budgets, n_columns, len(data.rows))
    is_open = data.allowed.all()
    if not is_open:
        residuals += data.outside[:, :, None]
    residuals -= residuals.max(axis=1, keepdims=True, initial=-np.inf)
    np.exp(residuals, out=residuals)
    sums = residuals.sum(axis=1)
    # (exp - sum * onehot) / sum is the residual: the division waits for the clipping factor, which is one more.
    residuals[:, data.targets, np.arange(len(data.rows))] -= sums
    norms = np.sqrt(np.einsum("ecb,ecb->eb", residuals, residuals)) * data.lengths / sums
    factors = np.minimum(1, clips[:, None] / (norms + 1e-6)) * (scale / sums)
    if not is_open:  # an example outside a budget's label space is not in that budget's data
        factors = np.where(data.allowed[:, data.targets], factors, 0)
    residuals *= factors.astype(weights.dtype)[:, None, :]
    return residuals
