"""Last layers trained by DP-SGD on cached features, the budgets of one seed side by side in one wide product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.schedule import Schedule, diverged
from dpcl_core.privacy.noise import Batches, Noise

Spaces = Sequence[Sequence[int]]
OnStep = Callable[[int], None]
_BETAS, _STABILISER = (0.9, 0.999), 1e-8  # Adam's usual ones (Kingma and Ba 2015)


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


def fresh(spaces: Spaces, n_features: int, n_classes: int, dtype: type[np.floating] = np.float32) -> Heads:
    """Classifiers of weight zero, each over its own label space."""
    columns = np.asarray(sorted(set().union(*map(set, spaces))), dtype=np.int64)
    allowed = np.array([np.isin(columns, list(space)) for space in spaces]).reshape(len(spaces), len(columns))
    return Heads(np.zeros((len(spaces), len(columns), n_features + 1), dtype), columns, allowed, n_classes)


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
    """Sum of the batch's clipped gradients plus noise, over the expected batch size: [epsilons, columns, K+1]."""
    clips = np.array([plan.clip_norm if sigma > 0 else np.inf for sigma in noise_multipliers], dtype=weights.dtype)
    taken = Prepared(np.take(data.rows, batch, axis=0), data.lengths[batch], data.targets[batch], data.allowed, data.outside)
    residuals = clipped_residuals(taken, weights, clips)
    residuals *= weights.dtype.type(1 / plan.expected_batch)
    gradient: NDArray[np.floating] = residuals.reshape(weights[..., 0].size, len(batch)) @ taken.rows
    gradient = gradient.reshape(weights.shape)
    for part, sigma, noise in zip(gradient, noise_multipliers, noises, strict=True):
        if sigma > 0:
            drawn = noise.normal32(part.shape) if gradient.dtype == np.float32 else noise.normal(part.shape)
            drawn *= plan.noise_std(sigma)
            part += drawn
    return gradient


def clipped_residuals(data: Prepared, weights: NDArray[np.floating], clips: NDArray[np.floating]) -> NDArray[np.floating]:
    """What to multiply with the rows for the sum of their clipped per-example gradients, none of them formed.

    The gradient of example i is (p_i - onehot(y_i)) ⊗ row_i, so its length is the product of the two lengths and clipping
    is one factor for each example and budget, min(1, C / (length + 1e-6)) as Opacus has it. Examples lie innermost, so that
    sums over labels run over whole vectors.

    Args: data: one batch; weights [epsilons, columns, K+1]; clips [epsilons], inf: no clipping.
    Returns: [epsilons, columns, b].
    """
    n_budgets, n_columns = data.allowed.shape
    wide = weights.reshape(n_budgets * n_columns, weights.shape[2]) @ data.rows.T
    residuals: NDArray[np.floating] = wide.reshape(n_budgets, n_columns, len(data.rows))
    if not data.allowed.all():
        residuals += data.outside[:, :, None]
    residuals -= residuals.max(axis=1, keepdims=True, initial=-np.inf)
    np.exp(residuals, out=residuals)
    residuals /= residuals.sum(axis=1, keepdims=True)
    residuals[:, data.targets, np.arange(len(data.rows))] -= 1
    norms = np.sqrt(np.einsum("ecb,ecb->eb", residuals, residuals)) * data.lengths
    factors = np.minimum(1, clips[:, None] / (norms + 1e-6))
    # An example outside a budget's label space is not in that budget's data.
    residuals *= np.where(data.allowed[:, data.targets], factors, 0).astype(weights.dtype)[:, None, :]
    return residuals


class _Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1), in place, its state starting from nothing."""

    def __init__(self, weights: NDArray[np.floating], learning_rate: float) -> None:
        self._rate, self._count = learning_rate, 0
        self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, weights: NDArray[np.floating], gradient: NDArray[np.floating]) -> None:
        """Moves the weights by one step; `gradient` is used up."""
        self._count += 1
        first, second = _BETAS
        self._mean += (1 - first) * (gradient - self._mean)
        np.multiply(gradient, gradient, out=gradient)
        gradient -= self._square
        gradient *= 1 - second
        self._square += gradient
        scale = np.sqrt(self._square, out=gradient)
        scale *= (1 - second**self._count) ** -0.5
        scale += _STABILISER
        np.divide(self._mean, scale, out=scale)
        scale *= self._rate / (1 - first**self._count)
        weights -= scale
