"""A second, independent accountant: an interval that contains the exact epsilon of a composition.

It uses nothing of the privacy loss distributions of `accounting`. Closed forms are used where they exist: Gaussian releases
are one Gaussian; label lists and noisy copies have finitely many losses, which are enumerated. Sampled steps are composed as
random variables (after Gopi, Lee and Wutschitz 2021): each loss is rounded to the nearest grid point, shifted so that its
mean is kept, and n of them are added by Fourier transform. The sum of n rounding errors, independent, of mean zero and each
within a grid step h, exceeds r = h sqrt(n ln(1/eta) / 2) with probability at most eta (Hoeffding). The transform is cyclic:
its range is wider by r on both sides than what the exact sum leaves with probability eta. With everything that was cut off,
wrapped around or rounded included in eta, the exact epsilon is between epsilon(delta + eta) - r and
epsilon(delta - eta) + r.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from dpcl_core.privacy.accounting import LABELS_CHANGED, LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent, Unaccountable
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.gaussian import SENSITIVITY
from dpcl_core.spec import Adjacency

_SHARE = 1e-4  # of delta, for what is cut off, wrapped around and rounded
_ACCURACY = 1e-3  # of epsilon: the target for the grid, within its allowed number of points
_FEWEST, _MOST = 1 << 14, 1 << 21  # grid points
_MOST_LOSSES = 20_000  # that are enumerated
_MOST_KINDS = 200  # of sampled steps: each takes about a second
_BLOCK = 1 << 16  # losses computed at once, with one array for each example of a group
_LAMBDAS = np.geomspace(1e-3, 1e5, 60)  # where the moments of a loss are bounded
_ROUND_OFF = 2.0**-50  # relative error of one number of a Fourier transform, and of its power for each factor

Delta = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Interval:
    """The exact epsilon is in [low, high]; both infinite where there is no bound."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Second:
    """One end of the interval as an accountant for ledgers."""

    end: str

    def epsilon(self, events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> float:
        """Raises Unaccountable for a mechanism that it does not support under this adjacency."""
        span = interval(events, delta, adjacency)
        return span.low if self.end == "low" else span.high


LOW, HIGH = Second("low"), Second("high")


@dataclass(frozen=True, slots=True)
class _Mixture:
    """A step whose worst case is a Gaussian mixture at `centres` with weights `chances`, or `others` without the person.

    The log-likelihood ratio of the two is increasing.
    """

    noise_multiplier: float
    centres: tuple[float, ...]
    chances: tuple[float, ...]
    others: tuple[float, ...]


@dataclass(slots=True)
class _Parts:
    """A composition by kind: mu squared of all Gaussians, counts of sampled steps, counts of (epsilon, delta) choices."""

    mu_squared: float
    steps: Counter[_Mixture]
    choices: Counter[tuple[float, float]]


def interval(events: Iterable[dp.DpEvent], delta: float, adjacency: Adjacency) -> Interval:
    """The interval of the exact epsilon of all these events. Raises Unaccountable."""
    return _interval(tuple(sorted(Counter(events).items(), key=repr)), delta, adjacency)


@lru_cache(maxsize=1024)
def _interval(counts: tuple[tuple[dp.DpEvent, int], ...], delta: float, adjacency: Adjacency) -> Interval:
    parts = _Parts(0.0, Counter(), Counter())
    for event, count in counts:
        if not _sorted_in(event, count, adjacency, parts):
            return Interval(math.inf, math.inf)
    if not parts.steps:
        exact = _epsilon(_with_choices(partial(_delta_of_gaussian, math.sqrt(parts.mu_squared)), parts.choices), delta)
        return Interval(exact, exact)
    if len(parts.steps) > _MOST_KINDS:
        raise Unaccountable(f"it has {len(parts.steps)} kinds of sampled steps; {_MOST_KINDS} can be checked")
    steps = dict(parts.steps)
    if parts.mu_squared > 0:
        steps[_Mixture(1 / math.sqrt(parts.mu_squared), (0.0, 1.0), (0.0, 1.0), (1.0, 0.0))] = 1
    ends = [_of_steps(steps, is_joining, parts.choices, delta) for is_joining in (False, True)]
    return Interval(max(end.low for end in ends), max(end.high for end in ends))


def _sorted_in(event: dp.DpEvent, count: int, adjacency: Adjacency, parts: _Parts) -> bool:
    """Adds an event that happens `count` times to the parts; False where it has no bound."""
    match event:
        case dp.NoOpDpEvent():
            return True
        case dp.NonPrivateDpEvent() | dp.GaussianDpEvent(0) | dp.PoissonSampledDpEvent(_, dp.GaussianDpEvent(0)):
            return False
        case dp.SelfComposedDpEvent(inner, n):
            return _sorted_in(inner, count * n, adjacency, parts)
        case dp.GaussianDpEvent(sigma):
            parts.mu_squared += count * (SENSITIVITY[adjacency] / sigma) ** 2
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)):
            parts.steps[_step(sigma, (1 - rate, rate), adjacency)] += count
        case SampledGroupDpEvent(sigma, rates):
            if adjacency == "replace":  # bounded by all members joining at once
                rate = 1 - float(np.prod([1 - one for one in rates]))
                parts.steps[_step(sigma / len(rates), (1 - rate, rate), adjacency)] += count
                return True
            chances = np.ones(1)
            for rate in rates:
                chances = np.convolve(chances, [1 - rate, rate])
            parts.steps[_step(sigma, tuple(map(float, chances)), adjacency)] += count
        case LabelListDpEvent(epsilon, delta):
            parts.choices[epsilon, delta] += count * LABELS_CHANGED[adjacency]
        case LocalDpEvent(epsilon) if adjacency == "replace":
            parts.choices[epsilon, 0.0] += count
        case _:
            raise Unaccountable(f"no epsilon under {adjacency} adjacency is known for {event}")
    return True


def _step(sigma: float, chances: tuple[float, ...], adjacency: Adjacency) -> _Mixture:
    """A sampled step: the person moves the sum by k with probability `chances[k]`, against 0 or, if replaced, -k."""
    if adjacency == "replace":
        stays, goes = chances
        return _Mixture(sigma, (-1.0, 0.0, 1.0), (0.0, stays, goes), (goes, stays, 0.0))
    centres = tuple(float(k) for k in range(len(chances)))
    return _Mixture(sigma, centres, chances, (1.0,) + (0.0,) * (len(chances) - 1))


def _delta_of_gaussian(mu: float, epsilon: float) -> float:
    """Exact delta of a Gaussian at any real epsilon (Balle and Wang 2018, Theorem 8); mu = 0: no release."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon)) if epsilon < 0 else 0.0
    other = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return float(ndtr(mu / 2 - epsilon / mu)) - math.exp(min(other, 0.0))


def _with_choices(delta_of: Delta, choices: dict[tuple[float, float], int]) -> Delta:
    """Delta of a composition with worst-case (epsilon, delta)-close choices (Kairouz et al. 2015).

    The loss of a choice is infinite with probability delta; else +epsilon or -epsilon, the former e^epsilon times as likely.
    """
    losses, infinite = {0.0: 1.0}, 0.0
    for (epsilon, delta), count in choices.items():
        infinite = infinite - (1 - infinite) * math.expm1(count * math.log1p(-delta))
        up = 1 / (1 + math.exp(-epsilon))
        logs = [math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(count + 1)]
        choice_losses = {
            (2 * k - count) * epsilon: math.exp(log + k * math.log(up) + (count - k) * (math.log(up) - epsilon))
            for k, log in enumerate(logs)
        }
        if len(losses) * len(choice_losses) > _MOST_LOSSES:
            raise Unaccountable("it has more lists of labels than the second accountant lists losses of")
        joined: dict[float, float] = {}
        for loss, mass in losses.items():
            for other, chance in choice_losses.items():
                joined[loss + other] = joined.get(loss + other, 0.0) + mass * chance
        losses = joined
    return lambda at: infinite + (1 - infinite) * sum(mass * delta_of(at - loss) for loss, mass in losses.items())


def _epsilon(delta_of: Delta, delta: float) -> float:
    """Smallest epsilon >= 0 whose delta is at most this one."""
    if delta <= 0:
        return math.inf
    if delta_of(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(high) > delta:
        high *= 2
        if high > 1e12:
            return math.inf
    return float(brentq(lambda at: delta_of(at) - delta, 0.0, high, xtol=1e-12, rtol=1e-12, maxiter=500))


def _of_steps(
    steps: dict[_Mixture, int], is_joining: bool, choices: dict[tuple[float, float], int], delta: float
) -> Interval:
    """The interval of sampled steps and choices, for a person who leaves or, `is_joining`, one who joins."""
    n = sum(steps.values())
    eta = _SHARE * delta / 4
    losses = {step: _Loss.of(step, is_joining, eta / n) for step in steps}
    coarse = {step: loss.masses(1 << 13) for step, loss in losses.items()}
    top, bottom = _reach(coarse, steps, eta), -_reach({s: (-y, p) for s, (y, p) in coarse.items()}, steps, eta)
    about = max(_reach(coarse, steps, delta), 1e-3)
    spread = math.sqrt(n * math.log(1 / eta) / 2)  # of n rounding errors, in steps of the grid
    wanted = 1.25 * (top - bottom) * spread / (_ACCURACY * about)
    n_points = 1 << max(_FEWEST.bit_length() - 1, min(_MOST.bit_length() - 1, math.ceil(math.log2(wanted))))
    room = 1 + math.ceil(2.5 * spread)  # for what rounding adds on either side, to the grid and within cells of a step or so
    if n_points < 4 * room:
        raise Unaccountable(f"it has {n:,} sampled steps, more than can be checked")
    h = (top - bottom) / (n_points - 2 * room)
    transform, shift, widest = np.ones(n_points // 2 + 1, dtype=np.complex128), 0.0, 0.0
    for step, count in steps.items():
        values, masses, mean, width = losses[step].fine(h)
        places = np.rint(values / h)
        shift += count * (mean - float(masses @ places) * h)
        widest = max(widest, width)
        table = np.bincount((places.astype(np.int64) % n_points).astype(np.intp), weights=masses, minlength=n_points)
        transform *= np.fft.rfft(table) ** count
    error = n * _ROUND_OFF * float(np.abs(transform).sum())
    chances = np.maximum(np.fft.irfft(transform, n_points), 0.0)
    first = math.floor((bottom - shift) / h) - room + 1
    delta_of = _with_choices(_tabled(np.roll(chances, -(first % n_points)), first * h + shift, h), choices)
    lost, off = 4 * eta + error, spread * (h + widest)
    return Interval(max(0.0, _epsilon(delta_of, delta + lost) - off), _epsilon(delta_of, delta - lost) + off)


def _tabled(chances: NDArray[np.float64], first: float, h: float) -> Delta:
    """Delta at any epsilon of a loss on first, first + h, ... with these probabilities: sum of p (1 - e^(epsilon - y))+."""
    backwards = chances[::-1]
    tails = np.append(np.cumsum(backwards)[::-1], 0.0)
    discounted = np.append(lfilter([1.0], [1.0, -math.exp(-h)], backwards)[::-1], 0.0)  # for each point: e^-(y - y_k)

    def delta_of(epsilon: float) -> float:
        k = min(max(0, math.floor((epsilon - first) / h) + 1), len(chances))
        return float(tails[k] - math.exp(min(0.0, epsilon - first - k * h)) * discounted[k])

    return delta_of


def _reach(
    losses: dict[_Mixture, tuple[NDArray[np.float64], NDArray[np.float64]]], counts: dict[_Mixture, int], chance: float
) -> float:
    """A value that the sum of all losses exceeds with at most this probability (Chernoff's bound)."""
    logs = sum(
        counts[step] * logsumexp(_LAMBDAS[:, None] * values[None, :], b=masses[None, :], axis=1)
        for step, (values, masses) in losses.items()
    )
    return float(np.min((logs - math.log(chance)) / _LAMBDAS))


@dataclass(frozen=True, slots=True)
class _Loss:
    """The privacy loss of one step, for outcomes between `low` and `high`."""

    step: _Mixture
    is_joining: bool
    low: float
    high: float

    @staticmethod
    def of(step: _Mixture, is_joining: bool, tail: float) -> _Loss:
        """The loss for a person who leaves or joins; the outcome is further out with probability at most `tail`."""
        reach = -float(ndtri(tail / 2)) * step.noise_multiplier
        weights = step.others if is_joining else step.chances
        centres = [centre for centre, weight in zip(step.centres, weights, strict=True) if weight > 0]
        return _Loss(step, is_joining, min(centres) - reach, max(centres) + reach)

    def at(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The loss at outcome x: the log-likelihood ratio."""
        sigma = self.step.noise_multiplier
        exponents = [x * centre / sigma**2 - centre**2 / (2 * sigma**2) for centre in self.step.centres]
        with_person, without = (
            logsumexp(np.stack([e for e, w in zip(exponents, weights, strict=True) if w > 0]), axis=0,
                      b=np.asarray([w for w in weights if w > 0])[:, None])
            for weights in (self.step.chances, self.step.others)
        )  # fmt: skip
        ratio: NDArray[np.float64] = with_person - without
        return -ratio if self.is_joining else ratio

    def masses(self, n_cells: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Losses at the centres of equal cells of the outcome, and the probabilities of these cells, which sum to 1."""
        edges = np.linspace(self.low, self.high, n_cells + 1)
        weights = self.step.others if self.is_joining else self.step.chances
        chances = np.zeros(n_cells)
        for centre, weight in zip(self.step.centres, weights, strict=True):
            z = (edges - centre) / self.step.noise_multiplier
            # From the nearer tail, so that small chances keep their digits.
            chances += weight * np.where(z[:-1] > 0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))
        blocks = np.array_split((edges[1:] + edges[:-1]) / 2, math.ceil(n_cells / _BLOCK))
        return np.concatenate([self.at(block) for block in blocks]), chances / chances.sum()

    def fine(self, h: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
        """Losses and probabilities in cells finer than a grid of step h, the exact mean, and the widest cell in loss."""
        steepest = (max(self.step.centres) - min(self.step.centres)) / self.step.noise_multiplier**2
        n_cells = min(_MOST, max(1 << 12, math.ceil(4 * steepest * (self.high - self.low) / h)))
        values, masses = self.masses(n_cells)
        return values, masses, self._mean(), steepest * (self.high - self.low) / n_cells

    def _mean(self) -> float:
        """Mean of the loss between `low` and `high`, by adaptive quadrature around every centre."""
        sigma = self.step.noise_multiplier
        weights = self.step.others if self.is_joining else self.step.chances

        def density(x: float) -> float:
            pairs = zip(self.step.centres, weights, strict=True)
            return sum(w * math.exp(-(((x - c) / sigma) ** 2) / 2) for c, w in pairs) / (sigma * math.sqrt(2 * math.pi))

        centres = [centre for centre in self.step.centres if self.low < centre < self.high]
        total, mass = (
            quad(function, self.low, self.high, points=centres, limit=400, epsabs=1e-14, epsrel=1e-12)[0]
            for function in (lambda x: density(x) * float(self.at(np.asarray([x]))[0]), density)
        )
        return float(total / mass)
