"""Auditing: what an attacker's measured success proves about epsilon, from below."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from dpcl_core.events import JsonValue, plain_number
from dpcl_core.privacy.statement import shown


@dataclass(frozen=True, slots=True)
class Audited:
    """An attack's result: with the stated confidence no (epsilon, delta) with epsilon below `lower_bound` can hold.

    `trials` is the number of releases on each side that the bound rests on, or of what `unit` says.
    """

    claimed: float
    accounted: float
    lower_bound: float
    delta: float
    confidence: float
    trials: int
    attack: str
    adversary: str
    unit: str = "releases a side"

    def document(self) -> dict[str, JsonValue]:
        """The result as JSON; infinity is the string "inf"."""
        return {
            "claimed_epsilon": plain_number(self.claimed),
            "accounted_epsilon": plain_number(self.accounted),
            "audited_lower_bound": plain_number(self.lower_bound),
            "delta": self.delta,
            "confidence": self.confidence,
            "trials": self.trials,
            "unit": self.unit,
            "attack": self.attack,
            "adversary": self.adversary,
        }

    def sentence(self) -> str:
        """The result in one line: claimed, accounted, audited."""
        least = math.floor(100 * self.lower_bound) / 100  # a lower bound is rounded down
        accounted = shown(self.accounted) if math.isfinite(self.accounted) else "no bound"
        return (
            f"claimed epsilon {shown(self.claimed)}, accounted {accounted}, audited at least {least:.2f} "
            f"({self.confidence:.0%} confidence, {self.trials} {self.unit}): {self.attack}"
        )


def lower_bound(
    with_person: NDArray[np.float64], without: NDArray[np.float64], delta: float, confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon from an attack's scores on releases with and without one person.

    The first half of each array chooses the threshold, the second half measures the two error rates there (Clopper and
    Pearson, half of the error probability each), so that the choice costs no confidence. Uses
    TPR <= e^eps FPR + delta and TNR <= e^eps FNR + delta (Kairouz et al. 2015). Never below 0.

    Args: with_person, without: [n] scores, high where the attacker believes that the person took part.
    """
    half_with, half_without = len(with_person) // 2, len(without) // 2
    candidates = np.unique(np.concatenate([with_person[:half_with], without[:half_without]]))
    if len(candidates) > 400:
        candidates = np.quantile(candidates, np.linspace(0, 1, 400))
    best = max(candidates, key=lambda cut: _bound(with_person[:half_with], without[:half_without], cut, delta, confidence))
    return max(0.0, _bound(with_person[half_with:], without[half_without:], float(best), delta, confidence))


def bound_of_counts(
    hits: int, n_with: int, false_alarms: int, n_without: int, delta: float, confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon from how often an attack fixed beforehand cried "took part". Never below 0.

    Args: hits: cries in `n_with` releases with the person; false_alarms: cries in `n_without` releases without.
    """
    return max(0.0, _of_counts(hits, n_with, n_without - false_alarms, n_without, delta, confidence))


def one_way_bound(
    hits: int, n_with: int, false_alarms: int, n_without: int, delta: float, confidence: float = 0.95
) -> float:
    """The same from one inequality alone, P_with[cry] <= e^eps P_without[cry] + delta; for claims of that one direction."""
    error = (1 - confidence) / 2
    tpr_low = _lower(hits, n_with, error)
    fpr_high = 1 - _lower(n_without - false_alarms, n_without, error)
    return max(0.0, _log_ratio(tpr_low - delta, fpr_high))


def _bound(
    with_person: NDArray[np.float64], without: NDArray[np.float64], cut: float, delta: float, confidence: float
) -> float:
    hits, quiet = int((with_person >= cut).sum()), int((without < cut).sum())
    return _of_counts(hits, len(with_person), quiet, len(without), delta, confidence)


def _of_counts(hits: int, n_with: int, quiet: int, n_without: int, delta: float, confidence: float) -> float:
    error = (1 - confidence) / 2
    tpr_low, tnr_low = _lower(hits, n_with, error), _lower(quiet, n_without, error)
    fpr_high, fnr_high = 1 - tnr_low, 1 - tpr_low
    return max(_log_ratio(tpr_low - delta, fpr_high), _log_ratio(tnr_low - delta, fnr_high))


def _lower(hits: int, total: int, error: float) -> float:
    return 0.0 if hits == 0 else float(betaincinv(hits, total - hits + 1, error))


def _log_ratio(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > 0 else -math.inf
