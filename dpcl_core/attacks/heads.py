"""Membership attacks on last layers trained by DP-SGD: many orthogonal examples in one training, and a real digit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released, digits
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features.params import PeftParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.labels import people_to_be_named
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 20_000
_N_PERSONS = 256  # targets in one training, each along an axis of its own
_MOST_NATURAL = 200  # trainings on each side with the digit in question: each has only one target
_AT_ONCE = 16  # trainings in parallel, few enough for one process
_CLASSES, _N_TASKS, _MOST_KNOWN = (0, 1), 2, 20_000
_ADVERSARY = (
    "sees the weights after each task, knows every other example and the example in question, which lies along an axis of "
    "its own"
)
_OF_A_DIGIT = "sees the weights after each task, knows every other example and the digit in question"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on many worst-case examples in one training, and on a real digit.

    A worst-case example lies along an axis that no other features use, and is long enough for its gradient to be clipped in
    every step: the weights on its axis carry only its own gradients and noise, except through the bias. So one training
    tests many persons, each of whom takes part by a coin of the audit. Under "replace" a person who does not take part has
    the other label instead. The statistics are the difference of the two classes' weights on the axis, after either task,
    and the difference between tasks. Args: trials: persons on each side.

    Adapters are attacked in `attacks.adapters`.
    """
    assert isinstance(spec.params, PeftParams)
    if spec.params.adapter != "head":
        from dpcl_core.attacks import adapters  # loads torch, which heads do not need

        return adapters.audit(spec, trials)
    n_learners = math.ceil(trials / _N_PERSONS)
    results = []
    for epsilon in spec.privacy.epsilons:
        results.append(play.audited(spec, epsilon, n_learners, axes(spec, spec.params, epsilon), _AT_ONCE))
        natural = digit(spec, spec.params, epsilon)
        results.append(play.audited(spec, epsilon, min(trials, _MOST_NATURAL), natural, _AT_ONCE))
    return results


def axes(spec: RunSpec, params: PeftParams, epsilon: float, n_persons: int = _N_PERSONS) -> Game:
    """A game with many persons on orthogonal axes. The two sides swap who takes part."""
    # Long enough to be clipped as long as the wrong class has probability above 0.35 / length, short enough for the weights
    # to leave both classes likely.
    length = max(4.0, 2 * params.clip_norm)
    rows = length * np.eye(n_persons, dtype=np.float32)
    labels = np.arange(n_persons, dtype=np.int64) % 2
    crowd = _crowd(spec, epsilon)
    others = np.zeros((len(crowd), n_persons), dtype=np.float32)
    known_only = Examples(others, crowd)
    known, takes_part = _known(spec, n_persons, n_persons + len(crowd)), partial(play.coins, n=n_persons)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        own = play.targets(rows, labels, 1 - labels, takes_part(seed) == side, spec)
        train = Examples(np.vstack([own.table, others]), np.append(own.labels, crowd))
        return play.stream(train, known_only, known)

    sign = np.where(labels == 0, 1.0, -1.0)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics([sign * _contrast(one)[:-1] if one else np.zeros(n_persons) for one in seen])

    attack = "weights on the example's own axis (worst-case examples)"
    return Game(known, tasks, score, attack, _ADVERSARY, takes_part=takes_part)


def digit(spec: RunSpec, params: PeftParams, epsilon: float) -> Game:
    """A game on one real digit among others; under "replace" a digit of the other class takes its place."""
    pixels, digits_ = digits()
    pools = [pixels[digits_ == k] for k in _CLASSES]
    crowd = _crowd(spec, epsilon)
    others = np.stack([pools[label][1 + place % (len(pools[label]) - 1)] for place, label in enumerate(crowd)])
    known_only = Examples(others, crowd)
    known, is_replaced = _known(spec, pixels.shape[1], len(crowd) + 1), spec.privacy.adjacency == "replace"

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        train = known_only
        if side or is_replaced:
            label = 0 if side else 1
            train = Examples(np.vstack([others, pools[label][0]]), np.append(crowd, label))
        return play.stream(train, known_only, known)

    # At zero weights an example's gradient is half its row for one class, and minus that for the other.
    towards = np.append(pools[0][0], 1.0) + (np.append(pools[1][0], 1.0) if is_replaced else 0)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics([np.array([_contrast(one) @ towards if one else 0.0]) for one in seen])

    return Game(known, tasks, score, "projection of the weights on the example's gradient (a real digit)", _OF_A_DIGIT)


def _crowd(spec: RunSpec, epsilon: float) -> NDArray[np.int64]:
    """Labels of the examples known to the attacker, enough of each for a learned list to include it."""
    n = 10
    if spec.labels == "dp-learned":
        needed = people_to_be_named(spec.privacy, epsilon, _N_TASKS, _MOST_KNOWN // 4)
        n = n if needed is None else max(n, 2 * needed)
    return np.arange(2 * n, dtype=np.int64) % 2


def _known(spec: RunSpec, n_inputs: int, task_size: int) -> PublicContext:
    n_people = task_size * (1 if spec.scenario.recurrence == "every" else _N_TASKS)
    return play.context(spec, n_inputs=n_inputs, n_classes=len(_CLASSES), n_people=n_people, n_tasks=_N_TASKS)


def _contrast(released: Mapping[str, NDArray[np.generic]]) -> Floats:
    """Weights of class 0 minus weights of class 1, by feature [K+1]."""
    weights = np.asarray(released["weights"], dtype=np.float64)
    contrast: Floats = weights[0] - weights[1]
    return contrast


def _statistics(after: Sequence[Floats]) -> Floats:
    """Four statistics of each person's evidence after both tasks: first, second, difference and sum."""
    first, second = after
    return np.stack([first, second, first - second, first + second], axis=1)
