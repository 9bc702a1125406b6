"""Attack on per-record noise: decides from which of two records a stored noisy copy was made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpcl_core.attacks import play
from dpcl_core.attacks.play import Floats, Game, Released
from dpcl_core.attacks.public import digits
from dpcl_core.data.dataset import Form
from dpcl_core.methods.common.public_sizes import PublicSizes
from dpcl_core.methods.lifelong.cards.coefficient_params import IndependentLaplaceParams
from dpcl_core.methods.lifelong.cards.independent_laplace import check
from dpcl_core.methods.lifelong.independent_laplace import randomiser
from dpcl_core.methods.lifelong.public_features import RandomProjection
from dpcl_core.privacy.local import Randomiser, epsilon_of_each
from dpcl_core.privacy.lower_bound import Audited
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import RunSpec

TRIALS = 6000
_N_CLASSES, _MOST_TASKS = 10, 4
_ADVERSARY = "sees the stored noisy copies of one record and knows the two records that it may have been made from"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """Two attacks for every budget of the spec: on two worst-case records, and on two digits.

    The worst-case records differ as much as possible, in values and in label. The attacker uses the likelihood ratio of the
    copy, the most powerful test; if a record is in every task, he has a copy from each. A learner whose tasks have one
    record each keeps sums over that one copy, which reveal it. Training reads the copies only, so one step suffices.
    Args: trials: learners on each side. Raises BadInput as the method's card does.
    """
    check(spec, PublicSizes(n_people=trials, n_tasks=1, n_classes=_N_CLASSES))
    assert isinstance(spec.params, IndependentLaplaceParams)
    short = spec.model_copy(update={"params": spec.params.model_copy(update={"steps": 1})})
    return [
        play.audited(short, epsilon, trials, game(short, spec.params, epsilon, is_natural=is_natural))
        for epsilon in spec.privacy.epsilons
        for is_natural in (False, True)
    ]


def game(spec: RunSpec, params: IndependentLaplaceParams, epsilon: float, *, is_natural: bool) -> Game:
    """The game on two records."""
    is_in_every = spec.scenario.recurrence == "every"
    n_tasks = min(spec.scenario.tasks, _MOST_TASKS) if is_in_every and isinstance(spec.scenario, Permuted) else 1
    pixels, classes = digits()
    n_values = pixels.shape[1]
    local = randomiser(params, n_values, epsilon_of_each(epsilon, spec.privacy.delta, n_tasks))
    unit = 1 / math.sqrt(n_values) if params.project_to == 0 else math.sqrt(params.project_to) / params.clip
    labels = (0, 1) if not is_natural else (int(classes[0]), int(classes[1]))

    @lru_cache(maxsize=1)
    def pair(seed: int) -> tuple[Floats, Floats]:
        """The values of both records: in [0, 1], or any if they are projected."""
        if is_natural:
            return pixels[0].astype(np.float64), pixels[1].astype(np.float64)
        one = np.ones(n_values) if params.project_to == 0 else _longest(_projection(params, n_values, seed), n_values)
        return one, 1 - one

    def tasks(seed: int, side: bool) -> Sequence[Task]:
        values, label = (pair(seed)[0], labels[0]) if side else (pair(seed)[1], labels[1])
        record = Examples(values[None].astype(np.float32), np.array([label]))
        return play.tasks_of(record, record, known)

    def noised(seed: int, values: Floats) -> Floats:
        """The representation of a record to which noise is added."""
        if params.project_to == 0:
            return 2 * values - 1
        projected = _projection(params, n_values, seed).of(values[None])[0].astype(np.float64)
        clipped: Floats = projected * min(1.0, params.clip / max(float(np.abs(projected).sum()), 1e-300))
        return clipped

    def score(seed: int, seen: Released) -> Floats:
        one, other = (noised(seed, values) for values in pair(seed))
        total = 0.0
        for release in seen:
            copy = np.asarray(release["features"], dtype=np.float64)[:-1] / unit
            answer = int(np.argmax(np.asarray(release["by_class"], dtype=np.float64)[:, -1]))
            total += _log_ratio(local, copy, one, other)
            total += play.label_log_odds(local, _N_CLASSES) * ((answer == labels[0]) - (answer == labels[1]))
        return np.array([[total]])

    known = play.context(spec, n_inputs=n_values, n_classes=_N_CLASSES, n_people=1, n_tasks=n_tasks)
    known = replace(known, form=Form((n_values,), 0.0, 1.0))
    examples = "two real digits" if is_natural else "worst-case records"
    return Game(known, tasks, score, f"likelihood ratio of one record's copy ({examples})", _ADVERSARY, is_gaussian=False)


def _projection(params: IndependentLaplaceParams, n_values: int, seed: int) -> RandomProjection:
    return RandomProjection(n_values, params.project_to, seed)


def _longest(projection: RandomProjection, n_values: int) -> Floats:
    """Values whose projection has a nearly maximal L1 norm: the best of 64 random draws."""
    drawn = np.random.default_rng(0).standard_normal((64, n_values))
    lengths = np.abs(projection.of(drawn)).sum(axis=1)
    best: Floats = drawn[int(lengths.argmax())]
    return best


def _log_ratio(local: Randomiser, copy: Floats, one: Floats, other: Floats) -> float:
    """Log-likelihood ratio of a copy's values, for `one` against `other`."""
    away, near = np.abs(copy - other).sum(), np.abs(copy - one).sum()
    return float((away - near) / local.scale) if local.scale > 0 else float(away - near)
