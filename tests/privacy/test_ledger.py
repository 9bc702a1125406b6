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
