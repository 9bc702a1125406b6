"""Membership attacks on networks trained by DP-A-GEM: many examples with distinct labels at once, and a real digit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import dp_agem, play
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.attacks.public import digits
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.common.per_example_gradients import Gradients
from dpcl_core.methods.lifelong import nets
from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.scenarios.stream import Examples, Task, generator
from dpcl_core.spec import RunSpec

ATTACKS = ("learner", "life")
TRIALS = 3200
_N_PERSONS = 64  # targets in one training, each with a label of its own
_MOST_NATURAL = 40  # trainings on each side with the digit in question: each has only one target
_N_CROWD = 20
_N_NOMINAL = 100_000  # public divisor of sums: large enough for the weights, and so the gradients, to hardly change
_FORM = Form((8, 8), 0.0, 1.0)  # digits encoded like sensor windows, for the smallest network
_ADVERSARY = (
    "sees the weights after the task, knows those before it, every other example and the example in question, which has a "
    "label of its own"
)
_OF_A_DIGIT = "sees the weights after the task, knows those before it, every other example and the digit in question"
_HOW = "how far the weights moved along the example's gradient"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on many worst-case examples in one training, and on a real digit.

    The stream has one task, so that the whole budget is spent on it without replay. Examples with distinct labels have
    nearly orthogonal gradients, mostly in their own rows of the last layer, and all are clipped. So one training tests many
    persons, each of whom takes part by a coin of the audit; under "replace" a person who does not take part has another
    label instead. The attacker projects the change of the weights on the difference of the two clipped gradients at the
    initial weights. Args: trials: persons on each side.
    """
    return audited(spec, trials, ATTACKS[0])


def audited(spec: RunSpec, trials: int, attack: str) -> list[Audited]:
    """One of the `ATTACKS`: on the learner itself, or ("life") on all steps and replays through the mechanism alone."""
    if attack == "life":
        return dp_agem.audit(spec, trials)
    n_learners = math.ceil(trials / _N_PERSONS)
    results = []
    for epsilon in spec.privacy.epsilons:
        results.append(play.audited(spec, epsilon, n_learners, distinct_labels(spec)))
        results.append(play.audited(spec, epsilon, min(trials, _MOST_NATURAL), digit(spec)))
    return results


def half(seed: int) -> NDArray[np.bool_]:
    """Who takes part, bool [_N_PERSONS]: a random half, as a fixed number adds no variance to the scores."""
    drawn: NDArray[np.bool_] = generator(seed, "who takes part").permutation(np.arange(_N_PERSONS) % 2 == 0)
    return drawn


def distinct_labels(
    spec: RunSpec, n_persons: int = _N_PERSONS, takes_part: Callable[[int], NDArray[np.bool_]] = half
) -> Game:
    """A game with many persons of distinct labels. The two sides swap who takes part."""
    assert isinstance(spec.params, DpAgemParams)
    features = np.random.default_rng(0).standard_normal((n_persons, 64)) * 8 * max(1.0, spec.params.clip_norm)
    rows, labels = features.astype(np.float32), np.arange(n_persons, dtype=np.int64)
    changed, known = np.roll(labels, 1), _known(n_persons)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        targets = play.targets(rows, labels, changed, takes_part(seed) == side, spec)
        return play.tasks_of(targets, targets, known)

    def score(seed: int, seen: Released) -> Floats:
        along = _projections(spec, seed, seen, rows, labels, n_persons)
        if spec.privacy.adjacency == "replace":
            along = along - _projections(spec, seed, seen, rows, changed, n_persons)
        return along[:, None]

    return Game(known, tasks, score, f"{_HOW} (worst-case examples)", _ADVERSARY, takes_part=takes_part)


def digit(spec: RunSpec) -> Game:
    """A game on one real digit among others; under "replace" a digit of the next class takes its place."""
    pixels, classes = digits()
    n_classes = int(classes.max()) + 1
    known, crowd = _known(n_classes), Examples(pixels[1 : 1 + _N_CROWD], classes[1 : 1 + _N_CROWD])
    other = int(np.flatnonzero(classes == (classes[0] + 1) % n_classes)[-1])
    is_replaced = spec.privacy.adjacency == "replace"

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        extra = [0] if side else [other] if is_replaced else []
        train = Examples(np.vstack([crowd.table, pixels[extra]]), np.append(crowd.labels, classes[extra]))
        return play.tasks_of(train, crowd, known)

    def score(seed: int, seen: Released) -> Floats:
        target, replacement = _projections(spec, seed, seen, pixels[[0, other]], classes[[0, other]], n_classes)
        return np.array([[target - replacement if is_replaced else target]])

    return Game(known, tasks, score, f"{_HOW} (a real digit)", _OF_A_DIGIT)


def _known(n_classes: int) -> PublicContext:
    public = tuple(range(n_classes))
    return PublicContext(n_inputs=64, n_classes=n_classes, public=public, n_people=_N_NOMINAL, n_tasks=1, form=_FORM)


def _projections(
    spec: RunSpec, seed: int, seen: Released, rows: NDArray[np.float32], labels: NDArray[np.int64], n_classes: int
) -> Floats:
    """Initial minus released weights, projected on every example's clipped gradient at the initial weights [n]."""
    assert isinstance(spec.params, DpAgemParams)
    start = nets.build(_FORM, n_classes, seed)
    before = nets.released(start)
    differences = [np.asarray(before[name], np.float64) - np.asarray(seen[0][name], np.float64) for name in before]
    change = torch.from_numpy(np.concatenate([part.ravel() for part in differences]))
    clipped, inputs, columns = Gradients(start, spec.params.clip_norm), nets.tensor(rows, _FORM), torch.arange(n_classes)
    gradients = (clipped.of(inputs[[place]], torch.tensor([label]), columns) for place, label in enumerate(labels))
    return np.array([float(torch.cat([part.flatten() for part in parts]).double() @ change) for parts in gradients])
