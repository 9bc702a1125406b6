"""The second accountant: its interval holds closed forms and what the first one says, and is too narrow for a mistake."""

from __future__ import annotations

import math

import dp_accounting as dp
import pytest

from dpcl_core.privacy import accounting, gaussian, second
from dpcl_core.privacy.accounting import LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent, Unaccountable
from dpcl_core.spec import Adjacency
from tests.support.tiers import quick

DELTA = 1e-5
LIST = LabelListDpEvent(0.1, 1e-6)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_gaussian_releases_are_their_closed_form(adjacency: Adjacency) -> None:
    found = second.interval([dp.GaussianDpEvent(4.0)] * 3, DELTA, adjacency)
    exact = gaussian.epsilon(4.0, DELTA, gaussian.SENSITIVITY[adjacency] * math.sqrt(3))
    assert found.low == found.high == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("n_steps", [1, 9, 400])
def test_steps_added_up_by_transform_hold_the_closed_form_too(n_steps: int) -> None:
    """A group of one example who is always there is no mixture, but goes the way of mixtures."""
    steps = dp.SelfComposedDpEvent(SampledGroupDpEvent(2.0 * math.sqrt(n_steps), (1.0,)), n_steps)
    found = second.interval([steps], DELTA, "add-remove")
    assert found.low <= gaussian.epsilon(2.0, DELTA) <= found.high
    assert found.high - found.low < 0.005 * found.low


@pytest.mark.parametrize("adjacency", quick(1, ["add-remove", "replace"]))
@pytest.mark.parametrize(
    "event",
    quick(2, [
        accounting.subsampled_gaussian(1.0, 0.05, 60),
        accounting.subsampled_gaussian(0.4, 0.2, 5),
        accounting.subsampled_gaussian(8.0, 0.9, 200),
        dp.SelfComposedDpEvent(SampledGroupDpEvent(3.0, (0.1, 0.3, 0.2)), 20),
    ]),
)
def test_sampled_steps_agree_with_the_first_accountant_and_a_tenth_less_noise_does_not(
    event: dp.SelfComposedDpEvent, adjacency: Adjacency
) -> None:
    found = second.interval([event, LIST], DELTA, adjacency)
    first = accounting.Pld().epsilon([event, LIST], DELTA, adjacency)
    assert found.low <= first <= found.high * 1.001
    assert found.high - found.low < 0.01 * found.low
    match event.event:
        case dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)):
            louder: dp.DpEvent = accounting.subsampled_gaussian(0.9 * sigma, rate, event.count)
        case SampledGroupDpEvent(sigma, rates):
            louder = dp.SelfComposedDpEvent(SampledGroupDpEvent(0.9 * sigma, rates), event.count)
    assert second.interval([louder, LIST], DELTA, adjacency).low > found.high


def test_lists_of_labels_are_exact() -> None:
    """One decision at its own delta plus the slack: (delta - d) / (1 - d) = p (1 - e^(at - e)), by hand."""
    found = second.interval([LIST], DELTA, "add-remove")
    chance = 1 / (1 + math.exp(-0.1))
    by_hand = 0.1 + math.log(1 - (DELTA - 1e-6) / (1 - 1e-6) / chance)
    assert found.low == found.high == pytest.approx(by_hand, rel=1e-9)
    twice = second.interval([LIST], DELTA, "replace")
    assert twice == second.interval([LIST, LIST], DELTA, "add-remove")


def test_noisy_copies_add_up_under_replace_alone() -> None:
    found = second.interval([LocalDpEvent(1.0)] * 3, DELTA, "replace")
    assert found.high == pytest.approx(accounting.Pld().epsilon([LocalDpEvent(1.0)] * 3, DELTA, "replace"), rel=1e-9)
    with pytest.raises(Unaccountable, match="add-remove"):
        second.interval([LocalDpEvent(1.0)], DELTA, "add-remove")


@pytest.mark.parametrize("event", [dp.NonPrivateDpEvent(), dp.GaussianDpEvent(0.0), LabelListDpEvent(0.1, 1e-4)])
def test_what_has_no_bound_at_this_delta_has_none(event: dp.DpEvent) -> None:
    assert second.interval([event, dp.GaussianDpEvent(1.0)], DELTA, "add-remove") == second.Interval(math.inf, math.inf)


def test_nothing_costs_nothing() -> None:
    assert second.interval([], DELTA, "add-remove") == second.Interval(0.0, 0.0)
    assert second.interval([dp.NoOpDpEvent()], DELTA, "replace") == second.Interval(0.0, 0.0)


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(Unaccountable, match="no epsilon under add-remove"):
        second.interval([dp.LaplaceDpEvent(1.0)], DELTA, "add-remove")


@pytest.mark.parametrize("delta", [1e-9, 0.01])
def test_other_deltas_keep_the_interval_narrow(delta: float) -> None:
    event = accounting.subsampled_gaussian(1.2, 0.1, 40)
    found = second.interval([event], delta, "add-remove")
    assert found.low <= accounting.Pld().epsilon([event], delta, "add-remove") <= found.high * 1.002
    assert found.high - found.low < 0.02 * found.low


@pytest.mark.parametrize(
    ("sigma", "rate", "n_steps", "delta"),
    [(0.2369, 0.02437, 5, 9.7e-5), (0.3, 0.02437, 5, 9.7e-5), (0.2, 0.02437, 5, 9.7e-5), (0.1018, 0.005567, 1, 2.1e-10)],
)
def test_the_least_losses_do_not_wrap_around_to_the_largest(sigma: float, rate: float, n_steps: int, delta: float) -> None:
    """Most of the time nobody is sampled, and the sum is least: rounded down, it must still lie within the cyclic range."""
    event = accounting.subsampled_gaussian(sigma, rate, n_steps)
    found, first = second.interval([event], delta, "add-remove"), accounting.Pld().epsilon([event], delta, "add-remove")
    assert 0.99 * first <= found.low <= first <= found.high


def test_more_steps_than_the_transform_has_room_for_are_refused() -> None:
    with pytest.raises(Unaccountable, match="more than can be checked"):
        second.interval([accounting.subsampled_gaussian(1e6, 0.5, 10**12)], DELTA, "add-remove")
