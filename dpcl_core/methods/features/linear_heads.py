"""Last layers trained by DP-SGD on cached features; all budgets of a seed share one wide matrix product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.common.dpsgd import LARGEST_WEIGHT, Adam, Schedule, diverged
from dpcl_core.methods.features.head_gradients import Floats, Prepared, TakeOnCard, clipped_sums, with_bias
from dpcl_core.privacy.gaussian import grid32
from dpcl_core.privacy.noise import Batches, Noise, additions32

Spaces = Sequence[Sequence[int]]
OnStep = Callable[[int], None]
Addition = Callable[[Floats], Floats]
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


def joined(parts: Sequence[Heads]) -> Heads:
    """All budgets of several heads with the same columns, as one."""
    weights, allowed = (np.concatenate(both) for both in zip(*((part.weights, part.allowed) for part in parts), strict=True))
    return Heads(weights, parts[0].columns, allowed, parts[0].n_classes)


def no_progress(step: int) -> None:
    """No-op progress callback."""


def trained(
    start: Heads,
    features: NDArray[np.generic],
    labels: NDArray[np.int64],
    plan: Schedule,
    noise_multipliers: Sequence[float],
    batches: Batches,
    noises: Sequence[Noise],
    on_step: OnStep = no_progress,
    *,
    device: str = "cpu",
) -> Heads:
    """The classifiers after `plan.n_steps` steps of DP-SGD with Adam on cross-entropy, from `start`.

    One batch sequence serves all budgets, noise never does. An example whose label is not in a budget's space counts zero
    there (Tobaben et al., Eq. 6); an empty batch, or no examples at all, runs the same noisy steps. A noise multiplier of 0
    trains without noise and without clipping. The caller must have written the training to the ledgers.

    Sensitivity: one example changes a step's sum by one gradient over weights and bias together, clipped to length
    `plan.clip_norm`; replacing one, by at most twice that. `head_gradients` proves it for the sums as computed. Noise is
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
    data = Prepared.of(features[places], targets, start.allowed[order], plan.expected_batch, weights.dtype)
    adam, gradient = Adam(weights, plan.learning_rate), np.empty_like(weights)
    hidden, others = gradient[:n_hidden], gradient[n_hidden:]
    ordered = [noises[place] for place in order[:n_hidden]]
    add = _addition(ordered, sigmas[order[:n_hidden]].tolist(), weights[0], plan.n_steps) if ordered else None
    clips = np.full(n_hidden, plan.clip_norm, dtype=weights.dtype)
    mean, clipped_mean = 1 / plan.expected_batch, plan.clip_norm / plan.expected_batch
    there = None if device == "cpu" or not n_hidden else _on_card(data.directions, device)
    sums = clipped_sums if there is None else partial(clipped_sums, on_card=there)
    for step in range(plan.n_steps):
        clipped, plain = sums(data, batches.draw(len(places)), weights, clips)
        if add is not None:
            np.multiply(add(clipped), weights.dtype.type(clipped_mean), out=hidden)
        if n_hidden < len(weights):
            np.multiply(plain, mean, out=others)
        adam.step(weights, gradient)
        if not _is_small(weights):
            raise diverged(step, plan)
        on_step(step)
    return Heads(weights[np.argsort(order)], start.columns, start.allowed, start.n_classes)


def _on_card(directions: Floats, device: str) -> TakeOnCard | None:
    """The directions on a graphics card; None for double precision, and where they do not fit."""
    if directions.dtype != np.float32:
        return None
    from dpcl_core.methods.features.adapters import Directions  # loads torch, which other heads do not need

    there = Directions.of(directions, device)
    return None if there is None else there.take


def _is_small(weights: Floats) -> bool:
    """Whether all weights are finite and at most `LARGEST_WEIGHT` in absolute value."""
    flat = weights.reshape(-1)
    if flat.dot(flat) < LARGEST_WEIGHT**2 / 2:  # then none can be larger: one pass instead of two
        return True
    return bool(max(weights.max(initial=0), -weights.min(initial=0)) <= LARGEST_WEIGHT)


def _addition(noises: Sequence[Noise], multipliers: Sequence[float], like: Floats, n_steps: int) -> Addition:
    """A function that adds noise of these standard deviations, drawn ahead, to a step's sums [budgets, columns, K+1].

    Sums in double precision are put on the same grid and get the same final rounding as sums in single precision, so the
    output does not reveal which of the two a batch needed. Their remainder beside the grid fits single precision as long as
    the grid is no coarser than 2^5; larger noise is always added in double precision.
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
