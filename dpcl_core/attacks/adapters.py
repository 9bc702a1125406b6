"""Attacks on FiLM and LoRA adapters trained by DP-SGD: pictures with distinct labels in one training, and a real digit.

Always uses the bundled network: noise, clipping and ledger are the same for every network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released, digits
from dpcl_core.backbones import adaptable
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapters import Adapted, Gradients
from dpcl_core.methods.features.params import PeftParams
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

BACKBONE = "vit-cifar100"
MOST = 2000  # most persons on each side: every sixteen need a training
_N_PERSONS = 16  # targets in one training, each with a label of its own
_MOST_NATURAL = 20  # trainings on each side with the digit in question: each has only one target
_N_CROWD, _N_TASKS, _SIDE = 7, 2, 8
_ADVERSARY = (
    "sees adapter and last layer after each task, knows those before it, every other example and the example in question, "
    "which has a label of its own"
)
_OF_A_DIGIT = "sees adapter and last layer after each task, knows every other example and the digit in question"
_HOW = "how far adapter and last layer moved along the example's gradient"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on many worst-case pictures in one training, and on a real digit.

    A task has two steps, each with a sampling rate of one half: the first moves the last layer alone, the second all trained
    weights. Last layers begin at zero, so gradients of examples with distinct labels are nearly orthogonal. The attacker
    projects the change of all weights after either task on an example's clipped gradient at the initial weights. Under
    "replace" a person who does not take part has the same picture with another label. Uses public label lists; learned lists
    are attacked with last layers alone (`attacks.heads`). Args: trials: persons on each side, at most `MOST`.
    """
    assert isinstance(spec.params, PeftParams)
    params = spec.params.model_copy(update={"epochs": 1, "sample_rate": 0.5})
    data = spec.data.model_copy(update={"backbone": BACKBONE})
    short = spec.model_copy(update={"params": params, "data": data, "labels": "prior"})
    n_learners = math.ceil(min(trials, MOST) / _N_PERSONS)
    results = []
    for epsilon in spec.privacy.epsilons:
        results.append(play.audited(short, epsilon, n_learners, distinct_labels(short, params)))
        results.append(play.audited(short, epsilon, min(trials, _MOST_NATURAL), digit(short, params)))
    return results


def distinct_labels(spec: RunSpec, params: PeftParams) -> Game:
    """A game with many persons of distinct labels. The two sides swap who takes part."""
    pixels = np.random.default_rng(0).integers(0, 256, (_N_PERSONS, _SIDE, _SIDE, 3))
    pictures, labels = pixels.astype(np.uint8), np.arange(_N_PERSONS, dtype=np.int64)
    changed = np.roll(labels, 1)
    known = _known(spec, _N_PERSONS, _N_PERSONS)
    directions = _gradients(params, pictures, labels, _N_PERSONS)
    if spec.privacy.adjacency == "replace":
        directions = directions - _gradients(params, pictures, changed, _N_PERSONS)

    takes_part = partial(play.coins, n=_N_PERSONS)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        targets = play.targets(pictures, labels, changed, takes_part(seed) == side, spec)
        return play.stream(targets, Examples(pictures[:0], labels[:0]), known)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(params, seen, directions, _N_PERSONS)

    attack = f"{_HOW} (worst-case examples)"
    return Game(known, tasks, score, attack, _ADVERSARY, takes_part=takes_part, start=play.START)


def digit(spec: RunSpec, params: PeftParams) -> Game:
    """A game on one real digit among others; under "replace" a digit of the next class takes its place."""
    pixels, classes = digits()
    n_classes = int(classes.max()) + 1
    other = int(np.flatnonzero(classes == (classes[0] + 1) % n_classes)[-1])
    chosen = np.array([0, other, *range(1, 1 + _N_CROWD)])
    grey = np.rint(255 * pixels[chosen]).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 1)
    pictures, labels = np.repeat(grey, 3, axis=3), classes[chosen]
    crowd = Examples(pictures[2:], labels[2:])
    known, is_replaced = _known(spec, n_classes, _N_CROWD + 1), spec.privacy.adjacency == "replace"
    target, replacement = _gradients(params, pictures[:2], labels[:2], n_classes)
    direction = (target - replacement if is_replaced else target)[None]

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        extra = [0] if side else [1] if is_replaced else []
        train = Examples(np.concatenate([crowd.table, pictures[extra]]), np.append(crowd.labels, labels[extra]))
        return play.stream(train, crowd, known)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(params, seen, direction, n_classes)

    return Game(known, tasks, score, f"{_HOW} (a real digit)", _OF_A_DIGIT, start=play.START)


@lru_cache(maxsize=1)
def _network() -> adaptable.Network:
    return adaptable.load(BACKBONE)


def fresh(params: PeftParams, n_classes: int) -> Adapted:
    """The initial network of every learner."""
    assert params.adapter != "head"
    space = tuple(range(n_classes))
    return adapters.fresh(_network(), params.adapter, params.lora_rank, space, n_classes, play.START).module()


def _gradients(params: PeftParams, pictures: NDArray[np.uint8], labels: NDArray[np.int64], n_classes: int) -> Floats:
    """Every example's clipped gradient at the initial weights [n, weights]."""
    clipped = Gradients(fresh(params, n_classes), params.clip_norm, 1, "cpu")
    grads = [clipped.of(pictures[[index]], labels[[index]]) for index in range(len(labels))]
    return np.stack([torch.cat([part.flatten() for part in parts]).double().numpy() for parts in grads])


def _known(spec: RunSpec, n_classes: int, task_size: int) -> PublicContext:
    n_people = task_size * (1 if spec.scenario.recurrence == "every" else _N_TASKS)
    return play.context(spec, n_inputs=0, n_classes=n_classes, n_people=n_people, n_tasks=_N_TASKS)


def _statistics(params: PeftParams, seen: Released, directions: Floats, n_classes: int) -> Floats:
    """Change of each task's model along each person's gradient: first, second, sum and difference [persons, 4]."""
    before = {name: tensor.numpy() for name, tensor in fresh(params, n_classes).state().items()}
    changes = [
        np.concatenate([(before[name] - cast("NDArray[np.float32]", one[name])).ravel() for name in before]) for one in seen
    ]
    first, second = (directions @ step.astype(np.float64) for step in changes)
    return np.stack([first, second, first + second, first - second], axis=1)
