"""Last layers trained by DP-SGD on cached features, the budgets of one seed side by side in one wide product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.adam import Adam
from dpcl_core.methods.head_gradients import Floats, Prepared, clipped_sums, tile_size, with_bias
from dpcl_core.methods.schedule import LARGEST_WEIGHT, Schedule, diverged
from dpcl_core.privacy.noise import Batches, Noise, additions32
from dpcl_core.privacy.rounded import grid32

Spaces = Sequence[Sequence[int]]
OnStep = Callable[[int], None]
Addition = Callable[[Floats], Floats]
_MOST_IN_SINGLE = 2.0**7


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
    `plan.clip_norm`; replacing one, by at most twice that. `head_gradients` proves it for the sums as they are computed.
    Noise is added to sums in units of the clipping norm, so that its standard deviation is the multiplier itself.

    Args: features [n, K]; labels [n] int64, of `start.columns` or not.
    Raises: Diverged as soon as a weight of any budget leaves the bound of `schedule`, for all budgets of the seed.
    """
    places = np.flatnonzero(np.isin(labels, start.columns))
    targets = np.searchsorted(start.columns, labels[places])
    data = Prepared.of(features[places], targets, start.allowed, plan.expected_batch, start.weights.dtype)
    weights, tile = start.weights.copy(), tile_size(plan.expected_batch)
    adam = Adam(weights, plan.learning_rate)
    hidden = [place for place, sigma in enumerate(noise_multipliers) if sigma > 0]
    multipliers = [noise_multipliers[place] for place in hidden]
    add = _addition([noises[place] for place in hidden], multipliers, weights[0], plan.n_steps) if hidden else None
    clips = np.array([plan.clip_norm if sigma > 0 else np.inf for sigma in noise_multipliers], dtype=weights.dtype)
    gradient = np.empty_like(weights)
    for step in range(plan.n_steps):
        sums = clipped_sums(data, batches.draw(len(places)), weights, clips, tile)
        if len(hidden) < len(sums):
            np.multiply(sums, 1 / plan.expected_batch, out=gradient, casting="same_kind")
        if add is not None:
            gradient[hidden] = add(sums[hidden]) * weights.dtype.type(plan.clip_norm / plan.expected_batch)
        adam.step(weights, gradient)
        if not max(weights.max(initial=0), -weights.min(initial=0)) <= LARGEST_WEIGHT:  # nor where a weight is no number
            raise diverged(step, plan)
        on_step(step)
    return Heads(weights, start.columns, start.allowed, start.n_classes)


def _addition(noises: Sequence[Noise], multipliers: Sequence[float], like: Floats, n_steps: int) -> Addition:
    """What adds noise of these standard deviations to the sums [budgets, columns, K+1] of a step, drawn ahead.

    Sums that came in double precision have one value for each in single precision, and get the same grid and the same last
    rounding: which of the two a batch needed is not told. Their part beside the grid fits single precision as long as the
    grid is no coarser than 2^4; noise above that is added in double precision whatever the batch.
    """
    if like.dtype == np.float64 or max(multipliers) > _MOST_IN_SINGLE:
        return lambda sums: np.stack(
            [
                noise.added(row.astype(np.float64), std).astype(like.dtype)
                for row, noise, std in zip(sums, noises, multipliers, strict=True)
            ]
        )
    add = additions32(noises, multipliers, like.size, n_steps)
    steps = np.array([grid32(std) for std in multipliers])[:, None, None]

    def added(sums: Floats) -> Floats:
        if sums.dtype == np.float32:
            return add(sums)
        on_grid = np.rint(sums / steps) * steps
        noisy: Floats = (on_grid + add((sums - on_grid).astype(np.float32))).astype(np.float32)
        return noisy

    return added
