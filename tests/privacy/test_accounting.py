"""The reported epsilon (PLD) against closed forms, the library, other accountants, and the second, independent one."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
import scipy.fft
from dp_accounting.pld import privacy_loss_distribution as library
from dp_accounting.pld.pld_pmf import DensePLDPmf
from numpy.typing import NDArray
from opacus.accountants import PRVAccountant
from scipy.special import ndtr

from dpcl_core.privacy import accounting, gaussian, loss_distributions, second, text_mechanisms
from dpcl_core.privacy.accounting import LABELS_CHANGED, LabelListDpEvent, LocalDpEvent, Pld, subsampled_gaussian
from dpcl_core.privacy.calculator import accounts, solve
from dpcl_core.privacy.loss_distributions import Distribution, of_gaussian, of_mixture
from dpcl_core.spec import LARGEST_EPSILON, SMALLEST_DELTA, Adjacency
from tests.support.asserting import refusal_of, refuses
from tests.support.tiers import quick

DELTA = 1e-5
RELATIONS = {"add-remove": dp.NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": dp.NeighboringRelation.REPLACE_ONE}


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 16.0])
def test_one_calibrated_gaussian_costs_what_it_was_calibrated_for(epsilon: float) -> None:
    accounted = Pld().epsilon([dp.GaussianDpEvent(gaussian.sigma(epsilon, DELTA))], DELTA, "add-remove")
    assert accounted <= epsilon
    assert accounted == pytest.approx(epsilon, rel=2e-5)


ALONE = gaussian.sigma(1.0, DELTA)
CLOSED: dict[str, tuple[list[dp.DpEvent], Adjacency, float, float]] = {
    "ten": ([dp.GaussianDpEvent(ALONE)] * 10, "add-remove", gaussian.epsilon(ALONE / math.sqrt(10), DELTA), 1e-5),
    "ten at epsilon 1": ([dp.GaussianDpEvent(ALONE)] * 10, "add-remove", 3.618592, 1e-5),
    "ten at epsilon 8": ([dp.GaussianDpEvent(gaussian.sigma(8.0, DELTA))] * 10, "add-remove", 35.61735, 1e-5),
    "different noises": (
        [dp.GaussianDpEvent(2.0), dp.GaussianDpEvent(5.0)], "add-remove",
        gaussian.epsilon((2.0**-2 + 5.0**-2) ** -0.5, DELTA), 1e-4,
    ),
    "replaced": ([dp.GaussianDpEvent(3.0)], "replace", gaussian.epsilon(3.0, DELTA, 2.0), 1e-5),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_releases_compose_to_the_closed_form(name: str) -> None:
    events, adjacency, exact, within = CLOSED[name]
    assert Pld().epsilon(events, DELTA, adjacency) == pytest.approx(exact, rel=within)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps"), [(1.0, 0.01, 1000), (0.8, 0.02, 500), (2.0, 0.1, 200), (1.423, 0.1, 400)]
)
def test_subsampled_gaussian_lies_between_two_other_accountants(sigma: float, rate: float, steps: int) -> None:
    """PRV is an upper bound with slack 0.01 built in, Renyi a looser one; the CLT ("GDP") number is below the truth."""
    accounted = Pld().epsilon([subsampled_gaussian(sigma, rate, steps)], DELTA, "add-remove")
    opacus = PRVAccountant()
    opacus.history = [(sigma, rate, steps)]
    upper = opacus.get_epsilon(DELTA, eps_error=0.01)
    assert upper - 0.021 <= accounted <= upper
    renyi = dp.rdp.RdpAccountant()
    renyi.compose(subsampled_gaussian(sigma, rate, steps))
    assert accounted < renyi.get_epsilon(DELTA)


@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(1.0, 0.1, 400), (8.0, 0.1, 400), (2.0, 0.01, 1000)])
def test_noise_multiplier_meets_the_budget_and_no_smaller_one_does(epsilon: float, rate: float, steps: int) -> None:
    found = accounting.noise_multiplier(epsilon, DELTA, rate, steps, "add-remove")
    assert Pld().epsilon([subsampled_gaussian(found, rate, steps)], DELTA, "add-remove") <= epsilon
    assert Pld().epsilon([subsampled_gaussian(found - 5e-3, rate, steps)], DELTA, "add-remove") > epsilon


def test_a_budget_that_no_noise_keeps_is_one_sentence() -> None:
    sentence = "epsilon = 1e-06: must be larger: with no noise multiplier up to a million can that be shown at delta = 1e-05"
    refuses(sentence, accounting.noise_multiplier, 1e-6, DELTA, 0.1, 400, "add-remove")


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(0.02, 0.5, 100_000), (1e-4, 0.1, 10), (1e-200, 1.0, 1)])
def test_an_epsilon_beyond_all_bounds_is_none(sigma: float, rate: float, steps: int) -> None:
    """e to the power of a step of its grid would be beyond a float, or 1 / sigma² is; noise near zero still has a bound."""
    assert 1e5 < Pld().epsilon([subsampled_gaussian(0.01, 0.1, 400)], DELTA, "add-remove") < math.inf
    event = subsampled_gaussian(sigma, rate, steps)
    assert Pld().epsilon([event], DELTA, "add-remove") == math.inf
    assert accounting.delta(event, 3.0, "add-remove") == 1.0
    refuses("bounds nothing", accounting.deltas, [event], [1.0], "add-remove", delta=DELTA, error=accounting.Unaccountable)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_largest_budget_has_its_noise(adjacency: Adjacency) -> None:
    found = accounting.noise_multiplier(LARGEST_EPSILON, DELTA, 0.1, 100, adjacency)
    assert 0.5 * LARGEST_EPSILON < Pld().epsilon([subsampled_gaussian(found, 0.1, 100)], DELTA, adjacency) <= LARGEST_EPSILON
    refuses("at most 1,000,000", accounting.noise_multiplier, LARGEST_EPSILON + 1, DELTA, 0.1, 100, adjacency)


def test_what_the_accountants_do_not_know_is_refused() -> None:
    fixed = dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(1.0))
    for event, adjacency in ((fixed, "add-remove"), (dp.LaplaceDpEvent(1.0), "replace")):
        refuses("", Pld().epsilon, [event], DELTA, adjacency, error=accounting.Unaccountable)
    for event, said in (
        (dp.LaplaceDpEvent(1.0), "no epsilon under add-remove"),
        (subsampled_gaussian(1e6, 0.5, 10**12), "more than can be checked"),
        (LocalDpEvent(1.0), "add-remove"),
    ):
        refuses(said, second.interval, [event], DELTA, "add-remove", error=accounting.Unaccountable)


def test_a_step_without_noise_has_no_bound() -> None:
    assert Pld().epsilon([dp.GaussianDpEvent(3.0), dp.NonPrivateDpEvent()], DELTA, "add-remove") == math.inf
    assert Pld().epsilon([], DELTA, "add-remove") == 0.0


def test_calibrated_noise_is_the_smallest_for_a_mixture_of_mechanisms() -> None:
    """Two trainings of different rates, and one Gaussian whose closed form is known."""
    def life(value: float) -> list[dp.DpEvent]:
        return [subsampled_gaussian(value, 0.05, 60), subsampled_gaussian(value, 0.2, 30)]

    found = accounting.calibrated(life, 2.0, DELTA, "add-remove")
    assert Pld().epsilon(life(found), DELTA, "add-remove") <= 2.0 < Pld().epsilon(life(found - 2e-4), DELTA, "add-remove")
    alone = accounting.calibrated(lambda value: [dp.GaussianDpEvent(value)], 2.0, DELTA, "replace")
    assert alone == pytest.approx(gaussian.sigma(2.0, DELTA, 2.0), abs=2e-4)


def test_no_noise_is_found_for_events_that_leave_out_what_it_is_for() -> None:
    """A charge of the wrong people once made this search endless."""
    calls = itertools.count()

    def of_others(value: float) -> list[dp.DpEvent]:
        assert next(calls) < 100, "endless"
        return [dp.GaussianDpEvent(2.0)]

    refuses("not among them", accounting.calibrated, of_others, 8.0, DELTA, "add-remove", error=AssertionError)
    assert accounting.calibrated(lambda value: [LocalDpEvent(1 / value)] * 2, LARGEST_EPSILON, DELTA, "replace") > 0


@pytest.mark.parametrize("delta", [1e-5, 1e-9, SMALLEST_DELTA])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_calibrated_noise_stays_within_epsilon_down_to_the_smallest_delta(
    delta: float, adjacency: Adjacency, epsilon: float
) -> None:
    """One release, and a release with a list of labels; steps on batches at one of the budgets."""
    shared, halved = gaussian.SENSITIVITY[adjacency], delta / 2
    assert Pld().epsilon([dp.GaussianDpEvent(gaussian.sigma(epsilon, delta, shared))], delta, adjacency) <= epsilon
    listed = LabelListDpEvent(epsilon / 10 / LABELS_CHANGED[adjacency], halved / 2 / LABELS_CHANGED[adjacency])
    weights = dp.GaussianDpEvent(gaussian.sigma(0.9 * epsilon, halved, shared))
    assert Pld().epsilon([listed, weights], delta, adjacency) <= epsilon
    if epsilon == 1.0:
        steps = subsampled_gaussian(accounting.noise_multiplier(epsilon, delta, 0.02, 200, adjacency), 0.02, 200)
        assert Pld().epsilon([steps], delta, adjacency) <= epsilon


# Privacy loss distributions made for the whole grid at once, beside those that dp_accounting makes point by point.


# Logarithms are taken of other expressions than in the library, so that probabilities differ by rounding, from 1e-16 on. A
# probability on the grid is a second difference of deltas over the step, which makes 1e-16 / 1e-3 = 1e-13 of it.
ROUNDING = 2e-12


def masses(distribution: Distribution | library.PrivacyLossDistribution) -> list[tuple[int, NDArray[np.float64], float]]:
    """Of each direction the first point of the grid, the probabilities, and that of an infinite loss."""
    if isinstance(distribution, Distribution):
        return [(int(part.places[0]), part.masses, part.infinite) for part in distribution.directions]
    parts = {id(part): part for part in (distribution._pmf_remove, distribution._pmf_add)}
    dense = [part.to_dense_pmf() for part in parts.values()]
    return [(part._lower_loss, np.asarray(part._probs), part._infinity_mass) for part in dense]


def assert_same(found: Distribution, expected: library.PrivacyLossDistribution, within: float) -> None:
    for ours, theirs in zip(masses(found), masses(expected), strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=within)
        assert ours[2] == pytest.approx(theirs[2], rel=1e-6, abs=1e-30)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("rate", [1.0, 0.999, 0.25, 1e-4])
@pytest.mark.parametrize(("noise", "interval"), [(0.2, 0.01), (1.0, 1e-3), (30.0, 1e-3)])
def test_a_sampled_gaussian_is_the_librarys(adjacency: Adjacency, rate: float, noise: float, interval: float) -> None:
    expected = library.from_gaussian_mechanism(
        noise,
        value_discretization_interval=interval,
        sampling_prob=rate,
        neighboring_relation=RELATIONS[adjacency],
    )
    assert_same(of_gaussian(noise, rate, adjacency, interval), expected, ROUNDING)


@pytest.mark.parametrize(
    ("shifts", "chances"), [([0.0, 1.0, 2.0], [0.5, 0.3, 0.2]), ([1.0, 3.0], [0.9, 0.1]), ([0.0, 1.0], [0.75, 0.25])]
)
def test_a_mixture_is_the_librarys(shifts: list[float], chances: list[float]) -> None:
    expected = library.from_mixture_gaussian_mechanism(3.0, shifts, chances, value_discretization_interval=1e-2)
    # Both cut outcomes off at millionths, not always at the same one: at the end of a bisection a digit decides.
    assert_same(of_mixture(3.0, shifts, chances, 1e-2), expected, 1e-9)


def test_a_mixture_of_nothing_and_one_is_a_sampled_gaussian() -> None:
    mixture, sampled = of_mixture(2.0, [0.0, 1.0], [0.8, 0.2], 1e-3), of_gaussian(2.0, 0.2, "add-remove", 1e-3)
    for epsilon in (0.0, 0.01, 0.1, 0.3):
        assert mixture.delta(epsilon) == pytest.approx(sampled.delta(epsilon), rel=1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_one_gaussian_has_the_deltas_of_the_closed_form(adjacency: Adjacency) -> None:
    distance = {"add-remove": 1.0, "replace": 2.0}[adjacency] / 1.5
    found = of_gaussian(1.5, 1.0, adjacency, 1e-3)
    for epsilon in (0.0, 0.5, 2.0):
        exact = ndtr(distance / 2 - epsilon / distance) - math.exp(epsilon) * ndtr(-distance / 2 - epsilon / distance)
        # Connecting the dots rounds up, by at most the square of the step of the grid; sums round by 1e-16 of one.
        assert -1e-15 <= found.delta(epsilon) - exact <= 1e-6


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("noise", "rate", "count"), [(0.7, 0.3, 2), (2.0, 0.05, 7), (30.0, 1.0, 60), (4.0, 0.01, 5000)])
def test_what_is_composed_with_itself_is_the_librarys(noise: float, rate: float, count: int, adjacency: Adjacency) -> None:
    """As far as both reach: whether a last point is in is a matter of rounding, and its mass below the tail left out."""
    one = of_gaussian(noise, rate, adjacency, 1e-3)
    plain = [DensePLDPmf(1e-3, low, each, infinite, True) for low, each, infinite in masses(one)]
    found, expected = masses(one.repeated(count, 1e-15)), masses(library.PrivacyLossDistribution(*plain).self_compose(count))
    for (low, ours, infinite), (their_low, theirs, their_infinite) in zip(found, expected, strict=True):
        start, end = max(low, their_low), min(low + len(ours), their_low + len(theirs))
        assert end - start >= max(len(ours), len(theirs)) - 2
        # Both transforms round each mass by some 1e-16 of their sum, one.
        mine, others = ours[start - low : end - low], theirs[start - their_low : end - their_low]
        np.testing.assert_allclose(mine, others, rtol=0, atol=1e-14)
        assert infinite == pytest.approx(their_infinite, rel=1e-6, abs=1e-30)


class ExtendedTransform:
    """SciPy's transforms in extended precision, where the processor has it; elsewhere another transform than NumPy's."""

    @staticmethod
    def rfft(values: NDArray[np.float64], n: int) -> NDArray[np.complexfloating]:
        return np.asarray(scipy.fft.rfft(values.astype(np.longdouble), n))

    @staticmethod
    def irfft(values: NDArray[np.complexfloating], n: int) -> NDArray[np.float64]:
        return np.asarray(scipy.fft.irfft(values, n), np.float64)


@pytest.mark.parametrize("delta", [DELTA, 1e-9, SMALLEST_DELTA])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("sigma", "rate", "count"), [(0.8, 0.01, 100), (0.6, 0.005, 2000), (4.0, 0.25, 400)])
def test_an_epsilon_does_not_depend_on_the_last_digits_of_a_transform(
    monkeypatch: pytest.MonkeyPatch, sigma: float, rate: float, count: int, adjacency: Adjacency, delta: float
) -> None:
    """Transformed as they are alone, the masses of so small a delta are lost: epsilon moves by up to a thousandth."""

    def found() -> float:
        steps = of_gaussian(sigma, rate, adjacency, 1e-3).repeated(count, 1e-7 * delta)
        return steps.composed(of_gaussian(5.0, 1.0, adjacency, 1e-3), 1e-7 * delta).epsilon(delta)

    here = found()
    monkeypatch.setattr(loss_distributions, "fft", ExtendedTransform)
    # Each power and sum of thousands of numbers rounds by 1e-16 of them; masses as likely as this delta lose no more.
    assert found() == pytest.approx(here, rel=1e-11)


def test_copies_are_their_binomial_where_the_largest_loss_is_likelier_than_delta() -> None:
    """No order of a tilt is the best there."""
    epsilon = Pld().epsilon([dp.SelfComposedDpEvent(LocalDpEvent(0.1), 12)], DELTA, "replace")
    likely = 1 / (1 + math.exp(-0.1))
    terms = ((math.comb(12, k) * likely ** (12 - k) * (1 - likely) ** k, 0.1 * (12 - 2 * k)) for k in range(13))
    delta = sum(chance * -math.expm1(epsilon - loss) for chance, loss in terms if loss > epsilon)
    # The grid is wider than the losses by 1e-12 of them, and epsilon is rounded up by 6e-11 of itself.
    assert delta == pytest.approx(DELTA, rel=1e-8)


def test_one_release_is_not_transformed_and_loses_nothing() -> None:
    one = of_gaussian(3.0, 0.2, "add-remove", 1e-3)
    for alone, composed in zip(masses(one), masses(one.repeated(1, 1e-15)), strict=True):
        assert alone[0] == composed[0]
        assert alone[2] == composed[2] < 1e-20
        np.testing.assert_array_equal(alone[1], composed[1])


LISTS = [LabelListDpEvent(0.1, 1e-8), LabelListDpEvent(0.25, 1e-8)]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "events", [
        [dp.GaussianDpEvent(2.0)], [dp.GaussianDpEvent(2.0 + k) for k in range(4)],
        [subsampled_gaussian(0.9, 0.02, 100), dp.SelfComposedDpEvent(dp.GaussianDpEvent(9.0), 4)],
    ]
)
def test_no_epsilon_moves_from_the_librarys_by_a_billionth(events: list[dp.DpEvent], adjacency: Adjacency) -> None:
    """On the same grid: NumPy's and our own here are convolutions, normal tails, and what is cut off of a composition."""
    theirs = dp.pld.PLDAccountant(RELATIONS[adjacency], accounting._interval(events, DELTA, adjacency))
    for event in events:
        theirs.compose(event)
    assert Pld().epsilon(events, DELTA, adjacency) == pytest.approx(theirs.get_epsilon(DELTA), rel=0, abs=1e-9)


def test_lists_of_labels_are_the_librarys_distributions_too() -> None:
    ours = accounting._composed((*LISTS, dp.GaussianDpEvent(5.0)), DELTA, "add-remove")
    interval = ours.directions[0].interval
    create = library.PrivacyLossDistribution.create_from_rounded_probability
    theirs = library.from_gaussian_mechanism(5.0, value_discretization_interval=interval)
    for one in LISTS:
        steps = math.ceil(one.epsilon / interval)
        odds = math.exp(-steps * interval)
        likely, rare = (1 - one.delta) / (1 + odds), (1 - one.delta) * odds / (1 + odds)
        theirs = theirs.compose(create({steps: likely, -steps: rare}, one.delta, interval))
    assert ours.epsilon(DELTA) == pytest.approx(theirs.get_epsilon_for_delta(DELTA), rel=0, abs=1e-9)
    for epsilon in (0.0, 0.3, 1.0):
        assert ours.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-9)


# The second accountant: its interval holds closed forms and what the first one says, and is too narrow for a mistake.


LIST = LabelListDpEvent(0.1, 1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_gaussian_releases_are_their_closed_form(adjacency: Adjacency) -> None:
    found = second.interval([dp.GaussianDpEvent(4.0)] * 3, DELTA, adjacency)
    exact = gaussian.epsilon(4.0, DELTA, gaussian.SENSITIVITY[adjacency] * math.sqrt(3))
    assert found.low == found.high == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("n_steps", [1, 9, 400])
def test_steps_added_up_by_transform_hold_the_closed_form_too(n_steps: int) -> None:
    """A group of one example who is always there is no mixture, but goes the way of mixtures."""
    steps = dp.SelfComposedDpEvent(accounting.SampledGroupDpEvent(2.0 * math.sqrt(n_steps), (1.0,)), n_steps)
    found = second.interval([steps], DELTA, "add-remove")
    assert found.low <= gaussian.epsilon(2.0, DELTA) <= found.high
    assert found.high - found.low < 0.005 * found.low


@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
@pytest.mark.parametrize(
    "event",
    quick(2, [
        subsampled_gaussian(1.0, 0.05, 60),
        subsampled_gaussian(0.4, 0.2, 5),
        subsampled_gaussian(8.0, 0.9, 200),
        dp.SelfComposedDpEvent(accounting.SampledGroupDpEvent(3.0, (0.1, 0.3, 0.2)), 20),
    ]),
)
def test_sampled_steps_agree_with_the_first_accountant_and_a_tenth_less_noise_does_not(
    event: dp.SelfComposedDpEvent, adjacency: Adjacency
) -> None:
    found = second.interval([event, LIST], DELTA, adjacency)
    assert found.low <= Pld().epsilon([event, LIST], DELTA, adjacency) <= found.high * 1.001
    assert found.high - found.low < 0.01 * found.low
    match event.event:
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)):
            louder: dp.DpEvent = subsampled_gaussian(0.9 * sigma, rate, event.count)
        case accounting.SampledGroupDpEvent(sigma, rates):
            louder = dp.SelfComposedDpEvent(accounting.SampledGroupDpEvent(0.9 * sigma, rates), event.count)
    assert second.interval([louder, LIST], DELTA, adjacency).low > found.high


def test_lists_of_labels_are_exact() -> None:
    """One decision at its own delta plus the slack: (delta - d) / (1 - d) = p (1 - e^(at - e)), by hand."""
    found = second.interval([LIST], DELTA, "add-remove")
    by_hand = 0.1 + math.log(1 - (DELTA - 1e-6) / (1 - 1e-6) / (1 / (1 + math.exp(-0.1))))
    assert found.low == found.high == pytest.approx(by_hand, rel=1e-9)
    assert second.interval([LIST], DELTA, "replace") == second.interval([LIST, LIST], DELTA, "add-remove")


def test_noisy_copies_add_up_under_replace() -> None:
    found = second.interval([LocalDpEvent(1.0)] * 3, DELTA, "replace")
    assert found.high == pytest.approx(Pld().epsilon([LocalDpEvent(1.0)] * 3, DELTA, "replace"), rel=1e-9)


@pytest.mark.parametrize("event", [dp.NonPrivateDpEvent(), dp.GaussianDpEvent(0.0), LabelListDpEvent(0.1, 1e-4)])
def test_what_has_no_bound_at_this_delta_has_none(event: dp.DpEvent) -> None:
    assert second.interval([event, dp.GaussianDpEvent(1.0)], DELTA, "add-remove") == second.Interval(math.inf, math.inf)


def test_nothing_costs_nothing() -> None:
    assert second.interval([], DELTA, "add-remove") == second.Interval(0.0, 0.0)
    assert second.interval([dp.NoOpDpEvent()], DELTA, "replace") == second.Interval(0.0, 0.0)


@pytest.mark.parametrize("delta", [1e-9, 0.01])
def test_other_deltas_keep_the_interval_narrow(delta: float) -> None:
    event = subsampled_gaussian(1.2, 0.1, 40)
    found = second.interval([event], delta, "add-remove")
    assert found.low <= Pld().epsilon([event], delta, "add-remove") <= found.high * 1.002
    assert found.high - found.low < 0.02 * found.low


@pytest.mark.parametrize(
    ("sigma", "rate", "n_steps", "delta"),
    [(0.2369, 0.02437, 5, 9.7e-5), (0.3, 0.02437, 5, 9.7e-5), (0.2, 0.02437, 5, 9.7e-5), (0.1018, 0.005567, 1, 2.1e-10)],
)
def test_the_least_losses_do_not_wrap_around_to_the_largest(sigma: float, rate: float, n_steps: int, delta: float) -> None:
    """Most of the time nobody is sampled, and the sum is least: rounded down, it must still lie within the cyclic range."""
    event = subsampled_gaussian(sigma, rate, n_steps)
    found, first = second.interval([event], delta, "add-remove"), Pld().epsilon([event], delta, "add-remove")
    assert 0.99 * first <= found.low <= first <= found.high


# The calculator: any two of epsilon, sigma, delta give the third; and one training by three accountants.


@pytest.mark.parametrize("rate", quick(1, [1.0, 0.05]))
@pytest.mark.parametrize("steps", [1, 40])
@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
def test_there_and_back(rate: float, steps: int, adjacency: str) -> None:
    settings = {"sample_rate": rate, "n_steps": steps, "adjacency": adjacency}
    noise = solve(epsilon=2.0, sigma=None, delta=1e-5, **settings).sigma  # type: ignore[arg-type]
    assert solve(epsilon=None, sigma=noise, delta=1e-5, **settings).epsilon == pytest.approx(2.0, abs=2e-3)  # type: ignore[arg-type]
    assert solve(epsilon=2.0, sigma=noise, delta=None, **settings).delta == pytest.approx(1e-5, rel=0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "sigma", "delta", "more"),
    [
        (1.0, None, None, {}), (1.0, 1.0, 1e-5, {}), (0.0, None, 1e-5, {}), (math.inf, None, 1e-5, {}),
        (None, -1.0, 1e-5, {}), (None, 0.009, 1e-5, {}), (1.1e6, None, 1e-5, {}), (1.0, None, 1.0, {}),
        (1.0, None, 9e-13, {"sample_rate": 0.5}), (None, 1.0, 9e-13, {"sample_rate": 0.5}),
        (1.0, None, 1e-5, {"sample_rate": 1.5}), (1.0, None, 1e-5, {"n_steps": 0}),
        (1e-300, None, 1e-300, {}), (1.0, None, 1e-300, {}), (None, 1.0, 1e-320, {}),
        (1.0, None, 1e-5, {"sample_rate": 0.1, "n_steps": 1_000_000_000}),
    ],
)  # fmt: skip
def test_impossible_questions_are_refused(epsilon: float, sigma: float, delta: float, more: dict[str, float]) -> None:
    refuses("", solve, epsilon=epsilon, sigma=sigma, delta=delta, **more)


@pytest.mark.parametrize("rate", [1, 0.1])
def test_whole_numbers_are_numbers(rate: float) -> None:
    assert solve(epsilon=1, sigma=None, delta=1e-5, sample_rate=rate) == solve(
        epsilon=1.0, sigma=None, delta=1e-5, sample_rate=rate
    )
    assert solve(epsilon=None, sigma=4, delta=1e-5, sample_rate=rate).epsilon > 0
    assert 0 < solve(epsilon=1, sigma=4, delta=None, sample_rate=rate).delta < 1


def test_the_smallest_numbers_that_are_allowed_have_an_answer() -> None:
    noise = solve(epsilon=1e-6, sigma=None, delta=1e-100).sigma
    assert solve(epsilon=None, sigma=noise, delta=1e-100).epsilon == pytest.approx(1e-6, rel=1e-3)
    assert solve(epsilon=None, sigma=1.0, delta=1e-100).epsilon == pytest.approx(21.8, abs=1)


# Three accountants on the same steps: the reference values of the field, agreement, and a disagreement that is seen.


# Noise multipliers for 40 epochs, found once by another implementation: sampling rate, steps, epsilon, multiplier.
REFERENCE = [(0.1, 400, 1.0, 7.576), (0.1, 400, 8.0, 1.423), (0.5, 80, 1.0, 16.79), (0.5, 80, 8.0, 2.810)]


@pytest.mark.parametrize(("sample_rate", "n_steps", "epsilon", "multiplier"), REFERENCE)
def test_reference_multipliers_before_three_accountants(
    sample_rate: float, n_steps: int, epsilon: float, multiplier: float
) -> None:
    """Ours is the reference's to 0.1 % and never larger: that one was rounded up. PRV agrees; RDP is 9 % above."""
    ours = accounting.noise_multiplier(epsilon, DELTA, sample_rate, n_steps, "add-remove")
    assert multiplier * (1 - 1e-3) < ours <= multiplier
    found = accounts(ours, DELTA, sample_rate, n_steps, "add-remove")
    assert found.agree
    assert epsilon - 1e-3 < found.pld <= epsilon
    assert 0 < found.prv - found.pld < 3e-3 * max(1.0, epsilon)  # its own error bound is part of what it reports
    low, high = {1.0: (1.09, 1.10), 8.0: (8.6, 8.73)}[epsilon]
    assert low < found.rdp < high
    less = subsampled_gaussian(ours * 0.999, sample_rate, n_steps)
    assert Pld().epsilon([less], DELTA, "add-remove") > epsilon, "a thousandth less noise does not do"


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 23.595), (8.0, 3.796)])
def test_without_sampling_the_closed_form_is_the_third(epsilon: float, multiplier: float) -> None:
    ours = accounting.noise_multiplier(epsilon, DELTA, 1.0, 40, "add-remove")
    assert ours == pytest.approx(multiplier, abs=6e-4)
    assert ours == pytest.approx(gaussian.sigma(epsilon, DELTA) * math.sqrt(40), abs=1.1e-4)
    found = accounts(ours, DELTA, 1.0, 40, "add-remove")
    assert found.prv is None
    assert found.exact == pytest.approx(epsilon, abs=1e-4)
    assert found.pld == pytest.approx(found.exact, abs=1e-5)
    assert found.agree
    assert found.rdp > found.pld * 1.05


def test_without_sampling_replace_takes_twice_the_noise_and_meets_its_budget() -> None:
    ours = accounting.noise_multiplier(1.0, DELTA, 1.0, 40, "replace")
    assert ours == pytest.approx(2 * gaussian.sigma(1.0, DELTA) * math.sqrt(40), abs=1.1e-4)
    assert 1 - 1e-4 < Pld().epsilon([subsampled_gaussian(ours, 1.0, 40)], DELTA, "replace") <= 1.0


def test_under_replace_the_exact_value_doubles_the_sensitivity_and_sampled_steps_are_known_to_one() -> None:
    whole = accounts(10.0, DELTA, 1.0, 9, "replace")
    assert whole.exact == pytest.approx(gaussian.epsilon(10.0, DELTA, 6.0))
    assert whole.pld == pytest.approx(whole.exact, abs=1e-4)
    assert whole.agree
    assert whole.pld < whole.rdp < 1.2 * whole.pld
    sampled = accounts(3.0, DELTA, 0.2, 10, "replace")
    assert sampled.prv is None
    assert sampled.exact is None
    assert sampled.rdp is None
    assert "no other one" in sampled.sentence()


def test_a_wrong_number_is_called_one() -> None:
    found = accounts(2.0, DELTA, 0.05, 100, "add-remove")
    assert found.agree
    assert found.rdp is not None
    assert not replace(found, prv=found.prv * 1.1).agree
    assert not replace(found, rdp=found.pld * 0.9).agree
    assert "contradict" in replace(found, pld=found.pld * 0.9).sentence()
    assert found.document()["agree"] is True


def test_noise_too_little_for_an_accountant_contradicts_no_other() -> None:
    """Opacus' grid holds no epsilon of thousands; where ours has no bound either, the sentence says so."""
    little = accounts(0.02, DELTA, 0.1, 10, "add-remove")
    assert (little.prv, little.agree) == (None, True)
    assert "only the loose one has a bound" in little.sentence()
    assert accounts(0.01, DELTA, 0.5, 1000, "add-remove").prv is None, "not even infinity: an error of its own"
    none = accounts(0.01, DELTA, 0.5, 100_000, "add-remove")
    assert (none.pld, none.agree) == (math.inf, True)
    assert "hides nobody" in none.sentence()


REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    *((gaussian.sigma, (epsilon, DELTA), "epsilon") for epsilon in (0, -1, math.nan)),
    *((gaussian.sigma, (1, delta), "delta") for delta in (0, 1)),
    (gaussian.epsilon, (-1, DELTA), "sigma"),
    (gaussian.delta, (-1, 1), "epsilon"),
    (subsampled_gaussian, (0.0, 0.1, 10), "noise_multiplier"),
    *((subsampled_gaussian, (1.0, rate, 10), "sample_rate") for rate in (0.0, 1.5)),
    (subsampled_gaussian, (1.0, 0.1, 0), "n_steps"),
    (accounts, (1.0, DELTA, 1.5, 10, "add-remove"), "sample_rate"),
    (accounts, (0.0, DELTA, 0.5, 10, "add-remove"), "noise_multiplier"),
    (accounts, (1.0, 1.0, 0.5, 10, "add-remove"), "delta"),
    (text_mechanisms.scale_epsilon, (0, 1, 64, DELTA), "sigma"),
    *(
        (of, (*given, delta), "delta")
        for of, given in (
            (text_mechanisms.printed_ratio, (1.0,)), (text_mechanisms.true_epsilon, (1.0,)),
            (text_mechanisms.ratio_for, (1.0,)),
            (text_mechanisms.true_epsilons, (np.ones(1),)), (text_mechanisms.printed_ratios, (np.ones(1),)),
            (text_mechanisms.remark_1, ([1.0],)), (text_mechanisms.scale_epsilon, (1, 2, 64)),
        )
        for delta in (0.0, 1.0, -1.0, math.nan)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("of", "given", "field"), REFUSED)
def test_impossible_numbers_are_refused_by_name(of: Callable[..., object], given: tuple[Any, ...], field: str) -> None:
    assert refusal_of(of, *given).field == field
