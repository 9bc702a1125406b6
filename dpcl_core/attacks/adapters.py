"""Attacks on FiLM and LoRA adapters trained by DP-SGD: pictures with labels of their own in one training, and a real digit.

Played on the bundled network, whatever network a run has: noise, clipping and ledger are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.attacks.public import digits
from dpcl_core.backbones import adaptable
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapted_network import Adapted
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.methods.features.layer_gradients import Gradients
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

BACKBONE = "vit-cifar100"
MOST = 2000  # persons on each side: a network is trained for every sixteen
_N_PERSONS = 16  # in one training, each with a label of its own
_MOST_NATURAL = 20  # trainings on each side with the digit in question, of which each asks about one person alone
_N_CROWD, _N_TASKS, _SIDE = 7, 2, 8
_ADVERSARY = (
    "sees adapter and last layer after each task, knows those before it, every other example and the example in question, "
    "which has a label of its own"
)
_OF_A_DIGIT = "sees adapter and last layer after each task, knows every other example and the digit in question"
_HOW = "how far adapter and last layer moved along the example's gradient"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """For every budget of the spec, two attacks: who of many worst-case pictures took part in a training; and a real digit?

    Each is trained on for two steps, in each of which he is with a chance of one half: the first moves the last layer alone,
    the second all that is trained. Last layers begin at zero, so that gradients of examples with labels of their own are
    nearly at right angles. The attacker projects how far everything has moved on an example's first clipped gradient, after
    either task. Under "replace" the same picture with another label is there in place of one who does not take part. Labels
    are given: a list that is learned is attacked with last layers alone. Args: trials: persons on each side, at most `MOST`.
    """
    assert isinstance(spec.params, PeftParams)
    params = spec.params.model_copy(update={"epochs": 1, "sample_rate": 0.5})
    data = spec.data.model_copy(update={"backbone": BACKBONE})
    short = spec.model_copy(update={"params": params, "data": data, "labels": "prior"})
    n_learners = math.ceil(min(trials, MOST) / _N_PERSONS)
    found = []
    for epsilon in spec.privacy.epsilons:
        found.append(play.audited(short, epsilon, n_learners, labels_of_their_own(short, params)))
        found.append(play.audited(short, epsilon, min(trials, _MOST_NATURAL), digit(short, params)))
    return found


def labels_of_their_own(spec: RunSpec, params: PeftParams) -> Game:
    """Persons with labels of their own. On side False those take part who do not on side True."""
    drawn = np.random.default_rng(0).integers(0, 256, (_N_PERSONS, _SIDE, _SIDE, 3))
    pictures, labels = drawn.astype(np.uint8), np.arange(_N_PERSONS, dtype=np.int64)
    changed = np.roll(labels, 1)
    known, is_replaced = _known(spec, _N_PERSONS, _N_PERSONS), spec.privacy.adjacency == "replace"
    directions = _gradients(params, pictures, labels, _N_PERSONS)
    if is_replaced:
        directions = directions - _gradients(params, pictures, changed, _N_PERSONS)

    def takes_part(seed: int) -> NDArray[np.bool_]:
        return play.coins(seed, _N_PERSONS)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        present = takes_part(seed) == side
        there = np.arange(_N_PERSONS) if is_replaced else np.flatnonzero(present)
        own = Examples(pictures[there], np.where(present, labels, changed)[there])
        return play.stream(own, Examples(pictures[:0], labels[:0]), known)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(params, seen, directions, _N_PERSONS)

    attack = f"{_HOW} (worst-case examples)"
    return Game(known, tasks, score, attack, _ADVERSARY, takes_part=takes_part, start=play.START)


def digit(spec: RunSpec, params: PeftParams) -> Game:
    """A real digit among others, or not; under "replace" one of the next class in its place."""
    pixels, named = digits()
    n_classes = int(named.max()) + 1
    other = int(np.flatnonzero(named == (named[0] + 1) % n_classes)[-1])
    chosen = np.array([0, other, *range(1, 1 + _N_CROWD)])
    grey = np.rint(255 * pixels[chosen]).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 1)
    pictures, labels = np.repeat(grey, 3, axis=3), named[chosen]
    crowd = Examples(pictures[2:], labels[2:])
    known, is_replaced = _known(spec, n_classes, _N_CROWD + 1), spec.privacy.adjacency == "replace"
    own, others = _gradients(params, pictures[:2], labels[:2], n_classes)
    direction = (own - others if is_replaced else own)[None]

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        extra = [0] if side else [1] if is_replaced else []
        held = Examples(np.concatenate([crowd.table, pictures[extra]]), np.append(crowd.labels, labels[extra]))
        return play.stream(held, crowd, known)

    def score(seed: int, seen: Released) -> Floats:
        return _statistics(params, seen, direction, n_classes)

    return Game(known, tasks, score, f"{_HOW} (a real digit)", _OF_A_DIGIT, start=play.START)


@lru_cache(maxsize=1)
def _network() -> adaptable.Network:
    return adaptable.load(BACKBONE)


def fresh(params: PeftParams, n_classes: int) -> Adapted:
    """What every learner begins with."""
    assert params.adapter != "head"
    space = tuple(range(n_classes))
    return adapters.fresh(_network(), params.adapter, params.lora_rank, space, n_classes, play.START).module()


def _gradients(params: PeftParams, pictures: NDArray[np.uint8], labels: NDArray[np.int64], n_classes: int) -> Floats:
    """Every example's clipped gradient there [n, weights]."""
    clipped = Gradients(fresh(params, n_classes), params.clip_norm, 1, "cpu")
    found = [clipped.of(pictures[[place]], labels[[place]]) for place in range(len(labels))]
    return np.stack([torch.cat([part.flatten() for part in parts]).double().numpy() for parts in found])


def _known(spec: RunSpec, n_classes: int, task_size: int) -> PublicContext:
    return PublicContext(
        n_inputs=0,
        n_classes=n_classes,
        public=tuple(range(n_classes)),
        n_people=task_size * (1 if spec.scenario.recurrence == "every" else _N_TASKS),
        n_tasks=_N_TASKS,
        recurrence=spec.scenario.recurrence,
    )


def _statistics(params: PeftParams, seen: Released, directions: Floats, n_classes: int) -> Floats:
    """Of how far each task's model lies along each person's gradient: each alone, both, and the difference [persons, 4]."""
    before = {name: tensor.numpy() for name, tensor in fresh(params, n_classes).state().items()}
    moved = [
        np.concatenate([(before[name] - cast("NDArray[np.float32]", one[name])).ravel() for name in before]) for one in seen
    ]
    first, second = (directions @ step.astype(np.float64) for step in moved)
    return np.stack([first, second, first + second, first - second], axis=1)
