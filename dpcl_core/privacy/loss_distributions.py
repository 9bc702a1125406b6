"""Privacy loss distributions on a grid: of Gaussian steps and of decisions, composed by transforms, rounded up.

They are those of Google's dp_accounting, by NumPy alone, for the whole grid at once: the library inverts the privacy loss
for one point of the grid after the other, and passes over the grid forty times to find how far a composition reaches.
tests/privacy/test_accounting.py holds every part against the library's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy import fft
from numpy.typing import NDArray

from dpcl_core.privacy.numerics import log_normal_cdf, log_normal_cdfs, log_sampled_cdfs, normal_cdfs, root, sampled_cdfs
from dpcl_core.spec import Adjacency

Floats = NDArray[np.float64]
Direction = Literal["remove", "add", "replace"]  # a person who leaves, joins, or is another one
_ORDERS = 20
_FEW = 1000  # points of a composition below which all pairs are added up, as few points may lie far apart
_ODD: list[int] = [3**i * 5**j for i in range(16) for j in range(11)]  # times powers of two: lengths of fast transforms
_MASS = 50.0  # the chance exp(-50) of outcomes to both sides beyond which every loss counts as infinite, or as the last one
_END = root(lambda z: log_normal_cdf(z) + _MASS + math.log(2), -20.0, 0.0)
TAIL_OF_DELTA = 1e-7  # what a composition cuts off, of a small delta
_NEXT_TO_NOTHING = 1e-300  # a chance that is a number and can be divided by
_POINTS_OF_A_TILT = 500  # at least, where a law has them: enough to find its order
_PRECISION, _END_PRECISION = 1e-5, 1e-4  # of an outcome of a mixture with a given loss, and of the last one


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """The law of one direction's privacy loss: `masses[i]` is the chance of `places[i] * interval`, places ascending.

    `infinite`: the chance of an infinite loss, with all that was cut off.
    """

    interval: float
    places: NDArray[np.int64]
    masses: Floats
    infinite: float

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence: the mean of 1 - e^(epsilon - loss) where that is positive."""
        losses = self.places * self.interval
        above = losses > epsilon
        return float(self.infinite + np.dot(-np.expm1(epsilon - losses[above]), self.masses[above]))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon, not below 0, with at most this delta; infinite for none.

        Between two points of the grid delta(epsilon) = upper - e^epsilon lower, sums over the losses above.
        """
        if self.infinite > delta:
            return math.inf
        losses = (self.places * self.interval)[::-1]
        losses = losses[losses > 0]
        masses = self.masses[::-1][: len(losses)]
        upper = np.cumsum(np.concatenate([[self.infinite], masses]))
        lower = np.cumsum(np.concatenate([[0.0], np.exp(-losses) * masses]))
        beyond = np.flatnonzero((upper[1:] >= delta) & (lower[1:] == 0))
        if len(beyond):  # e^-loss is no number
            return float(losses[beyond[0]])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reached = np.log((upper - delta) / lower)
        is_between = (upper > delta) & (lower > 0)
        is_between[:-1] &= reached[:-1] >= losses
        place = int(is_between.argmax()) if is_between.any() else len(losses)
        return 0.0 if upper[place] <= lower[place] + delta else float(reached[place])

    def composed(self, other: Losses, tail: float) -> Losses:
        """The sum of two independent losses, on one grid; of what is out of reach at most `tail` is cut off."""
        if min(len(self.masses), len(other.masses)) == 1 or len(self.masses) * len(other.masses) <= _FEW:
            sums, products = np.add.outer(self.places, other.places), np.multiply.outer(self.masses, other.masses)
            places, at = np.unique(sums, return_inverse=True)
            masses: Floats = np.asarray(np.bincount(at.ravel().astype(np.intp), products.ravel()), np.float64)
        else:
            one, two = self._on_all_points(), other._on_all_points()
            places = np.arange(len(one) + len(two) - 1)
            masses = _sum([(one, 1), (two, 1)], places, tail)
            places = places + (self.places[0] + other.places[0])
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return Losses(self.interval, places, masses, infinite)._cut(tail)

    def repeated(self, count: int, tail: float) -> Losses:
        """The sum of so many independent losses. What lies outside its reach counts as an infinite loss."""
        if count == 1:  # as it is: a transform there and back would round it, and cut off more than a small delta
            return self
        if count * math.log(len(self.masses)) <= math.log(_FEW):
            several = self
            for place in range(2, count + 1):
                several = several.composed(self, tail if place == count else 0.0)
            return several
        masses = self._on_all_points()
        below, above = _reach(masses, count, tail)
        places = np.arange(below, above + 1)
        infinite = tail - math.expm1(count * math.log1p(-self.infinite))
        return Losses(self.interval, places + self.places[0] * count, _sum([(masses, count)], places, tail), infinite)

    def _on_all_points(self) -> Floats:
        """The masses of all points of the grid from the first place to the last."""
        masses = np.zeros(self.places[-1] - self.places[0] + 1)
        masses[self.places - self.places[0]] = self.masses
        return masses

    def _cut(self, tail: float) -> Losses:
        """Without ends whose masses are half of `tail` each at most: small losses are rounded up, large ones infinite."""
        if tail == 0:
            return self
        n = len(self.masses)
        below, above = (np.cumsum(masses) > tail / 2 for masses in (self.masses, self.masses[::-1]))
        first = int(below.argmax()) if below.any() else n - 1
        end = max(first + 1, n - int(above.argmax()) if above.any() else 0)
        masses = self.masses[first:end].copy()
        masses[0] += self.masses[:first].sum()
        return Losses(self.interval, self.places[first:end], masses, self.infinite + float(self.masses[end:].sum()))


def _sum(parts: Sequence[tuple[Floats, int]], places: NDArray[np.int64], tail: float) -> Floats:
    """The chance of each of `places` [n], ascending without gaps: of a sum of `count` indices of each law `masses`.

    A transform is wrong by 1e-16 of the largest mass, and a small delta adds up masses that are not much larger. So the laws
    are also tilted by e^(order * index), which makes likely what decides about delta, transformed and tilted back: wrong
    by 1e-16 of those masses themselves. Each place takes the transform that is closer there. `tail`: 0 for no small delta.
    """
    length = max(len(places), *(len(masses) for masses, _ in parts))
    plain = _cyclic(parts, places, length)
    if tail == 0:
        return plain
    parts = [(np.maximum(masses, 0), count) for masses, count in parts]  # where they are so small, transforms have rounded
    order = _order(parts, int(places[-1]) - int((np.cumsum(plain[::-1]) > tail / TAIL_OF_DELTA).argmax()))
    laws = [_tilted(masses, np.arange(len(masses)), order) for masses, _ in parts]
    tilted = [(law, count) for (law, _), (_, count) in zip(laws, parts, strict=True)]
    if len(parts) == 1:  # cyclic, so the tilted sum's reach by Chernoff's bound is to be in it, too
        ((law, count),) = tilted
        more = (order * part for part in (1, 0.5, 0.25, 0.125))
        reach = min((count * _tilted(law, np.arange(len(law)), one)[1] - math.log(tail)) / one for one in more)
        length = max(length, min(math.ceil(reach), (len(law) - 1) * count) + 1 - int(places[0]))
    back = sum(count * log_sum for (_, log_sum), (_, count) in zip(laws, parts, strict=True)) - order * places
    return np.where(back <= 0, _cyclic(tilted, places, length) * np.exp(np.minimum(back, 0)), plain)


def _cyclic(parts: Sequence[tuple[Floats, int]], places: NDArray[np.int64], length: int) -> Floats:
    """The chance of each of `places` [n] by one transform, in which what lies `length` or more apart adds up."""
    length = min(odd << (-(-length // odd) - 1).bit_length() for odd in _ODD)  # the least from there on that is fast
    product = np.ones(length // 2 + 1, np.complex128)
    for masses, count in parts:
        product *= _power(fft.rfft(masses, length), count)
    found: Floats = np.roll(fft.irfft(product, length), -int(places[0]))[: len(places)]
    return found


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Each of these [n] to a power from 1 on, by squaring, which costs a tenth of NumPy's."""
    found = base
    for digit in bin(count)[3:]:
        found = found * found
        if digit == "1":
            found *= base
    return found


def _tilted(masses: Floats, places: NDArray[np.number], order: float) -> tuple[Floats, float]:
    """The law that has e^(order * place) times the masses [n], in all 1, and the logarithm of what that divides by."""
    with np.errstate(divide="ignore"):
        logs = np.log(masses) + order * places
    top = logs.max()
    found = np.exp(logs - top)
    total = float(found.sum())
    return found / total, float(top) + math.log(total)


def _order(parts: Sequence[tuple[Floats, int]], place: int) -> float:
    """The largest order, by steps of 1.5, that leaves the mean of the tilted sum below `place`, found at few points a law.

    At most 1, which makes each point of the grid e times as likely as the one before: no more than the last ones are left.
    """
    few = []
    for masses, count in parts:
        starts = np.arange(0, len(masses), max(1, len(masses) // _POINTS_OF_A_TILT))
        law = np.add.reduceat(masses, starts) + _NEXT_TO_NOTHING
        at = (np.add.reduceat(masses * np.arange(len(masses)), starts) + _NEXT_TO_NOTHING * starts) / law
        few.append((law, at, count))
    order = 1 / sum(len(masses) * count for masses, count in parts)
    while order < 1 and sum(count * float(_tilted(law, at, order * 1.5)[0] @ at) for law, at, count in few) < place:
        order *= 1.5
    return order


def _reach(masses: Floats, count: int, tail: float) -> tuple[int, int]:
    """Where all but `tail` of a sum of `count` indices lies, each of law `masses` [n]: first and last, by Chernoff's bound.

    Its orders are k / n and -k / n for k up to 20, as in the library: E e^(ki/n) is at most e^20, and no sum overflows.
    """
    places = np.arange(len(masses)) / len(masses)
    below, above = 0, (len(masses) - 1) * count
    for sign in (1, -1):
        growth = np.exp(sign * places)
        grown = masses.copy()
        for k in range(1, _ORDERS + 1):
            grown *= growth
            bound = (count * math.log(grown.sum()) - math.log(tail / 2)) * len(masses) / k
            if sign == 1:
                above = min(above, math.ceil(bound))
            else:
                below = max(below, math.floor(-bound))
    return below, above


@dataclass(frozen=True, slots=True)
class Distribution:
    """The losses of one direction where both are alike, else of both."""

    directions: tuple[Losses, ...]

    def delta(self, epsilon: float) -> float:
        """The smallest delta at this epsilon, rounded up."""
        return max(one.delta(epsilon) for one in self.directions)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at this delta, rounded up; infinite for none."""
        return max(one.epsilon(delta) for one in self.directions)

    def composed(self, other: Distribution, tail: float) -> Distribution:
        """Both mechanisms, on the same people."""
        pairs = [
            (self.directions[place % len(self.directions)], other.directions[place % len(other.directions)])
            for place in range(max(len(self.directions), len(other.directions)))
        ]
        return Distribution(tuple(one.composed(two, tail) for one, two in pairs))

    def repeated(self, count: int, tail: float) -> Distribution:
        """The mechanism so many times."""
        return Distribution(tuple(one.repeated(count, tail) for one in self.directions))


def of_points(masses: dict[int, float], infinite: float, interval: float) -> Distribution:
    """Of chances by place on the grid, the same in both directions."""
    places = np.array(sorted(masses))
    return Distribution((Losses(interval, places, np.array([masses[place] for place in places.tolist()]), infinite),))


def of_gaussian(noise_multiplier: float, sample_rate: float, adjacency: Adjacency, interval: float) -> Distribution:
    """Of one Gaussian release on a Poisson batch. `interval`: between the points of the grid, in nats."""
    shifts, chances = ([0.0, 1.0], [1 - sample_rate, sample_rate]) if sample_rate < 1 else ([1.0], [1.0])
    both: tuple[Direction, ...] = ("remove", "add") if sample_rate < 1 else ("remove",)
    directions: tuple[Direction, ...] = ("replace",) if adjacency == "replace" else both
    steps = (_Gaussian(noise_multiplier, np.array(shifts), np.array(chances), direction) for direction in directions)
    return Distribution(tuple(_rounded_up(step, interval) for step in steps))


def of_mixture(noise_multiplier: float, shifts: Sequence[float], chances: Sequence[float], interval: float) -> Distribution:
    """Of a Gaussian release that one person shifts by a random multiple of the sensitivity, under add-remove.

    `shifts`: the possible multiples; `chances`: how likely each is, 1 in all.
    """
    directions: tuple[Direction, ...] = ("remove", "add")
    steps = (_Mixture(noise_multiplier, np.array(shifts), np.array(chances), direction) for direction in directions)
    return Distribution(tuple(_rounded_up(step, interval) for step in steps))


def _rounded_up(step: _Gaussian, interval: float) -> Losses:
    """The losses on the grid, by connecting the dots (Doroshenko et al. 2022), which rounds up."""
    least, most = (step.loss(outcome) for outcome in step.ends()[::-1])
    low, high = math.floor(least / interval), math.ceil(most / interval)
    deltas = step.deltas(np.arange(low, high + 1, dtype=np.float64) * interval)
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]  # they fall but for rounding, which may only add
    falls = -np.diff(deltas) / math.expm1(interval)
    masses = np.concatenate([[1 - deltas[0]], math.exp(interval) * falls]) - np.concatenate([falls, [0.0]])
    return Losses(interval, np.arange(low, high + 1), np.maximum(masses, 0), float(deltas[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Gaussian:
    """A normal number of standard deviation `noise`, less a shift with the person in: `shifts` by their `chances` [k].

    Under "remove" outcomes x are drawn with the person, under "add" without, mirrored, under "replace" with one person
    and against another, who shifts to the other side. The loss falls with x.
    """

    noise: float
    shifts: Floats
    chances: Floats
    direction: Direction

    @property
    def _rate(self) -> float:
        """The chance of a shift."""
        return float(min(1.0, self.chances[self.shifts > 0].sum()))

    @property
    def _log_chances(self) -> Floats:
        found: Floats = np.where(self.shifts > 0, np.log(self.chances), np.log1p(-self._rate) if self._rate < 1 else 0.0)
        return found

    def ends(self) -> tuple[float, float]:
        """The outcomes beyond which hardly any lies: there the loss is counted as infinite, and as the last one."""
        is_added, end = self.direction == "add", self.noise * _END
        return end - (0.0 if is_added else 1.0), -end + (1.0 if is_added else 0.0)

    def loss(self, outcome: float) -> float:
        """The privacy loss at an outcome."""
        return float(self.losses(np.array([outcome]))[0])

    def losses(self, outcomes: Floats) -> Floats:
        """The privacy loss at each outcome [n]."""
        total = np.zeros(len(outcomes))
        if self.direction != "add":
            total += self._gain(outcomes)
        if self.direction != "remove":
            total -= self._gain(-outcomes)
        return total

    def _gain(self, outcomes: Floats) -> Floats:
        """The logarithm of how much likelier each outcome [n] is with the person in."""
        of_shifts = self._log_chances - self.shifts**2 / (2 * self.noise**2)
        found: Floats = np.logaddexp.reduce(of_shifts - np.outer(outcomes, self.shifts) / self.noise**2, axis=1)
        return found

    def deltas(self, epsilon: Floats) -> Floats:
        """Hockey-stick divergence at each epsilon [n], ascending: of outcomes up to where the privacy loss is epsilon."""
        rate = self._rate
        deltas, inside = np.zeros_like(epsilon), np.ones(len(epsilon), np.bool_)
        if self.direction == "remove" and rate < 1:  # no outcome has a smaller loss
            inside = epsilon > math.log1p(-rate)
            deltas[~inside] = -np.expm1(epsilon[~inside])
        elif self.direction == "add" and rate < 1:  # nor here a larger one
            inside = epsilon < -math.log1p(-rate)
        some = epsilon[inside]
        outcomes = self.outcomes(some)
        deltas[inside] = self._upper(outcomes) - np.exp(some + self._log_lower(outcomes))
        clipped: Floats = np.clip(deltas, 0, 1)
        return clipped

    def _upper(self, outcomes: Floats) -> Floats:
        """How likely outcomes up to each of these [n] are, as they are drawn."""
        cdfs = normal_cdfs if self._rate == 1 else sampled_cdfs
        if self.direction == "add":
            return cdfs(outcomes / self.noise)
        parts = [
            chance * cdfs((outcomes + shift) / self.noise) for shift, chance in zip(self.shifts, self.chances, strict=True)
        ]
        found: Floats = np.sum(parts, axis=0)
        return found

    def _log_lower(self, outcomes: Floats) -> Floats:
        """The logarithm of how likely they are on the other side."""
        log_cdfs = log_normal_cdfs if self._rate == 1 else log_sampled_cdfs
        if self.direction == "remove":
            return log_cdfs(outcomes / self.noise)
        logs = zip(self.shifts, self._log_chances, strict=True)
        found: Floats = np.logaddexp.reduce([log + log_cdfs((outcomes - shift) / self.noise) for shift, log in logs])
        return found

    def outcomes(self, losses: Floats) -> Floats:
        """The largest outcome whose privacy loss is at least each of these [n]."""
        variance, rate = self.noise**2, self._rate
        if self.direction != "replace":
            return _of_one_shift(losses, rate, variance, 1.0, self.direction)
        if rate == 1:
            return -losses * variance / 2
        # asinh(sinh(|loss| / 2) alpha) by its logarithm, which does not overflow
        log_alpha = 0.5 / variance + math.log1p(-rate) - math.log(rate)
        half = np.abs(losses) / 2
        with np.errstate(divide="ignore"):  # sinh(0) = 0
            log_product = log_alpha + half + np.log(-np.expm1(-2 * half)) - math.log(2)
        product = np.exp(np.minimum(log_product, 0))
        large = log_product + np.log1p(np.sqrt(1 + np.exp(-2 * np.maximum(log_product, 0))))
        angle = np.where(log_product > 0, large, np.arcsinh(product))
        return variance * (-np.sign(losses) * angle - losses / 2)


def _of_one_shift(losses: Floats, rate: float, variance: float, shift: float, direction: Direction) -> Floats:
    """Outcomes of the one shift, which is there with this chance, that have these losses."""
    if direction == "remove":
        return -0.5 * shift - variance / shift * _unsampled(losses, rate)
    return 0.5 * shift + variance / shift * _unsampled(-losses, rate)


def _unsampled(losses: Floats, rate: float) -> Floats:
    """The loss u without sampling of each loss l with it: e^l = 1 - rate + rate e^u; minus infinity below the smallest."""
    if rate == 1:
        return losses
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(losses, 0)) / rate, -1))
        large = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, 0)))
    return np.where(losses > 0, large, small)


class _Mixture(_Gaussian):
    """Of several shifts, under add-remove: the loss is inverted by one bisection for all points."""

    def ends(self) -> tuple[float, float]:
        """As of one shift, but the first to a ten-thousandth: a mixture rarely has its largest shift."""
        end = self.noise * _END
        if self.direction == "add":
            return end, -end
        low, high, mass = end - float(self.shifts.max()), end, math.exp(-_MASS) / 2
        while high - low > _END_PRECISION:
            middle = (low + high) / 2
            low, high = (middle, high) if self._upper(np.array([middle]))[0] <= mass else (low, middle)
        return low, -end

    def outcomes(self, losses: Floats) -> Floats:
        """The largest outcome whose privacy loss is at least each of these [n]; infinite near the last loss.

        It lies between those of steps that always have the smallest shift, or the largest. Halved to _PRECISION, the rest
        is a line, to within the square of it.
        """
        sign = 1 if self.direction == "add" else -1
        last = -sign * math.log1p(-self._rate) if self._rate < 1 else math.inf
        found = np.full(len(losses), -sign * math.inf)
        is_near = np.isclose(losses, last)
        inner, variance = losses[~is_near], self.noise**2
        extremes = np.array([inner.min(), inner.max()])
        shifts = self.shifts[self.shifts > 0]
        bounds = [_of_one_shift(extremes, self._rate, variance, one, self.direction) for one in (shifts.min(), shifts.max())]
        first = math.floor(np.min(bounds) / _PRECISION) * _PRECISION
        final = math.ceil(np.max(bounds) / _PRECISION) * _PRECISION
        low, high = np.full(len(inner), first), np.full(len(inner), final)
        for _ in range(max(0, math.ceil(math.log2(max(final - first, _PRECISION) / _PRECISION)))):
            middle = (low + high) / 2
            is_above = self.losses(middle) > inner
            low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        above, below = self.losses(low) - inner, inner - self.losses(high)
        found[~is_near] = low + (high - low) * np.clip(above / np.maximum(above + below, 1e-300), 0, 1)
        return found
