"""Auditing: lower confidence bounds on epsilon from an attacker's measured success."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri, owens_t
from scipy.stats import binom

from dpcl_core.events import JsonValue, plain_number
from dpcl_core.privacy import gaussian, statement

if TYPE_CHECKING:
    from pydantic import TypeAdapter
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
    how many of its coins were guessed, and how many correctly. `over_tasks`: of an attack on a stream of sums, for each task
    the area under its ROC curve on all releases so far, and on what the newest one alone shows.
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
    over_tasks: tuple[tuple[float, float], ...] = ()

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
            **({"over_tasks": [list(pair) for pair in self.over_tasks]} if self.over_tasks else {}),
            "exceeds_accounted": self.exceeds,
        }

    def sentence(self) -> str:
        """The result in one line: claimed, accounted, audited; it begins with ERROR where audited exceeds accounted."""
        least = math.floor(100 * self.lower_bound) / 100  # a lower bound is rounded down
        accounted = statement.shown_number(self.accounted) if math.isfinite(self.accounted) else "no bound"
        line = (
            f"claimed epsilon {statement.shown_number(self.claimed)}, accounted {accounted}, audited at least {least:.2f} "
            f"({100 * self.confidence:g} % confidence, {self.trials} {self.unit}): {self.attack}"
        )
        if self.exceeds:
            return f"ERROR, audited above accounted: {line}"
        return line if self.detects is None else f"{line}; would have caught {self.detects}"


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Audited]:
    from pydantic import TypeAdapter  # for those who read: a page of a browser, which has none, audits as well

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
        return _lower(self.n - missed, self.n, error) if missed < 30 else self.value - float(ndtri(1 - error)) * self.std

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
    return (np.searchsorted(ordered, cuts) + np.searchsorted(ordered, cuts, "right")) / (2 * len(scores))


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
    """Lower confidence bound on epsilon for one-sided claims, from one inequality alone.

    P_with[A] <= e^eps P_without[A] + delta, A = "took part". Args: as `bound_of_counts`.
    """
    error = (1 - confidence) / 2
    tpr_low = _lower(hits, n_with, error)
    return max(0.0, _log_ratio(tpr_low - delta, 1 - _lower(n_without - false_alarms, n_without, error)))


def _bound(
    with_person: NDArray[np.float64], without: NDArray[np.float64], cut: float, delta: float, confidence: float
) -> float:
    hits, quiet = int((with_person >= cut).sum()), int((without < cut).sum())
    return _of_counts(hits, len(with_person), quiet, len(without), delta, confidence)


def _of_counts(hits: int, n_with: int, quiet: int, n_without: int, delta: float, confidence: float) -> float:
    error = (1 - confidence) / 2
    tpr_low, tnr_low = _lower(hits, n_with, error), _lower(quiet, n_without, error)
    return max(_log_ratio(tpr_low - delta, 1 - tnr_low), _log_ratio(tnr_low - delta, 1 - tpr_low))


def _lower(hits: float, total: int, error: float) -> float:
    return 0.0 if hits == 0 else float(betaincinv(hits, total - hits + 1, error))


def _log_ratio(numerator: float, denominator: float) -> float:
    return math.log(numerator / denominator) if numerator > 0 else -math.inf


# Auditing by rank: a lower bound on epsilon from an attacker who finds randomly drawn secrets.
#
# One trained model is enough, because every secret is a separate trial (after Steinke, Nasr and Jagielski 2023, "Privacy
# auditing with one (1) training run", whose secrets are coins; ours have many values).


@dataclass(frozen=True, slots=True)
class GuessCounts:
    """Result of an attack: `right` of `n` secrets were among the `allowed` values guessed for each.

    Every secret is one of `candidates` values, drawn uniformly and independently, and is in `group` examples.
    """

    n: int
    right: int
    allowed: int
    candidates: int
    group: int = 1


def bound_of_guesses(
    counts: tuple[GuessCounts, ...], delta: float, adjacency: Literal["add-remove", "replace"], confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon of one example; each of `counts` gets an equal share of the error probability.

    Let epsilon' and delta' hold for replacing all examples of one secret. Whatever the outcome on other secrets, the
    attacker guesses the right value with probability at most p = e^epsilon' r / (e^epsilon' r + N - r), r = allowed,
    N = candidates, up to delta': summing P_c[E] <= e^epsilon' P_c'[E] + delta' for E = "c is guessed, c' is not" over all
    pairs c, c' gives (N - r) P[right] <= e^epsilon' r (1 - P[right]) + (N - 1) delta', given any outcome of the other
    secrets. So v are right with probability at most P[Binomial(n, p) >= v] + n delta'. A secret in g examples takes g
    replacements, each two steps under add/remove: epsilon' = s epsilon and delta' = delta (e^(s epsilon) - 1) /
    (e^epsilon - 1), s = g or 2 g. Never below 0, and never inf.

    Raises ValueError where the numbers are inconsistent.
    """
    return 0.0 if not counts else max(_rank_bound(one, delta, adjacency, (1 - confidence) / len(counts)) for one in counts)


def _rank_bound(one: GuessCounts, delta: float, adjacency: str, error: float) -> float:
    if not (0 <= one.right <= one.n and 0 < one.allowed < one.candidates and one.group > 0):
        raise ValueError(f"no such game: {one}")
    steps = one.group * (2 if adjacency == "add-remove" else 1)
    return 0.0 if one.right == 0 else _largest(lambda epsilon: _chance(one, epsilon, steps, delta) <= error, 64.0, 60)


def _largest(is_excluded: Callable[[float], bool], high: float, n_halvings: int) -> float:
    """The largest number below `high` that is excluded, as all smaller ones are, to 2^-`n_halvings` of it; 0 if 0 is not."""
    low = 0.0
    if not is_excluded(low):
        return low
    for _ in range(n_halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if is_excluded(middle) else (low, middle)
    return low


def _chance(one: GuessCounts, epsilon: float, steps: int, delta: float) -> float:
    """Upper bound on the probability of this many right guesses under this epsilon of one example; increasing in it."""
    against = (one.candidates - one.allowed) / one.allowed
    rate = 1 / (1 + against * math.exp(-steps * epsilon))
    delta_sum = delta * sum(math.exp(min(700.0, step * epsilon)) for step in range(steps))
    return min(1.0, float(binom.sf(one.right - 1, one.n, rate)) + one.n * delta_sum)


# Auditing in one run: lower bounds from guessing which of n canaries, each included by a fair coin, are in the data.
#
# Two bounds, both re-derived here. `counting_bound` assumes nothing but (epsilon, delta) itself (Steinke, Nasr and
# Jagielski 2023, "Privacy auditing with one (1) training run", Theorem 5.2). `gaussian_bound` assumes that the run
# is mu-Gaussian-DP for some mu, and proves more (Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-differential privacy in
# one run", Theorem 9).
#
# Both require that flipping one coin gives a neighbouring dataset (each canary is a privacy unit of its own), and that the
# number of guessed coins is fixed before the run.


Floats = NDArray[np.float64]

_MOST_EPSILON, _MOST_MU = 24.0, 16.0
_GRID = 32  # values of a parameter that are tried at once


@dataclass(frozen=True, slots=True)
class Coins:
    """Result of an attack on `n` fair coins: `guessed` of them, a number fixed beforehand, with `right` correct guesses."""

    n: int
    guessed: int
    right: int

    def __post_init__(self) -> None:
        """Raises ValueError where the numbers do not fit together."""
        if not 0 <= self.right <= self.guessed <= self.n or self.n < 1:
            raise ValueError(f"no such guesses: {self}")


def counting_bound(coins: Coins, delta: float, confidence: float = 0.95) -> float:
    """Lower confidence bound on epsilon at `delta`. Never below 0, never inf.

    Were the run (epsilon, delta)-DP, v or more of r guesses would be right with chance at most
    P[Bin(r, q) >= v] + delta c, q = e^epsilon / (1 + e^epsilon). Where every coin is guessed, c is 1 - q times the sum over
    R = 0 ... n - 1 of the largest probability of Bin(R, q), and (1 - q) n in general; or as published, which is less for
    many coins and few guesses, 2 n max_i P[v - i <= Bin(r, q) < v] / i.

    Proof of the first two. Let T be the guesses, and reveal the coins S_1 ... S_n one after the other. Given the first
    i - 1, let T have distributions P and Q for the two faces of S_i: the hockey-stick divergence of either from the other is
    at most delta. Where P exceeds e^epsilon Q, mark the coin with probability 1 - e^epsilon Q / P, independently, and the
    other way round. So a coin is marked with probability at most delta, and given T and all coins revealed before, an
    unmarked one agrees with its guess with probability at most q. Let h_i be the probability that the right guesses so far
    plus Bin(R_i, q) reach v, where R_i guesses are left. Step i raises its expectation by at most (1 - q) P[marked, and
    Bin(R_i, q) = v - 1 - right so far], and h_0 is the binomial tail. That last probability is at most 1; where all coins
    are guessed, R_i = n - i whatever T is.
    """
    error = 1 - confidence

    def is_excluded(epsilon: float) -> bool:
        q = 1 / (1 + math.exp(-epsilon))
        tail = float(binom.sf(coins.right - 1, coins.guessed, q))
        return tail <= error and tail + delta * _marked(coins, q) <= error

    return _largest(is_excluded, _MOST_EPSILON, 40)


def gaussian_one_run_bound(coins: Coins, confidence: float = 0.95) -> float:
    """Lower confidence bound on mu, to one part in 1e6, assuming that the run is mu-Gaussian-DP for some mu. Never below 0.

    Epsilon at a delta follows by `epsilon_of`. If a mu is excluded, so are all smaller ones.
    """
    low, high = 0.0, _MOST_MU
    while high - low > 1e-6 * high:
        tried = np.linspace(low, high, _GRID + 1)[1:]
        n_excluded = int(np.argmin(np.append(_is_excluded(tried, coins, 1 - confidence), False)))
        low, high = (float(tried[n_excluded - 1]) if n_excluded else low), float(tried[min(n_excluded, _GRID - 1)])
    return low


def epsilon_of(mu: float, delta: float) -> float:
    """Epsilon at `delta` of a mu-Gaussian-DP mechanism (Dong, Roth and Su 2022, Corollary 2.13)."""
    return 0.0 if mu <= 0 else gaussian.epsilon(1 / mu, delta)


def least_right(n: int, guessed: int, proves: Callable[[Coins], bool]) -> int:
    """The fewest right guesses for which `proves` holds (monotone in their number); `guessed` + 1 where none do."""
    return bisect_left(range(guessed + 1), True, key=lambda right: proves(Coins(n, guessed, right)))


def _marked(coins: Coins, q: float) -> float:
    """The c of `counting_bound`; the largest probability of Bin(R, q) is at floor((R + 1) q)."""
    if coins.guessed == coins.n:
        left = np.arange(coins.n)
        return (1 - q) * float(binom.pmf(np.floor((left + 1) * q), left, q).sum())
    before = np.cumsum(binom.pmf(np.arange(coins.right - 1, -1, -1), coins.guessed, q))
    published = 2 * float((before / np.arange(1, coins.right + 1)).max(initial=0.0))
    return coins.n * min(1 - q, published)


def _is_excluded(mus: Floats, coins: Coins, error: float) -> NDArray[np.bool_]:
    """Whether this many right guesses have probability at most `error` under the trade-off function f of each mu.

    Let p_j be the chance of exactly j right ones of r, A_i = sum of j p_j / n over j >= i, B_i = sum of (r - j) p_j / n
    over j >= i. For the coin k let E be "k is guessed rightly, and at least i are": turning k alone makes it "wrongly, and
    at least i - 1". Coins are fair, so that the turned ones have the same law, and P[E] <= fbar(P'[E]), fbar = 1 - f
    concave; averaged over the n coins that is A_i <= fbar(B_{i-1}).

    Suppose that at least c are right with probability t or more. The constraints then force mass below c. It is least where
    the t is on c itself, which makes A_c least and B_c largest, and where each level i - 1 gets just what B_{i-1} needs: A_i
    and the mass so far both increase in every B_j, j >= i, since p_j = (B_j - B_{j+1}) n / (r - j) and 1 / (r - j) grows
    with j, so by induction no other choice has less. Where this least mass exceeds 1 the probability is below t.
    """
    n, r = coins.n, coins.guessed
    mass = np.full(len(mus), error)
    above, below = mass * coins.right / n, mass * (r - coins.right) / n
    for level in range(coins.right - 1, -1, -1):
        needed = ndtr(ndtri(np.minimum(above, 1.0)) - mus)  # the least x with fbar(x) = A
        lacking = np.maximum(needed - below, 0.0)
        added = lacking * n / (r - level)
        below, above, mass = below + lacking, above + added * level / n, mass + added
        if (mass > 1).all():
            break
    return mass > 1
