"""An attack on the noisy copy of one record, run through the very mechanism that stores it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcl_core.methods.cards.independent_laplace import IndependentLaplaceParams, check
from dpcl_core.methods.facts import Facts
from dpcl_core.methods.independent_laplace import randomiser
from dpcl_core.privacy.audit import Audited, lower_bound
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.local import Randomiser, epsilon_of_each, noisy_records
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.scenarios.catalog import Permuted
from dpcl_core.spec import RunSpec

_N_VALUES = 16  # of an example whose values are noised as they are
_SPACE = tuple(range(10))
_ADVERSARY = "sees the stored noisy copies of one record and knows the two records that it may have been made from"


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One attack per budget of the spec: which of two records was this copy made from?

    The two differ as much as any, in values and in label; the attacker takes the likelihood ratio, the most powerful test.
    Where a record is in every task he has a copy from each. Args: trials: copies on each side. Raises BadInput as the card.
    """
    check(spec, Facts(n_people=trials, n_tasks=1, n_classes=len(_SPACE)))
    return [_attacked(spec, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, epsilon: float, trials: int) -> Audited:
    assert isinstance(spec.params, IndependentLaplaceParams)
    n_tasks = spec.scenario.tasks if isinstance(spec.scenario, Permuted) and spec.scenario.recurrence == "every" else 1
    local = randomiser(spec.params, _N_VALUES, epsilon_of_each(epsilon, spec.privacy.delta, n_tasks))
    one = np.full(local.n_values, 1.0 if local.l1_clip is None else local.l1_clip / local.n_values)
    ledger = Ledger(spec.privacy.delta, spec.privacy.adjacency, "every")

    def scores(record: NDArray[np.float64], label: int) -> NDArray[np.float64]:
        found = np.zeros(trials)
        for task in range(n_tasks):
            copies, answers = noisy_records(
                np.tile(record, (trials, 1)),
                np.full(trials, label, dtype=np.int64),
                _SPACE,
                local,
                ReleaseNoise(),
                ledger,
                task=task,
            )
            found += _log_ratio(local, copies.astype(np.float64), answers, one)
        return found

    first = scores(one, 0)
    accounted = ledger.epsilon()
    return Audited(
        claimed=epsilon,
        accounted=accounted,
        lower_bound=lower_bound(first, scores(-one, 1), spec.privacy.delta),
        delta=spec.privacy.delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="likelihood ratio of one record's copy",
        adversary=_ADVERSARY,
    )


def _log_ratio(
    local: Randomiser, copies: NDArray[np.float64], answers: NDArray[np.int64], one: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log of how much more likely a copy is from (`one`, label 0) than from (-`one`, label 1); [n]."""
    if math.isinf(local.epsilon_values):
        return (copies @ one > 0).astype(np.float64)
    kept, other = local.chances(len(_SPACE))
    from_values = (np.abs(copies + one) - np.abs(copies - one)).sum(axis=1) / local.scale
    ratio: NDArray[np.float64] = from_values + math.log(kept / other) * ((answers == 0) * 1.0 - (answers == 1))
    return ratio
