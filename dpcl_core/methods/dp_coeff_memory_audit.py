"""An attack on the coefficient memory, run through the very mechanism that it uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcl_core.privacy.audit import Audited, lower_bound
from dpcl_core.privacy.coefficients import coefficients_std, noisy_coefficients
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.spec import RunSpec

_SPACE = (0, 1)
_ADVERSARY = "sees the released sums of every task, knows every other example and the example in question"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget of the spec: is the person's example in the data, or not?

    The neighbours are as far apart as any: an example of length 1 more or less; under "replace" one turned round, or, with
    features without negative values, replaced by one at a right angle. The attacker projects what is released on the
    difference of the two, the most powerful test against Gaussian noise. Where an example is in every task he adds up the
    releases of all tasks. Args: trials: releases on each side.
    """
    return [_attacked(spec, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, epsilon: float, trials: int) -> Audited:
    is_non_negative = spec.data.backbone == "pixels"
    n_tasks = spec.scenario.tasks if isinstance(spec.scenario, Permuted) and spec.scenario.recurrence == "every" else 1
    delta, adjacency = spec.privacy.delta, spec.privacy.adjacency
    std = coefficients_std(epsilon, delta, adjacency, is_non_negative=is_non_negative, n_releases=n_tasks)
    known = np.array([[0.6, 0.8], [0.8, 0.6]])
    person = np.array([1.0, 0.0])
    others = known if adjacency == "add-remove" else np.vstack([known, [0.0, 1.0] if is_non_negative else -person])
    ledgers = [Ledger(delta, adjacency, "every") for _ in range(trials)]

    def released(
        features: NDArray[np.float64], stds: Sequence[float], books: Sequence[Ledger], task: int
    ) -> tuple[NDArray[np.float64], ...]:
        labels, noises = np.zeros(len(features), dtype=np.int64), [ReleaseNoise()] * len(stds)
        sums = noisy_coefficients(
            features, labels, _SPACE, 2, stds, noises, books, task=task, is_non_negative=is_non_negative
        )
        return sums.features, sums.products, sums.by_class

    took_part = np.vstack([known, person])
    unused = [Ledger(delta, adjacency, "once") for _ in range(trials)]
    clean = [released(data, [0.0], unused[:1], 0) for data in (took_part, others)]
    difference = [a - b for a, b in zip(*clean, strict=True)]

    def scores(features: NDArray[np.float64], books: Sequence[Ledger]) -> NDArray[np.float64]:
        found = np.zeros(trials)
        for task in range(n_tasks):
            parts = released(features, [std] * trials, books, task)
            found += sum((part * diff).reshape(trials, -1).sum(axis=1) for part, diff in zip(parts, difference, strict=True))
        return found

    said_in, said_out = scores(took_part, ledgers), scores(others, unused)
    return Audited(
        claimed=epsilon,
        accounted=ledgers[0].epsilon(),
        lower_bound=lower_bound(said_in, said_out, delta),
        delta=delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="projection of the sums on the example's own",
        adversary=_ADVERSARY,
    )
