"""Last layers trained by DP-SGD on cached features, the budgets of one seed side by side in one wide product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.dpsgd import Schedule, diverged
from dpcl_core.privacy.noise import Batches, Noise

Spaces = Sequence[Sequence[int]]
_BETAS, _STABILISER = (0.9, 0.999), 1e-8  # Adam's usual ones (Kingma and Ba 2015)


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """Linear classifiers of one seed, one a budget, over the labels in `columns`.

    `weights` [K+1, epsilons, columns], the last row the bias; `allowed` [epsilons, columns]: the labels in each one's space.
    """

    weights: NDArray[np.floating]
    columns: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    n_classes: int

    def logits(self, features: NDArray[np.generic]) -> NDArray[np.floating]:
        """[epsilons, n, classes] of features [n, K]; -inf outside a budget's label space."""
        n_epsilons = self.weights.shape[1]
        found = np.full((n_epsilons, len(features), self.n_classes), -np.inf, dtype=self.weights.dtype)
        wide = with_bias(features, self.weights.dtype) @ self.weights.reshape(len(self.weights), -1)
        scores = wide.reshape(len(features), n_epsilons, -1).transpose(1, 0, 2)
        found[:, :, self.columns] = np.where(self.allowed[:, None, :], scores, -np.inf)
        return found


def fresh(spaces: Spaces, n_features: int, n_classes: int, dtype: type[np.floating] = np.float32) -> Heads:
    """Classifiers of weight zero, each over its own label space."""
    columns = np.asarray(sorted(set().union(*map(set, spaces))), dtype=np.int64)
    allowed = np.array([np.isin(columns, list(space)) for space in spaces]).reshape(len(spaces), len(columns))
    return Heads(np.zeros((n_features + 1, len(spaces), len(columns)), dtype), columns, allowed, n_classes)


def with_bias(features: NDArray[np.generic], dtype: np.dtype[np.floating] | type[np.floating]) -> NDArray[np.floating]:
    """Features [n, K] with a column of ones [n, K+1]; a row that is not finite becomes zero, bias included."""
    rows = np.ones((len(features), features.shape[1] + 1), dtype=dtype)
    rows[:, :-1] = features
    broken = ~np.isfinite(rows).all(axis=1)
    rows[broken] = 0
    return rows


def trained(
    start: Heads,
    features: NDArray[np.generic],
    labels: NDArray[np.int64],
    plan: Schedule,
    noise_multipliers: Sequence[float],
    batches: Batches,
    noises: Sequence[Noise],
    on_step: Callable[[int], None] = lambda step: None,
) -> Heads:
    """The classifiers after `plan.n_steps` steps of DP-SGD with Adam on cross-entropy, from `start`.

    One batch sequence serves all budgets, noise never does. An example whose label is not in a budget's space counts zero
    there (Tobaben et al., Eq. 6); no examples at all, or an empty batch, runs the same noisy steps. A noise multiplier of 0
    trains without noise and without clipping. The caller has written the training into the ledgers.

    Sensitivity: one example changes a step's sum by one gradient over weights and bias together, clipped to length
    `plan.clip_norm`; replacing one, by at most twice that.

    Args: features [n, K]; labels [n] int64, of `start.columns` or not.
    Raises: Diverged where a weight stops being finite, which is seen on noisy weights alone.
    """
    places = np.flatnonzero(np.isin(labels, start.columns))
    data = Prepared.of(start, features[places], labels[places])
    weights = start.weights.copy()
    adam = _Adam(weights, plan.learning_rate)
    for step in range(plan.n_steps):
        batch = batches.draw(len(data.rows))
        adam.step(weights, noisy_mean_gradient(data, batch, weights, plan, noise_multipliers, noises))
        if not np.isfinite(weights.sum()):
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


def noisy_mean_gradient(
    data: Prepared,
    batch: NDArray[np.int64],
    weights: NDArray[np.floating],
    plan: Schedule,
    noise_multipliers: Sequence[float],
    noises: Sequence[Noise],
) -> NDArray[np.floating]:
    """Sum of the batch's clipped gradients plus noise, over the expected batch size: [K+1, epsilons, columns]."""
    clips = np.array([plan.clip_norm if sigma > 0 else np.inf for sigma in noise_multipliers], dtype=weights.dtype)
    residuals = clipped_residuals(data, batch, weights, clips)
    gradient: NDArray[np.floating] = data.rows[batch].T @ residuals.reshape(len(batch), weights[0].size)
    gradient = gradient.reshape(weights.shape) / weights.dtype.type(plan.expected_batch)
    for budget, (sigma, noise) in enumerate(zip(noise_multipliers, noises, strict=True)):
        if sigma > 0:
            shape = gradient[:, budget].shape
            drawn = noise.normal32(shape) if gradient.dtype == np.float32 else noise.normal(shape)
            gradient[:, budget] += plan.noise_std(sigma) * drawn
    return gradient


def clipped_residuals(
    data: Prepared, batch: NDArray[np.int64], weights: NDArray[np.floating], clips: NDArray[np.floating]
) -> NDArray[np.floating]:
    """What to multiply with the batch's rows for the sum of its clipped per-example gradients, none of them formed.

    The gradient of example i is row_i ⊗ (p_i - onehot(y_i)), so its length is the product of the two lengths and clipping
    is one factor for each example and budget, min(1, C / (length + 1e-6)) as Opacus has it.

    Args: batch [b], places of examples; weights [K+1, epsilons, columns]; clips [epsilons], inf: no clipping.
    Returns: [b, epsilons, columns].
    """
    rows, targets = data.rows[batch], data.targets[batch]
    residuals: NDArray[np.floating] = (rows @ weights.reshape(len(weights), -1)).reshape(len(rows), *data.allowed.shape)
    residuals += data.outside
    residuals -= residuals.max(axis=2, keepdims=True, initial=-np.inf)
    np.exp(residuals, out=residuals)
    residuals /= residuals.sum(axis=2, keepdims=True)
    residuals[np.arange(len(rows)), :, targets] -= 1
    norms = np.sqrt(np.einsum("bec,bec->be", residuals, residuals)) * data.lengths[batch][:, None]
    factors = np.minimum(1, clips / (norms + 1e-6))
    # An example outside a budget's label space is not in that budget's data.
    residuals *= np.where(data.allowed[:, targets].T, factors, 0).astype(rows.dtype)[:, :, None]
    return residuals


class _Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1), in place, its state starting from nothing."""

    def __init__(self, weights: NDArray[np.floating], learning_rate: float) -> None:
        self._rate, self._count = learning_rate, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, weights: NDArray[np.floating], gradient: NDArray[np.floating]) -> None:
        """Moves the weights by one step; `gradient` is used up."""
        self._count += 1
        for state, beta, power in ((self._mean, _BETAS[0], gradient), (self._square, _BETAS[1], gradient * gradient)):
            state *= beta
            state += (1 - beta) * power
        scale = np.sqrt(self._square / (1 - _BETAS[1] ** self._count), out=gradient)
        scale += _STABILISER
        weights -= (self._rate / (1 - _BETAS[0] ** self._count)) * self._mean / scale
