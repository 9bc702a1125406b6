"""Auditing: lower confidence bounds on epsilon from an attacker's measured success."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri, owens_t

from dpcl_core.events import JsonValue, plain_number
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.statement import shown

Bound = Literal["counting", "gaussian"]
ASSUMES: Mapping[Bound, str] = {
    "counting": "releases are independent",
    "gaussian": "releases are independent, and what they tell is a Gaussian trade-off, as of many small noisy steps",
}
ASSUMES_OF_COINS: Mapping[Bound, str] = {
    "counting": "each coin decides about one planted record and nothing else",
    "gaussian": "each coin decides about one planted record and nothing else, and what is released tells as much as "
    "Gaussian noise lets through",
}
_NAMES = {"claimed": "claimed_epsilon", "accounted": "accounted_epsilon", "lower_bound": "audited_lower_bound"}
_PLAIN = ("delta", "confidence", "trials", "unit", "attack", "adversary", "through", "detects", "bound")  # as in JSON
_POWER = 0.9  # probability with which the smallest reported fault would have been caught


@dataclass(frozen=True, slots=True)
class Audited:
    """An attack's result: with the stated confidence no (epsilon, delta) with epsilon below `lower_bound` can hold.

    `trials`: number of releases on each side that the bound uses, or of what `unit` says. `bound`: the kind of
    `lower_bound`; `bounds`: every kind that was computed, which hold simultaneously at the confidence. `through`: what was
    attacked, the method's "learner" as in a run, one stored "run", or the "mechanism" alone. `detects`: the smallest fault
    that would have been detected nine times in ten; None where none would. `guessed`, `right`: in an audit of one training,
    how many of its coins were guessed, and how many correctly.
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
    through: Literal["learner", "run", "mechanism"] = "mechanism"
    detects: str | None = None
    bound: Bound = "counting"
    bounds: Mapping[Bound, float] = field(default_factory=dict)
    guessed: int | None = None
    right: int | None = None

    @classmethod
    def read(cls, document: Mapping[str, JsonValue]) -> Audited:
        """The result from the JSON that `document` wrote. Raises ValueError for anything else."""
        keys = {one.name: _NAMES.get(one.name, one.name) for one in fields(cls)}
        return _reader().validate_python({name: document[key] for name, key in keys.items() if key in document})

    @property
    def assumes(self) -> str:
        """The assumptions of the bound."""
        return (ASSUMES_OF_COINS if self.through == "run" else ASSUMES)[self.bound]

    @property
    def exceeds(self) -> bool:
        """Whether the lower bound is above the ledger's epsilon: then the ledger, or the code it describes, is wrong."""
        return self.lower_bound > self.accounted

    def document(self) -> dict[str, JsonValue]:
        """The result as JSON; infinity is the string "inf"."""
        return {
            **{key: plain_number(getattr(self, name)) for name, key in _NAMES.items()},
            **{name: getattr(self, name) for name in _PLAIN},
            "bounds": {name: plain_number(value) for name, value in (self.bounds or {self.bound: self.lower_bound}).items()},
            "assumes": self.assumes,
            "guessed": self.guessed,
            "right": self.right,
            "exceeds_accounted": self.exceeds,
        }

    def sentence(self) -> str:
        """The result in one line: claimed, accounted, audited; it begins with ERROR where audited exceeds accounted."""
        least = math.floor(100 * self.lower_bound) / 100  # a lower bound is rounded down
        accounted = shown(self.accounted) if math.isfinite(self.accounted) else "no bound"
        line = (
            f"claimed epsilon {shown(self.claimed)}, accounted {accounted}, audited at least {least:.2f} "
            f"({100 * self.confidence:g} % confidence, {self.trials} {self.unit}): {self.attack}"
        )
        if self.exceeds:
            return f"ERROR, audited above accounted: {line}"
        return line if self.detects is None else f"{line}; would have caught {self.detects}"


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Audited]:
    return TypeAdapter(Audited)


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


@dataclass(frozen=True, slots=True)
class Area:
    """Area under an attack's ROC curve: the probability that a release with the person scores higher than one without.

    Where two releases differ by no more than unit Gaussians with means `mu` apart (mu-GDP; Dong et al. 2022), no score has
    an area above Phi(mu / sqrt 2): the curve of any score lies under the Gaussian one. So a lower bound on the area gives
    one on mu, whatever the scores' distribution, and epsilon follows from mu where the trade-off is in fact Gaussian.

    `value`: estimate (Mann and Whitney); `std`: its standard error (DeLong et al. 1988); `n`: releases on the smaller side.
    """

    value: float
    std: float
    n: int

    @classmethod
    def of(cls, with_person: NDArray[np.float64], without: NDArray[np.float64]) -> Area:
        """The area from scores [m] and [n], high where the attacker believes that the person took part; ties count half."""
        m, n = len(with_person), len(without)
        above = _share_below(without, with_person)  # of each release with the person, the share of the others below it
        below = _share_below(with_person, without)
        return cls(float(above.mean()), math.sqrt(float(above.var(ddof=1)) / m + float(below.var(ddof=1)) / n), min(m, n))

    def lower(self, error: float) -> float:
        """Lower confidence bound. Near one, where no normal law holds, as of so many independent pairs (Clopper-Pearson)."""
        missed = self.n * (1 - self.value)
        if missed < 30:
            return _lower(self.n - missed, self.n, error)
        return self.value - float(ndtri(1 - error)) * self.std

    @property
    def mu(self) -> float:
        """The mu whose area this is; never below 0."""
        return _mu(self.value)


def gaussian_bound(with_person: NDArray[np.float64], without: NDArray[np.float64], delta: float, confidence: float) -> float:
    """Lower confidence bound on epsilon, by the area under the curve; assumes a Gaussian trade-off. Never below 0."""
    mu = _mu(Area.of(with_person, without).lower(1 - confidence))
    return gaussian.epsilon(1 / mu, delta) if mu > 0 else 0.0


def detectable(area: Area, accounted: float, delta: float, confidence: float) -> float | None:
    """The largest factor on all noise with which `gaussian_bound` would exceed `accounted` nine times in ten.

    `area`: the attack's area on releases whose noise was right. A factor f makes its mu 1 / f as large. The probability
    follows from the area's error at that mu, sqrt((Q - A^2) 2 / n) with Q = E Phi(mu + Z)^2. None where no factor does.
    """
    if not 0 < accounted < math.inf or area.mu == 0:
        return None
    allowed = 1 / gaussian.sigma(accounted, delta)
    z = float(ndtri(confidence)) + float(ndtri(_POWER))

    def margin(mu: float) -> float:
        h = mu / math.sqrt(2)
        value = float(ndtr(h))
        both = value - 2 * float(owens_t(h, 1 / math.sqrt(3)))  # P[two with the person score above one without]
        return value - z * math.sqrt(max(0.0, both - value**2) * 2 / area.n) - float(ndtr(allowed / math.sqrt(2)))

    largest = allowed + 6
    if margin(largest) <= 0 or _lower(area.n, area.n, 1 - confidence) <= ndtr(allowed / math.sqrt(2)):
        return None  # too few releases, or too much accounted: even a perfect attack would not exceed it
    return min(area.mu, allowed) / float(brentq(margin, allowed, largest))


def _share_below(scores: NDArray[np.float64], cuts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the scores [n] below each cut [m]; ties count half."""
    ordered = np.sort(scores)
    counts = np.searchsorted(ordered, cuts) + np.searchsorted(ordered, cuts, "right")
    shares: NDArray[np.float64] = counts / (2 * len(scores))
    return shares


def _mu(area: float) -> float:
    return math.sqrt(2) * max(0.0, float(ndtri(min(max(area, 0.0), 1.0))))


def bound_of_counts(
    hits: int, n_with: int, false_alarms: int, n_without: int, delta: float, confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon from how often an attack fixed beforehand answered "took part". Never below 0.

    Args: hits: such answers in `n_with` releases with the person; false_alarms: in `n_without` releases without.
    """
    return max(0.0, _of_counts(hits, n_with, n_without - false_alarms, n_without, delta, confidence))


def one_way_bound(
    hits: int, n_with: int, false_alarms: int, n_without: int, delta: float, confidence: float = 0.95
) -> float:
    """The same from one inequality alone, P_with[A] <= e^eps P_without[A] + delta, A = "took part"; for one-sided claims."""
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


def _lower(hits: float, total: int, error: float) -> float:
    return 0.0 if hits == 0 else float(betaincinv(hits, total - hits + 1, error))


def _log_ratio(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > 0 else -math.inf
