"""Membership attack on the coefficient memory: detects one example in the released sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Neighbours, Released, Seen, digits
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.lifelong.dp_coeff_memory import CoeffMemoryParams
from dpcl_core.methods.lifelong.quadratic import RandomRelu
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.mechanisms import unit_rows
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 4000
_N_FEATURES = 8  # of examples' own values; the noise does not depend on the number of features
N_ONE_HOT = 1024  # features of the one-hot examples
_MOST_TASKS = 4  # most tasks that are played if an example is in each; the budget is for that many
_CLASSES = (0, 1)
_ADVERSARY = "sees the released sums of every task, knows every other example and the example in question"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on a worst-case example, and on a real digit.

    The neighbours are as far apart as possible: one example more or less; under "replace" one negated or, for features
    without negative values, replaced by an orthogonal one. The attacker projects the releases on the neighbours' difference,
    the most powerful test against Gaussian noise: the first task, all tasks together, and the first minus the second.
    Training steps read the released sums only, so one step suffices. Args: trials: learners on each side.
    """
    played = short(spec)
    return [
        play.audited(played, epsilon, trials, game(played, is_natural=is_natural))
        for epsilon in spec.privacy.epsilons
        for is_natural in (False, True)
    ]


def short(spec: RunSpec) -> RunSpec:
    """The settings that are played: few features, and one step on the released sums."""
    assert isinstance(spec.params, CoeffMemoryParams)
    params = spec.params.model_copy(update={"steps": 1, "features": _N_FEATURES, "solution": "steps"})
    return spec.model_copy(update={"params": params})


def game(spec: RunSpec, *, is_natural: bool) -> Game:
    """The neighbours, and the attacker's statistics."""
    own_values = spec.data.backbone == "pixels"
    rows = _rows(spec.privacy.adjacency == "replace", own_values=own_values, is_natural=is_natural)
    known = _known(spec, rows.known.shape[1], len(rows.known) + 1)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        return play.tasks_of(rows.examples(side), rows.examples(None), known)

    @lru_cache(maxsize=1)
    def difference(seed: int) -> Floats:
        sums = []
        for side in (True, False):
            data = rows.examples(side)
            inputs = RandomRelu(known.n_inputs, _N_FEATURES, seed).of(data.inputs) if own_values else data.inputs
            sums.append(_sums(unit_rows(inputs), data.labels))
        apart: Floats = sums[0] - sums[1]
        return apart

    def score(seed: int, seen: Released) -> Floats:
        after = [float(_coordinates(*_released_sums(one)) @ difference(seed)) for one in seen]
        return np.array([[after[0], sum(after), after[0] - after[1] if len(after) > 1 else 0.0]])

    example = "a real digit" if is_natural else "a worst-case example"
    return Game(known, tasks, score, f"projection of the sums on the example's own ({example})", _ADVERSARY)


def one_hot(spec: RunSpec) -> Game:
    """A game with many one-hot examples in one training, read off the sums of features, products and classes.

    Under "replace" an example of the other label takes the place of one that does not take part. If the learner computes
    random features of the values, these overlap: the attacker solves for all examples at once, by least squares.
    """
    is_own, is_replaced = spec.data.backbone == "pixels", spec.privacy.adjacency == "replace"
    n_persons = N_ONE_HOT // 2 if is_replaced else N_ONE_HOT  # an axis for each person and each replacement
    axes, labels = np.eye(N_ONE_HOT, dtype=np.float32), np.arange(n_persons, dtype=np.int64) % 2
    rows = axes[:n_persons], axes[-n_persons:]
    known, takes_part = _known(spec, N_ONE_HOT, n_persons), partial(play.coins, n=n_persons)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        kept = np.arange(n_persons) if is_replaced else np.flatnonzero(present)
        targets = Examples(np.where(present[:, None], rows[0], rows[1])[kept], np.where(present, labels, 1 - labels)[kept])
        return play.tasks_of(targets, Examples(rows[0][:0], labels[:0]), known)

    def score(seed: int, seen: Released) -> Floats:
        read = RandomRelu(N_ONE_HOT, N_ONE_HOT, seed)
        one, other = (unit_rows(read.of(side) if is_own else side) for side in rows)
        overlap = _kernel(one, one, labels, labels)
        evidence = [_projections(release, one, labels) for release in seen]
        if is_replaced:
            swapped, across = 1 - labels, _kernel(one, other, labels, 1 - labels)
            inner = _kernel(other, other, swapped, swapped)
            # Subtracts the sums of all replacements, which the attacker knows.
            evidence = [
                projection - _projections(release, other, swapped) - (across - inner).sum(axis=1)
                for projection, release in zip(evidence, seen, strict=True)
            ]
            overlap = overlap - across - across.T + inner
        solved = np.linalg.solve(overlap, np.stack(evidence, axis=1))
        first, total = solved[:, 0], solved.sum(axis=1)
        return np.stack([first, total, first - solved[:, 1] if known.n_tasks > 1 else first], axis=1)

    attack = "least squares on the sums of features and of their products (examples with one value each)"
    return Game(known, tasks, score, attack, _ADVERSARY, takes_part=takes_part)


def _known(spec: RunSpec, n_inputs: int, task_size: int) -> PublicContext:
    """The public facts of a game, with few tasks."""
    is_in_every = spec.scenario.recurrence == "every"
    n_tasks = min(spec.scenario.tasks, _MOST_TASKS) if is_in_every and isinstance(spec.scenario, Permuted) else 2
    n_people = task_size * (1 if is_in_every else n_tasks)
    known = play.context(spec, n_inputs=n_inputs, n_classes=len(_CLASSES), n_people=n_people, n_tasks=n_tasks)
    return replace(known, form=Form((n_inputs,), 0.0, 1.0)) if spec.data.backbone == "pixels" else known


def _kernel(one: Floats, other: Floats, labels: NDArray[np.int64], others: NDArray[np.int64]) -> Floats:
    """Inner products [n, m] of the examples' contributions to the sums of features, products (symmetric) and classes."""
    inner = one @ other.T
    kernel: Floats = inner + inner**2 + inner * (labels[:, None] == others)
    return kernel


def _projections(seen: Seen, rows: Floats, labels: NDArray[np.int64]) -> Floats:
    """Inner products [n] of released sums with each example's contribution."""
    features, products, by_class = _released_sums(seen)
    projections: Floats = rows @ features + ((rows @ products) * rows).sum(axis=1) + (by_class[labels] * rows).sum(axis=1)
    return projections


def _rows(is_replaced: bool, *, own_values: bool, is_natural: bool) -> Neighbours:
    if is_natural:
        pixels, classes = digits()
        zeros, ones = (pixels[classes == k].astype(np.float64) for k in _CLASSES)
        known = np.stack([zeros[1], ones[1], zeros[2], ones[2]])
        return Neighbours(known, np.array([0, 1, 0, 1]), zeros[0], 0, ones[0] if is_replaced else None, 0)
    person, other = np.eye(_N_FEATURES)[0], np.eye(_N_FEATURES)[1] if own_values else -np.eye(_N_FEATURES)[0]
    known = np.eye(_N_FEATURES)[[2, 3]] + 1.0
    return Neighbours(known, np.array([0, 0]), person, 0, other if is_replaced else None, 0)


def _sums(rows: Floats, labels: NDArray[np.int64]) -> Floats:
    """The three sums of unit-length rows as one vector, in the coordinates to which noise is added."""
    by_class = np.stack([rows[labels == k].sum(axis=0) for k in _CLASSES])
    return _coordinates(rows.sum(axis=0), rows.T @ rows, by_class)


def _released_sums(seen: Seen) -> tuple[Floats, Floats, Floats]:
    """The released sums of features, of products and of each class."""
    features, products, by_class = (np.asarray(seen[name], np.float64) for name in ("features", "products", "by_class"))
    return features, products, by_class


def _coordinates(features: Floats, products: Floats, by_class: Floats) -> Floats:
    """The three sums as one vector; an off-diagonal product enters once, times sqrt 2, so that all noise is equal."""
    above = np.triu_indices(len(features), 1)
    return np.concatenate([features, np.diag(products), np.sqrt(2) * products[above], by_class.ravel()])
