"""Membership attack on the DP cosine classifier: detects one example in the released class sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Neighbours, Released, digits
from dpcl_core.privacy.audit_bounds import Audited
from dpcl_core.privacy.labels import people_to_be_named
from dpcl_core.privacy.mechanisms import unit_rows
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 12_000
_N_FEATURES, _N_KNOWN, _MOST_KNOWN = 16, 20, 20_000
_CLASSES, _TARGET_LABEL = (0, 1, 2), 2  # the worst-case example has a label that nobody else has
_N_TASKS = 2
_ADVERSARY = "sees everything that is released after each task, knows every other example and the example in question"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two membership attacks for every budget of the spec: on a worst-case example, and on a real digit.

    The neighbours: tasks of known examples, and the same with one more example whose label occurs nowhere else (under
    "replace" its features change sign, or its label is one that the others have). If people recur, the example is in every
    task. The attacker projects each task's released sums, and their difference, on the example's own contribution; if the
    label list is read from the data, he only checks whether the label is in it. A learned list would omit a unique label, so
    there the example shares its label with enough others for it to be listed. Args: trials: learners on each side.
    """
    return [
        play.audited(spec, epsilon, trials, game(spec, epsilon, is_natural=is_natural))
        for epsilon in spec.privacy.epsilons
        for is_natural in (False, True)
    ]


def axes(spec: RunSpec, epsilon: float, n_persons: int) -> Game:
    """A game with many persons on orthogonal axes, with alternating labels; a coin decides who takes part.

    The sums along a person's axis contain only that person's contribution and noise. Under "replace" a person who does not
    take part has the other label instead.
    """
    rows, labels = np.eye(n_persons, dtype=np.float32), np.arange(n_persons, dtype=np.int64) % 2
    is_replaced, takes_part = spec.privacy.adjacency == "replace", partial(play.coins, n=n_persons)
    n_people = n_persons * (1 if spec.scenario.recurrence == "every" else _N_TASKS)
    known = play.context(spec, n_inputs=n_persons, n_classes=2, n_people=n_people, n_tasks=_N_TASKS)

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        targets = play.targets(rows, labels, 1 - labels, takes_part(seed) == side, spec)
        return play.tasks_of(targets, Examples(rows[:0], labels[:0]), known)

    def score(seed: int, seen: Released) -> Floats:
        places = np.arange(n_persons)
        after = [np.asarray(one["sums"], dtype=np.float64) for one in seen]
        evidence = [sums[labels, places] - (sums[1 - labels, places] if is_replaced else 0) for sums in after]
        first, second = evidence[0], evidence[1] - evidence[0]
        return np.stack([first, first - second, first + second], axis=1)

    attack, is_gaussian = "sums on the example's own axis (worst-case examples)", spec.labels != "data"
    return Game(known, tasks, score, attack, _ADVERSARY, is_gaussian=is_gaussian, takes_part=takes_part)


def _difference(rows: Neighbours) -> Floats:
    """The person's effect on the clean sums [classes, K]."""
    effect = np.zeros((len(_CLASSES), rows.known.shape[1]))
    effect[rows.label] += unit_rows(rows.person[None])[0]
    if rows.other is not None:
        effect[rows.other_label] -= unit_rows(rows.other[None])[0]
    return effect


def game(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Game:
    """The neighbours for a budget, and the attacker's statistics."""
    rows = _rows(spec, epsilon, is_natural=is_natural)
    n_people, n_inputs = _N_TASKS * (len(rows.known) + 1), rows.known.shape[1]
    known = play.context(spec, n_inputs=n_inputs, n_classes=len(_CLASSES), n_people=n_people, n_tasks=_N_TASKS)
    direction = _difference(rows)
    known_only = rows.examples(None)
    by_side = {side: rows.examples(side) for side in (True, False)}

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        return play.tasks_of(by_side[side], known_only, known)

    def score(seed: int, seen: Released) -> Floats:
        if spec.labels == "data":
            return np.array([[float(seen[0]["labels"][rows.label])]])
        after = [float((np.asarray(one["sums"], dtype=np.float64) * direction).sum()) for one in seen]
        first, second = after[0], after[1] - after[0]
        return np.array([[first, first - second, first + second]])

    example = "a real digit" if is_natural else "a worst-case example"
    how = "is its label in the list?" if spec.labels == "data" else "projection of the sums on the example"
    return Game(known, tasks, score, f"{how} ({example})", _ADVERSARY, is_gaussian=spec.labels != "data")


def _rows(spec: RunSpec, epsilon: float, *, is_natural: bool) -> Neighbours:
    n_known, target = _N_KNOWN, _TARGET_LABEL
    if spec.labels == "dp-learned":
        needed = people_to_be_named(spec.privacy, epsilon, _N_TASKS, _MOST_KNOWN // 4)
        target, n_known = 0, _N_KNOWN if needed is None else max(_N_KNOWN, 4 * needed)
    is_replaced = spec.privacy.adjacency == "replace"
    labels = np.arange(n_known, dtype=np.int64) % 2
    other_label = 0 if spec.labels == "data" else target
    if is_natural:
        pixels, digit = digits()
        pools = [pixels[digit == k].astype(np.float64) for k in _CLASSES]
        known = np.stack([pools[label][1 + place // 2 % (len(pools[label]) - 1)] for place, label in enumerate(labels)])
        return Neighbours(known, labels, pools[target][0], target, pools[1][0] if is_replaced else None, other_label)
    generator = np.random.default_rng(0)
    known = generator.standard_normal((n_known, _N_FEATURES))
    person = generator.standard_normal(_N_FEATURES)
    return Neighbours(known, labels, person, target, -person if is_replaced else None, other_label)
