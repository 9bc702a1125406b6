"""Replays counted and paid for: public turns, retirement, both budgets, against compositions made by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import dp_accounting as dp
import pytest

from dpcl_core import checks
from dpcl_core.methods.lifelong import odometer
from dpcl_core.methods.lifelong.dp_agem import DpAgemParams
from dpcl_core.methods.lifelong.odometer import Noises, Plan
from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import Pld, of_steps
from dpcl_core.spec import PrivacySpec, Recurrence
from tests.support.tiers import quick

DELTA = 1e-5


def plan(n_tasks: int = 4, recurrence: Recurrence = "once", privacy: PrivacySpec | None = None, **params: Any) -> Plan:
    chosen = DpAgemParams(**{"epochs": 1, "sample_rate": 0.1, "replay_rate": 0.25, **params})
    return chosen.plan(privacy or PrivacySpec(), n_tasks, recurrence)


def renyi(*steps: tuple[float, float, int], delta: float = DELTA) -> float:
    """(noise multiplier, rate, count) by Renyi divergences: never below the truth, and not far above it."""
    accountant = dp.rdp.RdpAccountant()
    for sigma, rate, count in steps:
        accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), count)
    return float(accountant.get_epsilon(delta))


def test_samples_are_used_in_turn_and_what_is_left_over_goes_to_the_newest() -> None:
    found = odometer.replay_schedule(plan(4))
    assert found[0] == (None,) * 10
    assert found[1] == (0,) * 10
    assert found[2] == (1, 0) * 5
    assert found[3] == (2, 1, 0, 2, 1, 0, 2, 1, 0, 2)
    assert [odometer.n_uses(plan(4), found, person) for person in range(4)] == [18, 8, 4, 0]
    assert [odometer.n_uses(plan(4, "every"), found, person) for person in range(4)] == [30] * 4


def test_nothing_is_replayed_where_nothing_is_projected() -> None:
    assert set(sum(odometer.replay_schedule(plan(projection="never")), ())) == {None}


def test_a_sample_that_is_used_up_leaves_its_turns_to_the_others() -> None:
    found = odometer.replay_schedule(plan(4), [12, math.inf, 1, 0])
    assert found[2] == (1, 0, 1, 0, 1, 1, 1, 1, 1, 1)
    assert found[3] == (2, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    assert Counter(sum(found, ()))[0] == 12
    # No sample is skipped when another retires.
    assert odometer.replay_schedule(plan(4), [math.inf, 6, math.inf, 0])[3][:6] == (2, 1, 0, 2, 0, 2)


def test_where_people_are_in_every_task_all_samples_retire_together() -> None:
    found = odometer.replay_schedule(plan(4, "every"), [13] * 4)
    assert found[1] == (0,) * 10
    assert found[2] == (1, 0, 1) + (None,) * 7
    assert found[3] == (None,) * 10


@pytest.mark.parametrize("recurrence", quick(1, ["every", "once"]))
@pytest.mark.parametrize("epsilon", quick(1, [1.0, 8.0]))
def test_lifetime_noise_keeps_the_worst_life_within_the_budget_and_no_more(recurrence: Recurrence, epsilon: float) -> None:
    """Composed by hand: 10 steps a task; the first of four tasks is replayed 18 times, all samples 30 times."""
    chosen = plan(4, recurrence)
    found = odometer.noises(chosen, epsilon)
    assert found.first == found.later
    own, uses = (10, 18) if recurrence == "once" else (40, 30)
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    for rate, count in ((0.1, own), (0.25, uses)):
        accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(found.first)), count)
    assert accountant.get_epsilon(DELTA) == pytest.approx(epsilon, rel=2e-3)
    assert odometer.worst_epsilon(chosen, found, odometer.replay_schedule(chosen)) <= epsilon
    assert epsilon < renyi((found.first, 0.1, own), (found.first, 0.25, uses)) < 1.35 * epsilon


def test_without_sampling_a_life_is_one_gaussian() -> None:
    """Own task 10 steps, 18 replays, all of the data each time: noise of the closed form for 28 releases."""
    chosen = plan(4, sample_rate=1.0, replay_rate=1.0, epochs=10)
    found = odometer.noises(chosen, 2.0)
    assert found.first == pytest.approx(gaussian.sigma(2.0, DELTA, math.sqrt(28)), rel=1e-3)


@pytest.mark.parametrize("recurrence", quick(1, ["once", "every"]))
def test_an_equal_share_for_every_task_adds_up_to_the_budget_and_is_a_waste(recurrence: Recurrence) -> None:
    """Each task's gradients and references together cost epsilon/m at delta/m; composed tightly a life costs far less."""
    chosen = plan(4, recurrence)
    found = odometer.noises(replace(chosen, budget="per-task"), 8.0)
    share = {"first": renyi((found.first, 0.1, 10), delta=DELTA / 4)}
    share["later"] = renyi((found.later, 0.1, 10), (found.later, 0.25, 10), delta=DELTA / 4)
    for value in share.values():
        assert 2.0 <= value < 2.0 * 1.35
    assert 1.99 < Pld().epsilon([of_steps(chosen.own_steps(0, found))], DELTA / 4, "add-remove") <= 2.0
    assert found.first < found.later
    lifetime = odometer.noises(chosen, 8.0)
    assert found.later > 1.5 * lifetime.later
    assert odometer.worst_epsilon(chosen, found, odometer.replay_schedule(chosen)) < 8.0 / 2


def test_without_replays_or_with_one_task_the_share_is_that_of_the_steps_alone() -> None:
    for chosen in (plan(1), plan(4, projection="never")):
        found = odometer.noises(replace(chosen, budget="per-task"), 8.0)
        assert found.first == found.later
        assert odometer.worst_epsilon(chosen, found, odometer.replay_schedule(chosen)) <= 8.0 / chosen.n_tasks


def test_replaced_people_need_twice_the_noise_where_nothing_is_sampled() -> None:
    settings: dict[str, Any] = {"sample_rate": 1.0, "replay_rate": 1.0, "epochs": 10}
    one, two = (
        odometer.noises(plan(3, privacy=PrivacySpec(adjacency=adjacency), **settings), 1.0).first
        for adjacency in ("add-remove", "replace")
    )
    assert two == pytest.approx(2 * one, rel=1e-3)


def test_no_budget_no_noise_and_nothing_retires() -> None:
    chosen = plan(3)
    assert odometer.noises(chosen, math.inf) == Noises(0.0, 0.0)
    assert odometer.capped_schedule(chosen, Noises(0.0, 0.0), 1.0) == odometer.replay_schedule(chosen)


@pytest.mark.parametrize("recurrence", quick(1, ["every", "once"]))
def test_samples_retire_at_the_last_use_that_the_cap_allows(recurrence: Recurrence) -> None:
    chosen, noise, cap = plan(4, recurrence), Noises(2.0, 2.0), 2.0
    free, capped = odometer.replay_schedule(chosen), odometer.capped_schedule(chosen, noise, cap)
    assert odometer.worst_epsilon(chosen, noise, free) > cap
    assert odometer.worst_epsilon(chosen, noise, capped) <= cap
    for person in range(3):
        uses = odometer.n_uses(chosen, capped, person)
        spent, one_more = (chosen.epsilon(chosen.steps_of(person, noise, n)) for n in (uses, uses + 1))
        assert spent <= cap < one_more or (person == 2 and None not in capped[3])  # the newest had all turns it could get
    for task in (1, 2, 3):  # a step goes without only after all samples have retired
        spread = [sample is None for sample in capped[task]]
        assert spread == sorted(spread)


def test_a_cap_below_the_own_task_leaves_no_replay_and_one_above_all_changes_nothing() -> None:
    chosen, noise = plan(3), Noises(2.0, 2.0)
    assert set(sum(odometer.capped_schedule(chosen, noise, 0.05), ())) == {None}
    assert odometer.capped_schedule(chosen, noise, 50.0) == odometer.replay_schedule(chosen)
    assert odometer.capped_schedule(chosen, noise, None) == odometer.replay_schedule(chosen)


@pytest.mark.parametrize(
    ("sigma", "n_tasks", "always", "in_turn"),
    quick(3, [
        (1, 1, 1.2, 1.2),
        (8, 1, 0.04, 0.04),
        (1, 5, 410, 174),
        (4, 5, 35, 18),
        (8, 5, 14, 7.6),
        (4, 20, 129, 20),
        (8, 20, 40, 8.1),
    ]),
)
def test_replays_cost_what_was_computed_for_them_elsewhere_by_order_of_size(
    sigma: float, n_tasks: int, always: float, in_turn: float
) -> None:
    """100 steps a task at rate 0.01, all of a sample in each replay, by Renyi divergences; there a sample was picked at
    random and counted as sampled, which is approximate. Ours is tight, so never far above, and never below a half."""
    chosen, noise = plan(n_tasks, sample_rate=0.01, replay_rate=1.0), Noises(sigma, sigma)
    every_time = chosen.epsilon(chosen.steps_of(0, noise, 100 * (n_tasks - 1)))
    assert always / 2 < every_time <= always * 1.1
    counted = odometer.worst_epsilon(chosen, noise, odometer.replay_schedule(chosen))
    assert in_turn / 2 < counted < in_turn * 1.7


def settings(**changes: object) -> dict[str, object]:
    raw: dict[str, object] = {"method": "dp-agem", "scenario": {"kind": "split", "tasks": 5}, "seeds": [0]}
    return {**raw, **changes}


def test_given_noise_runs_at_a_budget_that_it_keeps_and_under_a_cap_at_a_smaller_one() -> None:
    given: dict[str, object] = {"memory_size": 100, "budget": "fixed", "noise_multiplier": 2.2}
    checks.check_run(checks.parse(settings(params=given, privacy={"epsilons": [10.0]})))
    capped = {**given, "memory_epsilon_cap": 1.8}
    checks.check_run(checks.parse(settings(params=capped, privacy={"epsilons": [1.9]})))
