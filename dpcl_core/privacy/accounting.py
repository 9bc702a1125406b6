"""Epsilon of a composition of mechanisms by privacy loss distributions, rounded up, as Google's dp_accounting has it."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.privacy import budgets, gaussian, noise
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.loss_distributions import TAIL_OF_DELTA, Distribution, of_gaussian, of_mixture, of_points
from dpcl_core.privacy.numerics import root, rounded_up
from dpcl_core.spec import Adjacency, LabelSetting, PrivacySpec

# Grid of the privacy loss. The accountant rounds up, so a coarser grid only reports more; at 1e-3 one Gaussian's epsilon
# agrees with the closed form to 1e-5 and costs a tenth of the library's default. Where epsilon is large the grid grows with
# it: the distribution has a point for every step of the grid, and noise near zero would otherwise fill the memory.
_FINEST = 1e-3
_POINTS_PER_EPSILON = 20_000
_STEPS_OF_A_LIST = 20  # at least: a small epsilon must not be rounded up to a grid wider than itself
_STEPS_OF_A_GAUSSIAN = 300  # at least: where it ends between two steps, it is rounded up by less than 1e-4 of itself
_UP = 1 + 1e-10  # above the error of double precision in the closed form of a Gaussian; its root is found to 1e-13
_LARGEST = 1e7  # of an epsilon: e to the power of a step of its grid, a 20,000th of it, must not overflow
_LEAST_NOISE = 1e-9  # the largest budget needs more, of noise or of one over a copy's epsilon
_TAIL = 1e-15  # the most that a composition cuts off: it counts as an infinite loss, next to nothing of delta
_ROUGH_ORDERS = (2, 3, 4, 8, 16, 32, 64, 128, 256)  # whole orders only: fractional ones may not converge

# Number of label counts that one person changes by one: the old label's, and under "replace" the new one's as well.
LABELS_CHANGED: dict[Adjacency, int] = {"add-remove": 1, "replace": 2}


@dataclass(frozen=True, slots=True)
class LabelListDpEvent(dp.DpEvent):  # type: ignore[misc]  # the library has no types
    """A list of labels, each released by an independent decision that is (epsilon, delta)-close on neighbouring counts."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True)
class LocalDpEvent(dp.DpEvent):  # type: ignore[misc]  # the library has no types
    """A noisy copy of every record, epsilon-DP towards its record. Their number is visible: "replace" only."""

    epsilon: float


@dataclass(frozen=True, slots=True)
class SampledGroupDpEvent(dp.DpEvent):  # type: ignore[misc]  # the library has no types
    """A Gaussian step on a batch that includes a person's example i independently with probability `rates[i]`.

    The number of included examples is a sum of independent Bernoulli draws, and each shifts the sum by at most the
    sensitivity: a Gaussian mixture. In a ledger entry that names as many tasks as there are rates, rate i belongs to the
    person of the i-th task (`of_part`), and all rates belong to someone who is in every task.
    """

    noise_multiplier: float
    rates: tuple[float, ...]

    @property
    def all_at_once(self) -> dp.DpEvent:
        """A step that costs no less: all of the examples are in the batch whenever one is."""
        rate = 1 - math.prod(1 - rate for rate in self.rates)
        return gaussian_step(self.noise_multiplier / len(self.rates), rate)


def gaussian_step(noise_multiplier: float, sample_rate: float) -> dp.DpEvent:
    """One Gaussian release on a Poisson batch; without sampling where everyone is in the batch."""
    step = dp.GaussianDpEvent(noise_multiplier)
    return step if sample_rate == 1 else dp.PoissonSampledDpEvent(sample_rate, step)


class Unaccountable(ValueError):
    """The accountant has no bound for this mechanism under this adjacency, so no epsilon may be shown for it."""


class Unbounded(Unaccountable):
    """The epsilon is so large that it bounds nothing."""


class Pld:
    """Epsilon of a composition by privacy loss distributions: an upper bound, tight to the grid.

    Gaussian events carry the noise multiplier of the add/remove sensitivity; under "replace" the library doubles it.
    """

    def epsilon(self, events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> float:
        return _epsilon(_merged(events), delta, adjacency)


def _merged(events: Sequence[dp.DpEvent]) -> tuple[dp.DpEvent, ...]:
    """The events with equal ones counted, so that twenty equal releases cost the accountant one composition."""
    return tuple(event if n == 1 else dp.SelfComposedDpEvent(event, n) for event, n in Counter(events).items())


@lru_cache(maxsize=4096)
def _epsilon(events: tuple[dp.DpEvent, ...], delta: float, adjacency: Adjacency) -> float:
    if not events:
        return 0.0
    if any(isinstance(_uncounted(event), dp.NonPrivateDpEvent) for event in events):
        return math.inf
    if len(events) == 1 and (sigma := _joint_sigma(events)):
        exact = gaussian.epsilon(sigma, delta, gaussian.SENSITIVITY[adjacency])
        return exact * _UP + 1e-13 if exact <= _LARGEST else math.inf
    try:
        epsilon = _composed(events, delta, adjacency).epsilon(delta)
    except Unbounded:
        return math.inf
    if math.isnan(epsilon) or epsilon < 0:
        raise Unaccountable(f"the accountant returned {epsilon}")
    return rounded_up(epsilon)


def delta(event: dp.DpEvent, epsilon: float, adjacency: Adjacency) -> float:
    """Smallest delta of the event at this epsilon, rounded up. Raises Unaccountable."""
    try:
        return _composed((event,), 1e-9, adjacency).delta(epsilon)
    except Unbounded:
        return 1.0


def deltas(
    events: Sequence[dp.DpEvent], epsilons: Sequence[float], adjacency: Adjacency, *, delta: float
) -> NDArray[np.float64]:
    """Smallest delta of the composed events at each epsilon [n], rounded up; `delta`: where the grid must be fine.

    Raises Unaccountable.
    """
    composed = _composed(_merged(events), delta, adjacency)
    return np.array([composed.delta(epsilon) for epsilon in epsilons], dtype=np.float64)


def _losses(event: dp.DpEvent, count: int, adjacency: Adjacency, interval: float) -> tuple[Distribution, int]:
    """The privacy loss of an event, and how often it counts. Raises ValueError.

    Gaussian events carry the noise multiplier of the add/remove sensitivity; under "replace" they shift to both sides.
    """
    match event:
        case dp.SelfComposedDpEvent(inner, n):
            return _losses(inner, count * n, adjacency, interval)
        case SampledGroupDpEvent() if adjacency == "replace":  # examples leave and others join: no single mixture
            return _losses(event.all_at_once, count, adjacency, interval)
        case SampledGroupDpEvent(sigma) if sigma > 0:
            return _step_of_group(event, interval), count
        case dp.GaussianDpEvent(sigma) if sigma > 0:
            return of_gaussian(sigma / math.sqrt(count), 1.0, adjacency, interval), 1
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)) if rate > 0 and sigma > 0:
            return of_gaussian(sigma, rate, adjacency, interval), count
        case LocalDpEvent(epsilon) if adjacency == "replace":
            return _decision(epsilon, 0.0, interval), count
        case LabelListDpEvent(epsilon, delta):
            return _decision(epsilon, delta, interval), count * LABELS_CHANGED[adjacency]
        case dp.NoOpDpEvent() | dp.PoissonSampledDpEvent(0, dp.GaussianDpEvent()):
            return of_points({0: 1.0}, 0.0, interval), 1
        case dp.NonPrivateDpEvent() | dp.GaussianDpEvent(0) | dp.PoissonSampledDpEvent(_, dp.GaussianDpEvent(0)):
            return of_points({0: 0.0}, 1.0, interval), 1
    raise ValueError(f"nothing is known of {event}")


def _decision(epsilon: float, delta: float, interval: float) -> Distribution:
    """Privacy loss of the worst (epsilon, delta)-DP mechanism (Kairouz et al. 2015), epsilon rounded up to the grid.

    The loss is infinite with probability delta; else plus or minus epsilon, plus being e^epsilon times as likely.
    """
    steps = math.ceil(epsilon / interval)
    odds = math.exp(-steps * interval)
    return of_points({steps: (1 - delta) / (1 + odds), -steps: (1 - delta) * odds / (1 + odds)}, delta, interval)


def _interval(events: Sequence[dp.DpEvent], delta: float, adjacency: Adjacency) -> float:
    """Grid of the privacy loss, fitted to the epsilon of Gaussians, a list or copy so that rounding up leaves it unchanged.

    Raises Unbounded.
    """
    rough = _rough_epsilon(events, delta)
    if rough > _LARGEST:
        raise Unbounded(f"epsilon is above {_LARGEST:,.0f}, which bounds nothing; more noise is needed")
    interval = max(_FINEST, rough / _POINTS_PER_EPSILON)
    if (sigma := _joint_sigma(events)) and (exact := gaussian.epsilon(sigma, delta, gaussian.SENSITIVITY[adjacency])):
        return exact / math.ceil(max(_STEPS_OF_A_GAUSSIAN, exact / interval)) * (1 + 1e-12)
    lists = [event.epsilon for event in map(_uncounted, events) if isinstance(event, LabelListDpEvent | LocalDpEvent)]
    if not lists:
        return interval
    steps = math.ceil(max(_STEPS_OF_A_LIST, min(lists) / interval))
    return max(min(lists) / steps * (1 + 1e-12), interval / _STEPS_OF_A_LIST)


def _joint_sigma(events: Sequence[dp.DpEvent]) -> float:
    """Noise multiplier of the one release that all events equal together, if all are Gaussian and read everyone; else 0."""
    parts = [(event.event, event.count) if isinstance(event, dp.SelfComposedDpEvent) else (event, 1) for event in events]
    if not all(isinstance(event, dp.GaussianDpEvent) and event.noise_multiplier > 0 for event, _ in parts):
        return 0.0
    precision = sum(count / event.noise_multiplier / event.noise_multiplier for event, count in parts)
    return precision**-0.5 if precision else 0.0


@lru_cache(maxsize=64)
def _step_of_group(event: SampledGroupDpEvent, interval: float) -> Distribution:
    chances = np.ones(1)  # of 0, 1, ... examples in the batch
    for rate in event.rates:
        chances = np.convolve(chances, [1 - rate, rate])
    shifts = [float(count) for count in np.flatnonzero(chances)]
    return of_mixture(event.noise_multiplier, shifts, chances[chances > 0].tolist(), interval)


@lru_cache(maxsize=16)  # a ledger needs its epsilon and then its trade-off; each entry may take a megabyte
def _composed(events: tuple[dp.DpEvent, ...], delta: float, adjacency: Adjacency) -> Distribution:
    """The privacy loss of all events. Raises Unaccountable."""
    interval, tail = _interval(events, delta, adjacency), min(_TAIL, TAIL_OF_DELTA * delta)
    total = of_points({0: 1.0}, 0.0, interval)
    try:
        for event in events:
            losses, count = _losses(event, 1, adjacency, interval)
            total = total.composed(losses.repeated(count, tail), tail)
    except ValueError as error:
        raise Unaccountable(f"no epsilon under {adjacency} adjacency: {error}") from error
    return total


def _rough_epsilon(events: Sequence[dp.DpEvent], delta: float) -> float:
    """A cheap bound by Renyi divergences, to choose the grid: of all that has noise but lists and copies; 0: not known."""
    divergences = np.zeros(len(_ROUGH_ORDERS))
    for event in events:
        count = 1
        while isinstance(event, dp.SelfComposedDpEvent):
            event, count = event.event, count * event.count
        match event.all_at_once if isinstance(event, SampledGroupDpEvent) else event:
            case LabelListDpEvent() | LocalDpEvent() | dp.NonPrivateDpEvent() | dp.NoOpDpEvent():
                continue
            case dp.GaussianDpEvent(sigma):
                divergences += [count * renyi_divergence(order, 1.0, sigma) for order in _ROUGH_ORDERS]
            case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)):
                divergences += [count * renyi_divergence(order, rate, sigma) for order in _ROUGH_ORDERS]
            case _:
                return 0.0
    return of_divergences(_ROUGH_ORDERS, divergences, delta)


def of_divergences(orders: Sequence[int], divergences: NDArray[np.float64], delta: float) -> float:
    """Epsilon of Renyi divergences at these orders above 1 (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    bounds = [
        0.0
        if delta**2 + math.expm1(-divergence) > 0
        else divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        for order, divergence in zip(orders, divergences.tolist(), strict=True)
    ]
    return max(0.0, min(bounds))


@lru_cache(maxsize=1024)
def renyi_divergence(order: int, rate: float, sigma: float) -> float:
    """Of a Gaussian step on a Poisson sample, of a whole order (Mironov, Talwar, Zhang 2019, section 3.3); or inf."""
    try:
        per_pair = 1 / (2 * sigma**2)
    except ZeroDivisionError:
        return math.inf
    if rate in (0, 1):
        return order * per_pair * rate
    logs = [
        math.lgamma(order + 1) - math.lgamma(i + 1) - math.lgamma(order - i + 1)
        + i * math.log(rate) + (order - i) * math.log1p(-rate) + (i * i - i) * per_pair
        for i in range(order + 1)
    ]  # fmt: skip
    return float(np.logaddexp.reduce(logs)) / (order - 1)


def has_lists(events: Iterable[dp.DpEvent]) -> bool:
    """Whether the events include a list of labels, which needs its own share of delta."""
    return any(isinstance(_uncounted(event), LabelListDpEvent) for event in events)


def _uncounted(event: dp.DpEvent) -> dp.DpEvent:
    return event.event if isinstance(event, dp.SelfComposedDpEvent) else event


def of_group(event: dp.DpEvent, size: int) -> dp.DpEvent:
    """The event for a person with `size` examples in the data, each sampled and clipped separately.

    Without sampling that is one Gaussian of `size` times the sensitivity.
    """
    if size == 1:
        return event
    match event:
        case dp.SelfComposedDpEvent(inner, count):
            return dp.SelfComposedDpEvent(of_group(inner, size), count)
        case dp.GaussianDpEvent(sigma):
            return dp.GaussianDpEvent(sigma / size)
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)):
            return SampledGroupDpEvent(sigma, (rate,) * size)
        case SampledGroupDpEvent(_, rates) if len(rates) == size:
            return event
        case LabelListDpEvent(epsilon, delta):
            # Worst where all have one label: its count moves by `size`, and delta grows at each step. Spread over several
            # labels, the changes are in independent decisions, which cost no more.
            grown = delta * math.expm1(size * epsilon) / math.expm1(epsilon) if size * epsilon < 700 else math.inf
            return LabelListDpEvent(size * epsilon, grown) if grown < 1 else dp.NonPrivateDpEvent()
        case dp.NonPrivateDpEvent():
            return event
    raise Unaccountable(f"nothing is known of several examples of one person in {event}")


def of_part(event: dp.DpEvent, part: int) -> dp.DpEvent:
    """The event for the person of example `part` of a `SampledGroupDpEvent`; any other event unchanged."""
    match event:
        case dp.SelfComposedDpEvent(inner, count):
            return dp.SelfComposedDpEvent(of_part(inner, part), count)
        case SampledGroupDpEvent(sigma, rates):
            return gaussian_step(sigma, rates[part])
    return event


def subsampled_gaussian(noise_multiplier: float, sample_rate: float, n_steps: int) -> dp.DpEvent:
    """The event of DP-SGD: `n_steps` Poisson-sampled Gaussian steps. Raises BadInput for impossible settings."""
    budgets.check_positive(noise_multiplier=noise_multiplier)
    budgets.check_rate(sample_rate)
    budgets.check_counts(n_steps=n_steps)
    return dp.SelfComposedDpEvent(gaussian_step(noise_multiplier, sample_rate), n_steps)


def of_steps(steps: noise.Steps) -> dp.DpEvent:
    """The event of all these steps; no bound without noise. Raises BadInput for impossible settings."""
    if steps.noise_multiplier == 0:
        return dp.NonPrivateDpEvent()
    if len(steps.rates) > 1:
        return dp.SelfComposedDpEvent(SampledGroupDpEvent(steps.noise_multiplier, steps.rates), steps.n_steps)
    return subsampled_gaussian(steps.noise_multiplier, steps.rates[0], steps.n_steps)


def noise_multiplier(epsilon: float, delta: float, sample_rate: float, n_steps: int, adjacency: Adjacency) -> float:
    """Smallest noise multiplier for which DP-SGD stays within (epsilon, delta), rounded up to four digits.

    Without sampling, n steps of noise sigma are one of sigma / sqrt(n), and the closed form answers.
    """
    budgets.check_budget(epsilon)
    budgets.check_delta(delta)
    subsampled_gaussian(1.0, sample_rate, n_steps)  # refuses impossible rates and steps before the search
    if sample_rate == 1:
        return math.ceil(gaussian.sigma(epsilon, delta, gaussian.SENSITIVITY[adjacency] * math.sqrt(n_steps)) * 1e4) / 1e4
    return calibrated(lambda value: [subsampled_gaussian(value, sample_rate, n_steps)], epsilon, delta, adjacency)


def calibrated(events: Callable[[float], Sequence[dp.DpEvent]], epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """Smallest noise multiplier for which the composition of `events(noise multiplier)` stays within (epsilon, delta).

    More noise must cost less; where next to none is within the budget, the events leave out what it is for. Rounded up to
    four digits. Raises BadInput where no amount of noise is enough: the accountant rounds up, by an amount that does not
    shrink with the noise.
    """
    budgets.check_budget(epsilon)
    budgets.check_delta(delta)

    def excess(value: float) -> float:
        return min(Pld().epsilon(events(value), delta, adjacency), _LARGEST) - epsilon  # finite, for the search

    low = high = 1.0
    while excess(high) > 0:
        low, high = high, high * 2
        if high > 1e6:
            allowed = f"must be larger: with no noise multiplier up to a million can that be shown at delta = {delta:g}"
            raise BadInput("epsilon", epsilon, allowed)
    while low == high or excess(low) <= 0:
        low, high = low / 2, low
        assert low > _LEAST_NOISE, "these events cost as little with next to no noise: what it is for is not among them"
    found = math.ceil(root(excess, low, high, xtol=1e-5) * 1e4 + 0.5) / 1e4
    while excess(found) > 0:  # near the smallest delta, rounding in a transform can make more noise cost more
        found = math.ceil(found * 1e4 + 0.5) / 1e4
    return found


# Closed-form composition of Gaussian releases, and the growth of noise in one class sum over tasks.


def in_every_task(epsilons: Sequence[float], delta: float) -> list[float]:
    """Exact epsilon after each release for one person who is in all of them; release t alone is (epsilons[t], delta)-DP.

    Gaussian releases compose to one: mu^2 = sum of 1 / sigma_t^2. Once a release has no bound, none is left.
    """
    totals: list[float] = []
    mu_squared = 0.0
    for epsilon in epsilons:
        sigma = gaussian.sigma(epsilon, delta)
        mu_squared = math.inf if sigma == 0 else mu_squared + 1 / sigma**2
        totals.append(gaussian.epsilon(1 / math.sqrt(mu_squared), delta) if math.isfinite(mu_squared) else math.inf)
    return totals


def noise_over_tasks(sigma: float, n_tasks: int) -> dict[LabelSetting, list[float]]:
    """Standard deviation of the noise in the sum of a class that is new in the first task, after each task.

    One public list adds noise to every class in every task, so its variance is the number of tasks times sigma squared;
    otherwise the class gets noise in its own task only.
    """
    once = [sigma] * n_tasks
    return {"prior-const": [sigma * math.sqrt(t) for t in range(1, n_tasks + 1)], "prior": once, "data": once}


# Splits a cell's (epsilon, delta) between its label lists and its weights. Loads no accountant.


_LIST_DELTA = 0.5  # share of delta that pays for the lists of labels
_BUDGET_LARGEST = 700.0  # whose exponential is a number


def list_budget(privacy: PrivacySpec, epsilon: float, n_tasks: int, rows: int = 1) -> tuple[float, float]:
    """The share of (epsilon, delta) for the label list of one task under "dp-learned".

    Half of delta is divided by the number of tasks. For a person of one task that is less than half; but deltas of lists
    add up exactly, so a person who is in every task has a bound at delta, too. `rows`: how many rows of one person the list
    may be read from. For `rows` of them the delta of one grows by (exp(rows epsilon) - 1) / (exp(epsilon) - 1), so that much
    less is spent on one; where that is no number of a computer there is no bound, whatever is spent.
    """
    spent = privacy.label_share * epsilon
    grows = math.expm1(rows * spent) / math.expm1(spent) if rows > 1 and rows * spent < _BUDGET_LARGEST else 1.0
    return spent, _LIST_DELTA * privacy.delta / n_tasks / grows


def training_budget(privacy: PrivacySpec, setting: LabelSetting, epsilon: float) -> tuple[float, float]:
    """The share of (epsilon, delta) for the weights of a task, after its label list."""
    if setting != "dp-learned" or math.isinf(epsilon):
        return epsilon, privacy.delta
    return (1 - privacy.label_share) * epsilon, (1 - _LIST_DELTA) * privacy.delta
