"""The reported epsilon (PLD) against closed forms, Renyi divergences and Opacus' PRV accountant."""

from __future__ import annotations

import itertools
import math

import dp_accounting as dp
import pytest
from opacus.accountants import PRVAccountant

from dpcl_core.errors import BadInput
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.accounting import (
    LABELS_CHANGED,
    LabelListDpEvent,
    LocalDpEvent,
    Pld,
    Unaccountable,
    noise_multiplier,
    subsampled_gaussian,
)
from dpcl_core.spec import LARGEST_EPSILON, SMALLEST_DELTA, Adjacency

DELTA = 1e-5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 16.0])
def test_one_calibrated_gaussian_costs_what_it_was_calibrated_for(epsilon: float) -> None:
    event = dp.GaussianDpEvent(gaussian.sigma(epsilon, DELTA))
    accounted = Pld().epsilon([event], DELTA, "add-remove")
    assert accounted <= epsilon
    assert accounted == pytest.approx(epsilon, rel=2e-5)


@pytest.mark.parametrize(("epsilon", "tenfold"), [(1.0, 3.618592), (8.0, 35.61735)])
def test_ten_releases_compose_to_the_closed_form(epsilon: float, tenfold: float) -> None:
    sigma = gaussian.sigma(epsilon, DELTA)
    accounted = Pld().epsilon([dp.GaussianDpEvent(sigma)] * 10, DELTA, "add-remove")
    assert accounted == pytest.approx(tenfold, rel=1e-5)
    assert accounted == pytest.approx(gaussian.epsilon(sigma / math.sqrt(10), DELTA), rel=1e-5)


def test_different_noises_compose_by_their_inverse_squares() -> None:
    accounted = Pld().epsilon([dp.GaussianDpEvent(2.0), dp.GaussianDpEvent(5.0)], DELTA, "add-remove")
    together = (2.0**-2 + 5.0**-2) ** -0.5
    assert accounted == pytest.approx(gaussian.epsilon(together, DELTA), rel=1e-4)


def test_replace_doubles_the_sensitivity() -> None:
    accounted = Pld().epsilon([dp.GaussianDpEvent(3.0)], DELTA, "replace")
    assert accounted == pytest.approx(gaussian.epsilon(3.0, DELTA, 2.0), rel=1e-5)


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
    with pytest.raises(BadInput, match=sentence):
        accounting.noise_multiplier(1e-6, DELTA, 0.1, 400, "add-remove")


def test_noise_near_zero_is_answered_without_filling_the_memory() -> None:
    assert Pld().epsilon([subsampled_gaussian(0.01, 0.1, 400)], DELTA, "add-remove") > 1e5


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(0.02, 0.5, 100_000), (1e-4, 0.1, 10), (1e-200, 1.0, 1)])
def test_an_epsilon_beyond_all_bounds_is_none(sigma: float, rate: float, steps: int) -> None:
    """e to the power of a step of its grid would be beyond a float, or 1 / sigma² is."""
    event = subsampled_gaussian(sigma, rate, steps)
    assert Pld().epsilon([event], DELTA, "add-remove") == math.inf
    assert accounting.delta(event, 3.0, "add-remove") == 1.0
    with pytest.raises(Unaccountable, match="bounds nothing"):
        accounting.deltas([event], [1.0], "add-remove", delta=DELTA)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_largest_budget_has_its_noise(adjacency: Adjacency) -> None:
    found = accounting.noise_multiplier(LARGEST_EPSILON, DELTA, 0.1, 100, adjacency)
    assert 0.5 * LARGEST_EPSILON < Pld().epsilon([subsampled_gaussian(found, 0.1, 100)], DELTA, adjacency) <= LARGEST_EPSILON
    with pytest.raises(BadInput, match="at most 1,000,000"):
        accounting.noise_multiplier(LARGEST_EPSILON + 1, DELTA, 0.1, 100, adjacency)


def test_full_batches_are_the_plain_composition() -> None:
    accounted = Pld().epsilon([subsampled_gaussian(23.595, 1.0, 40)], DELTA, "add-remove")
    assert accounted == pytest.approx(1.0, abs=2e-4)


def test_what_the_accountant_does_not_know_is_refused() -> None:
    with pytest.raises(Unaccountable):
        Pld().epsilon([dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(1.0))], DELTA, "add-remove")
    with pytest.raises(Unaccountable):
        Pld().epsilon([dp.LaplaceDpEvent(1.0)], DELTA, "replace")


def test_a_step_without_noise_has_no_bound() -> None:
    assert Pld().epsilon([dp.GaussianDpEvent(3.0), dp.NonPrivateDpEvent()], DELTA, "add-remove") == math.inf
    assert Pld().epsilon([], DELTA, "add-remove") == 0.0


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(0.0, 0.1, 10), (1.0, 0.0, 10), (1.0, 1.5, 10), (1.0, 0.1, 0)])
def test_impossible_steps_are_refused(sigma: float, rate: float, steps: int) -> None:
    with pytest.raises(BadInput):
        subsampled_gaussian(sigma, rate, steps)


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

    with pytest.raises(AssertionError, match="not among them"):
        accounting.calibrated(of_others, 8.0, DELTA, "add-remove")
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
        steps = subsampled_gaussian(noise_multiplier(epsilon, delta, 0.02, 200, adjacency), 0.02, 200)
        assert Pld().epsilon([steps], delta, adjacency) <= epsilon
