"""The ledger: parallel where people are in one task, sequential where they may be in all."""

from __future__ import annotations

import math

import dp_accounting as dp
import pytest

from dpcl_core.privacy import gaussian
from dpcl_core.privacy.ledger import Ledger

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


def test_a_person_with_an_example_in_every_task_shifts_a_common_sum_by_all_of_them() -> None:
    """Releases with 1, 2 and 3 of one's examples: sensitivities 1, 2, 3, so mu² = (1 + 4 + 9) / sigma²."""
    ledger = Ledger(DELTA, "add-remove", "once")
    for task in range(3):
        ledger.spend(dp.GaussianDpEvent(SIGMA), task=task, what="all so far", people_of=tuple(range(task + 1)))
    assert ledger.if_in_every_task() == pytest.approx(gaussian.epsilon(SIGMA / math.sqrt(14), DELTA), rel=1e-4)


def test_the_bound_for_several_examples_in_sampled_batches_is_above_what_they_cost_exactly() -> None:
    """Exactly: the number of them in a batch is binomial, a mixture of Gaussians, which the library knows as well."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import binom

    sigma, rate, size, n_steps = 4.0, 0.1, 3, 50
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma))
    ledger = Ledger(DELTA, "add-remove", "once")
    ledger.spend(dp.SelfComposedDpEvent(step, n_steps), task=2, what="all so far", people_of=(0, 1, 2))
    counts = list(range(size + 1))
    exact = pld.from_mixture_gaussian_mechanism(
        sigma, counts, binom.pmf(counts, size, rate), value_discretization_interval=1e-3
    )
    spent = exact.self_compose(n_steps).get_epsilon_for_delta(DELTA)
    assert spent < ledger.if_in_every_task()
    assert ledger.epsilon() < spent
