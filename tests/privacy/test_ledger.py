"""The ledger: parallel where people are in one task, sequential where they may be in all."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.accounting import Pld, SampledGroupDpEvent, subsampled_gaussian
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger

DELTA = 1e-5
SIGMA = gaussian.sigma(1.0, DELTA)


def filled(recurrence: str, n_tasks: int, sigma: float = SIGMA) -> Ledger:
    ledger = Ledger(DELTA, "add-remove", recurrence)  # type: ignore[arg-type]
    for task in range(n_tasks):
        ledger.spend(dp.GaussianDpEvent(sigma), task=task, what="sums")
    return ledger


def test_an_empty_ledger_has_spent_nothing() -> None:
    assert filled("once", 0).epsilon() == 0.0


def test_disjoint_people_compose_in_parallel() -> None:
    ledger = filled("once", 10)
    assert ledger.epsilon() == pytest.approx(1.0, rel=2e-5)
    assert len(ledger.by_people()) == 10


def test_recurring_people_compose_in_sequence() -> None:
    ledger = filled("every", 10)
    assert ledger.epsilon() == pytest.approx(3.618592, rel=1e-5)
    assert list(ledger.by_people()) == ["everyone"]


def test_parallel_composition_takes_the_worst_task() -> None:
    ledger = filled("once", 1)
    ledger.spend(dp.GaussianDpEvent(gaussian.sigma(4.0, DELTA)), task=1, what="sums")
    assert ledger.epsilon() == pytest.approx(4.0, rel=2e-5)


def test_two_touches_of_one_task_add_up_even_for_disjoint_people() -> None:
    ledger = filled("once", 2)
    ledger.spend(dp.GaussianDpEvent(SIGMA), task=0, what="again")
    assert ledger.epsilon() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(2), DELTA), rel=1e-4)
    assert ledger.by_task()[1] == pytest.approx(1.0, rel=2e-5)


def test_a_person_in_every_task_pays_for_all_whatever_is_assumed() -> None:
    assert filled("once", 10).if_in_every_task() == filled("every", 10).epsilon()


def test_one_clean_step_leaves_no_bound() -> None:
    ledger = filled("once", 3)
    ledger.spend(dp.NonPrivateDpEvent(), task=2, what="labels")
    assert ledger.epsilon() == math.inf


def test_a_mechanism_on_several_tasks_is_paid_for_by_the_people_of_each() -> None:
    """Trained anew on everything after each of three tasks: the first task's people are in three releases."""
    ledger = Ledger(DELTA, "add-remove", "once")
    for task in range(3):
        ledger.spend(dp.GaussianDpEvent(SIGMA), task=task, what="all so far", people_of=tuple(range(task + 1)))
    uses = {people: gaussian.epsilon(SIGMA / math.sqrt(n), DELTA) for people, n in (("1", 3), ("2", 2), ("3", 1))}
    for people, expected in uses.items():
        assert ledger.by_people()[f"people of task {people}"] == pytest.approx(expected, rel=1e-4)
    assert ledger.epsilon() == pytest.approx(uses["1"], rel=1e-4)


def test_a_replay_is_paid_for_by_the_people_it_reads_and_not_by_the_task_it_serves() -> None:
    ledger = filled("once", 2)
    ledger.spend(dp.GaussianDpEvent(SIGMA), task=1, what="replay", people_of=(0,))
    twice = gaussian.epsilon(SIGMA / math.sqrt(2), DELTA)
    assert ledger.by_people()["people of task 1"] == pytest.approx(twice, rel=1e-4)
    assert ledger.by_people()["people of task 2"] == pytest.approx(1.0, rel=2e-5)
    assert ledger.by_task() == pytest.approx({0: 1.0, 1: 1.0}, rel=2e-5)


def test_a_person_with_an_example_in_every_task_shifts_a_common_sum_by_all_of_them() -> None:
    """Releases with 1, 2 and 3 of one's examples: sensitivities 1, 2, 3, so mu² = (1 + 4 + 9) / sigma²."""
    ledger = Ledger(DELTA, "add-remove", "once")
    for task in range(3):
        ledger.spend(dp.GaussianDpEvent(SIGMA), task=task, what="all so far", people_of=tuple(range(task + 1)))
    assert ledger.if_in_every_task() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(14), DELTA), rel=1e-4)


@pytest.mark.slow
def test_several_examples_in_sampled_batches_cost_what_their_mixture_of_gaussians_costs() -> None:
    """How many are in a batch is binomial. Written out here for two steps, both hockey sticks integrated numerically."""
    from scipy.stats import binom, norm

    sigma, rate, size = 1.5, 0.3, 3
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
    ledger = Ledger(1e-3, "add-remove", "once")
    ledger.spend(dp.SelfComposedDpEvent(step, 2), task=2, what="all so far", people_of=(0, 1, 2))
    grid = np.linspace(-9, 13, 2401)
    density = norm.pdf(grid, scale=sigma)
    shifted = sum(binom.pmf(k, size, rate) * norm.pdf(grid, loc=k, scale=sigma) for k in range(size + 1))
    without, with_person = np.outer(density, density), np.outer(shifted, shifted)
    cell = (grid[1] - grid[0]) ** 2

    def delta(epsilon: float) -> float:
        there = np.maximum(with_person - math.exp(epsilon) * without, 0).sum() * cell
        back = np.maximum(without - math.exp(epsilon) * with_person, 0).sum() * cell
        return float(max(there, back))

    found = ledger.if_in_every_task()
    assert delta(found * 1.005) < 1e-3 < delta(found * 0.995)
    assert ledger.epsilon() < found


@pytest.mark.slow
def test_examples_in_one_batch_at_chances_of_their_own_cost_what_their_mixture_costs() -> None:
    """One step, a batch with one example at chance 0.1 and one at 0.4: shifts 0, 1 and 2, both hockey sticks integrated."""
    from scipy.stats import norm

    sigma, rates = 1.5, (0.4, 0.1)
    ledger = Ledger(1e-3, "add-remove", "once")
    ledger.spend(dp.SelfComposedDpEvent(SampledGroupDpEvent(sigma, rates), 1), task=1, what="replay", people_of=(0, 1))
    grid = np.linspace(-12, 14, 200_001)
    chances = (0.6 * 0.9, 0.6 * 0.1 + 0.4 * 0.9, 0.4 * 0.1)
    without = norm.pdf(grid, scale=sigma)
    with_person = sum(chance * norm.pdf(grid, loc=shift, scale=sigma) for shift, chance in enumerate(chances))

    def delta(epsilon: float) -> float:
        there = np.maximum(with_person - math.exp(epsilon) * without, 0).sum()
        back = np.maximum(without - math.exp(epsilon) * with_person, 0).sum()
        return float(max(there, back)) * (grid[1] - grid[0])

    found = ledger.if_in_every_task()
    assert delta(found * 1.002) < 1e-3 < delta(found * 0.998)
    steps = [subsampled_gaussian(sigma, rate, 1) for rate in rates]
    alone = [Pld().epsilon([step], 1e-3, "add-remove") for step in steps]
    assert ledger.by_people() == {"people of task 1": alone[0], "people of task 2": alone[1]}
    assert ledger.by_task() == {1: alone[1]}
    assert found > Pld().epsilon(steps, 1e-3, "add-remove")  # one noise for both examples, not one for each


def test_an_example_that_is_in_every_batch_has_a_chance_of_one() -> None:
    ledger = Ledger(DELTA, "add-remove", "once")
    ledger.spend(dp.SelfComposedDpEvent(SampledGroupDpEvent(SIGMA, (1.0, 1.0)), 3), task=1, what="both", people_of=(0, 1))
    assert ledger.epsilon() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(3), DELTA), rel=1e-4)
    assert ledger.if_in_every_task() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(12), DELTA), rel=1e-4)


def test_under_replace_several_examples_in_sampled_batches_are_bounded_from_above() -> None:
    step = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(4.0))
    spent = {}
    for adjacency in ("add-remove", "replace"):
        ledger = Ledger(DELTA, adjacency, "once")  # type: ignore[arg-type]
        ledger.spend(dp.SelfComposedDpEvent(step, 20), task=1, what="all so far", people_of=(0, 1))
        spent[adjacency] = ledger.if_in_every_task()
    assert spent["replace"] > 2 * spent["add-remove"]


def gaussian_rounds(sigma: float, rate: float, count: int) -> dp.DpEvent:
    return subsampled_gaussian(sigma, rate, count)


def test_two_ways_out_compose_and_do_not_add_up() -> None:
    """The table of section 9.7: four releases at 3.99 and 200 sampled rounds at 5.56 cost 4, not 2 and 3.28 added."""
    ledger = Ledger(DELTA, "add-remove", "every")
    for task in range(4):
        release, rounds = dp.GaussianDpEvent(3.99), gaussian_rounds(5.56, 0.3, 50)
        ledger.spend(release, task=task, what="replay", channels={REPLAY: release})
        ledger.spend(rounds, task=task, what="head", channels={HEAD: rounds})
    parts = ledger.by_channel()
    assert parts[REPLAY] == pytest.approx(2.0, rel=0.01)
    assert ledger.epsilon() == pytest.approx(4.0, rel=0.01)
    assert max(parts.values()) <= ledger.epsilon() < sum(parts.values()) - 1


def test_ways_that_share_a_sample_of_people_are_one_event_and_each_has_its_own_number() -> None:
    ledger = Ledger(DELTA, "add-remove", "every")
    each, both = gaussian_rounds(6.66, 0.3, 200), gaussian_rounds(6.66 / math.sqrt(2), 0.3, 200)
    ledger.spend(both, task=0, what="rounds", channels={REPLAY: each, HEAD: each})
    assert ledger.epsilon() == pytest.approx(4.0, rel=0.01)
    assert ledger.by_channel() == {REPLAY: Pld().epsilon([each], DELTA, "add-remove"), HEAD: ledger.by_channel()[REPLAY]}


def test_one_clean_way_out_leaves_the_other_its_number_and_the_total_none() -> None:
    ledger = Ledger(DELTA, "add-remove", "every")
    ledger.spend(dp.GaussianDpEvent(SIGMA), task=0, what="replay", channels={REPLAY: dp.GaussianDpEvent(SIGMA)})
    ledger.spend(dp.NonPrivateDpEvent(), task=0, what="head", channels={HEAD: dp.NonPrivateDpEvent()})
    assert ledger.by_channel() == {REPLAY: pytest.approx(1.0, rel=2e-5), HEAD: math.inf}
    assert ledger.epsilon() == math.inf


def test_a_ledger_of_one_way_out_tells_none_apart() -> None:
    assert filled("every", 3).by_channel() == {}


def test_each_way_out_composes_as_the_ledger_does() -> None:
    """Disjoint people: the worst task counts, for each way alone as for all."""
    ledger = Ledger(DELTA, "add-remove", "once")
    for task in range(3):
        event = dp.GaussianDpEvent(SIGMA)
        ledger.spend(event, task=task, what="replay", channels={REPLAY: event})
    assert ledger.by_channel() == {REPLAY: pytest.approx(1.0, rel=2e-5)}
